package telemetry_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// inEveryOrder calls the steps in every order, each time for an organisation of
// its own, and then check.
func inEveryOrder(t *testing.T, w *world, steps []func(*client), check func(*client)) {
	t.Helper()
	orders := [][]int{{}}
	for i := range steps {
		var longer [][]int
		for _, order := range orders {
			for at := range len(order) + 1 {
				longer = append(longer, append(append(append([]int{}, order[:at]...), i), order[at:]...))
			}
		}
		orders = longer
	}
	for _, order := range orders {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			c := w.org("org " + uuid.NewString()).in(t)
			for range 2 { // the second time changes nothing
				for _, i := range order {
					steps[i](c)
				}
			}
			check(c)
		})
	}
}

// TestSlashOnce: "/name" that OTLP and an import report is one activation: the
// prompt.id of the event is the transcript's promptId.
func TestSlashOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := &claude{session: "s", at: anHourAgo()}
		slash := s.activated("p1", "pdf-forms", "user-slash")
		otlp := func(c *client) { c.take(inProtobuf, logsOf(slash)) }
		imported := func(id, prompt string) func(*client) {
			return func(c *client) {
				c.push(uuid.NewString(), object{"skill_invocations": []any{object{
					"skill_invocation_id": id, "session_id": "s", "occurred_at": stamp(anHourAgo()), "skill_name": "pdf-forms",
					"triggered": true, "invocation_mode": "explicit", "confidence": 1, "source_prompt_id": prompt,
				}}}).Want(201)
			}
		}
		inEveryOrder(t, newWorld(t, db), []func(*client){otlp, imported("line 1:pdf-forms", "p1"), imported("line 9:pdf-forms", "p2")},
			func(c *client) {
				c.wantFigures("pdf-forms", figures{
					Sessions: 1, Checks: 2, Triggers: 2, TriggerRate: share(1), Confidence: share(1), Covered: share(1),
				})
			})
	})
}

// TestReportedConfidenceWins: OTLP does not say how sure the agent was, an import
// does.
func TestReportedConfidenceWins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := &claude{session: "s", at: anHourAgo()}
		activated, result := s.activated("p1", "pdf-forms", "claude-proactive"), s.result("p1", "pdf-forms", "toolu_1", true)
		inEveryOrder(t, newWorld(t, db), []func(*client){
			func(c *client) { c.take(inProtobuf, logsOf(activated)) },
			func(c *client) { c.take(inProtobuf, logsOf(result)) },
			func(c *client) {
				c.push(uuid.NewString(), object{"skill_invocations": []any{object{
					"skill_invocation_id": "line 2:toolu_1", "session_id": "s", "occurred_at": stamp(anHourAgo().Add(-time.Minute)),
					"skill_name": "pdf-forms", "triggered": true, "invocation_mode": "implicit", "confidence": 0.85,
					"tool_call_id": "toolu_1", "source_prompt_id": "p1",
				}}}).Want(201)
			},
		}, func(c *client) {
			c.wantFigures("pdf-forms", figures{
				Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(0.85), Covered: share(1),
			})
		})
	})
}

// TestCodexLogWins: a use that Codex reports by its log and by its counter counts
// once, with its session; uses that only the counter reports count, too.
func TestCodexLogWins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		at := anHourAgo()
		invoked := func(conversation, kind string, at time.Time) *logs.LogRecord {
			return &logs.LogRecord{ObservedTimeUnixNano: nanos(at), Attributes: attributes(
				"event.name", "codex.skill_invocation", "conversation.id", conversation, "turn.id", "1", "skill.name", "pdf-forms",
				"skill.scope", "repo", "skill.invocation_type", kind)}
		}
		log := func(c *client) {
			c.take(inProtobuf, logsOf(invoked("one", "explicit", at), invoked("one", "implicit", at.Add(time.Second)),
				invoked("two", "explicit", at.Add(2*time.Second))))
		}
		counter := func(c *client) {
			c.take(inProtobuf, counterOf(delta,
				// The start is a little after the event, and one use of three was not logged.
				injected(at.Add(3*time.Millisecond), at.Add(time.Minute), 3, "invoke_type", "explicit"),
				injected(at.Add(time.Second+time.Millisecond), at.Add(time.Minute), 1, "invoke_type", "implicit"),
			))
		}
		inEveryOrder(t, newWorld(t, db), []func(*client){log, counter}, func(c *client) {
			c.wantFigures("pdf-forms", figures{
				Sessions: 2, Checks: 4, Triggers: 4, TriggerRate: share(1), Confidence: share(0.9), Covered: share(1),
			})
		})
	})
}

// TestCodexBodies: an explicit invocation is logged just before the prompt of its
// turn. The turn costs the same however the events are split into bodies.
func TestCodexBodies(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		at := anHourAgo()
		event := func(after time.Duration, name string, pairs ...any) *logs.LogRecord {
			return codexLog(at.Add(after*time.Millisecond), name, pairs...)
		}
		response := func(after time.Duration, tokens string) *logs.LogRecord {
			return event(after, "codex.sse_event", "event.kind", "response.completed", "input_token_count", tokens, "output_token_count", "0")
		}
		body := func(records ...*logs.LogRecord) func(*client) {
			return func(c *client) { c.take(inProtobuf, logsOf(records...)) }
		}
		inEveryOrder(t, newWorld(t, db), []func(*client){
			body(event(0, "codex.skill_invocation", "turn.id", "1", "skill.name", "pdf-forms", "skill.invocation_type", "explicit")),
			body(event(11, "codex.user_prompt")),
			body(response(40, "7")),
			body(event(50, "codex.user_prompt"), response(90, "1000")),
		}, func(c *client) {
			cost := c.Get("/v1/skills/pdf-forms").Want(200).Object()["skill"].(object)["cost"].(object)
			if got := cost["tokens"].(object)["input"]; got != 7.0 || cost["requests"] != 1.0 {
				c.T.Errorf("the skill has %v requests with %v tokens, want 1 with 7", cost["requests"], got)
			}
		})
	})
}

// TestCodexImport: a use that Codex logs and that its transcript has is one, by its
// turn.
func TestCodexImport(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		at := anHourAgo()
		used := func(kind string, after time.Duration) *logs.LogRecord {
			return codexLog(at.Add(after), "codex.skill_invocation", "turn.id", "turn-1", "skill.name", "pdf-forms", "skill.invocation_type", kind)
		}
		inEveryOrder(t, newWorld(t, db), []func(*client){
			func(c *client) { c.take(inProtobuf, logsOf(used("explicit", 0))) },
			func(c *client) { c.take(inProtobuf, logsOf(used("implicit", time.Second))) },
			func(c *client) {
				var all []any
				for mode, confidence := range map[string]float64{"explicit": 1, "inferred": 0.6} {
					all = append(all, object{
						"skill_invocation_id": "turn-1:" + mode, "session_id": "c", "occurred_at": stamp(at.Add(5 * time.Millisecond)),
						"skill_name": "pdf-forms", "invocation_mode": mode, "triggered": true, "confidence": confidence,
						"source_prompt_id": "turn-1",
					})
				}
				c.push(uuid.NewString(), object{"skill_invocations": all}).Want(201)
			},
		}, func(c *client) {
			c.wantFigures("pdf-forms", figures{
				Sessions: 1, Checks: 2, Triggers: 2, TriggerRate: share(1), Confidence: share(0.8), Covered: share(1),
			})
		})
	})
}

// TestOffersOfSeveralDays: a session that is offered a skill on several days is in
// each of them, and the skill was first seen on the first.
func TestOffersOfSeveralDays(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		noon := time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour)
		offer := func(at time.Time) func(*client) {
			return func(c *client) {
				span := copilot{conversation: "x", trace: "0123456789abcdef", at: at}.agent([]string{"pdf-forms"})
				c.take(inProtobuf, spansOf(span))
			}
		}
		inEveryOrder(t, newWorld(t, db), []func(*client){
			offer(noon), offer(noon.Add(time.Hour)), offer(noon.AddDate(0, 0, -1)), offer(noon.AddDate(0, 0, -2)),
		}, func(c *client) {
			skill := c.Get("/v1/skills/pdf-forms?days=7").Want(200).Object()
			var days []float64
			for _, d := range skill["daily_stats"].([]any) {
				days = append(days, d.(object)["sessions"].(float64))
			}
			if got := fmt.Sprint(days[:7]); got != "[0 0 0 1 1 1 0]" {
				c.T.Errorf("sessions by day %s", got)
			}
			detail := skill["skill"].(object)
			want := object{
				"first_seen_at": stamp(noon.AddDate(0, 0, -2)), "last_seen_at": stamp(noon.Add(time.Hour)), "unique_sessions": 1.0,
				"trigger_rate": 0.0, "trigger_rate_basis": "offered", "offered_sessions": 1.0,
			}
			for field, value := range want {
				if detail[field] != value {
					c.T.Errorf("%s is %v, want %v", field, detail[field], value)
				}
			}
		})
	})
}

// TestInvokedThenRead: in Copilot, a skill that a person invoked and whose file
// was then read in the same trace was activated once.
func TestInvokedThenRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		p := copilot{conversation: "x", trace: "0123456789abcdef", at: anHourAgo()}
		invoked := p.agent(nil, "pdf-forms")
		invoked.Events[0].Attributes = append(invoked.Events[0].Attributes,
			attributes("github.copilot.skill.invocation_trigger", "user-invoked")...)
		read := p.tool("call", "gen_ai.skill.name", "pdf-forms", "gen_ai.skill.resource.name", "reference.md")
		inEveryOrder(t, newWorld(t, db), []func(*client){
			func(c *client) { c.take(inProtobuf, spansOf(invoked)) },
			func(c *client) { c.take(inProtobuf, spansOf(read)) },
		}, func(c *client) {
			c.wantFigures("pdf-forms", figures{
				Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Confidence: share(1), Covered: share(1),
			})
		})
	})
}

// TestGradingWithoutTotal: what did not pass failed.
func TestGradingWithoutTotal(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org("acme")
		for i, counts := range []object{
			{"passed_count": 3, "failed_count": 1},
			{"passed_count": 0, "failed_count": 0},                   // no verdict
			{"passed_count": 1, "failed_count": 1, "total_count": 4}, // the total says more
		} {
			grading := object{
				"grading_id": fmt.Sprint(i), "session_id": fmt.Sprint("s", i), "skill_name": "pdf-forms", "graded_at": stamp(anHourAgo()),
			}
			maps.Copy(grading, counts)
			c.push(uuid.NewString(), object{"grading_results": []any{grading}}).Want(201)
		}
		if f := c.figures("pdf-forms"); f.Graded != 2 || f.P == nil || *f.P != 0.5 {
			t.Errorf("got %+v, want two graded sessions with 0.75 and 0.25", f)
		}
	})
}
