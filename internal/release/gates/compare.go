package gates

import (
	"context"
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
)

// A comparison has the trials of both versions so far, suite by suite, with those of
// earlier gates of the pool.
type comparison struct {
	all      []comparedSuite
	repeated bool // all cases were tried again, because some trials were of another day
	// confirmed says that this gate has made the second step, which it makes at most once.
	confirmed bool
}

// A comparedSuite adds to what decision needs what only this package knows: which trials are
// new, reused or side by side.
type comparedSuite struct {
	decision.Suite
	// fresh has the trials of the new version on all cases, of the first step only, also where
	// that was repeated.
	fresh runs.Report
	// tried has the trials of the new version by case. It includes those of earlier gates of the
	// pool and of a repeated step, but no fresh trials of confirm: those are of the worst cases,
	// and would distort a pass rate.
	tried map[string]decision.Count
	old   bool // the trials of the current version are of an earlier gate
	// beside has the cases all of whose trials this gate has made on both versions at the
	// same time: of the first step or, where it was repeated, of that.
	beside decision.Suite
}

// A pair has the runs of both versions that a gate compares. Each step of each gate of the pool
// is one.
type pair struct {
	gateID       string
	step         step
	new, current runs.Report
	// first has the trials of the new version from before all cases were tried again: they
	// count beside those of the same day, and no longer beside the reused ones.
	first runs.Report
	// replaced says that a repeat of the same gate has taken the place of this screen.
	replaced bool
}

// compare reads the verdicts of the runs of a gate, and of the earlier ones of its pool. A run
// of an earlier gate that is gone is left out; one of this gate is an error, since progress has
// just seen it.
func (s *Service) compare(ctx context.Context, g Gate, own []trialRun) (c comparison, err error) {
	all := own
	if len(g.Previous) > 0 {
		earlier, err := runsOfGates(ctx, s.DB, g.Previous...)
		if err != nil {
			return c, err
		}
		all = slices.Concat(earlier, own)
	}
	pairs := map[string][]*pair{}
	var suiteIDs []string
	old := map[string]bool{}
	for _, r := range all {
		report, err := s.Runs.Verdicts(ctx, g.OrgID, r.runID)
		if fault.Is(err, fault.NotFound) && r.gateID != g.ID {
			continue
		}
		if err != nil {
			return c, err
		}
		// Only suites that this gate asks count. A suite that the policy no longer names has no
		// say.
		if r.gateID == g.ID {
			c.confirmed, c.repeated = c.confirmed || r.step == confirm, c.repeated || r.step == repeat
			old[r.suiteID] = old[r.suiteID] || r.reused
			if !slices.Contains(suiteIDs, r.suiteID) {
				suiteIDs = append(suiteIDs, r.suiteID)
			}
		}
		of := pairs[r.suiteID]
		i := slices.IndexFunc(of, func(p *pair) bool { return p.gateID == r.gateID && p.step == r.step })
		if i < 0 {
			i, of = len(of), append(of, &pair{gateID: r.gateID, step: r.step})
			pairs[r.suiteID] = of
		}
		if r.arm == newArm {
			of[i].new = report
		} else {
			of[i].current = report
		}
	}
	for _, id := range suiteIDs {
		one := comparedSuite{
			Suite: decision.Suite{ID: id}, tried: map[string]decision.Count{}, old: old[id], beside: decision.Suite{ID: id},
		}
		if err := s.add(ctx, g, &one, pairs[id]); err != nil {
			return c, err
		}
		c.all = append(c.all, one)
	}
	return c, nil
}

// add adds the trials of a suite up, case by case. Cases that only earlier gates had are
// ignored.
func (s *Service) add(ctx context.Context, g Gate, c *comparedSuite, pairs []*pair) error {
	var current runs.Report
	for _, p := range pairs {
		if p.gateID == g.ID && p.step == screen {
			c.fresh, current = p.new, p.current
		}
		// Pair each repeat with the screen that it replaces.
		for _, other := range pairs {
			if p.step == repeat && other.step == screen && p.gateID == other.gateID {
				p.first, other.replaced = other.new, true
			}
		}
	}
	before, err := s.givenBefore(ctx, g, c.ID, current)
	if err != nil {
		return err
	}
	// Fixed cases whose outcome before is known stay out: the loop below leaves them alone.
	cases := map[string]*decision.Case{}
	c.Cases = make([]decision.Case, len(c.fresh.Cases))
	for i, one := range c.fresh.Cases {
		c.Cases[i] = decision.Case{ID: one.ID, Fixed: fixed(one)}
		if was, ok := before[one.ID]; ok {
			c.Cases[i].New, c.Cases[i].Current = count(decided(c.fresh.Results[i].Trials, runs.WithSkill)), was
			continue
		}
		cases[one.ID] = &c.Cases[i]
	}
	for _, p := range pairs {
		first, others := byCase(p.first), byCase(p.current)
		for i, one := range p.new.Cases {
			trials, other := p.new.Results[i].Trials, others[one.ID]
			if p.step != confirm {
				c.tried[one.ID] = sum(c.tried[one.ID], count(decided(trials, runs.WithSkill)))
			}
			if d := cases[one.ID]; d != nil {
				// Until all of its trials are made, a case may still turn from worse to better.
				complete := made(trials) == p.new.Trials && made(other) == p.current.Trials
				p.add(d, trials, append(slices.Clone(first[one.ID]), trials...), other)
				if complete && p.gateID == g.ID && (p.step == repeat || p.step == screen && !c.old) {
					c.beside.Cases = append(c.beside.Cases, *d)
				}
				d.Retried = d.Retried || p.step == confirm && p.gateID == g.ID
			}
		}
	}
	return nil
}

// add adds the trials of a case: those of the run of the new version, the ones that are
// compared, and those of the current version.
func (p *pair) add(d *decision.Case, run, compared, current []runs.Trial) {
	// Trials without the skill are only compared with those of the same run.
	if without := count(decided(run, runs.WithoutSkill)); without.Decided > 0 {
		d.WithoutASkill = sum(d.WithoutASkill, without)
		d.Beside = sum(d.Beside, count(decided(run, runs.WithSkill)))
	}
	now, was := paired(compared, current)
	switch {
	case p.replaced:
	case p.step == confirm:
		d.FreshNew, d.FreshCurrent = sum(d.FreshNew, now), sum(d.FreshCurrent, was)
	default:
		d.New, d.Current = sum(d.New, now), sum(d.Current, was)
	}
}

func sum(a, b decision.Count) decision.Count {
	return decision.Count{Passed: a.Passed + b.Passed, Decided: a.Decided + b.Decided}
}

// givenBefore returns the outcome of cases with a given output when the current
// version was gated. The output does not depend on the version: a suite whose
// authors brought it up to date for the new version tells what has changed.
func (s *Service) givenBefore(
	ctx context.Context, g Gate, suiteID string, current runs.Report,
) (map[string]decision.Count, error) {
	before := map[string]decision.Count{}
	if g.AgainstID == nil || !slices.ContainsFunc(current.Cases, fixed) {
		return before, nil
	}
	r, found, err := lastScreen(ctx, s.DB, *g.AgainstID, suiteID, g.ID)
	if err != nil || !found {
		return before, err
	}
	report, err := s.Runs.Verdicts(ctx, g.OrgID, r.runID)
	if fault.Is(err, fault.NotFound) {
		return before, nil
	}
	for i, c := range report.Cases {
		if fixed(c) {
			before[c.ID] = count(decided(report.Results[i].Trials, runs.WithSkill))
		}
	}
	return before, err
}

// fixed reports whether the outcome of a case cannot vary. A given output is checked by code
// each time in the same way, unless a model judges it.
func fixed(c suites.Case) bool {
	return c.Subject.Output != nil && c.Kind != suites.LLMRubric
}

// byCase returns the trials of a report by the id of the case.
func byCase(r runs.Report) map[string][]runs.Trial {
	all := make(map[string][]runs.Trial, len(r.Cases))
	for i, c := range r.Cases {
		all[c.ID] = r.Results[i].Trials
	}
	return all
}

// made counts the trials with the skill. It includes those that ended as errors: made is about
// whether a run is done with a case.
func made(trials []runs.Trial) (n int) {
	for _, t := range trials {
		if t.Arm == runs.WithSkill {
			n++
		}
	}
	return n
}

// decided returns which of the trials with a verdict passed, in their order. Errors have no
// verdict, and are left out.
func decided(trials []runs.Trial, of runs.Arm) (passed []bool) {
	for _, t := range trials {
		if t.Arm == of && t.Verdict.Decided() {
			passed = append(passed, t.Verdict == runs.Pass)
		}
	}
	return passed
}

func count(passed []bool) (c decision.Count) {
	c.Decided = len(passed)
	for _, p := range passed {
		if p {
			c.Passed++
		}
	}
	return c
}

// paired counts the same number of trials of both versions: where errors left
// fewer of one, the version with more trials would fail one of them more often,
// and look worse. Where one version has none at all, the case is undecided, and the other count
// is kept to tell which version errs.
func paired(fresh, current []runs.Trial) (decision.Count, decision.Count) {
	a, b := decided(fresh, runs.WithSkill), decided(current, runs.WithSkill)
	n := min(len(a), len(b))
	if n == 0 {
		return count(a), count(b)
	}
	return count(a[:n]), count(b[:n])
}

func (c comparison) suites() []decision.Suite {
	all := make([]decision.Suite, len(c.all))
	for i, s := range c.all {
		all[i] = s.Suite
	}
	return all
}

// restsOnOld returns the suites whose screen alone blocks, with trials of the current
// version from an earlier gate, and which have to be tried again before it stands: there
// may be a difference between two days instead of one between versions. A nil list of cases
// means all of the suite.
func (c comparison) restsOnOld(d decision.Decision) map[string][]string {
	if c.repeated || c.confirmed || d.Verdict != decision.Block {
		return nil
	}
	var again map[string][]string
	for i, f := range d.Suites {
		switch {
		// A fixed outcome doesn't drift from day to day.
		case len(f.Broken) > 0:
			return nil
		case c.all[i].old && f.AdjustedP <= decision.FalseBlockRate:
			if again == nil {
				again = map[string][]string{}
			}
			again[f.Suite] = nil
		case f.AdjustedP <= decision.FalseBlockRate || f.AdjustedNoSkill != nil && *f.AdjustedNoSkill <= decision.FalseBlockRate:
			return nil // it is blocked all the same
		}
	}
	return again
}

// early returns the findings if so many cases got worse that the others need not
// be tried; nil if the gate has to wait. It looks at trials of this gate alone: those of
// others may be of another day, or were looked at before. The evidence is an e-value, so
// looking after each trial doesn't raise the rate of false blocks; a p-value would.
func (c comparison) early(all []trialRun) []api.GateSuite {
	tests := len(c.all)
	for _, s := range c.all {
		if slices.ContainsFunc(s.Cases, func(c decision.Case) bool { return c.WithoutASkill.Decided > 0 }) {
			tests++
		}
	}
	if c.confirmed || !slices.ContainsFunc(c.all, func(s comparedSuite) bool { return decision.EnoughHarm(s.beside, tests) }) {
		return nil
	}
	// The verdict is explained by the complete cases alone, on which it rests.
	so := comparison{all: slices.Clone(c.all)}
	for i := range so.all {
		so.all[i].Suite = so.all[i].beside
	}
	return so.output(decision.Decide(so.suites(), decision.Policy{}), all)
}

// output shows the findings, and the trials of the cases that changed. Names are taken from the
// run, since the suite may have been changed meanwhile.
func (c comparison) output(d decision.Decision, all []trialRun) []api.GateSuite {
	out := make([]api.GateSuite, len(d.Suites))
	for i, f := range d.Suites {
		names := map[string]string{}
		for _, one := range c.all[i].fresh.Cases {
			names[one.ID] = one.Label()
		}
		var runIDs []string
		for _, r := range all {
			if r.suiteID == f.Suite {
				runIDs = append(runIDs, r.runID)
			}
		}
		out[i] = outcome.Suite(f, c.all[i].Cases, names, runIDs)
	}
	return out
}

// addEfforts adds what the new version took on each suite, against the current one and no skill.
func (s *Service) addEfforts(ctx context.Context, g Gate, all []trialRun, found []api.GateSuite) error {
	ids := make([]string, len(all))
	for i, r := range all {
		ids[i] = r.runID
	}
	if len(found) == 0 || len(ids) == 0 {
		return nil
	}
	reports, err := s.Runs.Measured(ctx, g.OrgID, ids...)
	if err != nil {
		return err
	}
	for i := range found {
		var fresh, current runs.Report
		for k, r := range all {
			// All cases are tried again after a screen of another day, and again is what counts.
			if r.suiteID != found[i].SuiteID || r.step == confirm || fresh.ID != "" && r.arm == newArm && r.step == screen ||
				current.ID != "" && r.arm == currentArm && r.step == screen {
				continue
			}
			if r.arm == newArm {
				fresh = reports[k]
			} else {
				current = reports[k]
			}
		}
		if fresh.ID == "" {
			continue
		}
		if current.ID != "" && runs.SameCases(fresh.Run, current.Run) {
			e := api.GateEffort(runs.CompareEfforts(current.Side(), fresh.Side()))
			found[i].Effort = &e
		}
		if fresh.Baseline == runs.NoSkill {
			e := api.GateEffort(runs.CompareEfforts(fresh.Other(), fresh.Side()))
			found[i].NoSkillEffort = &e
		}
	}
	return nil
}

// outcomes counts the cases of the new version with a decided trial, and those that pass by
// the majority of their trials, those of all attempts together (runs.Majority). An even split
// passes, except where the case is that the skill must stay out of it.
func (c comparison) outcomes(choose func(suites.Case) bool) (n decision.Count) {
	for _, s := range c.all {
		for _, one := range s.fresh.Cases {
			tried := s.tried[one.ID]
			if tried.Decided == 0 || !choose(one) {
				continue
			}
			n.Decided++
			if twice := 2 * tried.Passed; twice > tried.Decided || twice == tried.Decided &&
				one.Expectation != suites.ShouldNotTrigger {
				n.Passed++
			}
		}
	}
	return n
}

// alone is the verdict on a version without another to compare with, before its
// floors. At least one case must have been decided, even if the policy asks for none.
func (c comparison) alone(p Policy) (decision.Verdict, string) {
	n := c.outcomes(func(suites.Case) bool { return true })
	if wanted := max(1, p.MinCases); n.Decided < wanted {
		return decision.Inconclusive, fmt.Sprintf("%d cases were decided, and %d are needed", n.Decided, wanted)
	}
	return decision.Pass, "there is no version to compare with, and the floors of the policy hold"
}

// floors compares the outcome of the trials with the demands of the policy. The pass rate is
// compared by the lower bound of its interval, so that 3 of 3 cases don't prove 95 %. The
// recall is compared as it is.
func (c comparison) floors(want Floors) (all []api.GateFloor) {
	if want.PassRate != nil {
		n := c.outcomes(func(suites.Case) bool { return true })
		low, _ := stats.Wilson(rate(n), n.Decided)
		all = append(all, api.GateFloor{
			Name: "pass_rate", Want: fmt.Sprintf("at least %.3f", *want.PassRate), Value: &low, Passed: low >= *want.PassRate,
			Got: fmt.Sprintf("%d of %d cases, at least %.3f with 95 %% confidence", n.Passed, n.Decided, low),
		})
	}
	if want.TriggerRecall != nil {
		n := c.outcomes(func(c suites.Case) bool {
			return c.Kind == suites.TriggerQuery && c.Expectation == suites.ShouldTrigger
		})
		recall := rate(n)
		all = append(all, api.GateFloor{
			Name: "trigger_recall", Want: fmt.Sprintf("at least %.3f", *want.TriggerRecall), Value: &recall,
			Passed: recall >= *want.TriggerRecall, Got: fmt.Sprintf("%.3f, %d of %d queries", recall, n.Passed, n.Decided),
		})
	}
	return all
}

// rate is 0 without decided cases, where Rate would divide by zero.
func rate(n decision.Count) float64 {
	if n.Decided == 0 {
		return 0
	}
	return n.Rate()
}
