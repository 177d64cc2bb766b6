package telemetry

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Only Claude Code says which skill a model request belongs to. The requests of
// others are attributed by marks: from the activation of a skill on, they belong to
// it, until another is activated or the turn ends.

// apiRequest reads an api_request event of Claude Code.
func (n *normalizer) apiRequest(e event) error {
	tokens, price, err := claudeUsage(e.Attributes)
	if err != nil {
		return ignoreNone(err)
	}
	r := costs.Request{Session: e.session, Turn: e.Text("prompt.id"), Model: e.Text("model"), Tokens: tokens, Micros: price}
	if name := e.Text("skill.name"); name != "" {
		if r.Skill, _, err = n.skill(name); err != nil {
			return err
		}
	}
	r.ID = requestID(n.caller, r, e.Text("request_id"), e.number()+" "+e.time())
	if err := n.addRequest(e, r); err != nil {
		return err
	}
	if r.Skill != "" && r.Turn != "" && e.session != "" {
		n.clue(e, dedupRequest, r.Turn, r.Skill, "", r.At)
	}
	return nil
}

// codexResponse reads the event of a complete response.
func (n *normalizer) codexResponse(e event) error {
	if e.Text("event.kind") != "response.completed" {
		return nil
	}
	tokens, err := codexUsage(e.Attributes)
	if err != nil {
		return ignoreNone(err)
	}
	return n.addInferred(e, e.session, tokens, "codex", e.session, e.time())
}

// geminiResponse reads the event of a response of Gemini CLI.
func (n *normalizer) geminiResponse(e event) error {
	tokens, err := geminiUsage(e.Attributes)
	if err != nil {
		return ignoreNone(err)
	}
	return n.addInferred(e, e.session, tokens, "gemini", e.session, e.Text("prompt_id"), e.time())
}

// isModelCall reports whether a span is that of one request to a model, not of an
// agent around it, which has the sum of the tokens. Claude Code and Codex report
// the same requests by logs.
func isModelCall(e event) bool {
	if strings.HasPrefix(e.name, "claude_code.") || strings.HasPrefix(e.name, "codex.") {
		return false
	}
	operation, _, _ := strings.Cut(e.name, " ")
	if named := e.Text("gen_ai.operation.name"); named != "" {
		operation = named
	}
	switch operation {
	case "chat", "generate_content", "text_completion":
		return true
	}
	return strings.HasPrefix(e.name, "ai.") &&
		(strings.HasSuffix(e.name, ".doStream") || strings.HasSuffix(e.name, ".doGenerate"))
}

// modelCall reads the span of a model call. Two instrumentations may report the same
// one, the span of the one within that of the other: they agree on the response.
func (n *normalizer) modelCall(e event, span *trace.Span) error {
	end := span.GetEndTimeUnixNano()
	if end != 0 && end < e.nanos {
		return errNegative
	}
	session := n.sessionOf(e)
	if finish := e.Text("ai.response.finishReason", "ai.finishReason"); finish != "" && finish != "tool-calls" {
		// OpenCode has one trace for a session: this is how a turn ends.
		last := e
		last.nanos = max(end, e.nanos+2000) // after the request
		if err := n.endTurn(last, session); err != nil {
			return err
		}
	}
	tokens, err := genAIUsage(e.Attributes)
	if err != nil {
		return ignoreNone(err)
	}
	if response := e.Text("gen_ai.response.id", "ai.response.id"); response != "" {
		return n.addInferred(e, session, tokens, "response", e.trace, response)
	}
	return n.addInferred(e, session, tokens, "span", e.trace, hex.EncodeToString(span.GetSpanId()))
}

// ignoreNone leaves out what is no request.
func ignoreNone(err error) error {
	if errors.Is(err, errNoTokens) {
		return nil
	}
	return err
}

// addInferred adds a request whose skill is that of the last mark before it. The
// tokens are part of its key: they tell apart what a producer numbers badly.
func (n *normalizer) addInferred(e event, session string, tokens costs.Tokens, natural ...string) error {
	return n.addRequest(e, costs.Request{
		ID: n.id("model_request_inferred", append(natural, fmt.Sprint(tokens))...), Session: session, Inferred: true,
		Tokens: tokens,
		Model:  e.Text("gen_ai.response.model", "ai.response.model", "gen_ai.request.model", "ai.model.id", "model"),
	})
}

// addRequest adds a request, unless its time or its numbers are absurd.
func (n *normalizer) addRequest(e event, r costs.Request) (err error) {
	if r.At, err = n.timeOf(e.nanos); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	n.requests = append(n.requests, r)
	n.touchSession(e, false)
	return nil
}

// requestID returns the id of a request of Claude Code, which OTLP and an imported
// transcript both report: that of the API, which also identifies a line that was
// copied into the transcript of another session. Some providers have none. Then a
// request is known by its turn and tokens, else by a name within its session.
func requestID(c access.Caller, r costs.Request, api, name string) string {
	natural := "api\n" + api
	switch {
	case api != "":
	case r.Turn != "":
		natural = fmt.Sprintf("turn\n%s\n%s\n%s\n%v", r.Session, r.Turn, r.Model, r.Tokens)
	default:
		natural = "name\n" + r.Session + "\n" + name
	}
	return skills.ID(c.OrgID, c.UserID, "model_request", natural)
}

// mark attributes the following requests of a session to a skill; to none if it is "".
func (n *normalizer) mark(session, skill string, at time.Time) {
	n.addMark(costs.Mark{Session: session, Skill: skill, At: at})
}

func (n *normalizer) addMark(m costs.Mark) {
	if m.Session != "" {
		n.marks = append(n.marks, m)
	}
}

// markSpan marks the activation of a skill that a span reports, in the session and
// in the trace: spans of model calls in other bodies may not name the session.
func (n *normalizer) markSpan(e event, o skills.Observation) {
	session := n.sessionOf(e)
	n.mark(session, o.SkillName, o.At)
	if e.trace != session {
		n.mark(e.trace, o.SkillName, o.At)
	}
}

// endTurn marks the end of a turn, just before an event: what follows belongs to no
// skill until one is activated.
func (n *normalizer) endTurn(e event, session string) error {
	at, err := n.timeOf(e.nanos)
	if err == nil {
		n.mark(session, "", at.Add(-time.Microsecond))
	}
	return err
}

// logsPrompts reports whether the agent that sends a span logs the prompts by which
// its turns begin. Gemini CLI has a trace for every request, so its root spans end
// no turn.
func (e event) logsPrompts() bool {
	return agentName(e.Text("service.name")) == "gemini-cli" || e.Text("gen_ai.agent.name") == "gemini-cli"
}

// sessionOf returns the session of a span: that which it names, else that which
// another span of its trace names, else the trace.
func (n *normalizer) sessionOf(e event) string {
	if session := n.sessions[e.trace]; !e.named && session != "" {
		return session
	}
	return e.session
}

// sessionsByTrace returns the sessions that spans of generative AI name.
func sessionsByTrace(data *trace.TracesData) map[string]string {
	sessions := map[string]string{}
	for _, resource := range data.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				e := newEvent(otlp.Attributes{span.GetAttributes()}, span.GetTraceId())
				agent := e.Text("gen_ai.operation.name") != "" || strings.HasPrefix(span.GetName(), "ai.")
				if e.named && agent && e.trace != "" && !strings.HasPrefix(span.GetName(), "claude_code.") {
					sessions[e.trace] = e.session
				}
			}
		}
	}
	return sessions
}
