package runs

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

// A Lift is what the skill changes against the baseline, on the cases that both arms
// decided.
type Lift = api.EvalLift

// A Side is one arm of a comparison: what came of each case, in the order of the cases.
type Side struct {
	Counts []stats.Count
	Trials [][]Trial // with their costs
}

// sideOf returns the arm whose verdicts are the run's, or the baseline.
func sideOf(all []CaseResult, main Arm, baseline bool) Side {
	s := Side{Counts: make([]stats.Count, len(all)), Trials: make([][]Trial, len(all))}
	for i, r := range all {
		if s.Counts[i] = r.Count; baseline {
			s.Counts[i] = r.BaselineCount
		}
		for _, t := range r.Trials {
			if (t.Arm != main) == baseline {
				s.Trials[i] = append(s.Trials[i], t)
			}
		}
	}
	return s
}

// Side returns the arm of a run whose verdicts are the run's.
func (r Report) Side() Side {
	return sideOf(r.Results, r.Baseline.Arms()[0], false)
}

// Other returns the baseline's arm of a run that has one.
func (r Report) Other() Side {
	return sideOf(r.Results, r.Baseline.Arms()[0], true)
}

// Measured returns the reports of runs, in their order, without outputs, and of the evidence only
// costs and turns: all that a comparison of runs needs.
func (s *Service) Measured(ctx context.Context, orgID string, ids ...string) (_ []Report, err error) {
	defer fault.Wrap(&err, "runs %v", ids)
	found, err := runsWithCases(ctx, s.DB, orgID, ids)
	if err != nil {
		return nil, err
	}
	trials, err := measuredTrials(ctx, s.DB, ids...)
	if err != nil {
		return nil, err
	}
	all := make([]Report, len(ids))
	for i, id := range ids {
		r, ok := found[id]
		if !ok {
			return nil, fault.New(fault.NotFound, "Eval run not found")
		}
		cases, err := r.cases()
		if err != nil {
			return nil, err
		}
		all[i] = Report{Run: r, Cases: cases, Results: resultsOf(r.Baseline, cases, trials[id])}
	}
	return all, nil
}

// liftOf compares the two arms of a run; nil if no case was decided in both.
func liftOf(all []CaseResult) *Lift {
	with, without := sideOf(all, WithSkill, false), sideOf(all, WithSkill, true)
	c := stats.Compare(without.Counts, with.Counts)
	if c.Cases == 0 {
		return nil
	}
	e := CompareEfforts(without, with)
	return &Lift{
		Difference: c.Difference, Interval: c.Interval, P: c.P,
		Cost: e.Cost, Tokens: e.Tokens, Turns: e.Turns, Duration: e.Duration,
	}
}

// Efforts are the ratios of what two arms took; nil where too few cases tell.
type Efforts struct{ Cost, Tokens, Turns, Duration *stats.Estimate }

// CompareEfforts returns the ratios b / a. Only cases that both arms passed at least once
// count. A case with a decided trial that lacks the figure is left out: missing isn't zero.
func CompareEfforts(a, b Side) Efforts {
	ratio := func(of func(Trial) *float64) *stats.Estimate {
		var ofA, ofB []float64
		for i := range a.Counts {
			if a.Counts[i].Passed == 0 || b.Counts[i].Passed == 0 {
				continue
			}
			inA, inB := Mean(a.Trials[i], of), Mean(b.Trials[i], of)
			if inA != nil && inB != nil {
				ofA, ofB = append(ofA, *inA), append(ofB, *inB)
			}
		}
		return stats.Ratio(ofA, ofB)
	}
	return Efforts{
		Cost: ratio(Trial.CostUSD), Tokens: ratio(Trial.tokens), Turns: ratio(Trial.TurnCount), Duration: ratio(Trial.DurationMS),
	}
}

// Mean returns the mean of a figure over the decided trials; nil if there are none, or if
// one lacks it.
func Mean(trials []Trial, of func(Trial) *float64) *float64 {
	sum, n := 0.0, 0
	for _, t := range trials {
		if !t.Verdict.Decided() {
			continue
		}
		took := of(t)
		if took == nil {
			return nil
		}
		sum, n = sum+*took, n+1
	}
	if n == 0 {
		return nil
	}
	sum /= float64(n)
	return &sum
}

// CostUSD returns what the models of the trial cost; nil if that isn't known.
func (t Trial) CostUSD() *float64 {
	switch {
	case t.Evidence.Reported != nil:
		return &t.Evidence.Reported.CostUSD
	case t.Evidence.Cost != nil:
		return t.Evidence.Cost.USD()
	}
	return nil
}

// DurationMS returns how long the trial took, without the wait for a place.
func (t Trial) DurationMS() *float64 {
	ms := float64(t.Duration.Milliseconds())
	return &ms
}

// tokens returns the tokens of all models of the trial, cached ones included; nil if
// they weren't counted.
func (t Trial) tokens() *float64 {
	if t.Evidence.Cost == nil {
		return nil
	}
	c := t.Evidence.Cost.Tokens
	sum := float64(c.Input + c.Output + c.CacheRead + c.CacheWrite)
	return &sum
}

// turns returns the number of answers of the agent's model; nil without an agent.
func (t Trial) turns() *int {
	switch {
	case t.Evidence.Reported != nil:
		return &t.Evidence.Reported.Turns
	case t.Evidence.Agent != nil:
		return &t.Evidence.Agent.Turns
	}
	return nil
}

// TurnCount is the number of answers of the agent's model; nil without an agent.
func (t Trial) TurnCount() *float64 {
	n := t.turns()
	if n == nil {
		return nil
	}
	turns := float64(*n)
	return &turns
}
