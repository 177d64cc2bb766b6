package decision_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

func count(passed, decided int) decision.Count {
	return decision.Count{Passed: passed, Decided: decided}
}

func suite(cases ...decision.Case) []decision.Suite {
	for i := range cases {
		cases[i].ID = fmt.Sprintf("case-%d", i+1)
	}
	return []decision.Suite{{ID: "s", Cases: cases}}
}

func repeat(n int, c decision.Case) []decision.Case {
	out := make([]decision.Case, n)
	for i := range out {
		out[i] = c
	}
	return out
}

func TestVerdicts(t *testing.T) {
	same := decision.Case{Current: count(3, 3), New: count(3, 3)}
	worse := decision.Case{Current: count(3, 3), New: count(1, 3)}
	better := decision.Case{Current: count(1, 3), New: count(3, 3)}
	undecided := decision.Case{Current: count(3, 3)}
	confirmedWorse, confirmedEqual := worse, worse
	confirmedWorse.FreshCurrent, confirmedWorse.FreshNew = count(15, 15), count(5, 15)
	confirmedEqual.FreshCurrent, confirmedEqual.FreshNew = count(14, 15), count(13, 15)
	broken := decision.Case{Fixed: true, Current: count(1, 1), New: count(0, 1)}
	useless := decision.Case{Current: count(1, 3), New: count(1, 3), Beside: count(1, 3), WithoutASkill: count(3, 3)}
	newErrs, currentErrs := decision.Case{Current: count(3, 3)}, decision.Case{New: count(3, 3)}

	for name, c := range map[string]struct {
		suites []decision.Suite
		want   decision.Verdict
		again  int
	}{
		"no suite":                            {nil, decision.Skipped, 0},
		"nothing changed":                     {suite(repeat(8, same)...), decision.Pass, 0},
		"too few cases":                       {suite(repeat(7, same)...), decision.Inconclusive, 0},
		"too few decided":                     {suite(append(repeat(7, same), repeat(20, undecided)...)...), decision.Inconclusive, 0},
		"a fifth of the new version errs":     {suite(append(repeat(16, same), repeat(4, newErrs)...)...), decision.Pass, 0},
		"more than a fifth of the new errs":   {suite(append(repeat(15, same), repeat(5, newErrs)...)...), decision.Inconclusive, 0},
		"more than a fifth of both errs":      {suite(append(repeat(14, same), newErrs, newErrs, newErrs, currentErrs, currentErrs, currentErrs)...), decision.Inconclusive, 0},
		"errors do not hide what is worse":    {suite(append(repeat(8, worse), repeat(10, newErrs)...)...), decision.Block, 0},
		"a fourth decided by neither":         {suite(append(repeat(15, same), repeat(5, decision.Case{})...)...), decision.Pass, 0},
		"six worse, none better":              {suite(append(repeat(6, worse), repeat(10, same)...)...), decision.Block, 0},
		"five worse must be tried again":      {suite(append(repeat(5, worse), repeat(10, same)...)...), decision.Pass, 5},
		"six worse, three better, try again":  {suite(append(repeat(6, worse), repeat(3, better)...)...), decision.Pass, 6},
		"one worse, confirmed":                {suite(append(repeat(9, same), confirmedWorse)...), decision.Block, 0},
		"one worse, not confirmed":            {suite(append(repeat(9, same), confirmedEqual)...), decision.Pass, 0},
		"one of several worse, confirmed":     {suite(append(repeat(4, confirmedEqual), confirmedWorse, same, same, same)...), decision.Block, 0},
		"a given output fails now":            {suite(append(repeat(9, same), broken)...), decision.Block, 0},
		"a given output fails now, few cases": {suite(broken), decision.Block, 0},
		"harms where no skill would do":       {suite(repeat(8, useless)...), decision.Block, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := decision.Decide(c.suites, decision.Policy{MinCases: 8})
			if got.Verdict != c.want || len(got.Again["s"]) != c.again {
				t.Errorf("%s (%s), again %v; want %s, %d cases again", got.Verdict, got.Reason, got.Again, c.want, c.again)
			}
		})
	}
}

// TestOneArm: the reason names the version that errs.
func TestOneArm(t *testing.T) {
	same, newErrs, currentErrs := decision.Case{Current: count(3, 3), New: count(3, 3)}, decision.Case{Current: count(3, 3)}, decision.Case{New: count(3, 3)}
	for want, cases := range map[string][]decision.Case{
		"10 of 20 cases have no verdict of the new version":     append(repeat(10, same), repeat(10, newErrs)...),
		"6 of 20 cases have no verdict of the current version":  append(repeat(14, same), repeat(6, currentErrs)...),
		"3 of 12 cases have no verdict of the new version, and": append(repeat(8, same), newErrs, newErrs, newErrs, currentErrs),
	} {
		if d := decision.Decide(suite(cases...), decision.Policy{MinCases: 8}); d.Verdict != decision.Inconclusive || !strings.Contains(d.Reason, want) {
			t.Errorf("%s: %s, want %q", d.Verdict, d.Reason, want)
		}
	}
}

// TestFamily: the comparisons with no skill share the error with the suites.
func TestFamily(t *testing.T) {
	// Worse than no skill on 6 cases and better on none: p = 0.016 alone.
	useless := append(repeat(6, decision.Case{Current: count(1, 3), New: count(1, 3), Beside: count(1, 3), WithoutASkill: count(3, 3)}),
		repeat(10, decision.Case{Current: count(3, 3), New: count(3, 3), Beside: count(3, 3), WithoutASkill: count(3, 3)})...)
	one := suite(useless...)
	if d := decision.Decide(one, decision.Policy{}); d.Verdict != decision.Block || math.Abs(*d.Suites[0].AdjustedNoSkill-2*math.Pow(0.5, 6)) > 1e-9 {
		t.Errorf("one suite: %s, %v, want a block at twice the p-value", d.Verdict, *d.Suites[0].AdjustedNoSkill)
	}
	if d := decision.Decide(append(suite(repeat(16, decision.Case{Current: count(3, 3), New: count(3, 3)})...), one...), decision.Policy{}); d.Verdict != decision.Block {
		t.Errorf("beside a suite without that arm: %s, want a block", d.Verdict)
	}
	if d := decision.Decide(append(one, suite(useless[6:]...)...), decision.Policy{}); d.Verdict != decision.Pass {
		t.Errorf("beside a suite with that arm: %s, want a pass", d.Verdict)
	}
}

// TestLift: an earlier block is lifted by trials that no longer suggest harm, and what an
// earlier attempt confirmed is tried again.
func TestLift(t *testing.T) {
	same, worse, better := decision.Case{Current: count(6, 6), New: count(6, 6)}, decision.Case{Current: count(6, 6), New: count(3, 6)},
		decision.Case{Current: count(3, 6), New: count(6, 6)}
	mixed := func(n, m int) []decision.Suite {
		return suite(append(append(repeat(n, worse), repeat(m, better)...), repeat(10, same)...)...)
	}
	blocked := decision.Policy{Blocked: true}
	for _, c := range []struct {
		worse, better int
		want          decision.Verdict
	}{{7, 1, decision.Block}, {7, 2, decision.Block}, {7, 3, decision.Pass}, {0, 0, decision.Pass}} {
		d := decision.Decide(mixed(c.worse, c.better), blocked)
		if d.Verdict != c.want {
			t.Errorf("worse on %d, better on %d: %s (%s), want %s", c.worse, c.better, d.Verdict, d.Reason, c.want)
		}
	}
	if d := decision.Decide(mixed(7, 2), decision.Policy{}); d.Verdict != decision.Pass {
		t.Errorf("without an earlier block: %s, want a pass", d.Verdict)
	}
	confirmed := worse
	confirmed.FreshCurrent, confirmed.FreshNew = count(15, 15), count(8, 15)
	cases := append(repeat(9, same), confirmed)
	if d := decision.Decide(suite(cases...), blocked); d.Verdict != decision.Block || len(d.Again["s"]) != 1 {
		t.Errorf("confirmed by an earlier attempt: %s, again %v, want to try it again", d.Verdict, d.Again)
	}
	cases[9].Retried = true
	if d := decision.Decide(suite(cases...), blocked); d.Verdict != decision.Block || d.Again != nil {
		t.Errorf("confirmed again: %s, again %v, want a block", d.Verdict, d.Again)
	}
}

// What one suite proves must not block beside many that prove nothing.
func TestHolmOverSuites(t *testing.T) {
	var suites []decision.Suite
	for i := range 5 {
		n := 0
		if i == 0 {
			n = 6 // p = 0.031 alone, 0.16 among five
		}
		cases := append(repeat(n, decision.Case{Current: count(3, 3), New: count(1, 3)}),
			repeat(10, decision.Case{Current: count(3, 3), New: count(3, 3)})...)
		suites = append(suites, decision.Suite{ID: fmt.Sprint(i), Cases: cases})
	}
	if got := decision.Decide(suites[:1], decision.Policy{}).Verdict; got != decision.Block {
		t.Errorf("alone: %s, want block", got)
	}
	if got := decision.Decide(suites, decision.Policy{}).Verdict; got != decision.Pass {
		t.Errorf("among five: %s, want pass", got)
	}
}

// A world simulates the pass probabilities of cases and their trials.
type world struct {
	*rand.Rand
	n, trials int
}

// beta draws from Beta(2.4, 0.6): the mean is 0.8, most cases are near 1, some
// are flaky.
func (w world) beta() float64 {
	gamma := func(shape float64) float64 { // Marsaglia and Tsang, boosted below 1
		boost := 1.0
		if shape < 1 {
			boost = math.Pow(w.Float64(), 1/shape)
			shape++
		}
		d := shape - 1.0/3
		for {
			x := w.NormFloat64()
			v := math.Pow(1+x/math.Sqrt(9*d), 3)
			if v > 0 && math.Log(w.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
				return boost * d * v
			}
		}
	}
	a, b := gamma(2.4), gamma(0.6)
	return a / (a + b)
}

func (w world) try(p float64, n int) decision.Count {
	c := decision.Count{Decided: n}
	for range n {
		if w.Float64() < p { // p may be above 1
			c.Passed++
		}
	}
	return c
}

// blocked plays one decision to its end, as a gate does: case by case until
// there is enough harm, and then the fresh trials that the screen asks for.
func (w world) blocked(harm func(i int, p float64) float64) bool {
	before, after := make([]float64, w.n), make([]float64, w.n)
	s := decision.Suite{ID: "s"}
	for i := range w.n {
		before[i] = w.beta()
		after[i] = harm(i, before[i])
		s.Cases = append(s.Cases, decision.Case{
			ID: fmt.Sprint(i), Current: w.try(before[i], w.trials), New: w.try(after[i], w.trials),
		})
		if decision.EnoughHarm(s, 1) {
			return true
		}
	}
	d := decision.Decide([]decision.Suite{s}, decision.Policy{})
	for _, id := range d.Again["s"] {
		for i := range s.Cases {
			if s.Cases[i].ID == id {
				s.Cases[i].FreshCurrent = w.try(before[i], decision.FreshTrials)
				s.Cases[i].FreshNew = w.try(after[i], decision.FreshTrials)
			}
		}
	}
	return decision.Decide([]decision.Suite{s}, decision.Policy{}).Verdict == decision.Block
}

// A harmless version is blocked in at most 5 of 100 decisions, and a single
// broken case of 20 is found in 80. It prints the table of docs/gates.md.
func TestErrorRates(t *testing.T) {
	const decisions = 2000
	harms := []struct {
		name string
		harm func(i int, p float64) float64
	}{
		{"none", func(_ int, p float64) float64 { return p }},
		{"one case breaks", func(i int, p float64) float64 {
			if i == 0 {
				return p / 10
			}
			return p
		}},
		{"one case in five breaks", func(i int, p float64) float64 {
			if i%5 == 0 {
				return p / 10
			}
			return p
		}},
		{"every case loses 20 points", func(_ int, p float64) float64 { return max(0, p-0.2) }},
	}
	for _, size := range []struct{ cases, trials int }{{10, 1}, {20, 1}, {20, 3}, {40, 3}, {80, 3}} {
		w := world{rand.New(rand.NewPCG(1, uint64(size.cases*100+size.trials))), size.cases, size.trials}
		var found [4]float64
		for k, h := range harms {
			n := 0
			for range decisions {
				if w.blocked(h.harm) {
					n++
				}
			}
			found[k] = float64(n) / decisions
		}
		t.Logf("%3d cases, %d trials: false blocks %4.1f %%; found: one %5.1f %%, local %5.1f %%, broad %5.1f %%",
			size.cases, size.trials, 100*found[0], 100*found[1], 100*found[2], 100*found[3])
		if found[0] > decision.FalseBlockRate {
			t.Errorf("%d cases, %d trials: %.1f %% of harmless versions are blocked", size.cases, size.trials, 100*found[0])
		}
		if size.cases == 20 && size.trials == 3 && found[1] < 0.8 {
			t.Errorf("one broken case of 20 is found in %.1f %%", 100*found[1])
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	w := world{rand.New(rand.NewPCG(1, 2)), 100, 10}
	s := decision.Suite{ID: "s"}
	for i := range w.n {
		p := w.beta()
		s.Cases = append(s.Cases, decision.Case{
			ID: fmt.Sprint(i), Current: w.try(p, 10), New: w.try(p, 10), WithoutASkill: w.try(p/2, 10),
		})
	}
	for b.Loop() {
		decision.Decide([]decision.Suite{s}, decision.Policy{})
	}
}
