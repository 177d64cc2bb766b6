package telemetry_test

import (
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// aiCall is the span of a tool call in OpenCode.
func aiCall(at time.Time, call, tool, args string, pairs ...any) *trace.Span {
	return &trace.Span{
		TraceId: []byte("trace-2........."), SpanId: []byte("call" + (call + "....")[:4]), Name: "ai.toolCall",
		StartTimeUnixNano: nanos(at), EndTimeUnixNano: nanos(at.Add(time.Second)),
		Attributes: append(attributes("operation.name", "ai.toolCall session.llm", "resource.name", "session.llm",
			"ai.operationId", "ai.toolCall", "ai.toolCall.name", tool, "ai.toolCall.id", call,
			"ai.toolCall.args", args, "ai.toolCall.result", "what it read"), attributes(pairs...)...),
	}
}

// TestOpenCode: a call of the tool that loads a skill is an activation, unless it
// failed. Its span may not name the session, which is then the trace.
func TestOpenCode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		at := anHourAgo()
		failing := aiCall(at.Add(time.Second), "c2", "skill", `{"name":"pdf-tables"}`)
		failing.Status = failed()
		unnamed := aiCall(at, "", "skill", `{"name":"deploy"}`)
		for _, way := range otlpWays {
			c.take(way, spansOf(
				aiCall(at, "c1", "skill", `{"name":"pdf-tables"}`), failing, unnamed,
				aiCall(at, "c3", "bash", `{"name":"secret-plan"}`),
				aiCall(at, "c4", "skill", `{"name":"notes"}`, "ai.telemetry.metadata.sessionId", "ses_1"),
			))
		}
		fired := figures{Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(0.6), Covered: share(1)}
		c.wantFigures("deploy", fired)
		c.wantFigures("notes", fired)
		fired.Checks = 2
		c.wantFigures("pdf-tables", fired)
		if names := c.skillNames(); len(names) != 3 {
			t.Errorf("skills %v, want three", names)
		}
	})
}
