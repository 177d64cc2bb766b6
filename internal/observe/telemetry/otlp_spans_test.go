package telemetry_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func failed() *trace.Status { return &trace.Status{Code: trace.Status_STATUS_CODE_ERROR} }

// without returns attributes except some.
func without(all []*common.KeyValue, keys ...string) (rest []*common.KeyValue) {
	drop := map[string]bool{}
	for _, key := range keys {
		drop[key] = true
	}
	for _, a := range all {
		if !drop[a.Key] {
			rest = append(rest, a)
		}
	}
	return rest
}

// copilot writes the spans of one prompt in Copilot.
type copilot struct {
	conversation string
	trace        string // 16 characters
	at           time.Time
}

// agent is the span of the whole prompt. It lists the offered skills, and has an
// event for each that was activated.
func (c copilot) agent(installed []string, used ...string) *trace.Span {
	span := &trace.Span{
		TraceId: []byte(c.trace), SpanId: []byte("agent..."), Name: "invoke_agent", Kind: trace.Span_SPAN_KIND_CLIENT,
		StartTimeUnixNano: nanos(c.at), EndTimeUnixNano: nanos(c.at.Add(time.Minute)),
		Attributes: attributes("gen_ai.operation.name", "invoke_agent", "gen_ai.provider.name", "github",
			"gen_ai.conversation.id", c.conversation,
			"enduser.pseudo.id", "u-17", "github.copilot.context.skills", installed),
	}
	for i, skill := range used {
		span.Events = append(span.Events, &trace.Span_Event{
			Name: "github.copilot.skill.invoked", TimeUnixNano: nanos(c.at.Add(time.Duration(i+1) * time.Second)),
			Attributes: attributes("gen_ai.skill.name", skill, "github.copilot.skill.path",
				"/home/jo/.copilot/skills/"+skill+"/SKILL.md"),
		})
	}
	return span
}

// tool is the span of a tool call. Copilot's does not name the conversation.
func (c copilot) tool(call string, pairs ...any) *trace.Span {
	return &trace.Span{
		TraceId: []byte(c.trace), SpanId: []byte("tool" + call), ParentSpanId: []byte("agent..."), Name: "execute_tool skill",
		StartTimeUnixNano: nanos(c.at.Add(2 * time.Second)), EndTimeUnixNano: nanos(c.at.Add(3 * time.Second)),
		Attributes: append(attributes("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "skill",
			"gen_ai.tool.call.id", call),
			attributes(pairs...)...),
	}
}

// TestCopilot: the event and the span of the tool report one activation; skills
// that were only offered lower the trigger rate.
func TestCopilot(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		at := anHourAgo()
		names := c.everyOrder(func(skill string) []any {
			p := copilot{conversation: "conversation-1", trace: fmt.Sprintf("%16s", skill), at: at}
			return []any{
				p.agent([]string{skill, "unused"}, skill, skill),
				p.tool("call", "gen_ai.skill.name", skill),
				p.tool("cal2", "github.copilot.tool.parameters.skill_name", skill),
				p.tool("read", "gen_ai.skill.name", skill, "gen_ai.skill.resource.name", "references/fields.md"),
			}
		})
		idle := copilot{conversation: "conversation-2", trace: "another trace...", at: at}
		c.take(inJSON, spansOf(idle.agent(append(names, "unused"))))
		for _, name := range names {
			c.wantFigures(name, figures{Sessions: 2, Checks: 2, Triggers: 2, TriggerRate: share(0.5), Covered: share(0)})
		}
		c.wantFigures("unused", figures{Sessions: 2, TriggerRate: share(0)})
	})
}

// TestCopilotTriggers: a skill that the user chose is explicit.
func TestCopilotTriggers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for trigger, want := range map[string]*float64{
			"user-invoked": share(1), "agent-invoked": share(0.6), "context-load": nil, "": nil,
		} {
			t.Run(trigger, func(t *testing.T) {
				c := w.org("trigger " + trigger).in(t)
				p := copilot{conversation: "c", trace: "trace-1.........", at: anHourAgo()}
				span := p.agent(nil, "pdf-forms")
				span.Events[0].Attributes = append(span.Events[0].Attributes,
					attributes("github.copilot.skill.invocation_trigger", trigger)...)
				c.take(inProtobuf, spansOf(span))
				covered := 0.0
				if want != nil {
					covered = 1
				}
				c.wantFigures("pdf-forms", figures{
					Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: want,
					Covered: &covered,
				})
			})
		}
	})
}

// TestCopilotEvent: the event alone is an activation, under the names that
// Copilot gave its attribute in turn.
func TestCopilotEvent(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for _, key := range []string{"gen_ai.skill.name", "github.copilot.skill.name", "skill.name"} {
			c := w.org("event " + key).in(t)
			span := copilot{conversation: "c", trace: "trace-1.........", at: anHourAgo()}.agent([]string{"pdf-forms"}, "pdf-forms")
			span.Events[0].Attributes = attributes(key, "pdf-forms", "github.copilot.skill.source", "project",
				"github.copilot.skill.invocation_trigger", "user-invoked")
			for _, way := range otlpWays {
				c.take(way, spansOf(span))
			}
			c.wantFigures("pdf-forms", figures{
				Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(1), Covered: share(1),
			})
		}
	})
}

// TestCopilotBuiltIns: the skills that Copilot brings along are none of the
// organisation, unless an event says that one is the person's own.
func TestCopilotBuiltIns(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		p := copilot{conversation: "c", trace: "trace-1.........", at: anHourAgo()}
		c := w.org("acme")
		c.take(inProtobuf, spansOf(p.agent([]string{"customize-cloud-agent", "github-pr-media", "pdf-forms"}, "pdf-forms"),
			p.tool("call", "github.copilot.tool.parameters.skill_name", "github-pr-media")))
		if names := c.skillNames(); !slices.Equal(names, []string{"pdf-forms"}) {
			t.Errorf("skills %v, want pdf-forms", names)
		}
		own := p.agent(nil, "github-pr-media")
		own.Events[0].Attributes = append(own.Events[0].Attributes, attributes("github.copilot.skill.source", "project")...)
		c.take(inProtobuf, spansOf(own))
		if names := c.skillNames(); !slices.Equal(names, []string{"github-pr-media", "pdf-forms"}) {
			t.Errorf("skills %v, want the project's github-pr-media, too", names)
		}
	})
}

// TestExecuteTool covers any agent that follows the conventions.
func TestExecuteTool(t *testing.T) {
	fired := figures{Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Covered: share(0)}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		p := copilot{trace: "trace-1.........", at: anHourAgo()}
		change := func(span *trace.Span, fn func(*trace.Span)) *trace.Span {
			fn(span)
			return span
		}
		for _, test := range []struct {
			name  string
			spans []*trace.Span
			want  figures
		}{
			{"loading", []*trace.Span{p.tool("call", "gen_ai.skill.name", "pdf-forms", "gen_ai.skill.description", "Fills in forms.",
				"gen_ai.skill.source.uri", "https://skills.example.com/pdf-forms")}, fired},
			{"loading by its file", []*trace.Span{p.tool("call", "gen_ai.skill.name", "pdf-forms", "gen_ai.skill.resource.name", "SKILL.md")}, fired},
			{"known by its name only", []*trace.Span{change(p.tool("call", "gen_ai.skill.name", "pdf-forms"), func(s *trace.Span) {
				s.Name, s.Attributes = "execute_tool", without(s.Attributes, "gen_ai.operation.name", "gen_ai.tool.call.id")
			})}, fired},
			{
				"failed",
				[]*trace.Span{change(p.tool("call", "gen_ai.skill.name", "pdf-forms"),
					func(s *trace.Span) { s.Status = failed() })},
				figures{Sessions: 1, Checks: 1, TriggerRate: share(0), Covered: nil},
			},
			{"another operation", []*trace.Span{change(p.tool("call", "gen_ai.skill.name", "pdf-forms"), func(s *trace.Span) {
				s.Name, s.Attributes[0] = "chat gpt", attributes("gen_ai.operation.name", "chat")[0]
			})}, figures{}},
			{"no skill", []*trace.Span{p.tool("call")}, figures{}},
			{"hidden skill", []*trace.Span{p.tool("call", "gen_ai.skill.name", "third-party")}, figures{}},
			{"use only", []*trace.Span{
				p.tool("rea1", "gen_ai.skill.name", "pdf-forms", "gen_ai.skill.resource.name", "references/a.md"),
				p.tool("rea2", "gen_ai.skill.name", "pdf-forms", "gen_ai.skill.resource.name", "references/b.md"),
				p.tool("run1", "gen_ai.skill.name", "pdf-forms", "process.executable.name", "python3"),
			}, fired},
			{
				"without a trace",
				[]*trace.Span{change(p.tool("call", "gen_ai.skill.name", "pdf-forms"), func(s *trace.Span) { s.TraceId = nil })},
				figures{Checks: 1, Triggers: 1, Covered: share(0)},
			},
		} {
			t.Run(test.name, func(t *testing.T) {
				c := w.org(test.name).in(t)
				c.take(inJSON, spansOf(test.spans...))
				c.take(inProtobuf, spansOf(test.spans...))
				c.wantFigures("pdf-forms", test.want)
			})
		}
	})
}
