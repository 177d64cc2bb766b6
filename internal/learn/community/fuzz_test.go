package community_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/community"
)

// FuzzBundle checks that a bundle is either refused with the paths of its
// mistakes, or can be stored, with a digest that does not depend on white space.
func FuzzBundle(f *testing.F) {
	for _, seed := range []string{
		`{"schema_version":"1.2","skill_name":"pdf","contributor_id":"01900000-0000-7000-8000-000000000000","created_at":"2026-01-02T03:04:05Z","tool_version":"1","agent_type":"x","sanitization_level":"conservative","positive_queries":[{"query":"q","invocation_type":"implicit","source":"s"}],"eval_entries":[{"query":"q","should_trigger":true}],"grading_summary":{"total_sessions":1,"graded_sessions":1,"average_pass_rate":0.5,"expectation_count":1},"evolution_summary":null,"session_metrics":{"total_sessions":1,"avg_assistant_turns":1,"avg_tool_calls":1,"avg_errors":0,"top_tools":[{"tool":"x","count":1}]}}`,
		`{"schema_version":"1.0","contributor_id":"01900000-0000-7000-8000-000000000000","created_at":"2026-01-02T03:04:05Z","agent_type":"x","sanitization_level":"\u0000","positive_queries":[],"eval_entries":[],"grading_summary":null,"evolution_summary":null,"session_metrics":{"total_sessions":1e300},"more":{"a":[1e400]}}`,
		`{}`, `null`, `[{}]`, `{"schema_version":5}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // httpapi has decoded it before
		}
		n := community.New{OrgID: "org", CreatorID: "user", SkillName: "pdf", Bundle: raw}
		got, err := n.Read([]byte("secret"))
		if err != nil {
			if !fault.Is(err, fault.Malformed) {
				t.Fatalf("%v is not about the bundle", err)
			}
			return
		}
		if !json.Valid([]byte(got.Bundle)) || !utf8.ValidString(got.Bundle) || len(got.ContributorHash) != 12 ||
			got.Summary.TotalSessions < 0 || got.Summary.GradedSessions < 0 || got.Summary.DeployedProposals < 0 {
			t.Errorf("accepted %+v", got)
		}
		var spaced bytes.Buffer
		if err := json.Indent(&spaced, raw, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		n.Bundle = spaced.Bytes()
		if again, err := n.Read([]byte("secret")); err != nil || again.Digest != got.Digest {
			t.Errorf("the same bundle with other spaces: %v, digest %s, want %s", err, again.Digest, got.Digest)
		}
	})
}
