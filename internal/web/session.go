package web

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// traceView is the page of one session. Forms are on the first page only: the
// following ones are read by a script, and added to it.
type traceView struct {
	sessionRow
	Turns     []sessionTurn // a page of them
	Verdicts  []verdict
	Forms     []verdictForm // for people who may grade
	Truncated bool
	First     bool   // it is the first page
	More      string // URL of the next page of the timeline; "" on the last
	Case      *caseForm
	// What a reader looks for first; "" unless it is kept and may be read. Prompt is of
	// sessionRow.
	Answer string    // the last of the agent's on this page
	Failed []verdict // those that did not pass and say why
}

// A sessionTurn is a prompt, or an answer of an agent's model in a trial, with what
// followed. Its bars have one scale. Later marks a part of a turn that began on the
// page before.
type sessionTurn struct {
	Number int    // from 1; 0 for what precedes the first one
	Before string // heading for 0
	Later  bool
	Steps  []stepRow
}

// A stepRow is an event for display. It is computed for the page; nothing of it is
// stored.
type stepRow struct {
	sessions.Step
	Offset string // since the session began
	Link   string // of the skill; "" without one
	Bar    *span  // within its turn; nil if the turn has no length
}

// A span is a part of a whole, both in percent.
type span struct{ From, Length float64 }

// Cost is what the event cost, in dollars.
func (r stepRow) Cost() *float64 { return dollars(r.Micros) }

// TokenCount is Tokens, which are known.
func (r stepRow) TokenCount() int64 { return *r.Tokens }

// Took is how long it took, "" if that is unknown.
func (r stepRow) Took() string {
	if r.Duration == nil {
		return ""
	}
	return durationText(*r.Duration)
}

// Failed reports that it did not work. A skill that was not activated did not fail.
func (r stepRow) Failed() bool { return r.OK != nil && !*r.OK && r.Kind != sessions.Activation }

// Did says what happened. Outcomes are facts about a session, e.g. that tests
// passed, and answered by yes or no.
func (r stepRow) Did() string {
	switch {
	case r.Kind == sessions.Activation && r.OK != nil && !*r.OK:
		return "not activated"
	case r.Kind == sessions.Activation:
		return "activated"
	case r.Kind == sessions.Graded && sessions.IsOutcome(r.Name) && r.Failed():
		return "no"
	case r.Kind == sessions.Graded && sessions.IsOutcome(r.Name):
		return "yes"
	case r.Kind == sessions.Graded && r.Failed():
		return "graded: failed"
	case r.Kind == sessions.Graded:
		return "graded: passed"
	case r.Failed():
		return "failed"
	}
	return ""
}

const (
	// stepsShown is how many events one page of the timeline has: they are read on
	// while a person scrolls.
	stepsShown = 200
	// minBar is the length of the bar of an event without a duration, in percent.
	minBar = .6
)

// handleSession shows a session. A link to a session of a trial, e.g. from an
// export, leads to the trial.
func (s *Service) handleSession(v *visit) (answer, error) {
	view, err := s.traceView(v)
	if fault.Is(err, fault.NotFound) {
		return s.trialOfSession(v, v.PathValue("session"))
	}
	return show("session", "Session", view), err
}

func (s *Service) traceView(v *visit) (view traceView, err error) {
	q := v.URL.Query()
	d, err := s.Sessions.Get(v.Context(), v.Caller, v.PathValue("session"), q.Get("cursor"), stepsShown)
	if err != nil {
		return view, err
	}
	// The number of the last turn before this page, so that counting goes on.
	turn, _ := strconv.Atoi(q.Get("turn")) // 0 on the first page
	view = traceView{sessionRow: sessionRow{Session: d.Session}, Truncated: d.Truncated, First: q.Get("cursor") == ""}
	view.Turns = newTurns(d, turns{
		number: max(turn, 0), begins: sessions.Prompt, before: "Before the first prompt", texts: textBudget, linked: true,
	})
	if view.Verdicts, err = s.verdicts(v, d); err != nil {
		return view, err
	}
	if view.First {
		if err := s.addWords(v, d, &view); err != nil {
			return view, err
		}
	}
	if d.Next != "" {
		// There is a turn: a page with a next one is full.
		last := view.Turns[len(view.Turns)-1].Number
		view.More = pathTo("sessions", d.SessionID) + "?" + url.Values{"cursor": {d.Next}, "turn": {strconv.Itoa(last)}}.Encode()
	}
	if view.First && v.Caller.May(access.Write) {
		view.Forms = verdictForms(v.Caller, d)
		view.Case, err = s.newCaseForm(v, d)
	}
	return view, err
}

// addWords adds what was asked and answered, and why grades failed.
func (s *Service) addWords(v *visit, d sessions.Detail, view *traceView) error {
	view.Prompt = suggestions.QueryOf(d)
	for _, step := range d.Steps {
		if step.Kind == sessions.Response && step.Text != nil {
			view.Answer = *step.Text
		}
	}
	for _, g := range view.Verdicts {
		if g.PassRate < 1e9 && (g.Reason != "" || len(g.Evidence) > 0) {
			view.Failed = append(view.Failed, g)
		}
	}
	if view.Prompt != "" {
		return nil
	}
	shared, err := s.Overview.Prompts(v.Context(), v.Caller.OrgID, []sessions.Session{d.Session})
	view.Prompt = shared[d.ID]
	return err
}

// turns is how a timeline is divided. Sessions are divided by prompts, trials by
// answers: a trial has one prompt.
type turns struct {
	number int           // of the turn in which the page begins; 0 before the first
	begins sessions.Kind // what a turn begins with
	before string        // heading of what precedes the first one
	texts  budget
	linked bool // skills are linked to their pages
}

// newTurns groups a page of events by turns. The budget of texts is for the page, so
// it is used up in the order of events.
func newTurns(d sessions.Detail, by turns) (all []sessionTurn) {
	for i, step := range d.Steps {
		begins := step.Kind == by.begins
		if begins {
			by.number++
		}
		// The first event of a page begins a turn in any case.
		if i == 0 || begins {
			all = append(all, sessionTurn{Number: by.number, Before: by.before, Later: !begins && by.number > 0})
		}
		step.Text = by.texts.shorten(step.Text)
		row := stepRow{Step: step, Offset: offsetText(step.At.Sub(d.StartedAt))}
		if by.linked && step.Kind == sessions.Activation && step.Name != "" {
			row.Link = pathTo("skills", step.Name)
		}
		t := &all[len(all)-1]
		t.Steps = append(t.Steps, row)
	}
	for _, t := range all {
		t.draw()
	}
	return all
}

// draw gives the events of a turn their bars.
func (t sessionTurn) draw() {
	from, to := t.Steps[0].At, t.Steps[0].At
	for _, r := range t.Steps {
		if r.Kind == sessions.Graded { // which happens long after
			continue
		}
		if end := r.end(); end.After(to) {
			to = end
		}
	}
	whole := to.Sub(from).Seconds()
	// All at one moment: bars would mean nothing.
	if whole <= 0 {
		return
	}
	for i, r := range t.Steps {
		if r.Kind == sessions.Graded {
			continue
		}
		bar := span{From: 100 * r.At.Sub(from).Seconds() / whole, Length: minBar}
		bar.Length = max(minBar, 100*r.end().Sub(r.At).Seconds()/whole)
		// A bar of the minimal length at the end must not stick out.
		bar.From = min(bar.From, 100-bar.Length)
		t.Steps[i].Bar = &bar
	}
}

// end is the begin where the duration is unknown.
func (r stepRow) end() time.Time {
	if r.Duration == nil {
		return r.At
	}
	return r.At.Add(*r.Duration)
}

// offsetText formats the time since a session began, e.g. "+2:05" and "+1:02:05".
func offsetText(d time.Duration) string {
	seconds := int64(max(d, 0) / time.Second)
	text := strconv.FormatInt(seconds/60%60, 10)
	if hours := seconds / 3600; hours > 0 {
		text = strconv.FormatInt(hours, 10) + ":" + twoDigits(seconds/60%60)
	}
	return "+" + text + ":" + twoDigits(seconds%60)
}

func twoDigits(n int64) string {
	if n < 10 {
		return "0" + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// budget is how many bytes of texts a page may have, which keeps it below 200 kB. A
// session may have thousands of long texts, and the page is read on phones, too.
type budget int

const textBudget budget = 50_000

// Characters of a text, while the budget lasts and then.
const (
	longText  = 2000
	shortText = 80
)

// shorten truncates a text. The API has all of it.
func (b *budget) shorten(text *string) *string {
	if text == nil {
		return nil
	}
	cut := short(longText, *text)
	// Never nothing: the beginning tells what the text was about.
	if len(cut) > int(*b) {
		cut = short(shortText, *text)
	}
	*b -= budget(len(cut))
	return &cut
}

// caseForm makes a test case of a session. The person may change the query before it
// becomes a case.
type caseForm struct {
	Query   string           // the first prompt, if it is kept
	Skills  []sessions.Skill // that the case can be about: what failed first; without any there is no form
	Skill   string           // id of the chosen one
	Targets []caseTarget
	Chosen  string // the value of a target
	Name    string // of a new suite
	Expect  string // should_trigger or should_not_trigger
}

// A caseTarget is where cases can go: to a suite, to a new one, or to the drafts of a source.
type caseTarget struct {
	Value, Label string // Value is the id of the suite or of the source
	Source       bool
}

const (
	// maxCaseSuites limits the suites that a form offers.
	maxCaseSuites = 100
	// newSuite is the value of the target that is a suite to be made.
	newSuite = "new"
)

// newCaseForm offers the skills that took part in the session, and all suites that take a
// prompt: first the default.
func (s *Service) newCaseForm(v *visit, d sessions.Detail) (*caseForm, error) {
	form := &caseForm{Query: suggestions.QueryOf(d), Expect: "should_trigger", Chosen: newSuite}
	for _, failed := range []bool{true, false} {
		for _, k := range d.Skills {
			if suggestions.Took(k) && failed == (k.Outcome == sessions.Failed) {
				form.Skills = append(form.Skills, k)
			}
		}
	}
	if len(form.Skills) == 0 {
		return form, nil
	}
	form.Skill, form.Name = form.Skills[0].SkillID, form.Skills[0].Name
	linked, err := s.Sources.List(v.Context(), v.Caller.OrgID, sources.Filter{})
	if err != nil {
		return nil, err
	}
	linked = slices.DeleteFunc(linked, func(src sources.Source) bool {
		return src.SkillID == nil || !slices.ContainsFunc(form.Skills, func(k sessions.Skill) bool { return k.SkillID == *src.SkillID })
	})
	of := []string{}
	for _, src := range linked {
		if *src.SkillID == form.Skill {
			of = append(of, src.ID)
		}
	}
	if form.Targets, form.Chosen, err = s.suiteTargets(v, of, form.Name); err != nil {
		return nil, err
	}
	for _, src := range linked {
		form.Targets = append(form.Targets, caseTarget{src.ID, "drafts of " + src.Label, true})
	}
	return form, nil
}

// suiteTargets are the suites that take a prompt, newest first, and a new one. It chooses
// the default of the sources, or of a skill with the name.
func (s *Service) suiteTargets(v *visit, sourceIDs []string, name string) (all []caseTarget, chosen string, err error) {
	chosen, err = s.Suites.NewestFor(v.Context(), s.Suites.DB, v.Caller.OrgID, sourceIDs, name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, "", err
	}
	found, _, err := s.Suites.List(v.Context(), v.Caller.OrgID,
		suites.Filter{VerifierKind: suites.LLMJudge, Page: store.Page{Limit: maxCaseSuites}})
	for _, suite := range found {
		all = append(all, caseTarget{Value: suite.ID, Label: "suite " + suite.Name})
	}
	return append(all, caseTarget{Value: newSuite, Label: "a new suite"}), cmp.Or(chosen, newSuite), err
}

// chosenTarget reads the target of a form. The targets are computed again: the form may be
// old, or made up.
func chosenTarget(v *visit, all []caseTarget) (to suggestions.Destination, sourceID string, err error) {
	value := v.FormValue("target")
	i := slices.IndexFunc(all, func(t caseTarget) bool { return t.Value == value })
	switch {
	case i < 0:
		err = fault.Invalid("target", "Choose where the case goes")
	case all[i].Source:
		sourceID = value
	case value != newSuite:
		to.SuiteID = value
	default:
		if to.NewName = strings.TrimSpace(v.FormValue("name")); to.NewName == "" {
			err = fault.Invalid("name", "Enter a name for the new suite")
		}
	}
	return to, sourceID, err
}

// handleCreateCase makes a case of a session, and shows the way to it.
func (s *Service) handleCreateCase(v *visit) (answer, error) {
	view, err := s.traceView(v)
	if err != nil {
		return answer{}, err
	}
	form := view.Case
	form.Query, form.Chosen, form.Name = v.FormValue("query"), v.FormValue("target"), v.FormValue("name")
	form.Expect, form.Skill = cmp.Or(v.FormValue("expectation"), form.Expect), cmp.Or(v.FormValue("skill"), form.Skill)
	to, sourceID, err := chosenTarget(v, form.Targets)
	var made suggestions.MadeCase
	switch {
	case err != nil:
	case strings.TrimSpace(form.Query) == "":
		err = fault.Invalid("query", "Type the prompt")
	default:
		made, err = s.Suggestions.CreateCase(v.Context(), v.Caller, suggestions.SessionCase{
			SessionID: view.SessionID, Skill: form.Skill, SourceID: sourceID, To: to, Query: form.Query,
			ShouldNotTrigger: form.Expect != "should_trigger",
		})
	}
	if err != nil {
		return show("session", "Session", view).refused(err)
	}
	back := pathTo("sessions", view.SessionID)
	if made.Suite == nil {
		return redirect(back, "The case is a draft.").linking(pathTo("sources", sourceID)+"#drafts", "Add the drafts to a suite"), nil
	}
	return redirect(back, "The case was added to "+made.Suite.Name+".").
		linking(pathTo("suites", made.Suite.ID, "cases", strconv.Itoa(made.N)), "Open the case"), nil
}
