package telemetry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// records returns the stored records of a kind and user, in no order.
func (c *client) records(kind string) []object {
	c.T.Helper()
	rows, err := c.World.DB.Query(c.T.Context(),
		`SELECT body FROM telemetry_records WHERE user_id = $1 AND kind = $2`, c.User.ID, kind)
	bodies, err := store.All(rows, err, store.Value[string])
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	all := []object{}
	for _, body := range bodies {
		var o object
		if err := json.Unmarshal([]byte(body), &o); err != nil {
			c.T.Fatalf("%v in %s", err, body)
		}
		all = append(all, o)
	}
	return all
}

// wantRecords compares the stored records of a kind.
func (c *client) wantRecords(kind string, want ...object) {
	c.T.Helper()
	if diff := cmp.Diff(apptest.Plain(c.T, append([]object{}, want...)), apptest.Plain(c.T, c.records(kind))); diff != "" {
		c.T.Errorf("%s (-want +got):\n%s", kind, diff)
	}
}

// mustPush pushes records that must all be accepted.
func (c *client) mustPush(canonical object) {
	c.T.Helper()
	got := c.push(uuid.NewString(), canonical).Want(http.StatusCreated).Object()
	if rejected := got["rejected"].([]any); len(rejected) > 0 {
		c.T.Errorf("rejected %v", rejected)
	}
}

// TestKinds: a record of every kind is accepted and stored with all its fields.
func TestKinds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		now := stamp(time.Now())
		kept := map[string]object{
			"session":            {"session_id": "s", "model": "m", "completion_status": "dreaming", "ended_at": nil},
			"execution_fact":     {"session_id": "s", "execution_fact_id": "1", "tool_calls_json": object{"Bash": 2}, "total_tool_calls": 2},
			"normalization_run":  {"run_id": "r", "run_at": now, "repair_applied": false},
			"evolution_evidence": {"evidence_id": "e", "skill_name": "pdf", "stage": "proposed", "details": []any{1, object{"a": nil}}},
			"orchestrate_run":    {"run_id": "r", "timestamp": now, "skill_actions": []any{object{"skill": "pdf", "action": "package-search"}}},
			"grading_result":     {"grading_id": "g", "session_id": "s", "skill_name": "pdf", "graded_at": now, "pass_rate": 0.75, "claims_json": "[]"},
			"improvement_signal": {"signal_id": "i", "session_id": "s", "query": "make a table", "consumed_by_run": nil},
		}
		ada.mustPush(object{
			"sessions": []any{kept["session"]}, "execution_facts": []any{kept["execution_fact"]},
			"normalization_runs": []any{kept["normalization_run"]}, "evolution_evidence": []any{kept["evolution_evidence"]},
			"orchestrate_runs": []any{kept["orchestrate_run"]}, "grading_results": []any{kept["grading_result"]},
			"improvement_signals": []any{kept["improvement_signal"]},
			"prompts": []any{object{
				"prompt_id": "s:p0", "session_id": "s", "occurred_at": now, "prompt_text": "make a table",
				"prompt_kind": "user", "is_actionable": true,
			}},
			"skill_invocations": []any{check("1", object{"matched_prompt_id": "s:p0"})},
		})
		for kind, want := range kept {
			ada.wantRecords(kind, want)
		}
		if n := w.Count("telemetry_records"); n != len(kept) {
			t.Errorf("%d records, want %d", n, len(kept))
		}
		// The query text of an invocation is that of its prompt.
		if n := w.Count(`telemetry_prompts p JOIN skill_observations o ON o.prompt_hash = p.hash
			WHERE p.prompt_text = 'make a table' AND p.kind = 'user' AND p.prompt_id = 's:p0'`); n != 1 {
			t.Errorf("the invocation finds %d prompts", n)
		}
	})
}

// bad is an invalid record, and the reason.
type bad struct {
	array   string
	record  object
	message string
}

func badRecords(now time.Time) []bad {
	grading := func(with object) object {
		record := object{"grading_id": "g", "session_id": "s", "skill_name": "pdf", "graded_at": stamp(now), "pass_rate": 1}
		for key, value := range with {
			record[key] = value
		}
		return record
	}
	prompt := func(with object) object {
		record := object{"prompt_id": "p", "session_id": "s", "occurred_at": stamp(now)}
		for key, value := range with {
			record[key] = value
		}
		return record
	}
	long := strings.Repeat("x", 1025)
	const cleanName = "skill_name must be a skill's own name of 1 to 200 bytes"
	return []bad{
		{"sessions", object{"session_id": " "}, "session_id is required"},
		{"sessions", object{"session_id": long}, "session_id is too long or holds a NUL character"},
		{"sessions", object{"session_id": 5}, "session_id: unexpected number"},
		{"prompts", prompt(object{"prompt_id": nil}), "prompt_id is required"},
		{"prompts", prompt(object{"session_id": nil}), "session_id is required"},
		{"prompts", prompt(object{"occurred_at": nil}), "occurred_at is required"},
		{"prompts", prompt(object{"prompt_text": []any{}}), "prompt_text: unexpected array"},
		{"skill_invocations", check("", nil), "skill_invocation_id is required"},
		{"skill_invocations", check("a\x00", nil), "skill_invocation_id is too long or holds a NUL character"},
		{"skill_invocations", check("a", object{"session_id": nil}), "session_id is required"},
		{"skill_invocations", check("a", object{"session_id": true}), "session_id: unexpected bool"},
		{"skill_invocations", check("a", object{"skill_name": nil}), "skill_name is required"},
		{"skill_invocations", check("a", object{"skill_name": "NUL\x00"}), cleanName},
		{"skill_invocations", check("a", object{"skill_name": strings.Repeat("x", 201)}), cleanName},
		{"skill_invocations", check("a", object{"triggered": nil}), "triggered is required"},
		{"skill_invocations", check("a", object{"triggered": 1}), "triggered: unexpected number"},
		{"skill_invocations", check("a", object{"confidence": 1.001}), "confidence must be between 0 and 1"},
		{"skill_invocations", check("a", object{"confidence": -0.001}), "confidence must be between 0 and 1"},
		{"skill_invocations", check("a", object{"confidence": "high"}), "confidence: unexpected string"},
		{"skill_invocations", check("a", object{"confidence": json.Number("1e999")}), "confidence: unexpected number 1e999"},
		{"skill_invocations", check("a", object{"occurred_at": "2026-01-02"}), "occurred_at must be an ISO 8601 time with an offset"},
		{"skill_invocations", check("a", object{"occurred_at": stamp(now.Add(24*time.Hour + time.Minute))}), "occurred_at lies too far in the future or the past"},
		{"skill_invocations", check("a", object{"occurred_at": "1969-12-31T23:59:59Z"}), "occurred_at lies too far in the future or the past"},
		{"execution_facts", object{"session_id": "s"}, "execution_fact_id must be a string or a number"},
		{"execution_facts", object{"session_id": "s", "execution_fact_id": nil}, "execution_fact_id is required"},
		{"execution_facts", object{"session_id": "s", "execution_fact_id": true}, "execution_fact_id must be a string or a number"},
		{"execution_facts", object{"execution_fact_id": 1}, "session_id is required"},
		{"normalization_runs", object{"run_id": 1}, "run_id is required and must be a string"},
		{"evolution_evidence", object{"evidence_id": ""}, "evidence_id is required and must be a string"},
		{"orchestrate_runs", object{}, "run_id is required and must be a string"},
		{"improvement_signals", object{"signal_id": long}, "signal_id is required and must be a string"},
		{"grading_results", grading(object{"grading_id": nil}), "grading_id is required"},
		{"grading_results", grading(object{"session_id": nil}), "session_id is required"},
		{"grading_results", grading(object{"skill_name": nil}), "skill_name is required"},
		{"grading_results", grading(object{"graded_at": stamp(now.AddDate(1, 0, 0))}), "graded_at lies too far in the future or the past"},
		{"grading_results", grading(object{"pass_rate": 1.1}), "pass_rate must be between 0 and 1"},
		{"grading_results", grading(object{"pass_rate": "1"}), "pass_rate: unexpected string"},
		{"grading_results", grading(object{"pass_rate": nil, "passed_count": 3, "total_count": 2}), "passed_count / total_count must be between 0 and 1"},
	}
}

func TestBadRecords(t *testing.T) {
	kinds := map[string]string{"evolution_evidence": "evolution_evidence"}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		canonical, want := object{}, object{}
		for _, b := range badRecords(time.Now()) {
			all, _ := canonical[b.array].([]any)
			kind := strings.TrimSuffix(b.array, "s")
			if kinds[b.array] != "" {
				kind = kinds[b.array]
			}
			want[fmt.Sprint(kind, " ", len(all))] = b.message
			canonical[b.array] = append(all, b.record)
		}
		got := object{}
		for _, r := range ada.push("", canonical).Want(http.StatusCreated).Object()["rejected"].([]any) {
			r := r.(object)
			got[fmt.Sprint(r["kind"], " ", r["index"])] = r["message"]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rejected (-want +got):\n%s", diff)
		}
		for _, table := range []string{
			"skills", "skill_observations", "skill_gradings", "telemetry_prompts", "telemetry_records",
		} {
			if n := w.Count(table); n != 0 {
				t.Errorf("%s has %d rows", table, n)
			}
		}
	})
}

// TestPlaceholders: hidden names count as unattributed and never become skills.
func TestPlaceholders(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		var checks, gradings []object
		for i, name := range []string{"custom_skill", "third-party", "", " custom_skill ", "\t"} {
			checks = append(checks, check(fmt.Sprint(i), object{"skill_name": name}))
			gradings = append(gradings, object{
				"grading_id": fmt.Sprint(i), "session_id": "s", "skill_name": name,
				"graded_at": stamp(time.Now()), "pass_rate": 1,
			})
		}
		id := uuid.NewString()
		ada.push(id, object{"skill_invocations": checks, "grading_results": gradings}).Want(http.StatusCreated).
			WantBody(object{"status": "accepted", "push_id": id, "accepted": 10, "unattributed": 10, "rejected": []any{}})
		if n := w.Count("skills"); n != 0 {
			t.Errorf("%d skills", n)
		}
		ada.wantRecords("session", object{"session_id": "s"})
		ada.Get("/v1/skills/custom_skill").Want(http.StatusNotFound)
	})
}
