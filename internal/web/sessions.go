package web

import (
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// sessionsView is a page of the sessions of agents. There is no page before: a
// cursor only leads on, so Newest goes to the first.
type sessionsView struct {
	Rows     []sessionRow
	Form     sessionsForm
	Chips    []chip
	Outcomes []sessionOutcome
	Newest   string // URL of the first page; "" on it
	Older    string // URL of the next page; "" on the last
}

// sessionsForm is the input of the filter, with the names of the API's parameters.
// It is in the address, so that a filtered list can be bookmarked.
type sessionsForm struct{ Skill, Version, Outcome, Agent, User, Since, Until string }

// A chip is a condition of the filter, and the address of the list without it.
type chip struct{ Label, Without string }

// A sessionOutcome is a choice of the filter. Heading is that of the list.
type sessionOutcome struct{ Value, Label, Heading string }

var sessionOutcomes = []sessionOutcome{
	{string(sessions.Failed), "failed", "Failed sessions"},
	{string(sessions.Passed), "passed", "Passed sessions"},
	{string(sessions.ToolErrors), "with tool errors", "Sessions with tool errors"},
	{outcomeGraded, "graded", "Graded sessions"},
	{outcomeUngraded, "not graded", "Sessions without a grade"},
	{outcomeMissed, "skill not used", "Sessions that didn't use it"},
}

// Outcomes that are a parameter of their own in the API.
const (
	outcomeGraded   = "graded"
	outcomeUngraded = "ungraded"
	outcomeMissed   = "missed" // the skill was not activated
)

// A sessionRow is a session for display.
type sessionRow struct {
	sessions.Session
	Prompt string           // that activated a skill; "" unless its sender shares it
	Shown  []sessions.Skill // of Skills
	More   int              // how many skills are not shown
}

const (
	sessionsShown = 50
	sessionSkills = 4 // of a session in the list
)

// handleSessions lists sessions, newest first. A filter with a mistake is shown with
// the problem and no rows.
func (s *Service) handleSessions(v *visit) (answer, error) {
	q := v.URL.Query()
	form := newSessionsForm(q)
	view := sessionsView{Form: form, Outcomes: sessionOutcomes}
	f, err := form.filter()
	if err != nil {
		return show("sessions", "Sessions", view).refused(err)
	}
	f.Cursor, f.Limit = q.Get("cursor"), sessionsShown
	found, next, err := s.Sessions.List(v.Context(), v.Caller, f)
	if err != nil {
		return show("sessions", "Sessions", view).refused(err)
	}
	// The filter shows names, not the ids that links have.
	if form.Skill != "" {
		k, err := s.Skills.Get(v.Context(), v.Caller.OrgID, form.Skill)
		if err != nil {
			return answer{}, err
		}
		view.Form.Skill = k.Name
	}
	prompts, err := s.Overview.Prompts(v.Context(), v.Caller.OrgID, found)
	if err != nil {
		return answer{}, err
	}
	for _, one := range found {
		row := sessionRow{Session: one, Prompt: prompts[one.ID], Shown: one.Skills[:min(len(one.Skills), sessionSkills)]}
		row.More = len(one.Skills) - len(row.Shown)
		view.Rows = append(view.Rows, row)
	}
	title := view.describe(q)
	if f.Cursor != "" {
		view.Newest = sessionsPage(q, "")
	}
	if next != "" {
		view.Older = sessionsPage(q, next)
	}
	return show("sessions", title, view), nil
}

// describe adds the chips of the filter and returns the heading of the list, e.g. "Failed
// sessions of pdf 1.4.0".
func (v *sessionsView) describe(q url.Values) string {
	without := func(label string, fields ...string) {
		rest := maps.Clone(q)
		for _, field := range append(fields, "cursor") {
			rest.Del(field)
		}
		to := "/sessions"
		if len(rest) > 0 {
			to += "?" + rest.Encode()
		}
		v.Chips = append(v.Chips, chip{label, to})
	}
	form, title := v.Form, "Sessions"
	for _, o := range sessionOutcomes {
		if o.Value == form.Outcome {
			title = o.Heading
		}
	}
	if form.Skill != "" {
		title += " of " + form.Skill
		without(form.Skill, "skill", "version")
	}
	if form.Version != "" {
		title += " " + form.Version
		without("version "+form.Version, "version")
	}
	for _, c := range []struct{ field, value, label string }{
		{"outcome", form.Outcome, ""},
		{"agent", form.Agent, ""},
		{"user", form.User, "person "},
		{"since", form.Since, "from "},
		{"until", form.Until, "before "},
	} {
		if c.value == "" {
			continue
		}
		if c.field == "user" && c.value != "me" {
			c.value = "with a given id"
		}
		for _, o := range sessionOutcomes {
			if c.field == "outcome" && o.Value == c.value {
				c.value = o.Label
			}
		}
		without(c.label+c.value, c.field)
	}
	return title
}

// newSessionsForm reads the filter from the query. The export has the same
// parameters.
func newSessionsForm(q url.Values) sessionsForm {
	return sessionsForm{
		Skill: trimmed(q, "skill"), Version: trimmed(q, "version"), Outcome: trimmed(q, "outcome"), Agent: trimmed(q, "agent"),
		User: trimmed(q, "user"), Since: trimmed(q, "since"), Until: trimmed(q, "until"),
	}
}

// filter returns what the form selects.
func (form sessionsForm) filter() (f sessions.Filter, err error) {
	f = sessions.Filter{Skill: form.Skill, Version: form.Version, Agent: form.Agent, UserID: form.User}
	switch form.Outcome {
	case outcomeGraded, outcomeUngraded:
		graded := form.Outcome == outcomeGraded
		f.Graded = &graded
	case outcomeMissed:
		// false: it was offered or considered, and not activated.
		f.Activated = new(bool)
	default:
		f.Outcome = sessions.Outcome(form.Outcome)
	}
	f.Since, f.Until, err = httpapi.Between(form.Since, form.Until)
	return f, err
}

// sessionsPage returns the URL of the page after a cursor, with the same filter. All
// other parameters are kept, so that the filter stays.
func sessionsPage(q url.Values, cursor string) string {
	q = maps.Clone(q)
	q.Del("cursor")
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return "/sessions?" + q.Encode()
}

// Pass is the pass rate of the grade; nil without one.
func (r sessionRow) Pass() *float64 { return passRate(r.PassRate) }

// Cost is what the model requests cost, in dollars; nil while that is unknown.
func (r sessionRow) Cost() *float64 { return dollars(r.Micros) }

// Took is how long the session lasted.
func (r sessionRow) Took() string { return durationText(r.LastAt.Sub(r.StartedAt)) }

// passRate returns a pass rate in billionths as a share.
func passRate(billionths *int64) *float64 {
	if billionths == nil {
		return nil
	}
	rate := float64(*billionths) / 1e9
	return &rate
}

// dollars returns an amount in millionths of a dollar as dollars.
func dollars(micros *int64) *float64 {
	if micros == nil {
		return nil
	}
	usd := float64(*micros) / 1e6
	return &usd
}

// durationText formats a duration in its two largest units, e.g. "350 ms", "4.2 s",
// "3 min 20 s" and "2 h 5 min". The spaces are narrow and do not break.
func durationText(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d\u202fms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f\u202fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d\u202fmin %d\u202fs", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d\u202fh %d\u202fmin", d/time.Hour, d%time.Hour/time.Minute)
}

// DateField returns the type of an input for a time, see auditView.DateField.
func (v sessionsView) DateField(value string) string { return auditView{}.DateField(value) }
