package comparisons

import (
	"math/rand/v2"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

// A fakeJudge chooses between two outputs; longer is the longer one, 0 for none.
type fakeJudge func(r *rand.Rand, longer int) (first, second int)

// asked plays what a judge says about 40 cases of 3 trials with equal outputs on average.
func asked(r *rand.Rand, judge fakeJudge) []answered {
	var all []answered
	add := func(q answered, longer int) {
		// 1 is the first arm's output, 2 the second's; a position is turned into an output.
		first, second := judge(r, longer)
		switch {
		case first == second && first != 0:
			q.Answer.Winner = map[int]string{1: "a", 2: "b"}[first]
		case first != second:
			q.Answer.Inconsistent = true
		}
		if longer > 0 {
			q.Answer.Longer = map[int]string{1: "a", 2: "b"}[longer]
		}
		all = append(all, q)
	}
	n := 0
	for c := range 40 {
		for range 3 {
			q := answered{CaseID: string(rune('a' + c)), N: n, Kind: ordinary}
			add(q, 1+r.IntN(2))
			if n%controlEvery == 0 {
				q.Kind = sameOutput
				add(q, 0)
				q.Kind, q.Answer = halfRemoved, answer{Winner: "a", Longer: "a"}
				all = append(all, q)
			}
			n++
		}
	}
	return all
}

// TestBiasedJudges shows that a judge without a bias finds a difference between equal arms in 5 of
// 100 comparisons, and that one with a bias is found out.
func TestBiasedJudges(t *testing.T) {
	t.Parallel()
	const rounds = 400
	for name, c := range map[string]struct {
		judge    fakeJudge
		reliable bool
	}{
		// It sees no difference half of the time, and else errs a little with the order.
		"without a bias": {func(r *rand.Rand, longer int) (int, int) {
			if longer == 0 || r.Float64() < 0.5 {
				return 0, 0
			}
			is := 1 + r.IntN(2)
			if r.Float64() < 0.1 {
				return is, 3 - is
			}
			return is, is
		}, true},
		"the first position": {func(*rand.Rand, int) (int, int) { return 1, 2 }, false},
		"the longer one": {func(_ *rand.Rand, longer int) (int, int) {
			return longer, longer
		}, false},
	} {
		r, reliable, found := rand.New(rand.NewPCG(5, 6)), 0, 0
		for range rounds {
			got := preferred(asked(r, c.judge))
			if got.Reliable {
				reliable++
			}
			if got.Reliable && got.P != nil && *got.P <= 0.05 {
				found++
			}
		}
		if c.reliable && reliable < rounds*95/100 || !c.reliable && reliable > rounds*5/100 {
			t.Errorf("a judge that prefers %s is reliable in %d of %d comparisons", name, reliable, rounds)
		}
		if most := 0.05 + 2*stats.StandardError(0.05, rounds); float64(found)/rounds > most {
			t.Errorf("a judge that prefers %s finds a difference in %d of %d comparisons of equal arms", name, found, rounds)
		}
	}
}
