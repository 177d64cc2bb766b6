package grades

import (
	"math"
	"testing"
)

// TestKappa: two coins that pass 95 % agree in nine of ten, and no more than by chance.
func TestKappa(t *testing.T) {
	near := func(name string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got-want) > 1e-3 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	coins := pairs{all: 400, bothPass: 361, bothFail: 1, judgePasses: 380, peoplePass: 380}.calibration()
	near("agreement of coins", coins.Agreement, 0.905)
	near("on fails", coins.OnFails, 0.05)
	near("kappa of coins", coins.Kappa, 0)
	if i := coins.KappaInterval; i[0] > 0 || i[1] < 0 {
		t.Errorf("the interval %v has not 0 in it", *i)
	}
	same := pairs{all: 40, bothPass: 20, bothFail: 20, judgePasses: 20, peoplePass: 20}.calibration()
	near("kappa", same.Kappa, 1)
	if i := same.KappaInterval; i[0] >= 1 || i[1] > 1+1e-9 {
		t.Errorf("the interval is %v", *i)
	}
	if all := (pairs{all: 9, bothPass: 9, judgePasses: 9, peoplePass: 9}).calibration(); all.Kappa != nil || all.OnFails != nil {
		t.Error("nothing but passes has a kappa")
	}
	if none := (pairs{}).calibration(); none.Agreement != nil || none.Kappa != nil {
		t.Error("no pair has an agreement")
	}
}
