package comparisons

import (
	"fmt"
	"math"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

// The rules of facts that decide; TestPromises shows their errors.
const (
	// falsePair is the chance that any pair of equal arms gets a verdict.
	falsePair = 0.05
	// falseEnough is the chance that an arm is recommended which is worse by the margin.
	falseEnough = 0.025
	// maxOneSided is the reciprocal of the share of cases that may be decided in one arm only.
	maxOneSided = 5
)

// An Outcome is an arm as the decision sees it: the counts of its cases, in their order.
type Outcome struct {
	Name    string
	NoSkill bool
	Counts  []stats.Count
	// PerPass is the cost of a passed trial; nil if it is unknown, or if no model took part.
	PerPass *float64
	Free    bool // no model took part in any trial, so that nothing was paid
}

// A Pair compares two outcomes; all figures are b against a.
type Pair struct {
	A, B int // indices of arms
	stats.Comparison
	Verdict string
	Reason  string // why it is inconclusive
}

// Pairs compares all pairs of arms and corrects for their number.
func Pairs(arms []Outcome) []Pair {
	var all []Pair
	var p []float64
	for a := range arms {
		for b := a + 1; b < len(arms); b++ {
			pair := Pair{A: a, B: b, Comparison: stats.Compare(arms[a].Counts, arms[b].Counts)}
			pair.Reason = oneSided(arms[a], arms[b])
			all, p = append(all, pair), append(p, pair.P)
		}
	}
	adjusted := stats.Holm(p)
	for i := range all {
		pair := &all[i]
		switch {
		case pair.Reason != "":
			pair.Verdict = "inconclusive"
		case adjusted[i] > falsePair:
			pair.Verdict = "no_difference_shown"
		case len(pair.Better) > len(pair.Worse):
			pair.Verdict = "b_better"
		default:
			pair.Verdict = "a_better"
		}
	}
	return all
}

// oneSided says which arm errs, if so many cases were decided in the other one only that a
// comparison of the rest could mislead.
func oneSided(a, b Outcome) string {
	onlyA, onlyB, decided := 0, 0, 0
	for i := range a.Counts {
		inA, inB := a.Counts[i].Decided > 0, b.Counts[i].Decided > 0
		switch {
		case inA && inB:
		case inA:
			onlyA++
		case inB:
			onlyB++
		default:
			continue
		}
		decided++
	}
	errs := a.Name
	if onlyA > onlyB {
		errs = b.Name
	}
	switch {
	case decided == 0:
		return "no case was decided in either arm"
	case maxOneSided*(onlyA+onlyB) > decided:
		return fmt.Sprintf("%d of %d cases were decided in one arm only: the trials of %q end as errors", onlyA+onlyB, decided, errs)
	}
	return ""
}

// Recommend says what follows from the pairs. An arm that is recommended in place of another
// one is worse than that by margin in at most 1 of 40 comparisons.
func Recommend(arms []Outcome, pairs []Pair, margin float64) api.ComparisonRecommendation {
	r := api.ComparisonRecommendation{Kind: "none", Margin: margin}
	for _, decide := range []func([]Outcome, []Pair, *api.ComparisonRecommendation){keep, retire, cheaper} {
		if decide(arms, pairs, &r); r.Arm != nil {
			return r
		}
	}
	needed := casesNeeded(arms, pairs, margin)
	r.CasesNeeded = needed
	switch {
	case inconclusive(pairs):
		r.Reason = "Too many trials ended as errors to compare the arms. Fix what fails, and compare again."
	case needed == nil:
		r.Reason = "No number of cases can rule out any difference at all: choose a margin over 0."
	case *needed <= fewest(pairs):
		r.Reason = "The arms differ too much for one to replace another, and none is shown to be better than no skill or cheaper."
	default:
		r.Reason = fmt.Sprintf("Too few cases (%d) to rule out a difference of %s. About %d would do, if the arms are equally good.",
			fewest(pairs), points(margin), *needed)
	}
	return r
}

// keep recommends the skill where being without it is shown to be worse.
func keep(arms []Outcome, pairs []Pair, r *api.ComparisonRecommendation) {
	best, by := -1, Pair{}
	for _, p := range pairs {
		with, without := p.A, p.B
		if arms[p.A].NoSkill {
			with, without = p.B, p.A
		}
		shown := p.Verdict == "a_better" && with == p.A || p.Verdict == "b_better" && with == p.B
		if !arms[without].NoSkill || arms[with].NoSkill || !shown {
			continue
		}
		if best < 0 || math.Abs(p.Difference) > math.Abs(by.Difference) {
			best, by = with, p
		}
	}
	if best >= 0 {
		r.Kind, r.Arm = "keep", &arms[best].Name
		r.Reason = fmt.Sprintf("The skill helps: it passes %s more than no skill on %d cases.",
			points(math.Abs(by.Difference)), by.Cases)
	}
}

// retire recommends no skill where it is not worse than every arm with one, and not dearer.
func retire(arms []Outcome, pairs []Pair, r *api.ComparisonRecommendation) {
	enough := candidates(arms, pairs, r.Margin, func(c, o Outcome) bool { return c.NoSkill && !o.NoSkill })
	for i, ok := range enough {
		if !ok {
			continue
		}
		dearer := false
		for _, o := range arms {
			dearer = dearer || !o.NoSkill && !costsNoMore(arms[i], o)
		}
		if !dearer {
			r.Kind, r.Arm = "retire", &arms[i].Name
			r.Reason = fmt.Sprintf("Without the skill the model is at most %s worse, and a pass costs no more.", points(r.Margin))
			return
		}
	}
}

// cheaper recommends the arm with the lowest cost of a pass among those that are not worse
// than any other, if another one costs more.
func cheaper(arms []Outcome, pairs []Pair, r *api.ComparisonRecommendation) {
	enough := candidates(arms, pairs, r.Margin, func(Outcome, Outcome) bool { return true })
	best := -1
	most := 0.0
	for i, a := range arms {
		if a.PerPass == nil {
			continue
		}
		most = max(most, *a.PerPass)
		if enough[i] && (best < 0 || *a.PerPass < *arms[best].PerPass) {
			best = i
		}
	}
	if best >= 0 && *arms[best].PerPass < most {
		r.Kind, r.Arm = "cheaper", &arms[best].Name
		r.Reason = fmt.Sprintf("%s costs %.4f USD a pass, and is at most %s worse than any other arm.",
			arms[best].Name, *arms[best].PerPass, points(r.Margin))
	}
}

// candidates tests for each arm whether it is not worse by margin than all the others that it
// is compared with, and corrects for the number of arms that are tested. It is the largest
// p-value of its pairs that counts for an arm.
func candidates(arms []Outcome, pairs []Pair, margin float64, tested func(c, o Outcome) bool) []bool {
	highest := make([]float64, len(arms))
	is := make([]bool, len(arms))
	test := func(c, o int, p Pair, better, worse float64) {
		if !tested(arms[c], arms[o]) {
			return
		}
		is[c] = true
		if p.Reason != "" {
			highest[c] = 1
			return
		}
		highest[c] = max(highest[c], stats.NotWorse(better, worse, p.Cases, margin))
	}
	for _, p := range pairs {
		test(p.B, p.A, p, p.Up, p.Down)
		test(p.A, p.B, p, p.Down, p.Up)
	}
	var of []int
	var p []float64
	for i := range arms {
		if is[i] {
			of, p = append(of, i), append(p, highest[i])
		}
	}
	enough := make([]bool, len(arms))
	for k, adjusted := range stats.Holm(p) {
		enough[of[k]] = adjusted <= falseEnough
	}
	return enough
}

// costsNoMore reports whether a pass of c costs no more than one of o. Two arms in which no
// model took part cost the same; an unknown price is no answer.
func costsNoMore(c, o Outcome) bool {
	if c.Free && o.Free {
		return true
	}
	return c.PerPass != nil && o.PerPass != nil && *c.PerPass <= *o.PerPass
}

func inconclusive(pairs []Pair) bool {
	for _, p := range pairs {
		if p.Reason == "" {
			return false
		}
	}
	return true
}

func fewest(pairs []Pair) int {
	n := math.MaxInt
	for _, p := range pairs {
		n = min(n, p.Cases)
	}
	return n
}

// maxNeeded is where the search for a number of cases ends.
const maxNeeded = 1_000_000

// casesNeeded is how many cases would show that an arm is not worse by margin, in each pair, if
// the arms are equally good and differ on as large a share of the cases as now. nil if no
// number does.
func casesNeeded(arms []Outcome, pairs []Pair, margin float64) *int {
	if margin == 0 {
		return nil
	}
	level := falseEnough / float64(len(arms))
	differ := 0.0
	for _, p := range pairs {
		if p.Cases > 0 {
			differ = max(differ, (p.Up+p.Down)/float64(p.Cases))
		}
	}
	shows := func(n int) bool {
		half := differ * float64(n) / 2
		return stats.NotWorse(half, half, n, margin) <= level
	}
	low, high := 1, 1
	for !shows(high) {
		if low, high = high, 2*high; high > maxNeeded {
			return nil
		}
	}
	for low < high {
		if middle := (low + high) / 2; shows(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return &high
}

func points(share float64) string { return fmt.Sprintf("%.3g points", 100*share) }
