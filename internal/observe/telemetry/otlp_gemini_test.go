package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// geminiSpan is a span of Gemini CLI, which begins a trace of its own for every
// request and every round of tool calls.
func geminiSpan(trc int, at time.Time, operation string) *trace.Span {
	return &trace.Span{
		TraceId: fmt.Appendf(nil, "gemini-%09d", trc), SpanId: fmt.Appendf(nil, "span%04d", trc), Name: operation,
		StartTimeUnixNano: nanos(at), EndTimeUnixNano: nanos(at.Add(500 * time.Millisecond)),
		Attributes: attributes("gen_ai.operation.name", operation, "gen_ai.agent.name", "gemini-cli",
			"gen_ai.agent.description", "Gemini CLI is an open-source AI agent", "gen_ai.conversation.id", "g"),
	}
}

// TestGeminiTraces: the traces that the same settings switch on take no request
// from its skill, whichever of them arrive first.
func TestGeminiTraces(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		at := anHourAgo()
		event := func(second int, name string, pairs ...any) *logs.LogRecord {
			return &logs.LogRecord{TimeUnixNano: nanos(at.Add(time.Duration(second) * time.Second)), Attributes: append(
				attributes("event.name", "gemini_cli."+name, "session.id", "g", "prompt_id", "g########0"), attributes(pairs...)...)}
		}
		response := func(second int) *logs.LogRecord {
			return event(second, "api_response", "model", "gemini-3-pro", "input_token_count", 1200, "output_token_count", second)
		}
		records := logsOf(event(0, "user_prompt"), response(2), geminiCall(at.Add(3*time.Second), "activate_skill", `{"name":"pdf-tables"}`, true),
			response(5), response(8), event(10, "user_prompt"), response(12))
		var spans []*trace.Span
		for i, second := range []int{1, 4, 7, 11} {
			spans = append(spans, geminiSpan(2*i, at.Add(time.Duration(second)*time.Second), "llm_call"),
				geminiSpan(2*i+1, at.Add(time.Duration(second)*time.Second+700*time.Millisecond), "schedule_tool_calls"))
		}
		for name, messages := range map[string][]proto.Message{
			"logs": {records}, "logs then traces": {records, spansOf(spans...)}, "traces then logs": {spansOf(spans...), records},
		} {
			c := w.org("gemini " + name).in(t)
			for _, m := range append(messages, messages...) {
				c.take(inProtobuf, m)
			}
			cost := c.Get("/v1/skills/pdf-tables").Want(200).Object()["skill"].(object)["cost"].(object)
			if cost["requests"] != 2.0 {
				t.Errorf("%s: %v requests of the skill, want 2", name, cost["requests"])
			}
		}
	})
}

// geminiCall is Gemini CLI's log of a tool call.
func geminiCall(at time.Time, function, args string, success bool) *logs.LogRecord {
	return &logs.LogRecord{
		TimeUnixNano: nanos(at), Body: anyValue("Tool call: " + function + ". Success: true. Duration: 5ms."),
		Attributes: attributes("session.id", "g", "installation.id", "i", "interactive", false,
			"event.name", "gemini_cli.tool_call", "event.timestamp", at.Format(time.RFC3339Nano),
			"function_name", function, "function_args", args, "duration_ms", 5, "success", success, "decision", "auto_accept",
			"prompt_id", "g########1", "tool_type", "native"),
	}
}

// TestGemini: a call of the tool that loads a skill is an activation, unless it
// failed.
func TestGemini(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		at := anHourAgo()
		for _, way := range otlpWays { // all but the first are retries
			data := logsOf(
				geminiCall(at, "activate_skill", "{\n  \"name\": \"pdf-tables\"\n}", true),
				geminiCall(at.Add(time.Second), "activate_skill", `{"name":"pdf-tables"}`, false),
				geminiCall(at, "write_file", `{"name":"secret-plan"}`, true),
				geminiCall(at, "activate_skill", `no JSON`, true),
			)
			data.ResourceLogs[0].Resource = &resource.Resource{Attributes: attributes("service.name", "gemini-cli")}
			data.ResourceLogs[0].ScopeLogs[0].Scope = &common.InstrumentationScope{Name: "gemini-cli"}
			c.take(way, data)
		}
		c.wantFigures("pdf-tables", figures{
			Sessions: 1, Checks: 2, Triggers: 1, TriggerRate: share(1), Confidence: share(0.6), Covered: share(1),
		})
		if names := c.skillNames(); len(names) != 1 {
			t.Errorf("skills %v, want one", names)
		}
	})
}
