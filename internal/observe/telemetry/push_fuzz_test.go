package telemetry_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
)

// FuzzPush: every record is either accepted or listed as rejected, accepted ones
// are valid, and reading a body twice gives the same.
func FuzzPush(f *testing.F) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	const at = `"2026-05-30T10:00:00Z"`
	for _, seed := range []string{
		`{"schema_version":"2.0","push_id":"01900000-0000-7000-8000-000000000000","canonical":{}}`,
		`{"canonical":{"sessions":[{"session_id":"s","started_at":` + at + `}],"prompts":[{"prompt_id":"p","session_id":"s","occurred_at":` + at + `,"prompt_text":"hi","prompt_kind":"user"}]}}`,
		`{"canonical":{"skill_invocations":[{"skill_invocation_id":"i","session_id":"s","occurred_at":` + at + `,"skill_name":"pdf","triggered":true,"confidence":0.9,"skill_version_hash":"ab","tool_call_id":"t"}]}}`,
		`{"canonical":{"grading_results":[{"grading_id":"g","session_id":"s","skill_name":"pdf","graded_at":` + at + `,"passed_count":1,"total_count":3,"pass_rate":null}]}}`,
		`{"canonical":{"execution_facts":[{"execution_fact_id":5,"session_id":"s"}],"normalization_runs":[{"run_id":"r"}],"improvement_signals":[null,5,{}]}}`,
		`{"canonical":{"model_requests":[{"request_id":"r","session_id":"s","occurred_at":` + at + `,"skill_name":"pdf","model":"m","input_tokens":1,"output_tokens":"2","cache_creation_tokens":3.0,"cache_creation_1h_tokens":null}],` +
			`"execution_facts":[{"execution_fact_id":"f","session_id":"s","occurred_at":` + at + `,"input_tokens":1e3,"cached_input_tokens":-1,"cost_usd":0.1,"active_skills":["pdf"],"raw_source_ref":{"path":"f.jsonl"}}]}}`,
		`{"canonical":{"skill_invocations":[{"skill_invocation_id":"\u0000","session_id":"\ud800","skill_name":"","confidence":1e400}]}}`,
		`{"canonical":{"prompts":{"a":1},"sessions":"x"}}`, `{"canonical":null}`, `[]`, `{"push_id":5}`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := telemetry.ReadPush(raw, now)
		if err != nil {
			if !fault.Is(err, fault.Malformed) {
				t.Fatalf("%v is not about the body", err)
			}
			return
		}
		for _, o := range got.Observations {
			checkObservation(t, o, now)
		}
		checkRequests(t, got, now)
		if sent := countRecords(raw); got.Accepted+len(got.Rejected) < sent {
			t.Errorf("%d records were sent, %d taken and %d refused", sent, got.Accepted, len(got.Rejected))
		}
		for _, r := range got.Rejected {
			if r.Kind == "" || r.Message == "" || r.Index < 0 {
				t.Errorf("refused without a reason: %+v", r)
			}
		}
		again, err := telemetry.ReadPush(raw, now)
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Errorf("read twice, %v: %s", err, diff)
		}
	})
}

// countRecords counts the records of the arrays that the service knows.
func countRecords(raw []byte) (n int) {
	var body struct {
		Canonical map[string]json.RawMessage `json:"canonical"`
	}
	if json.Unmarshal(raw, &body) != nil {
		return 0
	}
	for _, array := range []string{"prompts", "skill_invocations", "grading_results", "execution_facts", "model_requests", "sessions"} {
		var records []json.RawMessage
		if json.Unmarshal(body.Canonical[array], &records) == nil {
			n += len(records)
		}
	}
	return n
}

// FuzzPushID: an id is a UUID in canonical form, or "".
func FuzzPushID(f *testing.F) {
	for _, seed := range []string{
		"", "01900000-0000-7000-8000-000000000000", "{01900000-0000-7000-8000-000000000000}",
		"urn:uuid:01900000-0000-7000-8000-00000000000A", "x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id := telemetry.CanonicalPushID(text)
		if id == "" {
			return
		}
		if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id || telemetry.CanonicalPushID(id) != id {
			t.Errorf("%q became %q", text, id)
		}
	})
}
