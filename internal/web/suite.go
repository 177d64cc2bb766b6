package web

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// suiteView is the page of a suite, or the form of a new one. It shows cases as a
// table of trigger queries, or all of them as JSON.
type suiteView struct {
	suites.Suite
	New     bool
	AsJSON  bool
	Form    suiteForm
	Sources []sources.Source // that a suite can belong to, and be run on
	Entries []registry.Listed
	// EntryTotal is how many entries there are; Entries may be the first only.
	EntryTotal int
	Troubles   []trouble // why the suite cannot be saved or run
	Size                 // of the runs
	Runs       []runs.Run
	Run        runForm
	Agents     []choice // that can work on the cases
	Improve    improvePart
}

// Trend shows the runs of the page over time; nil while there is nothing to compare.
func (s suiteView) Trend() *columnChart {
	over := slices.DeleteFunc(slices.Clone(s.Runs), func(r runs.Run) bool { return r.Summary.PassRate == nil })
	if len(over) < 2 {
		return nil
	}
	slices.SortFunc(over, func(a, b runs.Run) int { return a.CreatedAt.Compare(b.CreatedAt) })
	points := make([]point, len(over))
	for i, r := range over {
		points[i] = point{
			Name: triedBy(r) + ", " + r.CreatedAt.UTC().Format("Jan 2, 15:04 UTC"), Short: cmp.Or(short(14, r.Subject.Label), r.CreatedAt.UTC().Format("Jan 2")),
			Link: pathTo("runs", r.ID), Value: r.Summary.PassRate,
		}
	}
	chart := &columnChart{Head: "Run", Unit: "Pass rate", Open: "Open the run"}
	chart.draw(points, 1, format.Percent)
	return chart
}

// RunTitle names a run by what it tried, and by what came of it.
func (suiteView) RunTitle(r runs.Run) string { return runTitle(r) }

// suiteForm is the input of the form. Version is that of the suite when the form was
// made: a save that would overwrite another person's is refused.
type suiteForm struct {
	Name     string `form:"name"`
	Source   string `form:"source,raw"`
	Verifier string `form:"verifier,raw"`
	NoSkill  bool   `form:"no_skill"`
	Partial  bool   // of an import
	Rows     []caseRow
	Others   int    // cases of other kinds, which have no row
	Text     string `form:"cases,lines"` // the cases as JSON
	Version  int64  `form:"version"`
}

// A caseRow is a trigger query of the form.
type caseRow struct {
	N           string // its index among the suite's cases; "" for a new one
	Query       string
	Expectation suites.Expectation
}

// runForm is the input of the form of a run. All fields are text, as typed, so that
// a refused form shows them again.
type runForm struct{ Subject, Trials, Baseline, Agent, MaxCost string }

// A trouble is a problem of the cases.
type trouble struct {
	Line    int    // of the JSON, or 0
	Where   string // the case, or ""
	Message string
	Excerpt []excerptLine
}

const (
	blankRows   = 3
	runsPerPage = 20
	entryCount  = 200 // entries in the select of a run
	// maxSuite limits the form of a suite: form encoding is larger than JSON.
	maxSuite = 4 << 20
)

// handleNewSuite shows the form of a new suite. Links from other pages choose the
// source and the verifier.
func (s *Service) handleNewSuite(v *visit) (answer, error) {
	source, err := sources.ParseID(v.URL.Query().Get("source"))
	if err != nil {
		source = ""
	}
	view := suiteView{
		New: true, AsJSON: v.URL.Query().Get("as") == "json",
		Form: suiteForm{Source: source, Verifier: string(suites.LLMJudge), Rows: blank(nil), Text: exampleCases, NoSkill: true},
	}
	if v.URL.Query().Get("verifier") == string(suites.Deterministic) {
		view.AsJSON, view.Form.Verifier, view.Form.Text = true, string(suites.Deterministic), exampleChecks
	}
	view.Sources, err = s.Sources.List(v.Context(), v.Caller.OrgID, sources.Filter{})
	return show("suite", "New suite", view), err
}

// exampleCases is the initial JSON of a new suite.
const exampleCases = `[
  {
    "case_kind": "trigger_query",
    "query": "extract the tables from report.pdf",
    "expectation": "should_trigger"
  }
]`

// exampleChecks is the initial JSON of a suite whose cases need no model.
const exampleChecks = `[
  {
    "case_kind": "exact_match",
    "command": ["sh", "-c", "head -n 1 \"$SKILL_DIR/SKILL.md\""],
    "expected": "---",
    "normalize": ["trim"]
  }
]`

// blank adds empty rows for new cases: the form works without JavaScript.
func blank(rows []caseRow) []caseRow {
	for range blankRows {
		rows = append(rows, caseRow{Expectation: suites.ShouldTrigger})
	}
	return rows
}

// handleCreateSuite creates a suite from the form. A refused form is shown again
// with all that was typed.
func (s *Service) handleCreateSuite(v *visit) (answer, error) {
	form, cases, err := readSuiteForm(v, nil)
	var suite suites.Suite
	if err == nil {
		n := suites.NewSuite{
			Name: form.Name, SourceKind: suites.Manual, VerifierKind: suites.VerifierKind(form.Verifier),
			SupportsNoSkill: &form.NoSkill, Cases: cases,
		}
		if form.Source != "" {
			n.SourceID = &form.Source
		}
		suite, err = s.Suites.Create(v.Context(), v.Caller, n)
	}
	if err == nil {
		return redirect(pathTo("suites", suite.ID), "The suite was created."), nil
	}
	view := suiteView{New: true, AsJSON: v.FormValue("as") == "json", Form: form}
	var more error
	if view.Sources, more = s.Sources.List(v.Context(), v.Caller.OrgID, sources.Filter{}); more != nil {
		return answer{}, more
	}
	return view.refuse("New suite", err)
}

// handleSuite shows a suite. A stored suite may have troubles, too: e.g. a case that
// cannot be run.
func (s *Service) handleSuite(v *visit) (answer, error) {
	view, err := s.suiteView(v, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	view.Troubles = troubles(view.Issues, view.Form.Text, view.AsJSON)
	return show("suite", view.Name, view), nil
}

// suiteView reads everything on the page. id is of the path, or of a form that was
// refused.
func (s *Service) suiteView(v *visit, id string) (view suiteView, err error) {
	org := v.Caller.OrgID
	if view.Suite, err = s.Suites.Get(v.Context(), org, id); err != nil {
		return view, err
	}
	view.AsJSON = v.URL.Query().Get("as") == "json"
	view.Form = formOf(view.Suite)
	view.Run = runForm{Trials: "1", Baseline: string(runs.NoBaseline)}
	if view.Sources, err = s.Sources.List(v.Context(), org, sources.Filter{}); err != nil {
		return view, err
	}
	entries := registry.Filter{Page: store.Page{Limit: entryCount}}
	if view.Entries, view.EntryTotal, err = s.Registry.List(v.Context(), org, entries); err != nil {
		return view, err
	}
	if view.Agents, err = s.agentChoices(v.Context(), org, id); err != nil {
		return view, err
	}
	view.PerPage = runsPerPage
	if view.Runs, view.Total, err = s.Runs.List(v.Context(), org, id, runFilter(v, v.list.Rows(runsPerPage))); err != nil {
		return view, err
	}
	view.Run.Subject = view.obvious()
	view.Improve, err = s.improvePart(v, view)
	return view, err
}

// obvious is the skill that a run most likely tests: the one that the suite was made for or
// is named after, or else that of the last run. "" if there is none.
func (s suiteView) obvious() string {
	if s.SourceID != nil {
		return subjectValue(subject.Ref{SourceID: *s.SourceID})
	}
	for _, e := range s.Entries {
		if e.Name == s.Name {
			return subjectValue(subject.Ref{EntryID: e.ID})
		}
	}
	for _, r := range s.Runs {
		if value := subjectValue(r.Subject.Ref); value != "" {
			return value
		}
	}
	return ""
}

// RunStates are the states of runs that can be listed alone.
func (suiteView) RunStates() (all []choice) {
	for _, s := range []runs.Status{runs.Queued, runs.Running, runs.Succeeded, runs.Failed, runs.Cancelled, runs.BudgetSpent} {
		all = append(all, choice{string(s), strings.ReplaceAll(string(s), "_", " ")})
	}
	return all
}

// runFilter chooses the runs that the address of the page asks for.
func runFilter(v *visit, p store.Page) runs.Filter {
	return runs.Filter{Page: p, Status: runs.Status(v.URL.Query().Get("status"))}
}

// formOf returns the form of an existing suite.
func formOf(suite suites.Suite) suiteForm {
	f := suiteForm{
		Name: suite.Name, Verifier: string(suite.VerifierKind), NoSkill: suite.SupportsNoSkill,
		Text: prettyCases(suite.Document), Version: suite.Version,
	}
	if suite.SourceID != nil {
		f.Source = *suite.SourceID
	}
	for i, c := range suite.Cases {
		if c.Kind == suites.TriggerQuery {
			f.Rows = append(f.Rows, caseRow{strconv.Itoa(i), c.Query, c.Expectation})
		} else {
			f.Others++
		}
	}
	f.Rows = blank(f.Rows)
	return f
}

// handleSaveSuite saves the form of a suite. The suite is read first: rows refer to
// its cases by index, which IfVersion makes safe.
func (s *Service) handleSaveSuite(v *visit) (answer, error) {
	id := v.PathValue("id")
	view, err := s.suiteView(v, id)
	if err != nil {
		return answer{}, err
	}
	form, cases, err := readSuiteForm(v, view.Cases)
	if err == nil {
		verifier := suites.VerifierKind(form.Verifier)
		_, err = s.Suites.Update(v.Context(), v.Caller, id, suites.Change{
			Name: &form.Name, VerifierKind: &verifier, SupportsNoSkill: &form.NoSkill, Cases: cases, IfVersion: &form.Version,
		})
	}
	asJSON := v.FormValue("as") == "json"
	if err != nil {
		form.Others = view.Form.Others
		view.Form, view.AsJSON = form, asJSON
		return view.refuse(view.Name, err)
	}
	next := pathTo("suites", id)
	if asJSON {
		next += "?as=json"
	}
	return redirect(next, "The suite was saved."), nil
}

// refuse shows the form again, with the problems at their lines. An error that is no
// problem of the input is returned as it is.
func (s suiteView) refuse(title string, err error) (answer, error) {
	a, err := show("suite", title, nil).refused(err)
	if err != nil {
		return a, err
	}
	s.Troubles = troubles(a.problem.Issues, s.Form.Text, s.AsJSON)
	a.data = s
	return a, nil
}

// readSuiteForm parses the form. Existing cases keep the fields that the form does
// not show.
func readSuiteForm(v *visit, old []suites.Case) (f suiteForm, cases []suites.Fields, err error) {
	f = decodeForm[suiteForm](v.Request)
	// Read the trigger queries and skips empty rows. The three lists are parallel:
	// browsers send the fields in the order of the page.
	places, expectations := v.PostForm["n"], v.PostForm["expectation"]
	var rows []caseRow
	for i, query := range v.PostForm["query"] {
		if strings.TrimSpace(query) == "" || i >= len(places) || i >= len(expectations) {
			continue
		}
		rows = append(rows, caseRow{places[i], strings.TrimSpace(query), suites.Expectation(expectations[i])})
	}
	f.Rows = rows
	if !slices.Contains(verifierKinds, suites.VerifierKind(f.Verifier)) {
		return f, nil, fault.Invalid("verifier", "verifier must be llm_judge, deterministic or structured_rubric")
	}
	if v.FormValue("as") == "json" {
		cases, err = readCases(f.Text)
	} else {
		cases = f.cases(old)
		// For the view as JSON, which shows the same cases if the form is refused.
		document, _ := json.Marshal(cases) // what was decoded can be encoded
		f.Text = prettyCases(document)
		f.Rows = blank(f.Rows)
	}
	if err == nil && len(cases) == 0 {
		err = fault.Invalid("cases_json", "a suite needs at least one case")
	}
	return f, cases, err
}

// cases applies the rows to the suite's cases: other kinds of cases stay, cases
// without a row are removed, and new ones are appended.
func (f suiteForm) cases(old []suites.Case) []suites.Fields {
	var all []suites.Fields
	for i, c := range old {
		if c.Kind != suites.TriggerQuery {
			all = append(all, c.Fields)
			continue
		}
		n := slices.IndexFunc(f.Rows, func(r caseRow) bool { return r.N == strconv.Itoa(i) })
		if n >= 0 {
			all = append(all, f.Rows[n].fields(c.Fields))
		}
	}
	for _, r := range f.Rows {
		if r.N == "" {
			all = append(all, r.fields(nil))
		}
	}
	return all
}

// fields returns a case as JSON has it: fields that the table does not show stay.
func (r caseRow) fields(old suites.Fields) suites.Fields {
	f := suites.Fields{}
	for name, value := range old {
		f[name] = value
	}
	for name, text := range map[string]string{
		"case_kind": string(suites.TriggerQuery), "query": r.Query, "expectation": string(r.Expectation),
	} {
		f[name], _ = json.Marshal(text) // strings can always be encoded
	}
	return f
}

// handleDeleteSuite deletes a suite. Its runs are deleted with it, which the page
// asks to confirm.
func (s *Service) handleDeleteSuite(v *visit) (answer, error) {
	if err := s.Suites.Delete(v.Context(), v.Caller, v.PathValue("id")); err != nil {
		return answer{}, err
	}
	return redirect("/suites", "The suite and its runs were deleted."), nil
}

// handleStartRun starts a run and redirects to it.
func (s *Service) handleStartRun(v *visit) (answer, error) {
	id := v.PathValue("id")
	form := runForm{
		v.FormValue("subject"), v.FormValue("trials"), v.FormValue("baseline"), v.FormValue("agent"),
		strings.TrimSpace(v.FormValue("max_cost_usd")),
	}
	n, err := form.run()
	if err == nil {
		var r runs.Run
		if r, err = s.Runs.Start(v.Context(), v.Caller, id, n); err == nil {
			return redirect(pathTo("runs", r.ID), ""), nil
		}
	}
	view, more := s.suiteView(v, id)
	if more != nil {
		return answer{}, more
	}
	view.Run = form
	view.Troubles = troubles(view.Issues, view.Form.Text, false)
	return show("suite", view.Name, view).refused(err)
}

// subjectOf parses the skill in a form, e.g. "source:ID" or "entry:ID"; missing is
// the error message if there is none.
func subjectOf(text, missing string) (subject.Ref, error) {
	kind, id, _ := strings.Cut(text, ":")
	switch kind {
	case "source":
		return subject.Ref{SourceID: id}, nil
	case "entry":
		return subject.Ref{EntryID: id}, nil
	}
	return subject.Ref{}, fault.Invalid("subject", "%s", missing)
}

// subjectValue is a skill as forms have it, which subjectOf reads; "" for one that isn't
// stored here.
func subjectValue(ref subject.Ref) string {
	switch {
	case ref.SourceID != "":
		return "source:" + ref.SourceID
	case ref.EntryID != "":
		return "entry:" + ref.EntryID
	}
	return ""
}

// run parses the form. Errors name the field, at which the page shows them.
func (f runForm) run() (n runs.NewRun, err error) {
	if n.Subject, err = subjectOf(f.Subject, "Choose a skill to test"); err != nil {
		return n, err
	}
	if n.Trials, err = strconv.Atoi(cmp.Or(f.Trials, "1")); err != nil || n.Trials < 1 || n.Trials > runs.MaxTrials {
		return n, fault.Invalid("trials", "trials must be 1 to %d", runs.MaxTrials)
	}
	n.Baseline = runs.Baseline(cmp.Or(f.Baseline, string(runs.NoBaseline)))
	if !slices.Contains([]runs.Baseline{runs.NoBaseline, runs.NoSkill, runs.PreviousBaseline}, n.Baseline) {
		return n, fault.Invalid("baseline", "baseline must be none, no_skill or previous")
	}
	return n, f.setAgent(&n)
}

// A choice is an option of a form.
type choice struct{ Value, Label string }

// Baselines are the options of the select of baselines. A suite may rule out runs
// without the skill, e.g. if its commands need its files.
func (s suiteView) Baselines() []choice {
	all := []choice{{string(runs.NoBaseline), "nothing"}, {string(runs.PreviousBaseline), "the previous version"}}
	if s.SupportsNoSkill {
		all = append(all, choice{string(runs.NoSkill), "no skill"})
	}
	return all
}

// Verifiers are the options of the select of verifiers. The word in brackets is that
// of the API and of exported files.
func (s suiteView) Verifiers() []choice {
	return []choice{
		{string(suites.LLMJudge), "LLM judge (llm_judge)"},
		{string(suites.Deterministic), "deterministic checks (deterministic)"},
		{string(suites.StructuredRubric), "rubric, not run (structured_rubric)"},
	}
}

// CaseRows are the cases in words.
func (s suiteView) CaseRows() []caseListRow { return caseListRows(s.Cases) }

// Addable are the kinds of cases that can be added.
func (s suiteView) Addable() (kinds []choice) {
	for _, kind := range caseKinds(s.VerifierKind) {
		kinds = append(kinds, choice{string(kind), caseKindName(kind)})
	}
	return kinds
}

// RowNumber returns the number of a row, from 1. Templates cannot add.
func (s suiteView) RowNumber(i int) int { return i + 1 }
