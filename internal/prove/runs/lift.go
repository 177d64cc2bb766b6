package runs

import (
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

// A Lift is what the skill changes against the baseline, on the cases that both arms
// decided.
type Lift = api.EvalLift

// liftOf compares the two arms of a run; nil if no case was decided in both.
func liftOf(all []CaseResult) *Lift {
	with, without := make([]stats.Count, len(all)), make([]stats.Count, len(all))
	for i, r := range all {
		with[i], without[i] = r.Count, r.BaselineCount
	}
	c := stats.Compare(without, with)
	if c.Cases == 0 {
		return nil
	}
	return &Lift{
		Difference: c.Difference, Interval: c.Interval, P: c.P,
		Cost: effort(all, Trial.costUSD), Tokens: effort(all, Trial.tokens), Turns: effort(all, Trial.turnCount),
		Duration: effort(all, func(t Trial) *float64 { ms := float64(t.Duration.Milliseconds()); return &ms }),
	}
}

// effort compares what cases took in the two arms, e.g. in tokens, as a ratio. Only
// cases that both arms passed at least once count. A case with a decided trial that
// lacks the figure is left out: missing isn't zero.
func effort(all []CaseResult, of func(Trial) *float64) *stats.Estimate {
	var with, without []float64
	for _, r := range all {
		if r.Count.Passed == 0 || r.BaselineCount.Passed == 0 {
			continue
		}
		sums, known := [2]float64{}, true
		for _, t := range r.Trials {
			if !t.Verdict.Decided() {
				continue
			}
			took := of(t)
			if took == nil {
				known = false
				break
			}
			if t.Arm == WithSkill {
				sums[0] += *took / float64(r.Count.Decided)
			} else {
				sums[1] += *took / float64(r.BaselineCount.Decided)
			}
		}
		if known {
			with, without = append(with, sums[0]), append(without, sums[1])
		}
	}
	return stats.Ratio(without, with)
}

// costUSD returns what the models of the trial cost; nil if that isn't known.
func (t Trial) costUSD() *float64 {
	switch {
	case t.Evidence.Reported != nil:
		return &t.Evidence.Reported.CostUSD
	case t.Evidence.Cost != nil:
		return t.Evidence.Cost.USD()
	}
	return nil
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

func (t Trial) turnCount() *float64 {
	n := t.turns()
	if n == nil {
		return nil
	}
	turns := float64(*n)
	return &turns
}
