package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/trials"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// runView is a run with a page of its cases. Counts and AllTrials are of the whole
// run, whatever the page shows of it.
type runView struct {
	runs.Run
	SuiteName string
	Over      bool
	Show      string // failed, or "" for all
	Only      bool   // the page shows a single case
	Counts    map[string]int
	CaseCount int
	Shown     Size // the cases that Show selects
	Cases     []runCase
	AllTrials []runs.Trial // of all cases, not only of those on the page
	Others    []runs.Run   // other runs of the suite, to compare with
	Next      nextSteps
}

// nextSteps lead from a failed case to what mends it.
type nextSteps struct {
	suite   suites.Suite
	Improve string // URL of an improve run of the run's skill; "" if the suite can't improve it
}

func newNextSteps(r runs.Run, suite suites.Suite) nextSteps {
	n := nextSteps{suite: suite}
	if ref := subjectValue(r.Subject.Ref); ref != "" && improve.Check(suite, edit.Description) == nil {
		n.Improve = pathTo("suites", suite.ID, "improve") + "?" + url.Values{"subject": {ref}}.Encode()
	}
	return n
}

// Edit is the URL of the form of a case; "" if it was removed from the suite since.
func (n nextSteps) Edit(caseID string) string {
	i := slices.IndexFunc(n.suite.Cases, func(c suites.Case) bool { return c.ID == caseID })
	switch {
	case i < 0:
		return ""
	case !editable(n.suite.Cases[i]):
		return pathTo("suites", n.suite.ID) + "?as=json"
	}
	return pathTo("suites", n.suite.ID, "cases", strconv.Itoa(i))
}

// A runCase is a case with its result. It is the case as the run tried it: the suite
// may have changed since.
type runCase struct {
	ID, Label, Kind string
	Asked, Expected string
	Expectation     string // of a trigger query, or ""
	Verdict         string // "" while there is none
	Baseline        string // "" without one
	Score           *float64
	Trials          []runs.Trial
}

const (
	casesPerPage = 50
	// shownTail limits the output of each trial, and shownTails that of all trials
	// on a page, in bytes.
	shownTail  = 4 << 10
	shownTails = 512 << 10
	// labelLength limits the label of a case, in characters.
	labelLength = 200
)

// handleRun shows a run. ?case=ID shows a single case with all of its output.
func (s *Service) handleRun(v *visit) (answer, error) {
	org, only := v.Caller.OrgID, v.URL.Query().Get("case")
	report, err := s.Runs.Report(v.Context(), org, v.PathValue("id"), only)
	if err != nil {
		return answer{}, err
	}
	suite, err := s.Suites.Get(v.Context(), org, report.SuiteID)
	if err != nil {
		return answer{}, err
	}
	view := runView{
		Run: report.Run, SuiteName: suite.Name, Over: report.FinishedAt != nil,
		Show: v.URL.Query().Get("show"), Only: only != "",
		CaseCount: len(report.Cases), Next: newNextSteps(report.Run, suite),
	}
	for _, r := range report.Results {
		view.AllTrials = append(view.AllTrials, r.Trials...)
	}
	view.choose(readRunCases(report), v.offset(casesPerPage))
	// The newest ones: older runs can be chosen on the page of the suite.
	others, _, err := s.Runs.List(v.Context(), org, suite.ID, runs.Filter{Page: store.Page{Limit: runsPerPage}})
	view.Others = slices.DeleteFunc(others, func(r runs.Run) bool { return r.ID == view.ID })
	return show("run", runTitle(view.Run), view), err
}

// triedBy is the skill that a run tried, e.g. "pdf 1.0.1".
func triedBy(r runs.Run) string { return strings.TrimSpace(r.Subject.Name + " " + r.Subject.Label) }

// runTitle is the subject and what came of the run, e.g. "pdf 1.0.1: 30 % of 47", so that
// runs of one day differ.
func runTitle(r runs.Run) string {
	title := triedBy(r)
	if s := r.Summary; r.FinishedAt != nil && s.PassRate != nil {
		title += fmt.Sprintf(": %s of %d", format.Percent(s.PassRate), s.Passed+s.Failed)
	}
	return title
}

// LiftText is how sure the difference to the baseline is. The template calls it only
// if there is a baseline.
func (r runView) LiftText() string {
	l := r.Summary.Lift
	return fmt.Sprintf("%+.0f to %+.0f points (95 %%), p = %.2g", 100*l.Interval[0], 100*l.Interval[1], l.P)
}

// Ratios are what the skill takes, compared with the baseline.
func (r runView) Ratios() (all []choice) {
	l := r.Summary.Lift
	if l == nil {
		return nil
	}
	for _, of := range []struct {
		label string
		ratio *stats.Estimate
	}{{"Cost ratio", l.Cost}, {"Tokens ratio", l.Tokens}, {"Turns ratio", l.Turns}, {"Duration ratio", l.Duration}} {
		if e := of.ratio; e != nil {
			all = append(all, choice{
				fmt.Sprintf("%.2f times the baseline's (%.2f to %.2f)", e.Value, e.Interval[0], e.Interval[1]), of.label,
			})
		}
	}
	return all
}

// choose counts the cases by verdict and keeps the requested page.
func (r *runView) choose(all []runCase, offset int) {
	r.Counts = map[string]int{}
	for _, c := range all {
		r.Counts[cmp.Or(c.Verdict, "pending")]++
	}
	// The counts are of all cases, so that they do not change with the filter.
	passed := func(c runCase) bool { return c.Verdict != string(runs.Fail) && c.Verdict != string(runs.Error) }
	if r.Show == "failed" {
		all = slices.DeleteFunc(all, passed)
	}
	// Failures first. While a run goes on, its rows stay where they are.
	if r.Over {
		all = append(slices.DeleteFunc(slices.Clone(all), passed), slices.DeleteFunc(all, func(c runCase) bool { return !passed(c) })...)
	}
	r.Shown = Size{Total: len(all), PerPage: casesPerPage}
	begin := min(offset, len(all))
	r.Cases = all[begin:min(begin+casesPerPage, len(all))]
	if !r.Only {
		truncateTails(r.Cases)
	}
}

// readRunCases pairs cases with their results, which have the same order.
func readRunCases(report runs.Report) []runCase {
	all := make([]runCase, len(report.Cases))
	for i, c := range report.Cases {
		got := report.Results[i]
		all[i] = runCase{
			ID: c.ID, Label: caseLabel(c), Kind: string(c.Kind), Asked: short(shownTail, askedByCase(c)),
			Expected:    short(shownTail, expectedByCase(c)),
			Expectation: strings.ReplaceAll(string(c.Expectation), "_", " "),
			Verdict:     verdictText(got.Verdict), Baseline: verdictText(got.Baseline), Score: got.Score, Trials: got.Trials,
		}
	}
	return all
}

// caseLabel is what a case is called on pages.
func caseLabel(c suites.Case) string { return short(labelLength, c.Title()) }

// verdictText is "" while a case has not been decided.
func verdictText(v *runs.Verdict) string {
	if v == nil {
		return ""
	}
	return string(*v)
}

// truncateTails keeps a page of many trials small; the page of one case has all. The
// end of an output says most about a failure.
func truncateTails(cases []runCase) {
	trials := 0
	for _, c := range cases {
		trials += len(c.Trials)
	}
	size := min(shownTail, shownTails/max(1, trials))
	for _, c := range cases {
		for i, t := range c.Trials {
			c.Trials[i].OutputTail = text.Tail(t.OutputTail, size)
		}
	}
}

// Listed is the size of the list of cases.
func (r runView) Listed() Size { return r.Shown }

// TrialURL is the page of a trial of a case.
func (r runView) TrialURL(caseID string, t runs.Trial) string {
	return trialURL(trials.Key{RunID: r.ID, CaseID: caseID, Arm: t.Arm, N: t.N})
}

// BesideURL is the page of a case's first trial beside that of the baseline; "" if
// there is none.
func (r runView) BesideURL(caseID string) string {
	if len(r.Baseline.Arms()) < 2 {
		return ""
	}
	return besideURL(r.ID, caseID, 1, "", "")
}

// Again is the form of the same run on the skill as it is now; nil for one that can't be
// started from here.
func (r runView) Again() *runForm {
	f := runForm{Subject: subjectValue(r.Subject.Ref), Trials: strconv.Itoa(r.Trials), Baseline: string(r.Baseline)}
	if !r.Over || r.Imported != nil || r.Catalog != nil || f.Subject == "" {
		return nil
	}
	if a := r.Terms.Agent; a != nil {
		f.Agent = a.Name + " " + a.Model
	}
	if usd := r.MaxUSD(); usd != nil {
		f.MaxCost = strconv.FormatFloat(*usd, 'f', -1, 64)
	}
	return &f
}

// Failing counts the cases that failed or ended with an error.
func (r runView) Failing() int { return r.Counts["fail"] + r.Counts["error"] }

// handleRunEvents streams the events of a run (SSE), as the API does.
func (s *Service) handleRunEvents(v *visit) (answer, error) {
	events, err := s.Runs.Events(v.Context(), v.Caller.OrgID, v.PathValue("id"), v.Header.Get("Last-Event-ID"))
	return stream(v, events), err
}

// handleCancelRun cancels a run. Trials that are under way are stopped; their cases
// stay without a verdict.
func (s *Service) handleCancelRun(v *visit) (answer, error) {
	r, err := s.Runs.Cancel(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return redirect(pathTo("runs", r.ID), "The run was cancelled. Finished trials are kept."), nil
}

// CaseTotal is the number of the run's cases, even if the page shows one.
func (r runView) CaseTotal() int {
	s := r.Summary
	return s.Passed + s.Failed + s.Errors + s.Skipped
}
