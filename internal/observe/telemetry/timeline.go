package telemetry

import (
	"cmp"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
)

// A sessionSignal is a log record or a span of OTLP, redacted.
type sessionSignal struct {
	otlp.Attributes
	Name    string // without Claude Code's prefix
	Session string // as the agent calls it
	At      time.Time
	// Number identifies the signal within its session where nothing better does.
	Number string
}

// copilotPrompt is the event of a span by which Copilot reports a prompt.
const copilotPrompt = "github.copilot.user.message"

// logEvent returns the event that a log record, or an event of a span, reports. Most report
// none.
func logEvent(s sessionSignal) (e sessions.Event, ok bool) {
	switch s.Name {
	case "codex.user_prompt": // an import knows the id of the turn
		return s.event(sessions.UnnamedPrompt, ""), true
	case "user_prompt":
		return s.event(sessions.Prompt, s.Text("prompt.id", "prompt_id")), true
	case "gemini_cli.user_prompt": // its prompt_id is that of the session where there is no terminal
		return s.event(sessions.Prompt, s.Number), true
	case copilotPrompt:
		return s.event(sessions.Prompt, s.Number), s.Text("github.copilot.user.message.source") == "user"
	case "tool_result", "codex.tool_result":
		e = s.tool(s.Text("tool_use_id", "call_id"), s.Text("tool_name"))
		e.OK = s.succeeded()
	case "tool_decision", "codex.tool_decision":
		e = s.tool(s.Text("tool_use_id", "call_id"), s.Text("tool_name"))
		e.OK = refusal(s.Text("decision"))
	case "gemini_cli.tool_call":
		e = s.tool(s.Number, s.Text("function_name"))
		e.OK = s.succeeded()
	case "api_error", "gemini_cli.api_error":
		e = s.event(sessions.Error, s.Number)
		e.Name = s.Text("error.type", "error_type", "status_code", "http.response.status_code")
		failed := false
		e.OK = &failed
		return e, true
	default:
		return e, false
	}
	return e, e.ID != "" // without its id a call cannot be deduplicated
}

// spanEvent returns the tool call that a span reports, if it is one.
func spanEvent(s sessionSignal, end time.Time, failed bool) (e sessions.Event, ok bool) {
	operation, _, _ := strings.Cut(s.Name, " ")
	if operation != "execute_tool" && s.Text("gen_ai.operation.name") != "execute_tool" && s.Name != "ai.toolCall" {
		return e, false
	}
	e = s.event(sessions.Tool, s.Text("tool_use_id", "gen_ai.tool.call.id", "ai.toolCall.id"))
	e.Name = s.Text("tool_name", "gen_ai.tool.name", "ai.toolCall.name")
	if took := end.Sub(s.At); took >= 0 {
		e.Duration = &took
	}
	// The log of the same call knows more: it may have been refused.
	if worked := !failed; failed {
		e.OK = &worked
	}
	return e, true
}

// event returns an event of the session.
func (s sessionSignal) event(kind sessions.Kind, id string) sessions.Event {
	return sessions.Event{Session: s.Session, Kind: kind, ID: cmp.Or(id, s.Number), At: s.At}
}

// maxDuration is the longest duration that the start of a call is derived from.
const maxDuration = 366 * 24 * time.Hour

// tool returns a tool call, which is logged when it ends.
func (s sessionSignal) tool(id, name string) sessions.Event {
	e := sessions.Event{Session: s.Session, Kind: sessions.Tool, ID: id, At: s.At, Name: name}
	if ms, ok := s.Float("duration_ms"); ok {
		if e.Duration = milliseconds(&ms); e.Duration != nil && *e.Duration <= maxDuration {
			e.At = s.At.Add(-*e.Duration)
		}
	}
	return e
}

// Sighting returns that the session was seen.
func (s sessionSignal) Sighting(outside bool) sessions.Sighting {
	return sessions.Sighting{Session: s.Session, Agent: agentName(s.Text("service.name")), At: s.At, Outside: outside}
}

// maxMilliseconds is the longest duration that a number of them can be.
const maxMilliseconds = float64(1<<63-1) / float64(time.Millisecond)

// milliseconds returns a duration; nil without one, or if it is negative or absurd.
func milliseconds(ms *float64) *time.Duration {
	if ms == nil || !(*ms >= 0 && *ms < maxMilliseconds) {
		return nil
	}
	took := time.Duration(*ms * float64(time.Millisecond))
	return &took
}

func (s sessionSignal) succeeded() *bool {
	text := s.Text("success")
	if text == "" {
		return nil
	}
	worked := text != "false"
	return &worked
}

// refusal returns false for the decision against a tool call; one that was allowed
// may still fail.
func refusal(decision string) *bool {
	switch decision {
	case "reject", "denied", "abort", "timed_out":
		worked := false
		return &worked
	}
	return nil
}

// agentName returns the name of the agent by what it calls itself, e.g. "claude-code"
// for "claude_code", and "codex" for "codex_exec". It is "" for the default of
// OpenTelemetry's libraries.
func agentName(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	switch {
	case strings.HasPrefix(name, "unknown-service"):
		return ""
	case name == "codex" || strings.HasPrefix(name, "codex-"):
		return "codex"
	}
	return name
}
