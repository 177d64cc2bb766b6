package stats_test

import (
	"math"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		passed, n int
		low, high float64
	}{
		{0, 0, 0, 1},
		{0, 3, 0, 0.5615},
		{1, 3, 0.0615, 0.7923},
		{2, 3, 0.2077, 0.9385},
		{3, 3, 0.4385, 1},
		{0, 5, 0, 0.4345},
		{5, 5, 0.5655, 1},
		{8, 10, 0.4902, 0.9433},
		{10, 10, 0.7225, 1},
		{15, 20, 0.5313, 0.8881},
		{18, 20, 0.6990, 0.9721},
		{20, 20, 0.8389, 1},
		{75, 100, 0.6570, 0.8245},
	} {
		low, high := stats.Wilson(float64(c.passed)/math.Max(1, float64(c.n)), c.n)
		near(t, "low", low, c.low, 5e-5)
		near(t, "high", high, c.high, 5e-5)
	}
}

func TestGain(t *testing.T) {
	for _, c := range []struct{ with, without, want float64 }{
		{0.505, 0.339, 0.2511}, {0.8, 0.5, 0.6}, {0.3, 0.5, -0.4}, {1, 1, 0}, {0.9, 1, -1},
	} {
		near(t, "Gain", stats.Gain(c.with, c.without), c.want, 5e-5)
	}
}

func TestMcNemar(t *testing.T) {
	for _, c := range []struct {
		b, c int
		want float64
	}{{8, 2, 0.1094}, {0, 6, 0.0312}, {0, 5, 0.0625}, {0, 0, 1}} {
		near(t, "McNemar", stats.McNemar(c.b, c.c), c.want, 6e-5)
	}
}

func TestMidP(t *testing.T) {
	for _, c := range []struct {
		better, worse int
		want          float64
	}{{4, 0, 0.03125}, {8, 2, 0.03271}, {10, 3, 0.02869}, {0, 0, 0.5}, {0, 4, 0.96875}, {1, 1, 0.5}} {
		near(t, "MidP", stats.MidP(c.better, c.worse), c.want, 6e-6)
	}
}

func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		worse, better int
		want          float64
	}{{5, 0, 0.03125}, {6, 1, 0.0625}, {8, 2, 0.05469}, {10, 3, 0.04614}, {0, 0, 1}, {0, 7, 1}} {
		near(t, "SignTest", stats.SignTest(c.worse, c.better), c.want, 6e-6)
	}
}

// The fewest cases that must get worse for p <= 0.05.
func TestFewestRegressions(t *testing.T) {
	for better, want := range []int{5, 7, 9, 10, 12, 13} {
		worse := 0
		for stats.SignTest(worse, better) > 0.05 {
			worse++
		}
		if worse != want {
			t.Errorf("with %d better: %d worse, want %d", better, worse, want)
		}
	}
}

func TestFisher(t *testing.T) {
	for _, c := range []struct {
		passed, n, passedBefore, nBefore int
		want                             float64
	}{
		{4, 10, 10, 10, 0.00542},
		{2, 10, 9, 10, 0.00274},
		{5, 10, 10, 10, 0.01625},
		{2, 8, 8, 8, 0.00350},
		{10, 10, 4, 10, 1},
		{0, 0, 5, 5, 1},
	} {
		near(t, "Fisher", stats.Fisher(c.passed, c.n, c.passedBefore, c.nBefore), c.want, 6e-6)
	}
}

func TestHarmEvidence(t *testing.T) {
	for _, c := range []struct {
		worse, better int
		want          float64
	}{{4, 0, 6.20}, {6, 0, 18.14}, {7, 0, 31.88}, {9, 1, 18.51}, {0, 0, 1}} {
		near(t, "HarmEvidence", stats.HarmEvidence(c.worse, c.better), c.want, 6e-3)
	}
	for better, want := range []int{7, 10, 12, 14} {
		worse := 0
		for stats.HarmEvidence(worse, better) < 20 {
			worse++
		}
		if worse != want {
			t.Errorf("with %d better it reaches 20 at %d worse, want %d", better, worse, want)
		}
	}
}

func TestPairedDifference(t *testing.T) {
	for _, c := range []struct {
		better, worse float64
		n             int
		low, high     float64
	}{
		{12, 2, 50, 0.0611, 0.3447},
		{1, 5, 20, -0.4369, 0.0491},
		{0, 3, 20, -0.3604, 0.0353},
		{0, 0, 10, -0.278, 0.278},
		{0, 0, 20, -0.161, 0.161},
		{0, 0, 50, -0.071, 0.071},
		{0, 0, 100, -0.037, 0.037},
		{0, 0, 0, -1, 1},
	} {
		low, high := stats.PairedDifference(c.better, c.worse, c.n)
		near(t, "low", low, c.low, 5e-4)
		near(t, "high", high, c.high, 5e-4)
	}
}

func TestHolm(t *testing.T) {
	got := stats.Holm([]float64{0.04, 0.01, 0.03, 1})
	for i, want := range []float64{0.09, 0.04, 0.09, 1} {
		near(t, "Holm", got[i], want, 1e-12)
	}
}

func TestStandardError(t *testing.T) {
	near(t, "20 at 90 %", stats.StandardError(0.9, 20), 0.0732, 5e-5)
	near(t, "all of 20", stats.StandardError(1, 20), 0.0444, 5e-5)
	near(t, "none", stats.StandardError(0.5, 0), 0.3536, 5e-5)
}

// TestMedianRank has the ranks of the tables of order statistics (95 %, two-sided).
func TestMedianRank(t *testing.T) {
	for n, want := range map[int]int{0: 0, 5: 0, 6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 20: 6, 50: 18, 100: 40} {
		if got := stats.MedianRank(n); got != want {
			t.Errorf("of %d values: rank %d, want %d", n, got, want)
		}
	}
}
