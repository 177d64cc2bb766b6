package telemetry_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestSessionsAreDerived: clients often leave out the sessions that other records
// refer to.
func TestSessionsAreDerived(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme")
		ada.mustPush(invocations(check("1", nil)))
		ada.wantRecords("session", object{"session_id": "s"})
		ada.mustPush(object{
			"sessions":          []object{{"session_id": "s", "model": "m"}},
			"skill_invocations": []object{check("2", nil)},
		})
		ada.wantRecords("session", object{"session_id": "s", "model": "m"})
		ada.mustPush(invocations(check("3", nil)))
		ada.wantRecords("session", object{"session_id": "s", "model": "m"})
	})
}

// TestExecutionFacts are numbered from 1 in every session.
func TestExecutionFacts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		fact := func(session string, id any, with object) object {
			record := object{"session_id": session, "execution_fact_id": id}
			for key, value := range with {
				record[key] = value
			}
			return object{"execution_facts": []any{record}}
		}
		ada.mustPush(fact("a", "1000000", object{"assistant_turns": 1}))
		ada.mustPush(fact("b", "1000000", nil))
		ada.mustPush(fact("a", 1000000, object{"assistant_turns": 2}))
		w.member(ada.Org, access.Member).mustPush(fact("a", 1000000, nil))
		if n := len(ada.records("execution_fact")); n != 2 {
			t.Errorf("%d facts, want 2", n)
		}
		if n := w.Count("telemetry_records WHERE kind = 'execution_fact'"); n != 3 {
			t.Errorf("%d facts of both users, want 3", n)
		}
		if n := w.Count(`telemetry_records WHERE body LIKE '%"assistant_turns":2%' AND body LIKE '%"session_id":"a"%'`); n != 1 {
			t.Error("the later report did not reach the earlier")
		}
	})
}

// TestRecordsGrow: records repeat in later pushes with more fields. The newest
// normalization wins; fields that it leaves out stay.
func TestRecordsGrow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme")
		session := func(hour int, with object) object {
			record := object{"session_id": "s", "normalized_at": stamp(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC))}
			for key, value := range with {
				record[key] = value
			}
			return record
		}
		push := func(all ...object) { ada.mustPush(object{"sessions": all}) }
		push(session(2, object{"model": "second", "branch": nil}))
		ada.wantRecords("session", session(2, object{"model": "second", "branch": nil}))
		push(session(3, object{"model": nil, "branch": "main"}))
		ada.wantRecords("session", session(3, object{"model": "second", "branch": "main"}))
		push(session(1, object{"model": "first", "channel": "chat"})) // late
		ada.wantRecords("session", session(3, object{"model": "second", "branch": "main", "channel": "chat"}))
		push(session(3, object{"model": "third"}), session(4, object{"branch": "dev"}), session(0, object{"branch": "old"}))
		ada.wantRecords("session", session(4, object{"model": "third", "branch": "dev", "channel": "chat"}))
	})
}

// TestPromptsGrow is the same for prompts.
func TestPromptsGrow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		prompt := func(hour int, text, kind any) object {
			at := time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)
			return object{
				"prompt_id": "p", "session_id": "s", "occurred_at": stamp(at), "normalized_at": stamp(at),
				"prompt_text": text, "prompt_kind": kind,
			}
		}
		wantPrompt := func(hour int, text, kind string) {
			t.Helper()
			at := store.Micros(time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC))
			if n := w.Count("telemetry_prompts WHERE prompt_text = $1 AND kind = $2 AND occurred_at = $3 AND normalized_at = $3",
				text, kind, at); n != 1 {
				t.Errorf("the prompt is not %q of kind %q at %d", text, kind, hour)
			}
		}
		push := func(all ...object) { ada.mustPush(object{"prompts": all}) }
		push(prompt(2, "second", nil))
		wantPrompt(2, "second", "")
		push(prompt(1, "first", "meta"))
		wantPrompt(2, "second", "meta")
		push(prompt(3, nil, "user"))
		wantPrompt(3, "second", "user")
		push(prompt(4, "fourth", "user"), prompt(5, "", nil))
		wantPrompt(5, "fourth", "user")
	})
}

// TestInvocationQuirks covers deviations of real clients, one by one.
func TestInvocationQuirks(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []object
		want    object // of the day
		skill   object
	}{
		{
			"missed trigger",
			[]object{check("1", object{"triggered": false, "confidence": 0.5}), check("2", object{"confidence": 0.9})},
			object{"checks": 2.0, "triggers": 1.0, "avg_confidence": 0.9},
			object{"confidence_coverage": 1.0},
		},
		{
			"no confidence",
			[]object{check("1", object{"confidence": nil}), check("2", object{"confidence": 0.6})},
			object{"checks": 2.0, "triggers": 2.0, "avg_confidence": 0.6},
			object{"confidence_coverage": 0.5},
		},
		{
			"parents that never come",
			[]object{check("1", object{"matched_prompt_id": "nowhere", "session_id": "nowhere"})},
			object{"checks": 1.0, "sessions": 1.0},
			object{"unique_sessions": 1.0},
		},
		{
			"unknown words, extra keys, nulls",
			[]object{check("1", object{
				"invocation_mode": "telepathic", "platform": "toaster", "capture_mode": nil, "skill_path": "", "tool_name": nil,
				"agent_type": nil, "matched_prompt_id": nil, "tool_call_id": nil, "skill_version_hash": nil, "normalized_at": nil,
				"pass_rate": "none", "prompt_text": 5, "execution_fact_id": object{}, "grading_id": []any{},
				"extra": object{"a": 1},
			})},
			object{"checks": 1.0},
			object{"unique_sessions": 1.0},
		},
		{
			"one tool call, several records",
			[]object{check("1", object{"tool_call_id": "c"}), check("2", object{"tool_call_id": "c"})},
			object{"checks": 2.0, "sessions": 1.0},
			object{"unique_sessions": 1.0},
		},
		{
			"the same record twice",
			[]object{check("1", nil), check("1", nil)},
			object{"checks": 1.0},
			object{"unique_sessions": 1.0},
		},
		{
			"repaired",
			[]object{check("s:rmiss:pdf:0a", object{"invocation_mode": "repaired", "triggered": false, "confidence": 0.9})},
			object{"checks": 1.0, "triggers": 0.0, "trigger_rate": 0.0},
			object{"trigger_rate": 0.0},
		},
		{
			"another offset",
			[]object{check("1", object{"occurred_at": time.Now().In(time.FixedZone("", 5*3600)).Format(time.RFC3339)})},
			object{"checks": 1.0},
			object{"unique_sessions": 1.0},
		},
		{
			"a clock that runs ahead",
			[]object{check("1", object{"occurred_at": stamp(time.Now().Add(23 * time.Hour))})},
			object{"graded_sessions": 0.0},
			object{"unique_sessions": 1.0, "trigger_rate": 1.0},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ada := newWorld(t, storetest.Open(t, "sqlite")).org("acme")
			ada.mustPush(invocations(c.records...))
			day, skill := ada.day("pdf"), ada.Get("/v1/skills/pdf").Object()["skill"].(object)
			for key, want := range c.want {
				if day[key] != want {
					t.Errorf("%s of the day is %v, want %v", key, day[key], want)
				}
			}
			for key, want := range c.skill {
				if skill[key] != want {
					t.Errorf("%s is %v, want %v", key, skill[key], want)
				}
			}
		})
	}
}

// TestSameIDsOfTwoUsers are different records and different sessions.
func TestSameIDsOfTwoUsers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		records := object{
			"skill_invocations": []object{check("1", nil)},
			"grading_results":   []object{{"grading_id": "g", "session_id": "s", "skill_name": "pdf", "graded_at": stamp(time.Now()), "pass_rate": 1}},
		}
		for _, c := range []*client{ada, w.member(ada.Org, access.Member), w.org("other")} {
			c.mustPush(records)
			c.mustPush(records)
		}
		day := ada.day("pdf")
		for key, want := range (object{"checks": 2.0, "sessions": 2.0, "graded_sessions": 2.0}) {
			if day[key] != want {
				t.Errorf("%s is %v, want %v", key, day[key], want)
			}
		}
	})
}

// TestOddText: NUL and invalid UTF-8 are replaced or rejected, and never fail the
// push; nor does a second report of the same record.
func TestOddText(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme")
		now := stamp(time.Now())
		for i, odd := range []string{
			`\u0000`, `a\u0000b`, "\xff\xfe", `\ud800`, `\\u0000`, `\\\u0000`, `\u0000\u0000`,
			"\xed\xa0\x80", "é\xe9",
		} {
			raw := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(`{"canonical":{
				"sessions":[{"session_id":"s#","model":"ODD","ODD":"ODD","deep":[{"ODD":["ODD"]}]},{"session_id":"ODD"}],
				"prompts":[{"prompt_id":"p#","session_id":"s#","occurred_at":"NOW","prompt_text":"ODD","prompt_kind":"ODD"},
					{"prompt_id":"ODD","session_id":"ODD","occurred_at":"NOW","prompt_text":"ODD"}],
				"skill_invocations":[{"skill_invocation_id":"i#","session_id":"s#","skill_name":"pdf","occurred_at":"NOW","triggered":true,
					"matched_prompt_id":"ODD","skill_version_hash":"ODD","invocation_mode":"ODD","tool_call_id":"ODD","normalized_at":"ODD"},
					{"skill_invocation_id":"ODD","session_id":"ODD","skill_name":"odd ODD","occurred_at":"NOW","triggered":true}],
				"execution_facts":[{"session_id":"s#","execution_fact_id":"f#","agent_summary":"ODD"},{"session_id":"ODD","execution_fact_id":"ODD"}],
				"evolution_evidence":[{"evidence_id":"ODD","session_id":"ODD","rationale":"ODD"}],
				"grading_results":[{"grading_id":"g#","session_id":"s#","skill_name":"pdf","graded_at":"NOW","pass_rate":1,"claims_json":"ODD"},
					{"grading_id":"ODD","session_id":"ODD","skill_name":"ODD","graded_at":"NOW"}]}}`,
				"ODD", odd), "NOW", now), "#", fmt.Sprint(i))
			for range 2 { // the second finds the records of the first
				raw += " "
				got := ada.Do(http.MethodPost, "/api/v1/push", raw).Want(http.StatusCreated).Object()
				if n := got["accepted"].(float64); n < 6 {
					t.Errorf("%q: only %v were accepted: %v", odd, n, got["rejected"])
				}
			}
			ada.wantChecks(i + 1)
		}
		ada.Get("/v1/skills").Want(http.StatusOK)
		ada.Do(http.MethodPost, "/api/v1/push", []byte("{\"canonical\":{\x00}}")).Want(http.StatusBadRequest)
	})
}
