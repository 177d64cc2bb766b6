package telemetry

import (
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/skills"
)

// A normalizer makes a harvest of what OTLP brings, record by record. Of most
// records it makes nothing: they are kept with the body.
type normalizer struct {
	caller access.Caller
	now    time.Time
	harvest
	index int // of the record that is being read, among its kind
}

func newNormalizer(c access.Caller, now time.Time) *normalizer {
	return &normalizer{caller: c, now: now}
}

// An event is what a log record, a span or an event of a span says.
type event struct {
	said
	name    string
	session string // "" when unknown
	// named is whether the session is the producer's; else it is the trace.
	named bool
	trace string // in hex; "" when there is none
	nanos uint64 // when it happened; 0 when unknown
}

func (n *normalizer) logs(data *logs.LogsData) {
	for _, resource := range data.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				s := said{record.GetAttributes(), scope.GetScope().GetAttributes(), resource.GetResource().GetAttributes()}
				n.took("log record", n.log(record, s))
			}
		}
	}
}

func (n *normalizer) traces(data *trace.TracesData) {
	for _, resource := range data.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s := said{span.GetAttributes(), scope.GetScope().GetAttributes(), resource.GetResource().GetAttributes()}
				n.took("span", n.span(span, s))
			}
		}
	}
}

// took notes what became of a record.
func (n *normalizer) took(kind string, err error) {
	if err != nil {
		n.rejected = append(n.rejected, rejection{Kind: kind, Index: n.index, Message: strings.ReplaceAll(err.Error(), "\n", ", ")})
	} else {
		n.accepted++
	}
	n.index++
}

func (n *normalizer) log(record *logs.LogRecord, s said) error {
	e := newEvent(s, record.GetTraceId())
	e.name, e.nanos = eventName(record, s), record.GetTimeUnixNano()
	if e.nanos == 0 {
		e.nanos = record.GetObservedTimeUnixNano()
	}
	switch e.name {
	case "skill_activated":
		return n.skillActivated(e)
	case "tool_result":
		return n.toolResult(e)
	case "tool_decision":
		return n.toolDecision(e)
	case evaluationResult:
		return n.evaluation(e)
	}
	return nil
}

// eventName is what a log record is called, without Claude Code's prefix:
// that is on the body and not on the attribute.
func eventName(record *logs.LogRecord, s said) string {
	name := s.text("event.name")
	if name == "" {
		name = record.GetEventName()
	}
	if name == "" {
		name = record.GetBody().GetStringValue()
	}
	return strings.TrimPrefix(name, "claude_code.")
}

// span reads a span and its events. What one of them says wrong does not lose
// the others.
func (n *normalizer) span(span *trace.Span, s said) error {
	e := newEvent(s, span.GetTraceId())
	e.name, e.nanos = span.GetName(), span.GetStartTimeUnixNano()
	failed := span.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR
	problems := []error{n.offered(e)}
	switch {
	case e.name == "claude_code.tool":
		problems = append(problems, n.claudeTool(e, !failed))
	case e.text("gen_ai.operation.name") == "execute_tool" || e.name == "execute_tool" || strings.HasPrefix(e.name, "execute_tool "):
		problems = append(problems, n.executeTool(e, hex.EncodeToString(span.GetSpanId()), !failed))
	}
	for _, inner := range span.GetEvents() {
		at := e
		at.said = append(said{inner.GetAttributes()}, s...)
		if at.name = inner.GetName(); inner.GetTimeUnixNano() != 0 {
			at.nanos = inner.GetTimeUnixNano()
		}
		switch at.name {
		case "github.copilot.skill.invoked":
			problems = append(problems, n.skillInvoked(at, hex.EncodeToString(span.GetSpanId())))
		case evaluationResult:
			problems = append(problems, n.evaluation(at))
		}
	}
	return errors.Join(problems...)
}

// newEvent finds the session: the producer's, else the trace.
func newEvent(s said, traceID []byte) event {
	e := event{said: s, session: s.text("session.id", "gen_ai.conversation.id", "conversation.id")}
	if len(traceID) == 16 && strings.Trim(string(traceID), "\x00") != "" {
		e.trace = hex.EncodeToString(traceID)
	}
	if e.named = e.session != ""; !e.named {
		e.session = e.trace
	}
	return e
}

// call is the id of the tool call, if the event knows it.
func (e event) call() string { return e.text("tool_use_id", "gen_ai.tool.call.id") }

// time names the time of the event.
func (e event) time() string { return strconv.FormatUint(e.nanos, 10) }

// when is the time of the event. A far future would sit in every window for
// ever.
func (n *normalizer) when(nanos uint64) (time.Time, error) {
	t := time.Unix(0, int64(nanos)).UTC() //nolint:gosec // what overflows is negative and refused
	switch {
	case nanos == 0:
		return t, errors.New("it has no time")
	case t.After(n.now.Add(maxAhead)) || t.Year() < 1970:
		return t, errors.New("its time lies too far in the future or the past")
	}
	return t, nil
}

// skill cleans the name of a skill. One that its producer hides is counted and
// goes no further.
func (n *normalizer) skill(name string) (_ string, hidden bool, err error) {
	if skills.Placeholder(name) {
		n.unattributed++
		return "", true, nil
	}
	name, err = skills.CleanName(name)
	return name, false, err
}

// observation begins what an event says of a skill. Nothing is to be said if
// the name is hidden.
func (n *normalizer) observation(e event, name string) (o skills.Observation, hidden bool, err error) {
	name, hidden, err = n.skill(name)
	if err != nil || hidden {
		return o, hidden, err
	}
	at, err := n.when(e.nanos)
	return skills.Observation{SkillName: name, Session: e.session, At: at, NormalizedAt: at}, false, err
}

func (n *normalizer) id(kind string, natural ...string) string {
	return skills.ID(n.caller.OrgID, n.caller.UserID, kind, strings.Join(natural, "\n"))
}

func (n *normalizer) observe(o skills.Observation) { n.observations = append(n.observations, o) }

// called names an observation by its tool call.
func (n *normalizer) called(o skills.Observation, call string) skills.Observation {
	o.ID = n.id("otlp_call", o.Session, call)
	o.Aliases = []string{callAlias(n.caller, o.Session, call)}
	return o
}

// see notes an activation that other signals tell of, too: those of the group.
func (n *normalizer) see(o skills.Observation, f face, group ...string) {
	n.sightings = append(n.sightings, sighting{
		Observation: o, face: f, group: n.id("otlp_activation", append(group, o.SkillName)...),
	})
}

// weaker dates a report back, so that it yields to the reports of the same
// activation that know more of it. The order among its likes stays.
func weaker(o skills.Observation, degree time.Duration) skills.Observation {
	const generation = 10 * 365 * 24 * time.Hour
	o.NormalizedAt = o.NormalizedAt.Add(-degree * generation)
	return o
}

// What a report can lack, and how much weaker that makes it.
const (
	lacksOutcome = 1 // the span of a call that may still be refused
	lacksCall    = 1
	lacksLoading = 3 // only the use of a skill was seen
	lacksSession = 4 // the trace stands for it
)

// A trigger is how a skill came to be used.
type trigger struct {
	mode       string
	confidence *float64
	// byTool is whether the agent called a tool for it, of which other signals
	// tell.
	byTool bool
}

// triggerOf reads the words that producers have for it.
func triggerOf(word string) trigger {
	explicit, inferred := 1.0, 0.6
	switch word {
	case "user-slash", "user-invoked", "explicit":
		return trigger{mode: "explicit", confidence: &explicit}
	case "claude-proactive", "nested-skill", "agent-invoked", "implicit":
		return trigger{mode: "inferred", confidence: &inferred, byTool: true}
	case "agent-preload", "context-load":
		return trigger{}
	}
	return trigger{byTool: true}
}

// fired marks an observation as an activation that came about in this way.
func (t trigger) fired(o skills.Observation) skills.Observation {
	o.Triggered, o.Mode, o.Confidence = true, t.mode, t.confidence
	return o
}
