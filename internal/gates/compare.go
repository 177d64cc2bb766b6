package gates

import (
	"context"
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/gates/outcome"
	"github.com/whetstone-dev/whetstone/internal/registry/gateapi"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/stats"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

// A comparison has the trials of both versions so far, suite by suite.
type comparison struct {
	all       []comparedSuite
	confirmed bool // the second step was made
}

type comparedSuite struct {
	decision.Suite
	fresh    runs.Report     // of the new version, all cases
	complete map[string]bool // cases all of whose trials are made on both versions
}

// compare reads the verdicts of the runs of a gate.
func (s *Service) compare(ctx context.Context, g Gate, all []trialRun) (c comparison, err error) {
	type key struct {
		suiteID string
		step    step
		arm     arm
	}
	reports := map[key]runs.Report{}
	var suiteIDs []string
	for _, r := range all {
		report, err := s.Runs.Verdicts(ctx, g.OrgID, r.runID)
		if err != nil {
			return c, err
		}
		reports[key{r.suiteID, r.step, r.arm}] = report
		c.confirmed = c.confirmed || r.step == confirm
		if !slices.Contains(suiteIDs, r.suiteID) {
			suiteIDs = append(suiteIDs, r.suiteID)
		}
	}
	for _, id := range suiteIDs {
		fresh, current := reports[key{id, screen, newArm}], reports[key{id, screen, currentArm}]
		before, err := s.givenBefore(ctx, g, id, current)
		if err != nil {
			return c, err
		}
		c.all = append(c.all, newComparedSuite(id, fresh, current, reports[key{id, confirm, newArm}],
			reports[key{id, confirm, currentArm}], before))
	}
	return c, nil
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

// fixed reports whether the outcome of a case cannot vary.
func fixed(c suites.Case) bool {
	return c.Subject.Output != nil && c.Kind != suites.LLMRubric
}

func newComparedSuite(
	id string, fresh, current, freshAgain, currentAgain runs.Report, before map[string]decision.Count,
) comparedSuite {
	c := comparedSuite{Suite: decision.Suite{ID: id}, fresh: fresh, complete: map[string]bool{}}
	others, again, againOthers := byCase(current), byCase(freshAgain), byCase(currentAgain)
	for i, one := range fresh.Cases {
		trials, other := fresh.Results[i].Trials, others[one.ID]
		d := decision.Case{ID: one.ID, Fixed: fixed(one)}
		d.New, d.Current = paired(trials, other)
		d.WithoutASkill = count(decided(trials, runs.WithoutSkill))
		d.FreshNew, d.FreshCurrent = paired(again[one.ID], againOthers[one.ID])
		if was, ok := before[one.ID]; ok {
			d.New, d.Current = count(decided(trials, runs.WithSkill)), was
		}
		c.Cases = append(c.Cases, d)
		c.complete[one.ID] = made(trials) == fresh.Trials && made(other) == current.Trials
	}
	return c
}

func byCase(r runs.Report) map[string][]runs.Trial {
	all := make(map[string][]runs.Trial, len(r.Cases))
	for i, c := range r.Cases {
		all[c.ID] = r.Results[i].Trials
	}
	return all
}

// made counts the trials with the skill.
func made(trials []runs.Trial) (n int) {
	for _, t := range trials {
		if t.Arm == runs.WithSkill {
			n++
		}
	}
	return n
}

// decided returns which of the trials with a verdict passed, in their order.
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
// and look worse.
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

// early returns the findings if so many cases got worse that the others need not
// be tried; nil if the gate has to wait.
func (c comparison) early(all []trialRun) []gateapi.Suite {
	so := comparison{all: slices.Clone(c.all)}
	enough := false
	for i, s := range so.all {
		s.Cases = slices.DeleteFunc(slices.Clone(s.Cases), func(c decision.Case) bool { return !s.complete[c.ID] })
		so.all[i] = s
		enough = enough || decision.EnoughHarm(s.Suite, len(c.all))
	}
	if !enough || c.confirmed {
		return nil
	}
	return so.output(decision.Decide(so.suites(), decision.Policy{}), all)
}

// output shows the findings, and the trials of the cases that changed.
func (c comparison) output(d decision.Decision, all []trialRun) []gateapi.Suite {
	out := make([]gateapi.Suite, len(d.Suites))
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

// outcomes counts the decided cases of the new version, and those that pass.
func (c comparison) outcomes(choose func(suites.Case) bool) (n decision.Count) {
	for _, s := range c.all {
		for i, one := range s.fresh.Cases {
			verdict := s.fresh.Results[i].Verdict
			if verdict == nil || !verdict.Decided() || !choose(one) {
				continue
			}
			n.Decided++
			if *verdict == runs.Pass {
				n.Passed++
			}
		}
	}
	return n
}

// alone is the verdict on a version without another to compare with, before its
// floors.
func (c comparison) alone(p Policy) (decision.Verdict, string) {
	n := c.outcomes(func(suites.Case) bool { return true })
	if wanted := max(1, p.MinCases); n.Decided < wanted {
		return decision.Inconclusive, fmt.Sprintf("%d cases were decided, and %d are needed", n.Decided, wanted)
	}
	return decision.Pass, "there is no version to compare with, and the floors of the policy hold"
}

// floors compares the outcome of the trials with the demands of the policy.
func (c comparison) floors(want Floors) (all []gateapi.Floor) {
	if want.PassRate != nil {
		n := c.outcomes(func(suites.Case) bool { return true })
		low, _ := stats.Wilson(rate(n), n.Decided)
		all = append(all, gateapi.Floor{
			Name: "pass_rate", Want: fmt.Sprintf("at least %.3f", *want.PassRate), Value: &low, Passed: low >= *want.PassRate,
			Got: fmt.Sprintf("%d of %d cases, at least %.3f with 95 %% confidence", n.Passed, n.Decided, low),
		})
	}
	if want.TriggerRecall != nil {
		n := c.outcomes(func(c suites.Case) bool {
			return c.Kind == suites.TriggerQuery && c.Expectation == suites.ShouldTrigger
		})
		recall := rate(n)
		all = append(all, gateapi.Floor{
			Name: "trigger_recall", Want: fmt.Sprintf("at least %.3f", *want.TriggerRecall), Value: &recall,
			Passed: recall >= *want.TriggerRecall, Got: fmt.Sprintf("%.3f, %d of %d queries", recall, n.Passed, n.Decided),
		})
	}
	return all
}

func rate(n decision.Count) float64 {
	if n.Decided == 0 {
		return 0
	}
	return n.Rate()
}
