package decision_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/stats/statstest"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// A day simulates gates of one version on one suite, also over several days, between which
// a common shift lets all cases pass more or less often.
type day struct {
	world
	before, after []float64
	shift         float64 // today's
	spread        float64 // standard deviation of the shift
}

// newDay has cases of which the current version passes a share of base, or, for base 0,
// the shares of beta, and the new one drop less.
func newDay(w world, base, drop, spread float64) *day {
	d := &day{world: w, before: make([]float64, w.n), after: make([]float64, w.n), spread: spread}
	for i := range d.before {
		if d.before[i] = base; base == 0 {
			d.before[i] = w.beta()
		}
		d.after[i] = d.before[i] - drop
	}
	d.next()
	return d
}

func (d *day) next() { d.shift = d.spread * d.NormFloat64() }

// add makes trials of all cases, and adds them to those of the current version or of the new one.
func (d *day) add(cases []decision.Case, current, fresh bool) {
	for i := range cases {
		cases[i].ID = fmt.Sprint(i)
		if current {
			cases[i].Current = plus(cases[i].Current, d.try(d.before[i]+d.shift, d.trials))
		}
		if fresh {
			cases[i].New = plus(cases[i].New, d.try(d.after[i]+d.shift, d.trials))
		}
	}
}

func plus(a, b decision.Count) decision.Count {
	return decision.Count{Passed: a.Passed + b.Passed, Decided: a.Decided + b.Decided}
}

// decide plays a gate to its end from trials of all cases on.
func (d *day) decide(cases []decision.Case, policy decision.Policy) bool {
	for i := range cases {
		cases[i].Retried = false
	}
	so := []decision.Suite{{ID: "s", Cases: cases}}
	for _, id := range decision.Decide(so, policy).Again["s"] {
		for i := range cases {
			if cases[i].ID == id {
				cases[i].FreshCurrent = plus(cases[i].FreshCurrent, d.try(d.before[i]+d.shift, decision.FreshTrials))
				cases[i].FreshNew = plus(cases[i].FreshNew, d.try(d.after[i]+d.shift, decision.FreshTrials))
				cases[i].Retried = true
			}
		}
	}
	return decision.Decide(so, policy).Verdict == decision.Block
}

// fresh plays a gate whose trials are all made today.
func (d *day) fresh(cases []decision.Case, policy decision.Policy) bool {
	d.add(cases, true, true)
	return d.decide(cases, policy)
}

// reused plays a gate that reuses trials of the current version from another day, and tries
// all cases again on both before its screen alone blocks: the current version twice as often,
// beside all trials of the new one.
func (d *day) reused() bool {
	cases := make([]decision.Case, d.n)
	d.add(cases, true, false)
	d.next()
	d.add(cases, false, true)
	if decision.Decide([]decision.Suite{{ID: "s", Cases: cases}}, decision.Policy{}).Verdict != decision.Block {
		return d.decide(cases, decision.Policy{})
	}
	for i := range cases {
		cases[i].Current = decision.Count{}
	}
	d.add(cases, true, true)
	d.add(cases, true, false)
	return d.decide(cases, decision.Policy{Blocked: true})
}

// passes plays a gate and, while it blocks, up to ten reruns on other days.
func (d *day) passes() bool {
	cases := make([]decision.Case, d.n)
	policy := decision.Policy{}
	for range 11 {
		if !d.fresh(cases, policy) {
			return true
		}
		policy.Blocked = true
		d.next()
	}
	return false
}

// family plays a gate of several suites that are compared with no skill, too, where all
// three are the same.
func (d *day) family(suites int) bool {
	var all []decision.Suite
	for i := range suites {
		cases := make([]decision.Case, d.n)
		d.add(cases, true, true)
		for j := range cases {
			cases[j].Beside, cases[j].WithoutASkill = cases[j].New, d.try(d.before[j], d.trials)
		}
		all = append(all, decision.Suite{ID: fmt.Sprint(i), Cases: cases})
	}
	again := decision.Decide(all, decision.Policy{}).Again
	for i := range all {
		for _, id := range again[all[i].ID] {
			for j := range all[i].Cases {
				if c := &all[i].Cases[j]; c.ID == id {
					c.FreshCurrent, c.FreshNew = d.try(d.before[j], decision.FreshTrials), d.try(d.after[j], decision.FreshTrials)
				}
			}
		}
	}
	return decision.Decide(all, decision.Policy{}).Verdict == decision.Block
}

// TestPromises checks the error rates of docs/gates.md.
func TestPromises(t *testing.T) {
	n := 1000
	if statstest.Full() {
		n = 8000
	}
	share := func(seed uint64, base, drop, spread float64, play func(d *day) bool) statstest.Rate {
		w := world{rand.New(rand.NewPCG(11, seed)), 20, 3}
		r := statstest.Rate{Exposure: float64(n)}
		for range n {
			if play(newDay(w, base, drop, spread)) {
				r.Events++
			}
		}
		return r
	}
	var all []statstest.Promise
	row := func(what string, r statstest.Rate, most float64) {
		all = append(all, statstest.Promise{
			What: "gates, 20 cases x 3: " + what, Goal: fmt.Sprintf("at most %.0f of 1,000", most), Measured: r.String(), Met: r.AtMost(most),
		})
	}
	const falseBlocks = 1000 * decision.FalseBlockRate
	for i, base := range []float64{0.6, 0.8, 0.95, 0} {
		name := fmt.Sprintf("passing %.0f %%", 100*base)
		if base == 0 {
			name = "passing 80 % on average, some flaky"
		}
		seed := uint64(10 * i)
		row(name+", nothing changed: blocked", share(seed, base, 0, 0, func(d *day) bool { return d.fresh(make([]decision.Case, d.n), decision.Policy{}) }), falseBlocks)
		for _, points := range []float64{5, 10} {
			row(fmt.Sprintf("%s, nothing changed, trials of another day reused, %.0f points between days: blocked", name, points),
				share(seed+1, base, 0, points/100, (*day).reused), falseBlocks)
		}
		row(name+", nothing changed, ten reruns on days that differ by 5 points: still blocked",
			share(seed+2, base, 0, 0.05, func(d *day) bool { return !d.passes() }), falseBlocks/10)
	}
	row("passing 80 %, 20 points lost: passes within ten reruns", share(50, 0.8, 0.2, 0, (*day).passes), 450)
	row("passing 80 %, 20 points lost, trials of another day reused: passes", share(52, 0.8, 0.2, 0.05, func(d *day) bool { return !d.reused() }), 450)
	row("passing 80 %, 20 points lost, days that differ by 5 points: passes within ten reruns", share(51, 0.8, 0.2, 0.05, (*day).passes), 450)
	for _, suites := range []int{1, 3, 5} {
		row(fmt.Sprintf("passing 80 %%, %d suites, the skill gives nothing, nothing changed: blocked", suites),
			share(uint64(60+suites), 0.8, 0, 0, func(d *day) bool { return d.family(suites) }), falseBlocks)
	}
	statstest.Report(t, all...)
}
