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
	Filtered bool
	Outcomes []sessionOutcome
	Newest   string // URL of the first page; "" on it
	Older    string // URL of the next page; "" on the last
}

// sessionsForm is the input of the filter, with the names of the API's parameters.
// It is in the address, so that a filtered list can be bookmarked.
type sessionsForm struct{ Skill, Version, Outcome, Agent, User, Since, Until string }

// A sessionOutcome is a choice of the filter.
type sessionOutcome struct{ Value, Label string }

var sessionOutcomes = []sessionOutcome{
	{string(sessions.Failed), "failed"},
	{string(sessions.Passed), "passed"},
	{string(sessions.ToolErrors), "with tool errors"},
	{outcomeGraded, "graded"},
	{outcomeUngraded, "not graded"},
	{outcomeMissed, "skill not used"},
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
	Shown []sessions.Skill // of Skills
	More  int              // how many skills are not shown
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
	view := sessionsView{Form: form, Filtered: form != sessionsForm{}, Outcomes: sessionOutcomes}
	f, err := form.filter()
	if err != nil {
		return show("sessions", "Sessions", view).refused(err)
	}
	f.Cursor, f.Limit = q.Get("cursor"), sessionsShown
	found, next, err := s.Sessions.List(v.Context(), v.Caller, f)
	if err != nil {
		return show("sessions", "Sessions", view).refused(err)
	}
	for _, one := range found {
		row := sessionRow{Session: one, Shown: one.Skills[:min(len(one.Skills), sessionSkills)]}
		row.More = len(one.Skills) - len(row.Shown)
		view.Rows = append(view.Rows, row)
	}
	if f.Cursor != "" {
		view.Newest = sessionsPage(q, "")
	}
	if next != "" {
		view.Older = sessionsPage(q, next)
	}
	return show("sessions", "Sessions", view), nil
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
