// Package outcome shows what a gate decided: to programs, in the words of the API,
// and in the formats that CI systems read.
package outcome

import (
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// Suite is what the trials of a suite say, with those of the cases that changed. names may lack
// cases; the API then shows the id.
func Suite(f decision.Findings, cases []decision.Case, names map[string]string, runIDs []string) api.GateSuite {
	adjusted := f.AdjustedP
	out := api.GateSuite{
		SuiteID: f.Suite, RunIDs: append([]string{}, runIDs...), Cases: len(cases), Better: append([]string{}, f.Better...),
		Worse: append([]string{}, f.Worse...), Unchanged: f.Unchanged, Errors: f.Undecided,
		Broken:    append([]string{}, f.Broken...),
		SignTestP: f.SignTestP, Confirmed: make([]api.GateConfirmed, len(f.Confirmed)), AdjustedP: &adjusted,
		NoSkillP: f.WorseThanNoSkill, NoSkillAdjustedP: f.AdjustedNoSkill, Interval: f.Interval, Results: []api.GateCase{},
	}
	out.Score = score(cases)
	for i, confirmed := range f.Confirmed {
		out.Confirmed[i] = api.GateConfirmed(confirmed)
	}
	for _, c := range cases {
		// Unchanged cases are only counted. A suite may have hundreds.
		if slices.Contains(f.Worse, c.ID) || slices.Contains(f.Better, c.ID) {
			out.Results = append(out.Results, newCase(c, names[c.ID]))
		}
	}
	return out
}

// score compares the versions on the cases that both decided; nil if there are none. Cases that
// one version didn't decide would make a difference out of errors.
func score(cases []decision.Case) *api.GateScore {
	now, before := make([]decision.Count, len(cases)), make([]decision.Count, len(cases))
	for i, c := range cases {
		if c.New.Decided > 0 && c.Current.Decided > 0 {
			now[i], before[i] = c.New, c.Current
		}
	}
	compared := stats.Compare(before, now)
	if compared.Cases == 0 {
		return nil
	}
	return &api.GateScore{
		New: stats.Score(now).Value, Current: stats.Score(before).Value, Difference: compared.Difference,
		Interval: compared.Interval,
	}
}

// newCase shows a case. Fresh trials are nil where it wasn't tried again.
func newCase(c decision.Case, name string) api.GateCase {
	trials := func(c decision.Count) api.GateTrials { return api.GateTrials{Passed: c.Passed, Tried: c.Decided} }
	out := api.GateCase{Case: c.ID, Name: name, New: trials(c.New), Current: trials(c.Current)}
	if c.FreshNew.Decided > 0 || c.FreshCurrent.Decided > 0 {
		now, before := trials(c.FreshNew), trials(c.FreshCurrent)
		out.FreshNew, out.FreshCurrent = &now, &before
	}
	return out
}
