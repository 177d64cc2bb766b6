package judge_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

// FuzzJSONAnswers: what is found is JSON and part of the answer, and a value that
// stands alone is found whole.
func FuzzJSONAnswers(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, "```json\n{\"a\":\"}\"}\n```", `x {"a":{"b":"\"}"}} {"c":1}`, `{`, `}{`, `{"\\":"\\"}`, `{"a":"</think>"}`, `{}</think>[{}]`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all := slices.Collect(judge.JSONAnswers(text))
		for _, got := range all {
			if !json.Valid([]byte(got)) || !strings.Contains(text, got) {
				t.Errorf("%q has no value %q", text, got)
			}
		}
		trimmed := strings.TrimSpace(text)
		alone := strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed))
		if alone && !strings.Contains(text, "</think>") && all[0] != trimmed {
			t.Errorf("%q is an object, and %q was found", trimmed, all)
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
