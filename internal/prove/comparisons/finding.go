package comparisons

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Finding is what a registry entry gives, by the newest comparison of it with no skill. All
// figures are of the skill against none, by the same agent and model.
type Finding struct {
	ComparisonID string
	Version      string // that was compared
	Agent        *api.EvalAgent
	Cases        int
	Difference   float64
	Interval     [2]float64
	Verdict      string // better, worse, no_difference_shown or inconclusive
	Cost         *api.EvalFigure
	// Retire says that the comparison recommends to do without the skill, and Reason why.
	Retire bool
	Reason string
}

// Findings returns what entries of an organisation give, by id, for those that were compared with
// no skill; nil means all entries.
func Findings(ctx context.Context, q store.Querier, orgID string, entryIDs []string) (map[string]Finding, error) {
	found := map[string]Finding{}
	newest, err := newestWithNone(ctx, q, orgID, entryIDs)
	if err != nil || len(newest) == 0 {
		return found, err
	}
	all, err := comparisonsByID(ctx, q, orgID, newest)
	if err != nil {
		return found, err
	}
	for entry, id := range newest {
		if f, ok := findingOf(all[id], entry); ok {
			found[entry] = f
		}
	}
	return found, nil
}

// findingOf reads the pair of an entry and no skill that the same agent tried. Of several versions,
// it is the last one: people name them in order.
func findingOf(c Comparison, entryID string) (f Finding, found bool) {
	arms := map[string]api.ComparedArm{}
	for _, a := range c.Result.Arms {
		arms[a.Name] = a
	}
	for _, p := range c.Result.Pairs {
		none, with, swapped := arms[p.A], arms[p.B], false
		if with.NoSkill {
			none, with, swapped = with, none, true
		}
		sameAgent := none.Agent == nil && with.Agent == nil || none.Agent != nil && with.Agent != nil && *none.Agent == *with.Agent
		if !none.NoSkill || with.EntryID == nil || *with.EntryID != entryID || !sameAgent {
			continue
		}
		found = true
		f = Finding{
			ComparisonID: c.ID, Version: *with.Version, Agent: with.Agent, Cases: p.Cases, Difference: p.Difference,
			Interval: p.Interval, Verdict: p.Verdict, Cost: p.Cost,
			Retire: c.Result.Recommendation.Kind == "retire", Reason: c.Result.Recommendation.Reason,
		}
		f.Verdict = map[string]string{"a_better": "worse", "b_better": "better"}[p.Verdict]
		if swapped {
			f.Difference, f.Interval = -p.Difference, [2]float64{-p.Interval[1], -p.Interval[0]}
			f.Verdict, f.Cost = map[string]string{"a_better": "better", "b_better": "worse"}[p.Verdict], inverse(p.Cost)
		}
		if f.Verdict == "" {
			f.Verdict = p.Verdict
		}
	}
	return f, found
}

// inverse turns a ratio b / a into a / b.
func inverse(f *api.EvalFigure) *api.EvalFigure {
	if f == nil || f.Value == 0 || f.Interval[0] == 0 {
		return nil
	}
	return &stats.Estimate{Value: 1 / f.Value, Interval: [2]float64{1 / f.Interval[1], 1 / f.Interval[0]}}
}
