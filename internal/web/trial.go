package web

import (
	"cmp"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/trials"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/workdir"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// trialView is the page of one trial. Others are all trials of the case, in both
// arms.
type trialView struct {
	trialColumn
	SuiteName string
	Label     string // of the case
	First     bool   // it is the first page of the timeline
	Others    []trialLink
	Beside    string // URL of the page with both arms; "" without a baseline
	Next      nextSteps
}

// A trialColumn is a trial for display.
type trialColumn struct {
	trials.Trial
	Missing bool   // there is no such trial
	Title   string // e.g. "With the skill", "Before: with the skill 1.0.0"
	URL     string
	Files   []trialFile
	Turns   []sessionTurn // a page of them
	More    string        // URL of the next page of the timeline, or of all of it; "" on the last
}

// A trialFile is a file that an agent changed. New files have a text, changed ones a
// diff, and binary ones neither.
type trialFile struct {
	workdir.File
	Lines []diffLine // of its diff, or of its text
	Cut   bool       // they are not all
}

// Bytes is the size of the file for people.
func (f trialFile) Bytes() string { return quota.Bytes(f.Size).Short() }

// A trialLink leads to another trial of the case.
type trialLink struct {
	Label, URL string
	Current    bool
}

// Limits of the page of a trial, and of each half of a page with two.
const (
	fileBytes   = 40_000 // of all files
	stepsBeside = 100
)

// Cost is what all models cost in the trial, in dollars; nil if that is unknown.
func (c trialColumn) Cost() *float64 {
	if c.Evidence.Cost == nil {
		return nil
	}
	return c.Evidence.Cost.USD()
}

// HasCost reports whether a model took part.
func (c trialColumn) HasCost() bool { return c.Evidence.Cost != nil }

// Took is how long the trial took.
func (c trialColumn) Took() string { return durationText(c.Duration) }

// ToolCalls and ToolErrors are those of the agent.
func (c trialColumn) ToolCalls() int64 { return c.Session.ToolCalls }

// ToolErrors are the calls that failed.
func (c trialColumn) ToolErrors() int64 { return c.Session.ToolErrors }

// Truncated reports that there were more events than are kept.
func (c trialColumn) Truncated() bool { return c.Session.Truncated }

// trialKey is the trial that the address names. An unknown arm or number finds no
// trial, which is the same error for all.
func trialKey(v *visit) trials.Key {
	n, _ := strconv.Atoi(v.PathValue("n")) // 0 is no trial
	return trials.Key{
		RunID: v.PathValue("id"), CaseID: v.URL.Query().Get("case"), N: n,
		Arm: cmp.Or(runs.Arm(v.URL.Query().Get("variant")), runs.WithSkill),
	}
}

// trialURL returns the URL of the page of a trial. Ids of cases may hold any
// character, so they are in the query and not in the path.
func trialURL(k trials.Key) string {
	return pathTo("runs", k.RunID, "trials", strconv.Itoa(k.N)) + "?" +
		url.Values{"case": {k.CaseID}, "variant": {string(k.Arm)}}.Encode()
}

// besideURL returns the URL of the page with a trial beside that of the baseline, or
// of another run, which may be the arm of a comparison.
func besideURL(runID, caseID string, n int, with, comparison string) string {
	q := url.Values{"case": {caseID}}
	if with != "" {
		q.Set("with", with)
	}
	if comparison != "" {
		q.Set("comparison", comparison)
	}
	return pathTo("runs", runID, "trials", strconv.Itoa(n), "compare") + "?" + q.Encode()
}

// handleTrial shows one trial. Other trials of the case are listed whether or not
// they have run.
func (s *Service) handleTrial(v *visit) (answer, error) {
	key, q := trialKey(v), v.URL.Query()
	t, err := s.Trials.Get(v.Context(), v.Caller.OrgID, key)
	if err != nil {
		return answer{}, err
	}
	suite, err := s.Suites.Get(v.Context(), v.Caller.OrgID, t.Run.SuiteID)
	if err != nil {
		return answer{}, err
	}
	turn, _ := strconv.Atoi(q.Get("turn")) // 0 on the first page
	view := trialView{SuiteName: suite.Name, Label: caseLabel(t.Case), First: q.Get("cursor") == "", Next: newNextSteps(t.Run, suite)}
	if view.trialColumn, err = newTrialColumn(t, key, q.Get("cursor"), max(turn, 0), stepsShown, textBudget); err != nil {
		return answer{}, err
	}
	arms := t.Run.Baseline.Arms()
	for n := range t.Run.Trials {
		for _, arm := range arms {
			other := trials.Key{RunID: key.RunID, CaseID: key.CaseID, Arm: arm, N: n + 1}
			view.Others = append(view.Others, trialLink{
				armText(arm) + ", trial " + strconv.Itoa(n+1),
				trialURL(other), other == key,
			})
		}
	}
	if len(arms) > 1 {
		view.Beside = besideURL(key.RunID, key.CaseID, key.N, "", "")
	}
	return show("trial", "Trial of "+view.Label, view), nil
}

// newTrialColumn shows a page of a trial's timeline, which begins in a turn with a
// number.
func newTrialColumn(t trials.Trial, key trials.Key, cursor string, turn, steps int, texts budget) (c trialColumn, err error) {
	c = trialColumn{Trial: t, Title: armTitle(t), URL: trialURL(key)}
	// A trial's session is stored as a whole, and paged here.
	if t.Session, err = sessions.Page(t.Session, cursor, steps); err != nil {
		return c, err
	}
	c.Turns = newTurns(t.Session, turns{number: turn, begins: sessions.Response, before: "The task", texts: texts})
	if t.Session.Next != "" {
		last := c.Turns[len(c.Turns)-1].Number
		c.More = c.URL + "&" + url.Values{"cursor": {t.Session.Next}, "turn": {strconv.Itoa(last)}}.Encode()
	}
	// Files share the budget in their order; later ones may be cut to nothing.
	left := fileBytes
	for _, f := range t.Files {
		file := trialFile{File: f}
		shown := f.Diff
		if shown == "" && f.Text != nil {
			shown, file.Cut = *f.Text, f.Truncated
		}
		if len(shown) > left {
			shown, file.Cut = text.Truncate(shown, left), true
		}
		left -= len(shown)
		file.Lines = fileLines(shown, f.Diff != "")
		c.Files = append(c.Files, file)
	}
	return c, nil
}

// fileLines returns the lines of a diff, without its header, or of a text. A text is
// shown as unchanged lines, so that both look alike.
func fileLines(shown string, isDiff bool) (lines []diffLine) {
	if isDiff {
		if d := newDiff(shown); len(d.Files) > 0 {
			return d.Files[0].Lines
		}
	}
	for line := range strings.Lines(shown) {
		text := []compare.Span{{Kind: compare.Same, Text: strings.TrimRight(line, "\r\n")}}
		lines = append(lines, diffLine{Kind: "same", New: len(lines) + 1, Spans: text})
	}
	return lines
}

// armText names an arm in a sentence.
func armText(a runs.Arm) string {
	return map[runs.Arm]string{
		runs.WithSkill: "with the skill", runs.WithoutSkill: "without the skill", runs.WithPrevious: "with the previous version",
	}[a]
}

// armTitle is the heading of a trial, e.g. "With the skill 2.0.0". The label is a
// version, where the subject has one.
func armTitle(t trials.Trial) string {
	title := armText(t.Arm)
	title = strings.ToUpper(title[:1]) + title[1:]
	switch {
	case t.Arm == runs.WithSkill && t.Run.Subject.Label != "":
		title += " " + t.Run.Subject.Label
	case t.Arm == runs.WithPrevious && t.Run.Previous != nil && t.Run.Previous.Label != "":
		title += " " + t.Run.Previous.Label
	}
	return title
}

// besideView sets two trials of a case side by side: the baseline's or another run's,
// and the one with the skill. The left column is the older or the weaker one, as in
// a diff.
type besideView struct {
	Run       runs.Run
	SuiteName string
	Label     string // of the case
	Asked     string // by both
	Columns   [2]trialColumn
	Others    []trialLink
	Compared  string               // id of the comparison whose arms the runs are; "" for none
	Opinion   *comparisons.Opinion // what the judge said about the two; nil for nothing
}

func (s *Service) handleTrialsBeside(v *visit) (answer, error) {
	right, with := trialKey(v), v.URL.Query().Get("with")
	run, err := s.Runs.Get(v.Context(), v.Caller.OrgID, right.RunID)
	if err != nil {
		return answer{}, err
	}
	right.Arm = run.Baseline.Arms()[0]
	left := right
	switch arms := run.Baseline.Arms(); {
	case with != "":
		other, err := s.Runs.Get(v.Context(), v.Caller.OrgID, with)
		if err != nil {
			return answer{}, err
		}
		// Trials of different suites have no case in common.
		if other.SuiteID != run.SuiteID {
			return answer{}, fault.New(fault.Malformed, "The runs are of different suites; choose two of one suite")
		}
		left.RunID, left.Arm = other.ID, other.Baseline.Arms()[0]
	case len(arms) > 1:
		left.Arm = arms[1]
	default:
		return answer{}, fault.New(fault.NotFound, "The run has no baseline to compare with")
	}
	suite, err := s.Suites.Get(v.Context(), v.Caller.OrgID, run.SuiteID)
	if err != nil {
		return answer{}, err
	}
	view := besideView{Run: run, SuiteName: suite.Name}
	var names [2]string
	if id := v.URL.Query().Get("comparison"); id != "" && with != "" {
		if names, err = s.addComparison(v, &view, id, left, right); err != nil {
			return answer{}, err
		}
	}
	for i, key := range []trials.Key{left, right} {
		column, err := s.besideColumn(v, key)
		if err != nil {
			return answer{}, err
		}
		if with != "" && view.Compared == "" && !column.Missing { // both are with the skill, perhaps with the same version
			column.Title = [...]string{"Before: ", "After: "}[i] + strings.ToLower(column.Title[:1]) + column.Title[1:]
		}
		if view.Compared != "" {
			column.Title = names[i]
		}
		for _, f := range column.Files {
			for k, line := range f.Lines {
				if len(line.Spans) == 1 {
					f.Lines[k].Spans = view.Marked(i, line.Spans[0].Text)
				}
			}
		}
		view.Columns[i] = column
		view.Label, view.Asked = cmp.Or(view.Label, caseLabel(column.Case)), cmp.Or(view.Asked, column.Asked)
	}
	// One is enough to show: a run that ended early lacks some.
	if view.Columns[0].Missing && view.Columns[1].Missing {
		return answer{}, fault.New(fault.NotFound, "Trial not found")
	}
	for n := range run.Trials {
		view.Others = append(view.Others, trialLink{
			"Trial " + strconv.Itoa(n+1), besideURL(run.ID, right.CaseID, n+1, with, view.Compared), n+1 == right.N,
		})
	}
	return show("trials_beside", "Two trials of "+view.Label, view), nil
}

// addComparison adds what the judge said about two trials of the arms of a comparison, and returns
// the names of the arms.
func (s *Service) addComparison(v *visit, view *besideView, id string, left, right trials.Key) (names [2]string, err error) {
	c, err := s.Comparisons.Get(v.Context(), v.Caller.OrgID, id)
	if err != nil {
		return names, err
	}
	view.Compared = c.ID
	for _, a := range c.Arms {
		for i, key := range []trials.Key{left, right} {
			if run, _ := a.Made(); run == key.RunID {
				names[i] = a.Name
			}
		}
	}
	if names[0] == "" || names[1] == "" {
		return names, fault.New(fault.NotFound, "The comparison has no such arms")
	}
	all, err := s.Comparisons.Opinions(v.Context(), c, right.CaseID)
	for _, o := range all {
		if o.RunA == left.RunID && o.RunB == right.RunID && o.N == right.N {
			view.Opinion = &o
		}
	}
	return names, err
}

// Marked is a text with what the judge quoted of it as an added span.
func (v besideView) Marked(column int, text string) []compare.Span {
	var words []string
	if v.Opinion != nil {
		words = strings.Fields([2]string{v.Opinion.QuoteA, v.Opinion.QuoteB}[column])
	}
	for i, w := range words { // a model joins lines, and shortens white space
		words[i] = regexp.QuoteMeta(w)
	}
	var at []int
	if len(words) > 0 {
		at = regexp.MustCompile(strings.Join(words, `\s+`)).FindStringIndex(text)
	}
	if at == nil {
		return []compare.Span{{Kind: compare.Same, Text: text}}
	}
	return []compare.Span{
		{Kind: compare.Same, Text: text[:at[0]]}, {Kind: compare.Added, Text: text[at[0]:at[1]]}, {Kind: compare.Same, Text: text[at[1]:]},
	}
}

// besideColumn returns one of two trials; Missing if it does not exist, as in a run
// that ended early.
func (s *Service) besideColumn(v *visit, key trials.Key) (trialColumn, error) {
	t, err := s.Trials.Get(v.Context(), v.Caller.OrgID, key)
	if fault.Is(err, fault.NotFound) {
		return trialColumn{Missing: true, Title: "No such trial"}, nil
	}
	if err != nil {
		return trialColumn{}, err
	}
	column, err := newTrialColumn(t, key, "", 0, stepsBeside, textBudget/2)
	if column.More != "" {
		// Two timelines cannot be paged by one address: the rest is on the trial's
		// own page.
		column.More = column.URL
	}
	return column, err
}

// Leaves reports whether the agent left files.
func (c trialColumn) Leaves() bool { return len(c.Files) > 0 || c.MoreFiles }

// trialOfSession redirects from the session of a trial to the trial. It is not found
// if the session is of no trial either.
func (s *Service) trialOfSession(v *visit, sessionID string) (answer, error) {
	key, err := s.Trials.Find(v.Context(), v.Caller.OrgID, sessionID)
	if err != nil {
		return answer{}, err
	}
	return redirect(trialURL(key), ""), nil
}
