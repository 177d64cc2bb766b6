package telemetry_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestCapturedSessions: OTLP logs, spans and an import of the same session report
// the same prompts and tool calls under the same ids, and agree on what failed.
func TestCapturedSessions(t *testing.T) {
	scenarios, err := filepath.Glob("testdata/agents/claude-*-logs.jsonl")
	if err != nil || len(scenarios) < 10 {
		t.Fatalf("%d captures: %v", len(scenarios), err)
	}
	for _, file := range scenarios {
		scenario := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "claude-"), "-logs.jsonl")
		t.Run(scenario, func(t *testing.T) {
			logged, read := outcomes(captured(t, "claude-"+scenario, "logs")), outcomes(imported(t, scenario))
			if len(logged) == 0 {
				t.Error("no events")
			}
			if scenario == "unknown" { // Claude Code does not log the call of a skill that it does not have
				maps.DeleteFunc(read, func(key, _ string) bool { return strings.HasSuffix(key, "toolu_msg_TestClaudeCodeunknown_1_0") })
			}
			if diff := cmp.Diff(logged, read); diff != "" {
				t.Errorf("events (-OTLP +import):\n%s", diff)
			}
			for key := range outcomes(captured(t, "claude-"+scenario, "traces")) {
				if _, ok := logged[key]; !ok {
					t.Errorf("only the spans have %s", key)
				}
			}
		})
	}
}

// outcomes returns the events of a reading by session, kind and id: their names
// and whether they worked. Only an import has facts: that there was no call.
func outcomes(all telemetry.Reading) map[string]string {
	found := map[string]string{}
	for _, e := range all.Events {
		if e.Kind == sessions.Fact {
			continue
		}
		key := fmt.Sprint(e.Session, " ", e.Kind, " ", e.ID)
		outcome := e.Name + " unknown"
		if e.OK != nil {
			outcome = fmt.Sprint(e.Name, " ", *e.OK)
		}
		if earlier := found[key]; earlier == "" || strings.HasSuffix(earlier, "unknown") {
			found[key] = outcome
		}
	}
	return found
}

// TestCapturedCodexSessions: the events of Codex's logs.
func TestCapturedCodexSessions(t *testing.T) {
	all := captured(t, "codex-explicit", "logs")
	kinds := map[sessions.Kind]int{}
	for _, e := range all.Events {
		kinds[e.Kind]++
		if e.Kind == sessions.Tool && (e.Name != "exec_command" || e.ID == "") {
			t.Errorf("tool call %+v", e)
		}
	}
	if kinds[sessions.UnnamedPrompt] != 1 || kinds[sessions.Tool] == 0 {
		t.Errorf("events %v", kinds)
	}
}

// course is one session as OTLP reports it, and as an import does.
func course(at time.Time) (reported []*logs.LogRecord, pushed object) {
	record := func(name string, d time.Duration, pairs ...any) *logs.LogRecord {
		return &logs.LogRecord{
			TimeUnixNano: nanos(at.Add(d)),
			Attributes:   attributes(append([]any{"event.name", name, "session.id", "s", "prompt.id", "p1"}, pairs...)...),
		}
	}
	reported = []*logs.LogRecord{
		record("user_prompt", 0, "event.sequence", 1, "prompt", secret, "prompt_length", "5"),
		record("tool_decision", 2*time.Second, "event.sequence", 2, "tool_name", "Skill", "tool_use_id", "c1", "decision", "accept", "tool_parameters", `{"skill_name":"pdf"}`),
		record("skill_activated", 2*time.Second, "event.sequence", 3, "skill.name", "pdf", "invocation_trigger", "claude-proactive"),
		record("tool_result", 3*time.Second, "event.sequence", 4, "tool_name", "Skill", "tool_use_id", "c1", "success", "true", "duration_ms", "1000", "tool_parameters", `{"skill_name":"pdf"}`),
		record("tool_result", 5*time.Second, "event.sequence", 5, "tool_name", "Bash", "tool_use_id", "c2", "success", "false", "duration_ms", "1000", "tool_input", secret),
		record("tool_decision", 6*time.Second, "event.sequence", 6, "tool_name", "Write", "tool_use_id", "c3", "decision", "reject"),
		record("api_request", 7*time.Second, "event.sequence", 7, "request_id", "r1", "model", "claude-sonnet-4-5", "input_tokens", 100, "output_tokens", 10, "cost_usd_micros", 450),
		record("api_error", 8*time.Second, "event.sequence", 8, "status_code", "529", "error", secret),
	}
	base := func(d time.Duration, fields object) object {
		return apptest.With(object{"session_id": "s", "platform": "claude_code", "occurred_at": stamp(at.Add(d)), "normalized_at": stamp(at)}, fields)
	}
	pushed = object{
		"sessions": []any{object{"session_id": "s", "platform": "claude_code", "started_at": stamp(at), "ended_at": stamp(at.Add(9 * time.Second))}},
		"prompts":  []any{base(0, object{"prompt_id": "s:p0", "source_prompt_id": "p1", "prompt_text": secret, "prompt_kind": "user"})},
		"skill_invocations": []any{base(2*time.Second, object{
			"skill_invocation_id": "s:c1", "skill_name": "pdf", "triggered": true, "invocation_mode": "inferred", "confidence": 0.6, "tool_call_id": "c1", "source_prompt_id": "p1",
		})},
		"tool_calls": []any{
			base(2*time.Second, object{"tool_call_id": "c1", "tool_name": "Skill", "duration_ms": 1000, "success": true}),
			base(4*time.Second, object{"tool_call_id": "c2", "tool_name": "Bash", "duration_ms": 1000, "success": false}),
			base(6*time.Second, object{"tool_call_id": "c3", "tool_name": "Write", "duration_ms": 0, "success": false}),
		},
		"model_requests": []any{base(7*time.Second, object{"request_id": "r1", "source_prompt_id": "p1", "model": "claude-sonnet-4-5", "input_tokens": 100, "output_tokens": 10})},
	}
	return reported, pushed
}

// TestSessions: a session that OTLP, an import or both report, in any order and
// twice, is one, with each event once.
func TestSessions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		at := time.Now().Add(-3 * time.Hour).Truncate(time.Second)
		reported, pushed := course(at)
		sendOTLP := func(c *client) { c.export(inJSON, logsOf(reported...)).Want(http.StatusOK) }
		sendEach := func(c *client) {
			for _, r := range slices.Backward(reported) {
				c.export(inJSON, logsOf(r)).Want(http.StatusOK)
			}
		}
		sendPush := func(c *client) { c.push(uuid.NewString(), pushed).Want(http.StatusCreated) }
		grade := func(c *client) {
			c.push("", object{"grading_results": []any{object{
				"grading_id": "g", "session_id": "s", "skill_name": "pdf", "graded_at": stamp(at.Add(time.Hour)), "pass_rate": 0.25,
			}}}).Want(http.StatusCreated)
		}
		for name, send := range map[string][]func(*client){
			"OTLP":             {sendOTLP, grade},
			"OTLP one by one":  {grade, sendEach},
			"OTLP then import": {sendOTLP, sendPush, grade},
			"import then OTLP": {grade, sendPush, sendEach},
			"twice":            {sendPush, sendOTLP, grade, sendEach, sendPush},
			"graded first":     {grade, sendOTLP},
		} {
			c := w.org(name)
			for _, s := range send {
				s(c)
			}
			list := c.Get("/v1/sessions").Want(http.StatusOK).List("sessions")
			if len(list) != 1 {
				t.Errorf("%s: %d sessions", name, len(list))
				continue
			}
			want := object{
				"session_id": "s", "turns": 1, "tool_calls": 3, "tool_errors": 2, "cost_usd": 0.00045, "has_content": false,
				"started_at": stamp(at), "skills": []any{object{"name": "pdf", "activated": true, "offered": false, "version": nil}},
				"grade": object{"pass_rate": 0.25, "basis": "pushed"},
			}
			got := apptest.Without(list[0], "agent", "ended_at")
			if diff := cmp.Diff(apptest.Plain(t, want), any(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			var course []string
			for _, e := range apptest.List(t, c.Get("/v1/sessions/s").Want(http.StatusOK).Field("session"), "events") {
				seconds, err := time.Parse(time.RFC3339, apptest.Text(e, "at"))
				if err != nil {
					t.Fatal(err)
				}
				course = append(course, fmt.Sprint(seconds.Sub(at), " ", e["kind"], " ", e["name"], " ", e["ok"]))
			}
			slices.Sort(course)
			events := []string{
				"0s prompt  <nil>", "1h0m0s grade pdf false", "2s tool Skill true", "3s activation pdf true", "4s tool Bash false",
				"6s tool Write false", "7s response claude-sonnet-4-5 <nil>", "8s error 529 false",
			}
			if !strings.Contains(name, "OTLP") && name != "twice" && name != "graded first" {
				events = events[:7]
			}
			if diff := cmp.Diff(events, course); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", name, diff)
			}
		}
		if found := w.TablesWith(secret); !slices.Equal(found, []string{"telemetry_prompts"}) {
			t.Errorf("%v tell", found)
		}
	})
}

// TestSessionsOfSpans: tool calls of OpenTelemetry's conventions for generative AI.
// A trace without the name of a conversation is no session.
func TestSessionsOfSpans(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		span := func(trace, call string, pairs ...any) *tracepb.Span {
			return &tracepb.Span{
				Name: "execute_tool x", TraceId: []byte(trace), SpanId: []byte("span " + call), StartTimeUnixNano: nanos(anHourAgo()),
				EndTimeUnixNano: nanos(anHourAgo().Add(time.Second)),
				Attributes: attributes(append([]any{
					"gen_ai.operation.name", "execute_tool", "gen_ai.tool.name", "search", "gen_ai.tool.call.id", call,
				}, pairs...)...),
			}
		}
		c.export(inJSON, spansOf(
			span("the first trace.", "001", "gen_ai.conversation.id", "talk"), span("the first trace.", "002"), // of the same trace
		)).Want(http.StatusOK)
		c.export(inJSON, spansOf(span("the second trace", "003"))).Want(http.StatusOK)
		list := c.Get("/v1/sessions").Want(http.StatusOK).List("sessions")
		if len(list) != 1 || list[0]["session_id"] != "talk" || list[0]["tool_calls"] != float64(2) {
			t.Errorf("sessions %v", list)
		}
	})
}

// TestUnnamedTurns: a prompt that Codex logs, without an id, and that its import has, too,
// is one turn, in every order; of two that only one of them tells of, there are two.
func TestUnnamedTurns(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		at := anHourAgo()
		logged := func(after time.Duration) func(*client) {
			return func(c *client) { c.take(inProtobuf, logsOf(codexLog(at.Add(after), "codex.user_prompt"))) }
		}
		inEveryOrder(t, newWorld(t, db), []func(*client){
			logged(0), logged(time.Minute), func(c *client) {
				c.push(uuid.NewString(), object{"prompts": []any{object{
					"prompt_id": "c:p0", "source_prompt_id": "turn-1", "session_id": "c", "occurred_at": stamp(at), "prompt_kind": "user",
				}}}).Want(http.StatusCreated)
			},
		}, func(c *client) {
			if got := c.Get("/v1/sessions").List("sessions")[0]["turns"]; got != 2.0 {
				c.T.Errorf("%v turns, want 2", got)
			}
		})
	})
}

// TestFactCounts: execution facts count the calls of a session of which no call is
// reported; what nothing reports is null.
func TestFactCounts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		at := stamp(anHourAgo())
		call := object{"tool_call_id": "c1", "tool_name": "Bash", "success": true, "session_id": "own", "occurred_at": at}
		facts := func(session string) []any {
			return []any{
				object{"execution_fact_id": 1, "session_id": session, "occurred_at": at, "total_tool_calls": 3, "errors_encountered": 1},
				object{"execution_fact_id": "2", "session_id": session, "occurred_at": at, "total_tool_calls": "2"},
			}
		}
		inEveryOrder(t, newWorld(t, db), []func(*client){
			func(c *client) {
				c.push(uuid.NewString(), object{"execution_facts": facts("facts")}).Want(http.StatusCreated)
			},
			func(c *client) {
				c.push(uuid.NewString(), object{"execution_facts": facts("own")}).Want(http.StatusCreated)
			},
			func(c *client) { c.push(uuid.NewString(), object{"tool_calls": []any{call}}).Want(http.StatusCreated) },
			func(c *client) {
				c.take(inProtobuf, spansOf(aiCall(anHourAgo(), "c4", "bash", `{}`, "ai.telemetry.metadata.sessionId", "opencode")))
			},
		}, func(c *client) {
			want := map[string]string{"facts": "<nil> 5 1", "own": "<nil> 1 0", "opencode": "<nil> 1 0"}
			got := map[string]string{}
			for _, s := range c.Get("/v1/sessions").List("sessions") {
				got[apptest.Text(s, "session_id")] = fmt.Sprint(s["turns"], " ", s["tool_calls"], " ", s["tool_errors"])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				c.T.Errorf("turns, calls and errors (-want +got):\n%s", diff)
			}
		})
	})
}

// TestToolCallRecords: one bad record loses no other.
func TestToolCallRecords(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		now := stamp(time.Now())
		good := object{"tool_call_id": "1", "session_id": "s", "occurred_at": now, "tool_name": secret + " with spaces"}
		answer := c.push("", object{"tool_calls": []any{
			good, apptest.Without(good, "tool_call_id"), apptest.Without(good, "session_id"), apptest.Without(good, "occurred_at"),
			apptest.With(good, object{"duration_ms": -1}), apptest.With(good, object{"duration_ms": "long"}),
			apptest.With(good, object{"occurred_at": "2999-01-01T00:00:00Z"}), 7,
		}}).Want(http.StatusCreated)
		if got := len(answer.List("rejected")); got != 7 {
			t.Errorf("%d rejected, want 7: %s", got, answer.Body)
		}
		session := c.Get("/v1/sessions/s").Want(http.StatusOK).Field("session")
		if session["tool_calls"] != float64(1) || len(w.TablesWith(secret)) > 0 {
			t.Errorf("session %v, tables %v", session, w.TablesWith(secret))
		}
	})
}

// TestOutcomeRecords: one bad record loses no other, and nothing but the outcome is
// stored.
func TestOutcomeRecords(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		good := object{
			"outcome_id": "1", "session_id": "s", "occurred_at": stamp(time.Now()), "outcome": "tests_passed", "passed": true,
			"command": secret,
		}
		outcomes := object{"outcomes": []any{
			good, apptest.With(good, object{"outcome_id": "2", "outcome": "commit_survived", "passed": false}),
			apptest.With(good, object{"outcome_id": secret, "outcome": "interrupted", "passed": false}),
			apptest.With(good, object{"outcome": secret}), apptest.With(good, object{"outcome": "tool_errors"}),
			apptest.With(good, object{"outcome": "interrupted"}), apptest.With(good, object{"passed": nil}),
			apptest.With(good, object{"passed": "yes"}), apptest.Without(good, "outcome"), apptest.Without(good, "outcome_id"),
			apptest.Without(good, "session_id"), apptest.Without(good, "occurred_at"),
		}}
		answer := c.push("", outcomes).Want(http.StatusCreated)
		if got := len(answer.List("rejected")); got != 9 {
			t.Errorf("%d rejected, want 9: %s", got, answer.Body)
		}
		session := c.Get("/v1/sessions/s").Want(http.StatusOK).Field("session")
		got := map[string]any{}
		for _, e := range session["events"].([]any) {
			e := e.(object)
			got[e["kind"].(string)+" "+e["name"].(string)] = e["ok"]
		}
		want := map[string]any{"grade tests_passed": true, "grade commit_survived": false, "error interrupted": false}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if session["tool_calls"] != nil || session["grade"] != nil || len(w.TablesWith(secret)) > 0 {
			t.Errorf("session %v, tables %v", session, w.TablesWith(secret))
		}
	})
}

// TestSessionsAreErased: by their owner, and by the retention.
func TestSessionsAreErased(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		ada := w.org("acme")
		bob := w.member(ada.Org, access.Member)
		reported, _ := course(time.Now().Add(-3 * time.Hour))
		for _, c := range []*client{ada, bob} {
			c.export(inJSON, logsOf(reported...)).Want(http.StatusOK)
		}
		ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		if n := len(ada.Get("/v1/sessions").Want(http.StatusOK).List("sessions")); n != 1 {
			t.Errorf("%d sessions after the erasure, want bob's", n)
		}
		w.Exec(`UPDATE agent_sessions SET reported_at = $1`, store.Micros(time.Now().Add(-retention-2*time.Hour)))
		w.run(retainJob{})
		for _, table := range []string{"agent_sessions", "agent_session_events", "agent_session_skills"} {
			if n := w.Count(table); n != 0 {
				t.Errorf("%s has %d rows after the retention", table, n)
			}
		}
	})
}
