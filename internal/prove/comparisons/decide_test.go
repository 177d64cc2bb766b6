package comparisons_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/base/stats/statstest"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
)

// arm makes the trials of an arm on cases that it passes with these chances.
func arm(r *rand.Rand, name string, chances []float64, trials int) comparisons.Outcome {
	o := comparisons.Outcome{Name: name, Counts: make([]stats.Count, len(chances))}
	for i, p := range chances {
		o.Counts[i].Decided = trials
		for range trials {
			if r.Float64() < p {
				o.Counts[i].Passed++
			}
		}
	}
	return o
}

// hardness draws how hard cases are: some always pass, some never do.
func hardness(r *rand.Rand, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = r.Float64()
		switch {
		case all[i] < 0.3:
			all[i] = 0
		case all[i] > 0.6:
			all[i] = 1
		}
	}
	return all
}

// worse makes a mean of margin of the chances lower, on the cases that can be lower.
func worse(chances []float64, margin float64) []float64 {
	lower, left := append([]float64{}, chances...), margin*float64(len(chances))
	for i := range lower {
		by := min(left, lower[i])
		lower[i], left = lower[i]-by, left-by
	}
	return lower
}

func cost(usd float64) *float64 { return &usd }

// TestPromises shows the errors of the decisions: see facts of docs/comparisons.md.
func TestPromises(t *testing.T) {
	t.Parallel()
	rounds := 300
	if statstest.Full() {
		rounds = 4000
	}
	var all []statstest.Promise
	promise := func(what string, events int, most float64) {
		rate := float64(events) / float64(rounds)
		// Two standard errors: a sample must not fail by chance.
		limit := most + 2*stats.StandardError(most, rounds)
		all = append(all, statstest.Promise{
			What: what, Goal: fmt.Sprintf("at most %.1f %%", 100*most), Measured: fmt.Sprintf("%.1f %%", 100*rate), Met: rate <= limit,
		})
	}
	for _, arms := range []int{2, 4, 8} {
		r, events := rand.New(rand.NewPCG(1, uint64(arms))), 0
		for range rounds {
			chances := hardness(r, 40)
			var equal []comparisons.Outcome
			for i := range arms {
				equal = append(equal, arm(r, fmt.Sprint(i), chances, 3))
			}
			for _, p := range comparisons.Pairs(equal) {
				if p.Verdict == "a_better" || p.Verdict == "b_better" {
					events++
					break
				}
			}
		}
		promise(fmt.Sprintf("comparison of %d equal arms, 40 cases: a verdict", arms), events, 0.05)
	}
	for _, cases := range []int{20, 100, 400} {
		for _, trials := range []int{1, 3} {
			r, retired, replaced := rand.New(rand.NewPCG(2, uint64(cases*trials))), 0, 0
			for range rounds {
				chances := hardness(r, cases)
				with, without := arm(r, "with", chances, trials), arm(r, "without", worse(chances, 0.05), trials)
				without.NoSkill, with.Free, without.Free = true, true, true
				two := []comparisons.Outcome{with, without}
				if comparisons.Recommend(two, comparisons.Pairs(two), 0.05).Kind == "retire" {
					retired++
				}
				large, small := arm(r, "large", chances, trials), arm(r, "small", worse(chances, 0.05), trials)
				large.PerPass, small.PerPass = cost(1), cost(0.1)
				two = []comparisons.Outcome{large, small}
				if got := comparisons.Recommend(two, comparisons.Pairs(two), 0.05); got.Kind == "cheaper" && *got.Arm == "small" {
					replaced++
				}
			}
			what := fmt.Sprintf("%d cases, %d trials, truth worse by exactly the margin: ", cases, trials)
			promise("comparison, "+what+"retire", retired, 0.025)
			promise("comparison, "+what+"cheaper", replaced, 0.025)
		}
	}
	for _, arms := range []int{3, 5} {
		r, replaced := rand.New(rand.NewPCG(3, uint64(arms))), 0
		for range rounds {
			chances := hardness(r, 200)
			all := []comparisons.Outcome{arm(r, "best", chances, 3)}
			all[0].PerPass = cost(1)
			for i := 1; i < arms; i++ {
				o := arm(r, fmt.Sprint(i), worse(chances, 0.05), 3)
				o.PerPass = cost(0.1 * float64(i))
				all = append(all, o)
			}
			if got := comparisons.Recommend(all, comparisons.Pairs(all), 0.05); got.Kind == "cheaper" && *got.Arm != "best" {
				replaced++
			}
		}
		promise(fmt.Sprintf("comparison of %d arms, all but one worse by exactly the margin: cheaper", arms), replaced, 0.025)
	}
	statstest.Report(t, all...)
}

// TestRecommend has what follows from clear results.
func TestRecommend(t *testing.T) {
	t.Parallel()
	passes := func(name string, passed, of int, usd float64) comparisons.Outcome {
		o := comparisons.Outcome{Name: name, Counts: make([]stats.Count, of), PerPass: cost(usd)}
		for i := range o.Counts {
			o.Counts[i].Decided = 1
			if i < passed {
				o.Counts[i].Passed = 1
			}
		}
		return o
	}
	none := func(o comparisons.Outcome) comparisons.Outcome {
		o.NoSkill = true
		return o
	}
	errs := func(o comparisons.Outcome, n int) comparisons.Outcome {
		for i := range n {
			o.Counts[i] = stats.Count{}
		}
		return o
	}
	for _, c := range []struct {
		name       string
		arms       []comparisons.Outcome
		margin     float64
		kind, arm  string
		needsCases bool
	}{
		{"the skill helps", []comparisons.Outcome{passes("with", 30, 30, 1), none(passes("without", 10, 30, 0.1))}, 0.05, "keep", "with", false},
		{"the skill is not needed", []comparisons.Outcome{passes("with", 90, 100, 1), none(passes("without", 90, 100, 0.9))}, 0.05, "retire", "without", false},
		{"not needed but dearer without", []comparisons.Outcome{passes("with", 90, 100, 1), none(passes("without", 90, 100, 2))}, 0.05, "cheaper", "with", false},
		{"twenty equal cases are few", []comparisons.Outcome{passes("with", 20, 20, 1), none(passes("without", 20, 20, 1))}, 0.05, "none", "", true},
		{"a small model is enough", []comparisons.Outcome{passes("large", 90, 100, 1), passes("small", 90, 100, 0.1)}, 0.05, "cheaper", "small", false},
		{"the small model is the first", []comparisons.Outcome{passes("small", 90, 100, 0.1), passes("large", 90, 100, 1)}, 0.05, "cheaper", "small", false},
		{"the small model is worse", []comparisons.Outcome{passes("large", 90, 100, 1), passes("small", 70, 100, 0.1)}, 0.05, "none", "", true},
		{"one case", []comparisons.Outcome{passes("a", 1, 1, 1), passes("b", 0, 1, 1)}, 0.05, "none", "", true},
		{"no margin", []comparisons.Outcome{passes("a", 90, 100, 1), passes("b", 90, 100, 0.1)}, 0, "none", "", false},
		{"an arm errs", []comparisons.Outcome{passes("a", 90, 100, 1), errs(passes("b", 90, 100, 0.1), 30)}, 0.05, "none", "", true},
	} {
		pairs := comparisons.Pairs(c.arms)
		got := comparisons.Recommend(c.arms, pairs, c.margin)
		name := ""
		if got.Arm != nil {
			name = *got.Arm
		}
		if got.Kind != c.kind || name != c.arm || got.Reason == "" || (got.CasesNeeded != nil) != c.needsCases {
			t.Errorf("%s: got %s %q (%s), cases needed %v", c.name, got.Kind, name, got.Reason, got.CasesNeeded)
		}
	}
	pairs := comparisons.Pairs([]comparisons.Outcome{passes("a", 90, 100, 1), errs(passes("b", 90, 100, 0.1), 30)})
	if got := pairs[0]; got.Verdict != "inconclusive" || got.Reason == "" {
		t.Errorf("with errors in an arm the pair is %s (%q), want inconclusive and which arm errs", got.Verdict, got.Reason)
	}
}
