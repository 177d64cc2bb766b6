package telemetry_test

import (
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

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
