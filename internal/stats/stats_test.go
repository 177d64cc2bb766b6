package stats_test

import (
	"math"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/stats"
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
