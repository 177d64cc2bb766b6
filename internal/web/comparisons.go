package web

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

const comparisonsPerPage = 50

// comparisonsView is the list of comparisons.
type comparisonsView struct {
	Rows []comparisonRow
	Next string // cursor of the next page; "" at the end
}

// comparisonRow is a comparison in a list.
type comparisonRow struct {
	api.Comparison
	SuiteName string
}

// Title names the arms.
func (r comparisonRow) Title() string {
	var names []string
	for _, a := range r.Arms {
		names = append(names, a.Name)
	}
	return strings.Join(names, " · ")
}

// handleComparisons lists comparisons, newest first.
func (s *Service) handleComparisons(v *visit) (answer, error) {
	all, more, err := s.Comparisons.List(v.Context(), v.Caller.OrgID, comparisons.Filter{
		SuiteID: v.URL.Query().Get("suite"), Before: v.URL.Query().Get("cursor"), Limit: comparisonsPerPage,
	})
	if err != nil {
		return answer{}, err
	}
	var ids []string
	for _, c := range all {
		ids = append(ids, c.SuiteID)
	}
	names, err := suites.Names(v.Context(), s.Suites.DB, ids)
	if err != nil {
		return answer{}, err
	}
	progress, err := s.Comparisons.Progress(v.Context(), all...)
	view := comparisonsView{}
	for _, c := range all {
		view.Rows = append(view.Rows, comparisonRow{c.Output(progress[c.ID]), names[c.SuiteID]})
	}
	if more {
		view.Next = all[len(all)-1].ID
	}
	return show("comparisons", "Comparisons", view), err
}

// comparisonView is the page of one comparison.
type comparisonView struct {
	comparisonRow
	Labels   map[string]string // of cases, by id
	Opinions []comparisons.Opinion
	Judged   int // opinions in all
}

// opinionsShown is how many opinions of the judge the page has.
const opinionsShown = 30

// Verdict says in a sentence what a pair showed.
func (comparisonView) Verdict(p api.ComparedPair) string {
	switch p.Verdict {
	case "a_better":
		return p.A + " is better"
	case "b_better":
		return p.B + " is better"
	case "no_difference_shown":
		return "no difference shown"
	}
	return "inconclusive"
}

// Label is the name of a case.
func (v comparisonView) Label(id string) string { return cmp.Or(v.Labels[id], id) }

// Trials links the trials of a case in two arms, side by side.
func (v comparisonView) Trials(p api.ComparedPair, caseID string) string {
	ids := map[string]*string{}
	for _, a := range v.Arms {
		ids[a.Name] = a.RunID
	}
	if ids[p.A] == nil || ids[p.B] == nil {
		return ""
	}
	return besideURL(*ids[p.B], caseID, 1, *ids[p.A], v.ID)
}

// Outputs links the two outputs that the judge has compared, side by side.
func (v comparisonView) Outputs(o comparisons.Opinion) string {
	return besideURL(o.RunB, o.CaseID, o.N, o.RunA, v.ID)
}

// Ratio formats the ratio of what two arms took, e.g. "0.4 (0.3 to 0.6)".
func (comparisonView) Ratio(f *api.EvalFigure) string {
	if f == nil {
		return "–"
	}
	return fmt.Sprintf("%s (%s to %s)", format.Decimal(f.Value), format.Decimal(f.Interval[0]), format.Decimal(f.Interval[1]))
}

// handleComparison shows one comparison.
func (s *Service) handleComparison(v *visit) (answer, error) {
	c, err := s.Comparisons.Get(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	progress, err := s.Comparisons.Progress(v.Context(), c)
	if err != nil {
		return answer{}, err
	}
	view := comparisonView{comparisonRow: comparisonRow{Comparison: c.Output(progress[c.ID])}, Labels: map[string]string{}}
	suite, err := s.Suites.Get(v.Context(), v.Caller.OrgID, c.SuiteID)
	if err != nil && !fault.Is(err, fault.NotFound) { // it may be deleted
		return answer{}, err
	}
	view.SuiteName = suite.Name
	for _, of := range suite.Cases {
		view.Labels[of.ID] = of.Label()
	}
	if c.Preference {
		if view.Opinions, err = s.Comparisons.Opinions(v.Context(), c, ""); err != nil {
			return answer{}, err
		}
		view.Judged = len(view.Opinions)
		view.Opinions = view.Opinions[:min(opinionsShown, len(view.Opinions))]
	}
	return show("comparison", "Comparison: "+view.Title(), view), nil
}

// handleExportComparison sends a comparison as CSV.
func (s *Service) handleExportComparison(v *visit) (answer, error) {
	c, err := s.Comparisons.Get(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	file, err := s.Comparisons.File(v.Context(), c)
	return answer{send: func(w http.ResponseWriter) error {
		file(w, v.Request)
		return nil
	}}, err
}

// handleCancelComparison cancels a comparison.
func (s *Service) handleCancelComparison(v *visit) (answer, error) {
	c, err := s.Comparisons.Cancel(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	return redirect(pathTo("comparisons", c.ID), "The comparison was cancelled."), err
}

// comparisonForm is the input of the form of a new comparison. The lists have a value for each
// of its rows.
type comparisonForm struct {
	Suite      string   `form:"suite"`
	Arms       []string `form:"arm"` // "entry:ID", "source:ID", "none", or "" for a row that isn't used
	Versions   []string `form:"version"`
	Agents     []string `form:"agent"` // "NAME MODEL"
	Trials     string   `form:"trials"`
	Margin     string   `form:"margin"` // in %
	MaxCost    string   `form:"max_cost_usd"`
	Preference bool     `form:"preference"`
}

// armRows is how many arms the form has.
const armRows = 4

// A comparisonArmRow is a row of the form.
type comparisonArmRow struct {
	N                   int // from 1
	Arm, Version, Agent string
}

// newComparisonView is the form.
type newComparisonView struct {
	Form       comparisonForm
	Rows       []comparisonArmRow
	Suites     []suites.Suite
	Sources    []sources.Source
	Entries    []registry.Listed
	EntryTotal int
	AgentList  []choice
}

// handleNewComparison shows the form of a new comparison.
func (s *Service) handleNewComparison(v *visit) (answer, error) {
	form := comparisonForm{Suite: v.URL.Query().Get("suite"), Trials: "3", Margin: "5"}
	if entry := v.URL.Query().Get("entry"); entry != "" {
		form.Arms = []string{"entry:" + entry, "none"}
	}
	view, err := s.newComparisonView(v, form)
	return show("comparison_new", "New comparison", view), err
}

// handleStartComparison starts a comparison and redirects to it.
func (s *Service) handleStartComparison(v *visit) (answer, error) {
	form := decodeForm[comparisonForm](v.Request)
	n, err := form.comparison()
	if err == nil {
		var c comparisons.Comparison
		if c, err = s.Comparisons.Start(v.Context(), v.Caller, n); err == nil {
			return redirect(pathTo("comparisons", c.ID), ""), nil
		}
	}
	view, more := s.newComparisonView(v, form)
	if more != nil {
		return answer{}, more
	}
	return show("comparison_new", "New comparison", view).refused(err)
}

func (s *Service) newComparisonView(v *visit, form comparisonForm) (view newComparisonView, err error) {
	view.Form, view.Rows = form, form.rows()
	for len(view.Rows) < armRows {
		view.Rows = append(view.Rows, comparisonArmRow{N: len(view.Rows) + 1})
	}
	page := store.Page{Limit: entryCount}
	if view.Suites, _, err = s.Suites.List(v.Context(), v.Caller.OrgID, suites.Filter{Page: page}); err != nil {
		return view, err
	}
	if view.Sources, err = s.Sources.List(v.Context(), v.Caller.OrgID, sources.Filter{}); err != nil {
		return view, err
	}
	entries := registry.Filter{Page: page}
	if view.Entries, view.EntryTotal, err = s.Registry.List(v.Context(), v.Caller.OrgID, entries); err != nil {
		return view, err
	}
	view.AgentList, err = s.agentChoices(v.Context(), v.Caller.OrgID, "")
	return view, err
}

// rows are the rows of the form that are used.
func (f comparisonForm) rows() (all []comparisonArmRow) {
	at := func(list []string, i int) string {
		if i < len(list) {
			return strings.TrimSpace(list[i])
		}
		return ""
	}
	for i, arm := range f.Arms {
		if arm != "" {
			all = append(all, comparisonArmRow{len(all) + 1, arm, at(f.Versions, i), at(f.Agents, i)})
		}
	}
	return all
}

// comparison parses the form.
func (f comparisonForm) comparison() (n comparisons.New, err error) {
	n = comparisons.New{SuiteID: f.Suite, Preference: f.Preference}
	if f.Suite == "" {
		return n, fault.Invalid("suite", "Choose a suite.")
	}
	rows := f.rows()
	if len(rows) < comparisons.MinArms {
		return n, fault.Invalid("arm", "Choose at least two things to compare.")
	}
	for _, r := range rows {
		a := comparisons.NewArm{NoSkill: r.Arm == "none"}
		if !a.NoSkill {
			if a.Subject, err = subjectOf(r.Arm, "Choose what to compare."); err != nil {
				return n, err
			}
			a.Subject.Version = r.Version
		}
		if name, model, _ := strings.Cut(r.Agent, " "); name != "" {
			a.Agent = &suites.Agent{Name: name, Model: model}
		}
		n.Arms = append(n.Arms, a)
	}
	if n.Trials, err = strconv.Atoi(cmp.Or(f.Trials, "3")); err != nil || n.Trials < 1 {
		return n, fault.Invalid("trials", "Trials per case: enter 1 to 30.")
	}
	percent, ok := formNumber(cmp.Or(f.Margin, "5"), 100*comparisons.MaxMargin)
	if !ok {
		return n, fault.Invalid("margin", "Margin: enter 0 to 50 %%.")
	}
	margin := percent / 100
	n.Margin = &margin
	if f.MaxCost != "" {
		usd, ok := formNumber(f.MaxCost, maxRunCost)
		if !ok || usd <= 0 {
			return n, fault.Invalid("max_cost_usd", "Spending limit: enter dollars, like 1.50.")
		}
		n.MaxMicros = spend.Micros(&usd)
	}
	return n, nil
}
