package web

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// improvePart is the section of a suite's page about improve runs. The form is also
// shown if none can be started, with the reason.
type improvePart struct {
	Form  improveForm
	Why   string // why none can be started, or ""
	Runs  []improveRow
	Count int // number of all runs of the suite
}

// improveForm is the input of the form of an improve run, as text.
type improveForm struct{ Subject, Iterations, Holdout, Target, MaxCost string }

// Targets are the parts of a skill that a run may change.
func (improveForm) Targets() []choice {
	return []choice{
		{string(edit.Description), "description: when it is used"},
		{string(edit.Body), "body: what it does"},
		{string(edit.Both), "description and body"},
	}
}

// readImproveForm reads the form from the request, with defaults for empty fields. A
// link may carry the fields, so they are read from the query as well.
func readImproveForm(v *visit) improveForm {
	return improveForm{
		Subject: v.FormValue("subject"), Iterations: cmp.Or(v.FormValue("iterations"), strconv.Itoa(improve.DefaultIterations)),
		Holdout: cmp.Or(v.FormValue("holdout"), strconv.Itoa(defaultHoldoutPercent)),
		Target:  cmp.Or(v.FormValue("target"), string(edit.Description)), MaxCost: strings.TrimSpace(v.FormValue("max_cost_usd")),
	}
}

// An improveRow is an improve run in a list.
type improveRow struct {
	improve.Run
	// Scores on the held-out cases: of the current text, and of the winner.
	Before, After improve.Score
	Tried         int // number of candidates beside the current text
}

const (
	improveShown   = 5 // on the page of a suite
	improvePerPage = 20
	// The form has the share of held-out cases in percent.
	minHoldoutPercent     = int(100 * improve.MinHoldout)
	maxHoldoutPercent     = int(100 * improve.MaxHoldout)
	defaultHoldoutPercent = int(100 * improve.DefaultHoldout)
)

// improvePart reads the improve runs of a suite; view has everything else. The check
// is that of Start, so that a person learns before filling in the form.
func (s *Service) improvePart(v *visit, view suiteView) (part improvePart, err error) {
	part.Form = improveForm{
		Subject: view.Run.Subject, Iterations: strconv.Itoa(improve.DefaultIterations),
		Holdout: strconv.Itoa(defaultHoldoutPercent),
		Target:  string(edit.Description),
	}
	if problem, ok := errors.AsType[*fault.Error](improve.Check(view.Suite, edit.Description)); ok {
		part.Why = problem.Message
	} else if len(view.Sources)+len(view.Entries) == 0 {
		part.Why = "There is no skill to improve. Upload a source or publish an entry first."
	}
	part.Runs, part.Count, err = s.improveRows(v, view.ID, improve.Filter{Page: store.Page{Limit: improveShown}})
	return part, err
}

// improveRows reads a page of improve runs with their scores. Iteration 0 is the
// current text.
func (s *Service) improveRows(v *visit, suiteID string, f improve.Filter) ([]improveRow, int, error) {
	f.SuiteID = suiteID
	runs, total, err := s.Improve.List(v.Context(), v.Caller.OrgID, f)
	rows := make([]improveRow, len(runs))
	for i, r := range runs {
		rows[i] = improveRow{Run: r, Tried: max(0, len(r.Iterations)-1)}
		for _, it := range r.Iterations {
			if it.N == 0 {
				rows[i].Before = it.HeldOut
			}
			if r.Winner != nil && it.N == *r.Winner {
				rows[i].After = it.HeldOut
			}
		}
	}
	return rows, total, err
}

// improveRunsView is a page of a suite's improve runs.
type improveRunsView struct {
	SuiteID, SuiteName string
	Size
	Rows []improveRow
}

// handleImproveRuns lists the improve runs of a suite.
func (s *Service) handleImproveRuns(v *visit) (answer, error) {
	suite, err := s.Suites.Get(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	view := improveRunsView{SuiteID: suite.ID, SuiteName: suite.Name, Size: Size{PerPage: improvePerPage}}
	view.Rows, view.Total, err = s.improveRows(v, suite.ID,
		improve.Filter{Page: v.list.Rows(improvePerPage)})
	return show("improve_runs", "Improve runs of "+suite.Name, view), err
}

// handleStartImprove starts an improve run and redirects to it. A refused form is shown
// on the page of the suite, with its input. Start checks the budget and the suite
// again: both may have changed since the form.
func (s *Service) handleStartImprove(v *visit) (answer, error) {
	id := v.PathValue("id")
	form := readImproveForm(v)
	n, err := form.run(id)
	if err == nil {
		var r improve.Run
		if r, err = s.Improve.Start(v.Context(), v.Caller, n); err == nil {
			return redirect(pathTo("improve-runs", r.ID), ""), nil
		}
	}
	view, more := s.suiteView(v, id)
	if more != nil {
		return answer{}, more
	}
	view.Improve.Form = form
	view.Troubles = troubles(view.Issues, view.Form.Text, false)
	return show("suite", view.Name, view).refused(err)
}

// run parses the form.
func (f improveForm) run(suiteID string) (n improve.NewRun, err error) {
	n.SuiteID = suiteID
	if n.Subject, err = subjectOf(f.Subject, "Choose a skill to improve"); err != nil {
		return n, err
	}
	n.MaxIterations, err = strconv.Atoi(cmp.Or(f.Iterations, strconv.Itoa(improve.DefaultIterations)))
	if err != nil || n.MaxIterations < 1 || n.MaxIterations > improve.MaxIterations {
		return n, fault.Invalid("iterations", "descriptions to try must be 1 to %d", improve.MaxIterations)
	}
	// Whole percents only, as the field says.
	percent, err := strconv.Atoi(cmp.Or(f.Holdout, strconv.Itoa(defaultHoldoutPercent)))
	if err != nil || percent < minHoldoutPercent || percent > maxHoldoutPercent {
		return n, fault.Invalid("holdout", "held out must be %d to %d percent", minHoldoutPercent, maxHoldoutPercent)
	}
	n.Holdout, n.Target = float64(percent)/100, edit.Target(f.Target)
	if f.MaxCost != "" {
		usd, err := strconv.ParseFloat(f.MaxCost, 64)
		// Negated, so that NaN is refused.
		if err != nil || !(usd > 0) {
			return n, fault.Invalid("max_cost_usd", "The most that it may cost must be dollars, like 1.50")
		}
		n.MaxCostUSD = &usd
	}
	return n, nil
}

// newImproveView shows what an improve run would need, before it is started.
// Estimate is nil if the form was refused.
type newImproveView struct {
	SuiteID, SuiteName string
	Form               improveForm
	Skill              string // name of the subject
	Estimate           *improve.Estimate
}

// USD is the estimated cost; nil if it is unknown.
func (v newImproveView) USD() *float64 { return spend.USD(v.Estimate.Micros) }

// Rounds is the maximum number of rounds.
func (v newImproveView) Rounds() string { return v.Form.Iterations }

// handleNewImprove estimates an improve run. A reason for which it could not be started
// is shown as a problem of the form.
func (s *Service) handleNewImprove(v *visit) (answer, error) {
	suite, err := s.Suites.Get(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	view := newImproveView{SuiteID: suite.ID, SuiteName: suite.Name, Form: readImproveForm(v)}
	page := func() answer { return show("improve_new", "Improve with "+suite.Name, view) }
	n, err := view.Form.run(suite.ID)
	if err != nil {
		return page().refused(err)
	}
	// A subject that is gone is a page of its own: the form could not be mended.
	skill, err := s.Runs.Subjects().Find(v.Context(), v.Caller.OrgID, n.Subject)
	if err != nil {
		return answer{}, err
	}
	view.Skill = skill.Name
	estimate, err := s.Improve.Estimate(v.Context(), v.Caller, n)
	if err != nil {
		return page().refused(err)
	}
	view.Estimate = &estimate
	return page(), nil
}

// improveRunView is one improve run. The winner's change is shown as a diff, so that
// a person reads what to approve.
type improveRunView struct {
	improve.Run
	SuiteName string
	Over      bool // it has ended
	Rows      []candidate
	Current   *candidate  // nil until it is scored
	Best      *candidate  // the winner; nil without one
	Diff      diff        // of the winner's SKILL.md, or of its description in runs that changed nothing else
	Proof     *proof      // nil until the winner was tried on the last part
	Edits     []edit.Edit // edits of the winner, with reasons
}

// Limit is the spending limit; nil if there is none.
func (v improveRunView) Limit() *float64 { return spend.USD(v.Terms.MaxMicros) }

// A candidate is a text with its scores.
type candidate struct {
	improve.Iteration
	Text string // "" if the model wrote nothing usable
	Won  bool
}

// handleImproveRun shows one improve run, with its progress or its result.
func (s *Service) handleImproveRun(v *visit) (answer, error) {
	r, err := s.Improve.Get(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	suite, err := s.Suites.Get(v.Context(), v.Caller.OrgID, r.SuiteID)
	view := improveRunView{
		// The error of the suite is returned at the end, with whatever was read.
		Run: r, SuiteName: suite.Name, Over: r.FinishedAt != nil,
		Rows: make([]candidate, len(r.Iterations)),
	}
	for i, it := range r.Iterations {
		c := candidate{Iteration: it, Won: r.Status == runs.Succeeded && *r.Winner == it.N}
		if it.Description != nil {
			c.Text = *it.Description
		}
		view.Rows[i] = c
		if it.N == 0 {
			view.Current = &view.Rows[i]
		}
		if r.Winner != nil && *r.Winner == it.N {
			view.Best = &view.Rows[i]
			view.Diff = diffOfTexts("description", r.Description, c.Text)
		}
	}
	if p := r.Proof; p != nil {
		view.Proof = &proof{Proved: p.Proved, Proof: proposals.Proof{
			Cases: p.Cases, Current: p.Current, Winner: p.Winner, Better: p.Better, Worse: p.Worse, P: &p.P,
			Interval: &p.Interval,
		}}
	}
	if view.Best != nil {
		view.Edits = view.Best.Edits
	}
	// Only the proposal has the diff of a whole SKILL.md.
	if r.ProposalID != nil && r.Terms.Target != edit.Description {
		p, err := s.Proposals.Get(v.Context(), v.Caller.OrgID, *r.ProposalID)
		if err != nil {
			return answer{}, err
		}
		view.Diff = newDiff(p.Diff)
		view.Diff.Command = "whetstone proposal show " + p.ID
	}
	return show("improve_run", "Improve run of "+r.Subject.Name, view), err
}

// scoreText formats how many of the cases with a verdict passed, e.g. "4 of 5".
// Cases without a verdict, e.g. after an error of the model, are not in it.
func scoreText(s improve.Score) string {
	if s.Cases == 0 {
		return format.None
	}
	return fmt.Sprintf("%d of %d", s.Passed, s.Cases)
}

// handleImproveEvents streams the progress of an improve run (SSE). Last-Event-ID
// continues after a lost connection.
func (s *Service) handleImproveEvents(v *visit) (answer, error) {
	events, err := s.Improve.Events(v.Context(), v.Caller.OrgID, v.PathValue("id"), v.Header.Get("Last-Event-ID"))
	return stream(v, events), err
}

// handleCancelImprove cancels an improve run. A run that has ended already is an
// error, which the page shows.
func (s *Service) handleCancelImprove(v *visit) (answer, error) {
	r, err := s.Improve.Cancel(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return redirect(pathTo("improve-runs", r.ID), "The improve run was cancelled. Finished iterations are kept."), nil
}

// improveNote is the writer's reason for a candidate, or "" if its edits say the same.
func improveNote(reason string, edits []edit.Edit) string {
	if len(edits) == 1 && edits[0].Why == reason {
		return ""
	}
	return reason
}
