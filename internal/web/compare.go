package web

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
)

// compareView sets two runs of a suite side by side. Counts are of all cases,
// whichever are shown.
type compareView struct {
	SuiteName     string
	Before, After runs.Run
	Show          string // changed, or "" for all
	Counts        map[string]int
	P             float64 // p-value: how likely chance alone makes such a difference
	Rows          []compareRow
}

// A compareRow is a case in both runs. A case is matched by its id, so an edited one
// is still the same.
type compareRow struct {
	ID, Label     string
	Before, After string // verdicts; "" if there is none
	Change        string
}

// The changes, in the order of changeOrder: what to look at first.
const (
	broken  = "broken"  // it passed before
	fixed   = "fixed"   // it failed before
	unclear = "unclear" // a run has no verdict
	added   = "added"   // only the later run has it
	removed = "removed" // only the earlier run has it
	same    = "same"
)

// changeOrder is the order of the rows.
var changeOrder = []string{broken, fixed, unclear, added, removed, same}

// handleCompare compares the run of the path with the one of ?with=ID. They must be of
// one suite; the earlier one is always on the left. Both runs are read whole, which
// the limits of a suite bound.
func (s *Service) handleCompare(v *visit) (answer, error) {
	org := v.Caller.OrgID
	after, err := s.Runs.Report(v.Context(), org, v.PathValue("id"), "")
	if err != nil {
		return answer{}, err
	}
	before, err := s.Runs.Report(v.Context(), org, v.URL.Query().Get("with"), "")
	if err != nil {
		return answer{}, err
	}
	if before.SuiteID != after.SuiteID {
		return answer{}, fault.New(fault.Malformed, "The runs are of different suites; choose two of one suite")
	}
	// The order is by time, not by which was chosen first.
	if before.CreatedAt.After(after.CreatedAt) {
		before, after = after, before
	}
	suite, err := s.Suites.Get(v.Context(), org, after.SuiteID)
	view := compareView{SuiteName: suite.Name, Before: before.Run, After: after.Run, Show: v.URL.Query().Get("show")}
	view.count(compareCases(readRunCases(before), readRunCases(after)))
	return show("compare", "Two runs of "+suite.Name, view), err
}

// compareCases pairs the cases of two runs by their ids. Rows of one change keep the
// order of the suite.
func compareCases(before, after []runCase) []compareRow {
	old := map[string]runCase{}
	for _, c := range before {
		old[c.ID] = c
	}
	var rows []compareRow
	for _, c := range after {
		was, there := old[c.ID]
		delete(old, c.ID)
		row := compareRow{ID: c.ID, Label: c.Label, Before: was.Verdict, After: c.Verdict, Change: added}
		if there {
			row.Change = changeOf(was.Verdict, c.Verdict)
		}
		rows = append(rows, row)
	}
	for _, c := range before {
		if _, gone := old[c.ID]; gone {
			rows = append(rows, compareRow{ID: c.ID, Label: c.Label, Before: c.Verdict, Change: removed})
		}
	}
	slices.SortStableFunc(rows, func(a, b compareRow) int {
		return cmp.Compare(slices.Index(changeOrder, a.Change), slices.Index(changeOrder, b.Change))
	})
	return rows
}

// changeOf compares verdicts. A trial that ended with an error proves nothing about the
// skill, so it neither breaks nor fixes a case.
func changeOf(before, after string) string {
	pass, fail := string(runs.Pass), string(runs.Fail)
	switch {
	case before == pass && after == fail:
		return broken
	case before == fail && after == pass:
		return fixed
	case before != pass && before != fail || after != pass && after != fail:
		return unclear
	}
	return same
}

// count counts the changes, selects the rows to show, and tests the difference. Only
// cases that changed tell about a difference, see below.
func (c *compareView) count(rows []compareRow) {
	c.Counts = map[string]int{}
	for _, r := range rows {
		c.Counts[r.Change]++
		if c.Show != "changed" || r.Change != same {
			c.Rows = append(c.Rows, r)
		}
	}
	// McNemar's test, for pairs: cases with the same verdict in both runs do not count.
	c.P = stats.McNemar(c.Counts[broken], c.Counts[fixed])
}

// BesideURL is the page of a case's first trial in both runs.
func (c compareView) BesideURL(caseID string) string {
	return besideURL(c.After.ID, caseID, 1, c.Before.ID, "")
}

// Significant reports whether the change is unlikely to be chance, at the 5 % level.
func (c compareView) Significant() bool { return c.P < 0.05 }

// handleCompareChosen redirects from a suite's list of runs to the comparison of the
// two selected ones.
func (s *Service) handleCompareChosen(v *visit) (answer, error) {
	run, with := v.URL.Query().Get("run"), v.URL.Query().Get("with")
	if run == "" || with == "" {
		return redirect(pathTo("suites", v.PathValue("id")), "Choose two runs to compare."), nil
	}
	return redirect(pathTo("runs", run, "compare")+"?with="+url.QueryEscape(with), ""), nil
}
