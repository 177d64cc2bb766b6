package telemetry

import (
	"cmp"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A normalizer turns OTLP into a batch, record by record. Most records are not
// about skills: they are only kept with the raw body.
type normalizer struct {
	caller access.Caller
	now    time.Time // of the receipt: what lies far after it is rejected
	otlpBatch
	index int // of the current record, among its kind
	// redacted counts the activations of which Claude Code hides the name of the
	// skill.
	redacted int
	// sessions are those that spans of this body name, by trace.
	sessions map[string]string
}

// An event is a log record, a span or an event of a span.
type event struct {
	otlp.Attributes
	name    string
	session string // "" when unknown
	named   bool   // the producer named the session; else it is the trace
	trace   string // in hex; "" when there is none
	nanos   uint64 // its time; 0 when unknown
}

// logs reads log records. Attributes are looked up from the record to its scope and
// its resource: the nearest one with a key wins.
func (n *normalizer) logs(data *logs.LogsData) {
	for _, resource := range data.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				n.tally("log record", n.log(record, otlp.Attributes{
					record.GetAttributes(), scope.GetScope().GetAttributes(), resource.GetResource().GetAttributes(),
				}))
			}
		}
	}
}

// traces reads spans. Sessions are collected first, since the span that names one
// may follow others of its trace.
func (n *normalizer) traces(data *trace.TracesData) {
	n.sessions = sessionsByTrace(data)
	for _, resource := range data.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				n.tally("span", n.span(span, otlp.Attributes{
					span.GetAttributes(), scope.GetScope().GetAttributes(), resource.GetResource().GetAttributes(),
				}))
			}
		}
	}
}

// tally counts a record as accepted, or as rejected because of err.
func (n *normalizer) tally(kind string, err error) {
	if err != nil {
		// One line, since several are joined into one error message.
		message := strings.ReplaceAll(err.Error(), "\n", ", ")
		n.rejected = append(n.rejected, rejection{Kind: kind, Index: n.index, Message: message})
	} else {
		n.accepted++
	}
	n.index++
}

func (n *normalizer) log(record *logs.LogRecord, a otlp.Attributes) error {
	e := newEvent(a, record.GetTraceId())
	// The body has Claude Code's prefix, the attribute has not.
	name := cmp.Or(a.Text("event.name"), record.GetEventName(), record.GetBody().GetStringValue())
	e.name, e.nanos = strings.TrimPrefix(name, "claude_code."), record.GetTimeUnixNano()
	// The specification allows a record without a time of its own, and then means
	// this one.
	if e.nanos == 0 {
		e.nanos = record.GetObservedTimeUnixNano()
	}
	// Negated, so that NaN is refused, too.
	if d, ok := e.Float("duration_ms"); ok && !(d >= 0) {
		return errNegative
	}
	n.sessionLog(e)
	switch e.name {
	case "skill_activated":
		return n.skillActivated(e)
	case "plugin_loaded":
		return n.pluginLoaded(e)
	case "tool_result":
		return n.toolResult(e)
	case "tool_decision":
		return n.toolDecision(e)
	case "api_request":
		return n.apiRequest(e)
	case skillInvocation:
		return n.codexInvocation(e)
	case "codex.user_prompt", "gemini_cli.user_prompt":
		return n.endTurn(e, e.session)
	case "codex.sse_event":
		return n.codexResponse(e)
	case "gemini_cli.api_response":
		return n.geminiResponse(e)
	case "gemini_cli.tool_call":
		return n.geminiToolCall(e)
	case evaluationResult:
		return n.evaluation(e)
	}
	return nil
}

// span reads a span and its events. An invalid one does not lose the others.
func (n *normalizer) span(span *trace.Span, a otlp.Attributes) error {
	e := newEvent(a, span.GetTraceId())
	e.name, e.nanos = span.GetName(), span.GetStartTimeUnixNano()
	failed := span.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR
	// Whatever else the span is, it may carry the list of skills on offer.
	problems := []error{n.offered(e)}
	n.sessionSpan(e, hex.EncodeToString(span.GetSpanId()), span.GetEndTimeUnixNano(), failed)
	switch {
	case isModelCall(e):
		problems = append(problems, n.modelCall(e, span))
	case e.name == "claude_code.tool":
		problems = append(problems, n.claudeTool(e, !failed))
	case e.name == "ai.toolCall":
		problems = append(problems, n.aiToolCall(e, hex.EncodeToString(span.GetSpanId()), !failed))
	case e.Text("gen_ai.operation.name") == "execute_tool" || e.name == "execute_tool" ||
		strings.HasPrefix(e.name, "execute_tool "):
		problems = append(problems, n.executeTool(e, hex.EncodeToString(span.GetSpanId()), !failed))
	case len(span.GetParentSpanId()) == 0 && n.sessions[e.trace] != "" && !e.logsPrompts():
		_ = n.endTurn(e, n.sessions[e.trace]) // without a time it begins no turn, and need not
	}
	for _, inner := range span.GetEvents() {
		i := e
		// An event inherits the attributes of its span.
		i.Attributes = append(otlp.Attributes{inner.GetAttributes()}, a...)
		if i.name = inner.GetName(); inner.GetTimeUnixNano() != 0 {
			i.nanos = inner.GetTimeUnixNano()
		}
		switch i.name {
		case copilotPrompt:
			n.sessionLog(i)
		case "github.copilot.skill.invoked":
			problems = append(problems, n.skillInvoked(i, hex.EncodeToString(span.GetSpanId())))
		case evaluationResult:
			problems = append(problems, n.evaluation(i))
		}
	}
	return errors.Join(problems...)
}

// newEvent determines the session: the producer's, else the trace.
func newEvent(a otlp.Attributes, traceID []byte) event {
	e := event{Attributes: a, session: a.Text("session.id", "gen_ai.conversation.id", "conversation.id",
		"ai.telemetry.metadata.sessionId")}
	// An id of zeros is "none" by the W3C's trace context.
	if len(traceID) == 16 && strings.Trim(string(traceID), "\x00") != "" {
		e.trace = hex.EncodeToString(traceID)
	}
	if e.named = e.session != ""; !e.named {
		e.session = e.trace
	}
	return e
}

// call returns the id of the tool call, or "".
func (e event) call() string { return e.Text("tool_use_id", "gen_ai.tool.call.id", "ai.toolCall.id") }

// time returns the time of the event as text, for ids.
func (e event) time() string { return strconv.FormatUint(e.nanos, 10) }

var errNegative = errors.New("its duration is negative")

// timeOf returns the time of an event. One in the far future is rejected: it
// would stay in every window.
func (n *normalizer) timeOf(nanos uint64) (time.Time, error) {
	if nanos == 0 {
		return time.Time{}, errors.New("it has no time")
	}
	if nanos > math.MaxInt64 || time.Unix(0, int64(nanos)).After(n.now.Add(maxAhead)) {
		return time.Time{}, errors.New("its time lies too far in the future or the past")
	}
	return time.Unix(0, int64(nanos)).UTC(), nil
}

// skill cleans the name of a skill. One that its producer hides is counted as
// unattributed.
func (n *normalizer) skill(name string) (_ string, hidden bool, err error) {
	if skills.Placeholder(name) {
		n.unattributed++
		return "", true, nil
	}
	name, err = skills.CleanName(name)
	return name, false, err
}

// observation returns the observation of an event, without id and outcome. If the
// skill's name is hidden, there is none.
func (n *normalizer) observation(e event, name string) (o skills.Observation, hidden bool, err error) {
	name, hidden, err = n.skill(name)
	if err != nil || hidden {
		return o, hidden, err
	}
	at, err := n.timeOf(e.nanos)
	n.touchSession(e, false)
	o = skills.Observation{
		SkillName: name, Session: e.session, VersionName: e.Text("skill.version", "gen_ai.skill.version"),
		At: at, NormalizedAt: at, Unconfirmed: e.isBuiltIn(name),
	}
	return o, false, err
}

// id returns the id of a record by what identifies it for its producer.
func (n *normalizer) id(kind string, natural ...string) string {
	return skills.ID(n.caller.OrgID, n.caller.UserID, kind, strings.Join(natural, "\n"))
}

// observe adds an observation that no other signal reports.
func (n *normalizer) observe(o skills.Observation) { n.observations = append(n.observations, o) }

// withCall gives an observation the id and the alias of its tool call. The call's
// alias is that of reader.invocation, which is how both become one.
func (n *normalizer) withCall(o skills.Observation, call string) skills.Observation {
	o.ID = n.id("otlp_call", o.Session, call)
	o.Aliases = []string{callAlias(n.caller, o.Session, call)}
	return o
}

// addReport adds an activation that other signals of the group report, too.
func (n *normalizer) addReport(o skills.Observation, by reporter, group ...string) {
	n.reports = append(n.reports, activationReport{
		Observation: o, By: by, Group: activationGroup(n.caller, append(group, o.SkillName)...),
	})
}

// demote lowers the precedence of an observation: skills merges observations of
// one activation by NormalizedAt, newest first, so it is dated back by decades.
// The order among observations of the same precedence stays.
func demote(o skills.Observation, decades time.Duration) skills.Observation {
	const decade = 10 * 365 * 24 * time.Hour
	o.NormalizedAt = o.NormalizedAt.Add(-decades * decade)
	return o
}

// What a report may lack, and by how much that demotes it.
const (
	lacksOutcome = 1 // the span of a call that may still be rejected
	lacksCall    = 1
	lacksLoading = 3 // only a use of the skill was reported
	lacksSession = 4 // the trace is used instead
)

// A trigger is how a skill came to be activated.
type trigger struct {
	mode       string
	confidence *float64
	// byTool reports whether the agent called a tool for it, which other signals
	// report, too.
	byTool bool
}

// triggerOf maps the producers' names of triggers.
func triggerOf(word string) trigger {
	// Producers report no confidence. That a person typed the name is certain; what
	// an agent chose by itself has a conventional value, which a measured one
	// replaces.
	explicit, inferred := 1.0, 0.6
	switch word {
	case "user-slash", "user-invoked", "explicit":
		return trigger{mode: "explicit", confidence: &explicit}
	case "claude-proactive", "nested-skill", "agent-invoked", "implicit":
		return trigger{mode: "inferred", confidence: &inferred, byTool: true}
	// Loaded into the context without a decision: it has no mode and no confidence.
	case "agent-preload", "context-load":
		return trigger{}
	}
	// An unknown word of a newer producer.
	return trigger{byTool: true}
}

// fired marks an observation as an activation with this trigger.
func (t trigger) fired(o skills.Observation) skills.Observation {
	o.Triggered, o.Mode, o.Confidence, o.Derived = true, t.mode, t.confidence, t.mode == "inferred"
	return o
}
