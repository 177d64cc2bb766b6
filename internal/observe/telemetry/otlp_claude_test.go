package telemetry_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestClaudeCodeSession sends a session as Claude Code reports it with
// OTEL_LOG_TOOL_DETAILS=1, in every encoding.
func TestClaudeCodeSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for _, way := range otlpWays {
			t.Run(way.name, func(t *testing.T) {
				c := w.org(way.name).in(t)
				s := &claude{session: "739044cd-ce53", at: anHourAgo()}
				c.take(way, logsOf(
					s.event("user_prompt", "p1", "prompt_length", "42", "prompt", "fill in the form"),
					s.event("api_request", "p1", "model", "claude", "cost_usd", 0.01, "skill.name", "third-party"),
					s.decision("p1", "pdf-forms", "toolu_1", "accept"),
					s.activated("p1", "pdf-forms", "claude-proactive"),
					s.result("p1", "pdf-forms", "toolu_1", true),
					s.activated("p2", "pdf-forms", "user-slash"),
					s.decision("p3", "pdf-forms", "toolu_2", "reject"),
					s.result("p3", "pdf-forms", "toolu_3", false),
					s.activated("p4", "acme:deploy", "nested-skill"),
					s.result("p4", "acme:deploy", "toolu_4", true),
					s.activated("p5", "docs", "agent-preload"),
					s.result("p5", "/review", "toolu_5", true),
					s.event("tool_result", "p5", "tool_name", "Bash", "tool_use_id", "toolu_6", "success", "true",
						"tool_parameters", `{"bash_command":"ls"}`),
				))
				c.wantFigures("pdf-forms", figures{
					Sessions: 1, Checks: 4, Triggers: 2, TriggerRate: share(1), Confidence: share(0.8), Covered: share(1),
				})
				c.wantFigures("acme:deploy", figures{
					Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(0.6), Covered: share(1),
				})
				unknown := figures{Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Covered: share(0)}
				c.wantFigures("docs", unknown)
				c.wantFigures("review", unknown)
				if names := c.skillNames(); len(names) != 4 {
					t.Errorf("skills %v, want four", names)
				}
			})
		}
	})
}

// TestClaudeCodeHidesNames: without OTEL_LOG_TOOL_DETAILS only Anthropic's own
// skills have names. No request names those of plugins: the sender is warned.
func TestClaudeCodeHidesNames(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		s := &claude{session: "s", at: anHourAgo()}
		hidden := logsOf(
			s.activated("p1", "custom_skill", "claude-proactive"),
			s.activated("p1", "third-party", "claude-proactive"),
			s.activated("p1", "", "user-slash"),
			s.activated("p1", "  ", "user-slash"),
			s.event("tool_result", "p1", "tool_name", "Skill", "tool_use_id", "toolu_1", "success", "true"),
			s.event("tool_result", "p1", "tool_name", "Skill", "tool_use_id", "toolu_2", "success", "true",
				"tool_parameters", "no JSON"),
			s.event("tool_decision", "p1", "tool_name", "Skill", "tool_use_id", "toolu_3", "decision", "reject"),
			s.activated("p1", "init", "claude-proactive"),
		)
		const warning = "1 activations hide the name of their skill and count for none: " +
			"set OTEL_LOG_TOOL_DETAILS=1 where Claude Code runs"
		c.wantPartial(inProtobuf, hidden, 0, warning)
		c.wantPartial(inJSON, hidden, 0, warning)
		c.take(inProtobuf, spansOf(s.span("", "toolu_1")))
		if diff := cmp.Diff([]string{"init"}, c.skillNames()); diff != "" {
			t.Errorf("skills (-want +got):\n%s", diff)
		}
		c.wantFigures("init", figures{
			Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(0.6),
			Covered: share(1),
		})
	})
}

// onTheWire formats a time as the API does.
const onTheWire = "2006-01-02T15:04:05.000Z"

// TestClaudeCodeInAnyOrder: one prompt used a skill twice. Deduplication yields
// two activations in whatever order their signals arrive, alone or in one body,
// once or repeated, even if a push reports one of them, too.
func TestClaudeCodeInAnyOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		at := anHourAgo()
		signals := func(skill string) []any {
			s := &claude{session: skill, at: at}
			return []any{
				s.activated("p1", skill, "claude-proactive"), s.result("p1", skill, "toolu_1", true),
				s.activated("p1", skill, "claude-proactive"), s.result("p1", skill, "toolu_2", true),
				object{
					"skill_invocation_id": skill + ":1", "session_id": skill, "occurred_at": at.Format(time.RFC3339),
					"normalized_at": at.Add(time.Minute).Format(time.RFC3339), "skill_name": skill, "invocation_mode": "implicit",
					"triggered": true, "confidence": 0.9, "tool_name": "Skill", "tool_call_id": "toolu_1",
				},
			}
		}
		names := c.everyOrder(signals)
		permutations(4, func(order []int) {
			name := fmt.Sprintf("at-once-%d%d%d%d", order[0], order[1], order[2], order[3])
			all := signals(name)
			var body []*logs.LogRecord
			for _, i := range append(order, order...) {
				body = append(body, all[i].(*logs.LogRecord))
			}
			c.take(inProtobuf, logsOf(body...))
			c.sendAll(inProtobuf, all[4:])
			names = append(names, name)
		})
		want := figures{
			Sessions: 1, Checks: 2, Triggers: 2, TriggerRate: share(1), Confidence: share(0.75), Covered: share(1),
			First: at.Format(onTheWire), Last: at.Add(4 * time.Second).Format(onTheWire), // of the push, of the second result
		}
		for _, name := range names {
			if diff := cmp.Diff(want, c.figures(name)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// TestClaudeCodeAtOnce: signals of one prompt arrive in many concurrent requests.
func TestClaudeCodeAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		s := &claude{session: "s", at: anHourAgo()}
		const uses = 8
		var wg sync.WaitGroup
		for i := range uses {
			for _, record := range []*logs.LogRecord{
				s.activated("p1", "pdf-forms", "claude-proactive"), s.result("p1", "pdf-forms", fmt.Sprint("toolu_", i), true),
			} {
				wg.Go(func() {
					if a := c.export(inProtobuf, logsOf(record)); a.Status != http.StatusOK {
						t.Errorf("status %d: %s", a.Status, a.Body)
					}
				})
			}
		}
		wg.Wait()
		c.wantFigures("pdf-forms", figures{
			Sessions: 1, Checks: uses, Triggers: uses, TriggerRate: share(1), Confidence: share(0.6), Covered: share(1),
		})
	})
}

// TestClaudeCodeSpans: the span of a call counts if no event reports the call;
// otherwise the events take precedence.
func TestClaudeCodeSpans(t *testing.T) {
	fired := figures{Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Covered: share(0)}
	refused := figures{Sessions: 1, Checks: 1, TriggerRate: share(0)}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for _, test := range []struct {
			name    string
			signals func(s *claude, skill string) []any
			want    figures
		}{
			{"alone", func(s *claude, skill string) []any { return []any{s.span(skill, "toolu_1")} }, fired},
			{"failed", func(s *claude, skill string) []any {
				span := s.span(skill, "toolu_1")
				span.Status = failed()
				return []any{span}
			}, refused},
			{"with its result", func(s *claude, skill string) []any {
				return []any{s.span(skill, "toolu_1"), s.result("p1", skill, "toolu_1", true)}
			}, fired},
			{"with a refusal", func(s *claude, skill string) []any {
				return []any{s.span(skill, "toolu_1"), s.decision("p1", skill, "toolu_1", "reject")}
			}, refused},
			{"with a failure", func(s *claude, skill string) []any {
				return []any{s.span(skill, "toolu_1"), s.result("p1", skill, "toolu_1", false)}
			}, refused},
			{"without a call id", func(s *claude, skill string) []any { return []any{s.span(skill, "")} }, figures{}},
			{"of another tool", func(s *claude, _ string) []any {
				span := s.span("", "toolu_1")
				span.Attributes = without(span.Attributes, "tool_name", "skill_name")
				return []any{span}
			}, figures{}},
			{"with all", func(s *claude, skill string) []any {
				return []any{
					s.span(skill, "toolu_1"), s.decision("p1", skill, "toolu_1", "accept"),
					s.activated("p1", skill, "claude-proactive"), s.result("p1", skill, "toolu_1", true),
				}
			}, figures{Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(0.6), Covered: share(1)}},
		} {
			t.Run(test.name, func(t *testing.T) {
				c := w.org(test.name).in(t)
				at := anHourAgo()
				names := c.everyOrder(func(skill string) []any { return test.signals(&claude{session: skill, at: at}, skill) })
				for _, name := range names {
					c.wantFigures(name, test.want)
				}
			})
		}
	})
}

// TestClaudeCodeWithoutJoinKeys: events without a key are identified by the next
// best one, and a repetition still counts once.
func TestClaudeCodeWithoutJoinKeys(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for _, test := range []struct {
			name   string
			drop   []string
			checks int
		}{
			{"no call", []string{"tool_use_id"}, 2},
			{"no prompt", []string{"prompt.id"}, 4},
			{"no number", []string{"event.sequence"}, 2},
			{"neither call nor number", []string{"tool_use_id", "event.sequence"}, 2},
			{"neither prompt nor call nor number", []string{"prompt.id", "tool_use_id", "event.sequence"}, 4},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := &claude{session: "s", at: anHourAgo()}
				body := logsOf(
					s.activated("p1", "pdf-forms", "claude-proactive"), s.result("p1", "pdf-forms", "toolu_1", true),
					s.activated("p1", "pdf-forms", "claude-proactive"), s.result("p1", "pdf-forms", "toolu_2", true),
				)
				for _, record := range body.ResourceLogs[0].ScopeLogs[0].LogRecords {
					record.Attributes = without(record.Attributes, test.drop...)
				}
				c := w.org(test.name).in(t)
				c.take(inProtobuf, body)
				c.take(inJSON, body)
				if got := c.figures("pdf-forms"); got.Checks != test.checks || got.Triggers != test.checks || got.Sessions != 1 {
					t.Errorf("%d checks, %d triggers, %d sessions; want %d, %d, 1", got.Checks, got.Triggers, got.Sessions,
						test.checks, test.checks)
				}
			})
		}
	})
}

// TestClaudeCodeNames: the name of an event is found in every place where
// producers and collectors put it.
func TestClaudeCodeNames(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		s := &claude{session: "s", at: anHourAgo()}
		byBody, byField := s.activated("p1", "by-body", "user-slash"), s.activated("p1", "by-field", "user-slash")
		byBody.Attributes = without(byBody.Attributes, "event.name")
		byField.Attributes = without(byField.Attributes, "event.name")
		byField.Body, byField.EventName = nil, "claude_code.skill_activated"
		byAttribute := s.activated("p1", "by-attribute", "user-slash")
		byAttribute.Body, byAttribute.TimeUnixNano = nil, 0 // observed time only
		c.take(inJSON, logsOf(byBody, byField, byAttribute))
		if diff := cmp.Diff([]string{"by-attribute", "by-body", "by-field"}, c.skillNames()); diff != "" {
			t.Errorf("skills (-want +got):\n%s", diff)
		}
	})
}
