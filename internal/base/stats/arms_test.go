package stats_test

import (
	"math"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

func TestScore(t *testing.T) {
	if got := stats.Score([]stats.Count{{}, {}}); got != nil {
		t.Errorf("without a decided case: %v, want nil", got)
	}
	// Four cases, one of them undecided: the mean of 1, 2/3 and 1/3, and Wilson's
	// interval of 2 in 3, not of 6 in 9.
	for _, trials := range []int{3, 30} {
		n := trials / 3
		got := stats.Score([]stats.Count{{3 * n, 3 * n}, {2 * n, 3 * n}, {}, {n, 3 * n}})
		near(t, "score", got.Value, 2.0/3, 1e-12)
		near(t, "low", got.Interval[0], 0.2077, 5e-5)
		near(t, "high", got.Interval[1], 0.9385, 5e-5)
	}
}

func TestCompare(t *testing.T) {
	a := []stats.Count{{1, 3}, {2, 4}, {0, 3}, {3, 3}, {}, {1, 1}}
	b := []stats.Count{{2, 6}, {4, 4}, {3, 3}, {0, 3}, {1, 1}, {}}
	got := stats.Compare(a, b)
	if got.Cases != 4 || !slices.Equal(got.Better, []int{1, 2}) || !slices.Equal(got.Worse, []int{3}) {
		t.Errorf("cases %d, better %v, worse %v, want 4, [1 2], [3]", got.Cases, got.Better, got.Worse)
	}
	near(t, "difference", got.Difference, (0.5+1-1)/4, 1e-12)
	near(t, "p", got.P, 1, 1e-12)
	low, high := stats.PairedDifference(1.5, 1, 4)
	if got.Interval != [2]float64{low, high} || !(low < got.Difference && got.Difference < high) {
		t.Errorf("interval %v, want [%v %v] around %v", got.Interval, low, high, got.Difference)
	}
	reversed := stats.Compare(b, a)
	near(t, "reversed difference", reversed.Difference, -got.Difference, 1e-12)
	near(t, "reversed low", reversed.Interval[0], -got.Interval[1], 1e-9)
	if six := stats.Compare(make([]stats.Count, 6), make([]stats.Count, 6)); six.Cases != 0 || six.P != 1 || six.Difference != 0 {
		t.Errorf("without a decided case: %+v", six)
	}
}

// TestRatio has Student's quantiles of even and odd degrees of freedom from tables.
func TestRatio(t *testing.T) {
	for _, c := range []struct {
		cases    int
		quantile float64
	}{{5, 2.7764}, {6, 2.5706}, {7, 2.4469}, {10, 2.2622}, {31, 2.0423}, {500, 1.9647}} {
		a, b := make([]float64, c.cases+2), make([]float64, c.cases+2)
		sum, squares := 0.0, 0.0
		for i := range c.cases {
			a[i], b[i] = 1, math.Exp(float64(i)/10)
			sum += float64(i) / 10
			squares += float64(i*i) / 100
		}
		a[c.cases], b[c.cases+1] = 1, 1 // a ratio with 0 is none
		n := float64(c.cases)
		half := c.quantile * math.Sqrt((squares-sum*sum/n)/(n-1)/n)
		got := stats.Ratio(a, b)
		near(t, "ratio", math.Log(got.Value), sum/n, 1e-9)
		near(t, "low", math.Log(got.Interval[0]), sum/n-half, 1e-3*half)
		near(t, "high", math.Log(got.Interval[1]), sum/n+half, 1e-3*half)
	}
	if got := stats.Ratio([]float64{1, 1, 1, 1, 0}, []float64{2, 2, 2, 2, 2}); got != nil {
		t.Errorf("of four cases: %v, want nil", got)
	}
}
