package judge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/judge"
)

// FuzzFirstObject: what is found is the beginning of an object, and one that
// stands alone is found whole.
func FuzzFirstObject(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, "```json\n{\"a\":\"}\"}\n```", `x {"a":{"b":"\"}"}} {"c":1}`, `{`, `}{`, `{"\\":"\\"}`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := judge.FirstJSONObject(text)
		if ok && (!strings.HasPrefix(got, "{") || !strings.HasSuffix(got, "}") || !strings.Contains(text, got)) {
			t.Errorf("%q has no object %q", text, got)
		}
		if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) && got != trimmed {
			t.Errorf("%q is an object, and %q was found", trimmed, got)
		}
	})
}

// FuzzReply: whatever a server answers, it is an answer or says what it lacks.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"length"}]}`,
		`{"type":"message","model":"m","content":[{"type":"text","text":"a"},{"type":"tool_use","input":{"a":1}}],"stop_reason":"end_turn","usage":{"input_tokens":1}}`,
		`{"type":"message","content":[],"stop_reason":"refusal"}`, `{"choices":[]}`, `null`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for api, reply := range judge.ReadReplies(body) {
			if reply.Text == "" && reply.Problem == "" {
				t.Errorf("%s: neither an answer nor a problem", api)
			}
		}
	})
}

// FuzzGrade: an answer of a judge is refused, or it has a verdict on every
// criterion; nothing is passed that is not quoted from the material.
func FuzzGrade(f *testing.F) {
	for _, seed := range []string{
		`{"results":[{"id":1,"evidence":"the table","passed":true},{"id":2,"evidence":"","passed":false},{"id":3,"evidence":"","passed":false}],"notes":"n"}`,
		`{"results":[{"id":1,"evidence":"x","passed":true},{"id":2,"evidence":"y","passed":true},{"id":3,"evidence":"the","passed":true}]}`,
		`{"results":[{"id":1,"evidence":null,"passed":1}]}`, `{"results":[]}`, `{}`, `null`, ``,
	} {
		f.Add(seed, "Here is the table of numbers.")
	}
	f.Fuzz(func(t *testing.T, answer, material string) {
		grading, err := judge.ReadGrading([]string{"It has a table.", "It is short."}, material, answer)
		if err != nil {
			return
		}
		if len(grading.Results) != 2 || grading.Score < 0 || grading.Score > 1 {
			t.Fatalf("%+v", grading)
		}
		for i, r := range grading.Results {
			if r.ID != i+1 || r.Passed && !judge.Quotes(material, r.Evidence) {
				t.Errorf("criterion %d: %+v", i+1, r)
			}
		}
	})
}
