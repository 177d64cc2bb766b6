// Package sessions keeps the sessions of agents so that people can open them:
// what happened when, how long it took and whether it worked. It stores metadata
// only: names of tools, skills and models, numbers and times, never what people
// or models wrote. An event is stored once, whichever producers report it and in
// whatever order. The package owns the tables agent_sessions,
// agent_session_events and agent_session_skills.
package sessions

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A Kind is what an event of a session is.
type Kind string

// The kinds of events.
const (
	Prompt     Kind = "prompt"     // a person asked something: a turn begins
	Activation Kind = "activation" // a skill was considered, and activated or not
	Tool       Kind = "tool"       // a tool was called
	Response   Kind = "response"   // a model answered a request
	Graded     Kind = "grade"      // the session was graded, or has an outcome
	Error      Kind = "error"      // a request to a model failed, or people intervened
	// UnnamedPrompt is a prompt of which the report has no id: another producer may
	// report the same one with its id. It is shown as a Prompt, unless there are any.
	UnnamedPrompt Kind = "unnamed_prompt"
	// Fact is what an execution fact says about the calls of tools. It is not shown.
	Fact Kind = "fact"
)

// The names of errors that are no failed requests: what people did because a session
// went wrong.
const (
	Interrupted    = "interrupted"     // somebody stopped the agent
	UserCorrection = "user_correction" // somebody corrected the agent
)

// An Event is one report of something that happened in a session: a prompt, a tool
// call, an outcome or an error. The others are known to skills and costs.
type Event struct {
	Session string // as the agent calls it
	Kind    Kind
	// ID is the natural key within the session and the kind, e.g. the id of the
	// tool call. A second report with the same one is the same event.
	ID       string
	At       time.Time // when it began
	Name     string    // of the tool or the error; "" when unknown
	Duration *time.Duration
	OK       *bool
}

// NewFact returns the event of an execution fact with its number of tool calls and of
// errors, of which nil is unknown.
func NewFact(session, id string, at time.Time, calls, errors *int64) Event {
	text := func(n *int64) string {
		if n == nil {
			return ""
		}
		return fmt.Sprintf("%010d", min(max(*n, 0), maxFact)) // so that the greater one is that of merge
	}
	return Event{Session: session, Kind: Fact, ID: id, At: at, Name: text(calls) + "/" + text(errors)}
}

// maxFact bounds the numbers of a fact.
const maxFact = 1_000_000_000

// A Sighting is one report that names a session.
type Sighting struct {
	Session string // as the agent calls it
	Agent   string // e.g. "claude-code"; "" when unknown
	At      time.Time
	EndedAt *time.Time // when the agent says that it ended
	// Outside means that At is no time of the session, e.g. that of its grading. It
	// counts only while no other is known.
	Outside bool
}

// A Report is what one request of a user's producer reports of sessions.
type Report struct {
	OrgID, UserID string
	Sightings     []Sighting
	Events        []Event
	// Skills is what skills.Observe made of the same request.
	Skills skills.Changes
}

// A Session is a row of agent_sessions.
type Session struct {
	ID        string // see skills.SessionHash
	OrgID     string
	UserID    string
	SessionID string // as the agent calls it
	Agent     string // "" when unknown
	StartedAt time.Time
	LastAt    time.Time // end of the last event
	// Provisional means that no time of the session itself is known yet.
	Provisional bool
	EndedAt     *time.Time
	Counts
	Exact      bool // nothing is missing from Counts: a trial
	Events     int64
	Truncated  bool        // there were more than maxEvents
	PassRate   *int64      // in billionths; nil without a grade
	Basis      basis.Basis // of the grades, basis.Mixed of several; "" without one
	Outcome    Outcome
	ReportedAt time.Time

	// Only where it is read.
	Skills     []Skill
	Micros     *int64 // cost in millionths of a dollar; nil while none is known
	HasContent bool   // what was said is kept
}

// Counts are how many events of a kind a session has.
type Counts struct {
	Turns        int64 // prompts with an id
	UnnamedTurns int64 // prompts without one, which may be the same ones
	ToolCalls    int64
	ToolErrors   int64
	// CallFacts and ErrorFacts are how many execution facts say how many calls and
	// errors there were, FactCalls and FactErrors their sums.
	CallFacts, FactCalls   int64
	ErrorFacts, FactErrors int64
}

// Figures are what is known of a session's turns and tool calls; nil if no report
// says anything about them.
type Figures struct{ Turns, ToolCalls, ToolErrors *int64 }

// Failed returns how many calls are known to have failed.
func (f Figures) Failed() int64 {
	if f.ToolErrors == nil {
		return 0
	}
	return *f.ToolErrors
}

// Figures returns what is known. Calls that were reported one by one outweigh what
// execution facts say about them.
func (s Session) Figures() (f Figures) {
	if turns := max(s.Turns, s.UnnamedTurns); s.Exact || turns > 0 {
		f.Turns = &turns
	}
	switch {
	case s.Exact || s.ToolCalls > 0:
		f.ToolCalls, f.ToolErrors = &s.ToolCalls, &s.ToolErrors
	default:
		if s.CallFacts > 0 {
			f.ToolCalls = &s.FactCalls
		}
		if s.ErrorFacts > 0 {
			f.ToolErrors = &s.FactErrors
		}
	}
	return f
}

// A Skill is what a session has to do with a skill: a row of
// agent_session_skills.
type Skill struct {
	SessionID string // agent_sessions.id
	SkillID   string
	Name      string // in the table skills
	Activated bool
	Offered   bool
	VersionID *string
	Version   string      // only where it is read; "" when it is unknown
	PassRate  *int64      // in billionths
	Basis     basis.Basis // of the grade; "" without one
	Outcome   Outcome
}

// An Outcome is what the grades of a session say in one word.
type Outcome string

// The outcomes.
const (
	Ungraded Outcome = ""
	Passed   Outcome = "pass"
	Failed   Outcome = "fail"
)

// billion scales pass rates to integers, as in the tables of skills.
const billion = 1_000_000_000

// outcomeOf returns the outcome of a pass rate: half of the expectations must
// have passed.
func outcomeOf(passRate *int64) Outcome {
	switch {
	case passRate == nil:
		return Ungraded
	case *passRate >= billion/2:
		return Passed
	}
	return Failed
}

// Quiet is how long a session is silent before it is taken for ended. Most agents
// do not report the end.
const Quiet = time.Hour

// End returns when a session ended: as reported, else at its last event if it has
// been silent since, else nil.
func (s Session) End(now time.Time) *time.Time {
	if s.EndedAt == nil && now.Sub(s.LastAt) < Quiet {
		return nil
	}
	return &s.LastAt
}

const (
	// maxEvents is how many events of a session are stored; later ones are dropped,
	// and the session is marked as truncated.
	maxEvents = 20_000
	// maxSkills is how many skills of a session are stored.
	maxSkills = 500
)

// maxDuration is the longest duration of an event: anything beyond it is a defect of
// the producer, and is dropped.
const maxDuration = 366 * 24 * time.Hour

// The shapes of the texts that are stored, e.g. "mcp__github__search" and
// "claude-sonnet-4@20250514". They keep what people or models wrote out of the
// tables, whatever a producer sends. An id is part of a URL.
var (
	nameShape = regexp.MustCompile(`^[A-Za-z0-9_.:/+\[\]-]{1,128}(@[0-9]{4,8})?$`)
	idShape   = regexp.MustCompile(`^[A-Za-z0-9_.:+-]{1,200}$`)
)

// cleanName returns a name that has the shape of one, else "".
func cleanName(name string) string {
	if !nameShape.MatchString(name) {
		return ""
	}
	return name
}

// An event is a row of agent_session_events.
type event struct {
	session  string // agent_sessions.id
	id       string
	kind     Kind
	at       time.Time
	name     string
	duration *time.Duration
	ok       *bool
}

// A Step is an event as it is read.
type Step struct {
	ID       string
	Kind     Kind
	At       time.Time
	Name     string // of the tool, skill or model; "" if there is none
	Duration *time.Duration
	OK       *bool
	Tokens   *int64  // of a response
	Micros   *int64  // what it cost, in millionths of a dollar
	Text     *string // what was said; nil unless it is kept and may be read
}

func (e event) step() Step {
	kind := e.kind
	if kind == UnnamedPrompt {
		kind = Prompt
	}
	return Step{ID: e.id, Kind: kind, At: e.at, Name: e.name, Duration: e.duration, OK: e.ok}
}

// EventID returns the id of an event by its natural key within the session and the
// kind.
func EventID(kind Kind, natural string) string { return skills.ID("", "", string(kind), natural) }

// stored returns the row of a reported event.
func (e Event) stored(userID string) event {
	row := event{
		session: skills.SessionHash(userID, e.Session), id: EventID(e.Kind, e.ID), kind: e.Kind,
		at: micros(e.At), name: cleanName(e.Name), ok: e.OK,
	}
	if e.Duration != nil && *e.Duration >= 0 && *e.Duration <= maxDuration {
		took := e.Duration.Truncate(time.Microsecond)
		row.duration = &took
	}
	return row
}

// merge joins two reports of one event, field by field: the earliest time, the
// longest duration, and false over true, since the report of a failure knows more.
// Every one of these is a semilattice join (commutative, associative,
// idempotent), so the order and the number of reports do not matter.
func merge(a, b event) event {
	m := a
	if b.at.Before(m.at) {
		m.at = b.at
	}
	if m.name = max(a.name, b.name); m.kind == Fact {
		calls, errors := a.factTexts()
		moreCalls, moreErrors := b.factTexts()
		m.name = max(calls, moreCalls) + "/" + max(errors, moreErrors)
	}
	if a.duration == nil || b.duration != nil && *b.duration > *a.duration {
		m.duration = b.duration
	}
	if a.ok == nil || b.ok != nil && !*b.ok {
		m.ok = b.ok
	}
	return m
}

// factTexts returns the numbers of a fact, "" for those that are unknown.
func (e event) factTexts() (calls, errors string) {
	calls, errors, _ = strings.Cut(e.name, "/")
	return calls, errors
}

// end returns when an event ended, as far as is known.
func (e event) end() time.Time {
	if e.duration == nil {
		return e.at
	}
	return e.at.Add(*e.duration)
}

func (e event) equal(f event) bool {
	return e.kind == f.kind && e.at.Equal(f.at) && e.name == f.name && same(e.duration, f.duration) && same(e.ok, f.ok)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }
