package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// rewritten passes the answers of a model that passes the first criterion on, in
// another form.
func rewritten(form func(items []string, controls int) string) judgetest.Responder {
	honest := graded(
		`{"id":ID,"evidence":"make deploy","passed":true}`,
		`{"id":ID,"evidence":"","passed":false}`, `{"id":ID,"evidence":"","passed":false}`)
	return func(r judgetest.Request) judgetest.Reply {
		if judgetest.Code(r.User) == "" {
			return honest(r)
		}
		var ours, controls []string
		for _, c := range judgetest.Criteria(r.User) {
			switch {
			case !isReal(c.Text):
				controls = append(controls, fmt.Sprintf(`{"id":%d,"evidence":"","passed":false}`, c.ID))
			case c.Text == gradeRequest().Criteria[0]:
				ours = append(ours, fmt.Sprintf(`{"id":%d,"evidence":"make deploy","passed":true}`, c.ID))
			default:
				ours = append(ours, fmt.Sprintf(`{"id":%d,"evidence":"","passed":false}`, c.ID))
			}
		}
		return judgetest.Text(form(append(ours, controls...), len(controls)))
	}
}

// byID makes an object of results.
func byID(items []string) string {
	fields := make([]string, len(items))
	for i, item := range items {
		id, rest, _ := strings.Cut(strings.TrimPrefix(item, `{"id":`), ",")
		fields[i] = `"` + id + `":{` + rest
	}
	return `{"results":{` + strings.Join(fields, ",") + `}}`
}

// TestGradeLenient: answers that differ from the schema, but not in what they say,
// are verdicts at the first attempt.
func TestGradeLenient(t *testing.T) {
	results := func(items []string) string {
		return `{"results":[` + strings.Join(items, ",") + `],"notes":""}`
	}
	for name, form := range map[string]func(items []string, controls int) string{
		"ids as strings": func(items []string, _ int) string {
			for i, item := range items {
				first, _, _ := strings.Cut(item, ",")
				id := strings.TrimPrefix(first, `{"id":`)
				items[i] = strings.Replace(item, `"id":`+id, `"id":" `+id+`"`, 1)
			}
			return results(items)
		},
		"verdicts as strings": func(items []string, _ int) string {
			return strings.NewReplacer(`:true`, `:"True"`, `:false`, `:"false"`).Replace(results(items))
		},
		"verdicts as numbers": func(items []string, _ int) string {
			return strings.NewReplacer(`:true`, `:1`, `:false`, `:0`).Replace(results(items))
		},
		"no evidence": func(items []string, _ int) string {
			return strings.ReplaceAll(results(items), `"evidence":"",`, "")
		},
		"evidence null, no notes": func(items []string, _ int) string {
			return strings.NewReplacer(`"evidence":""`, `"evidence":null`, `,"notes":""`, "").Replace(results(items))
		},
		"notes a list": func(items []string, _ int) string {
			return strings.Replace(results(items), `"notes":""`, `"notes":[]`, 1)
		},
		"a list":              func(items []string, _ int) string { return "[" + strings.Join(items, ",") + "]" },
		"after thinking":      func(items []string, _ int) string { return `Is {"results":[]} it? </think>` + results(items) },
		"after prose":         func(items []string, _ int) string { return "As {x} and [1] show:\n" + results(items) },
		"by id":               func(items []string, _ int) string { return byID(items) },
		"one control missing": func(items []string, _ int) string { return results(items[:len(items)-1]) },
	} {
		t.Run(name, func(t *testing.T) {
			j, _ := newJudge(t, judgetest.New(t, rewritten(form)), judge.Options{})
			got, err := j.Grade(t.Context(), gradeRequest())
			if err != nil || got.Score != 1.0/3 || !got.Results[0].Passed || got.Record.Repaired {
				t.Fatalf("got %+v, %v", got, err)
			}
			if missing := got.Record.MissingControls; missing != strings.Count(name, "missing") {
				t.Errorf("%d controls are missing", missing)
			}
		})
	}
}

// TestGradeStillStrict: what the controls and ids protect from stays unusable.
func TestGradeStillStrict(t *testing.T) {
	for name, form := range map[string]func(items []string, controls int) string{
		"no control": func(items []string, controls int) string {
			return `{"results":[` + strings.Join(items[:len(items)-controls], ",") + `]}`
		},
		"one criterion missing": func(items []string, _ int) string {
			return `{"results":[` + strings.Join(items[1:], ",") + `]}`
		},
		"one twice by id": func(items []string, _ int) string { return byID(append(items, items[0])) },
		// A verdict with a control in it is final: the next one does not count.
		"a second verdict": func(items []string, _ int) string {
			all := strings.Join(items, ",")
			passed := strings.ReplaceAll(strings.ReplaceAll(all, `"evidence":""`, `"evidence":"make deploy"`), "false", "true")
			return `{"results":[` + passed + `]} or rather {"results":[` + all + `]}`
		},
	} {
		t.Run(name, func(t *testing.T) {
			j, _ := newJudge(t, judgetest.New(t, rewritten(form)), judge.Options{})
			_, err := j.Grade(t.Context(), gradeRequest())
			wantCode(t, err, judge.Unusable)
		})
	}
}

// TestTextParts: some servers send an answer as a list of parts.
func TestTextParts(t *testing.T) {
	for content, want := range map[string]string{
		`"a"`: "a",
		`[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]`: "ab",
	} {
		body := fmt.Sprintf(`{"model":"m","choices":[{"message":{"content":%s},"finish_reason":"stop"}]}`, content)
		if got := judge.ReadReplies([]byte(body))["chat"]; got.Text != want || got.Problem != "" {
			t.Errorf("%s: got %+v", content, got)
		}
	}
}

func TestStripThinking(t *testing.T) {
	for text, want := range map[string]string{
		"<think>so</think> 42":              "42",
		"so it is\n</think>\n\n42":          "42",
		"42":                                "42",
		"use <think> and </think> as marks": "use <think> and </think> as marks",
		"<think>never ends":                 "<think>never ends",
	} {
		if got := judge.StripThinking(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestKeyDoesNotDecide: the key that people give local servers is a word, which
// must not be cut out of what the model says.
func TestKeyDoesNotDecide(t *testing.T) {
	for _, key := range []string{"make", "k", "none", "make deploy"} { // the last is long enough to be a secret
		s := judgetest.New(t, graded(
			`{"id":ID,"evidence":"Run make deploy","passed":true}`,
			`{"id":ID,"evidence":"","passed":false}`, `{"id":ID,"evidence":"","passed":false}`))
		j, _ := newJudge(t, s, judge.Options{Key: key})
		got, err := j.Grade(t.Context(), gradeRequest())
		if err != nil || !got.Results[0].Passed {
			t.Errorf("%s: got %+v, %v", key, got, err)
			continue
		}
		stored := got.Results[0].Evidence + got.Record.Raw
		if hidden := !strings.Contains(stored, key); hidden != (len(key) >= 8) && key != "none" {
			t.Errorf("%s: stored as %q", key, stored)
		}
	}
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply {
		return judgetest.Text(`{"reason":"none fits","skill":"none","confidence":1}`)
	})
	j, _ := newJudge(t, s, judge.Options{Key: "none"})
	if got, err := j.Route(t.Context(), routeRequest()); err != nil || got.Skill != "" || got.Reason != "none fits" {
		t.Errorf("got %+v, %v", got, err)
	}
	s.Then(judgetest.Text("the key is " + key))
	j, _ = newJudge(t, s, judge.Options{})
	got, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: "Tell"})
	if err != nil || !strings.HasSuffix(got.Text, key) || strings.Contains(got.Record.Raw+j.Redact(got.Text), key) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestUsage: tokens of a cache are told apart, and nonsense does not count.
func TestUsage(t *testing.T) {
	for body, want := range map[string]judge.Usage{
		`{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`: {InputTokens: 9, OutputTokens: 2, CacheReadTokens: 4},
		`{"type":"message","content":[{"type":"text","text":"a"}],
			"usage":{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":3}}`: {InputTokens: 7, OutputTokens: 3, CacheReadTokens: 4, CacheWriteTokens: 2},
		`{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":-9,"completion_tokens":2}}`:                      {},
		`{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":2}}`:     {},
		`{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}}`: {InputTokens: 1},
	} {
		api := "chat"
		if strings.Contains(body, `"message",`) {
			api = "messages"
		}
		if got := judge.ReadReplies([]byte(body))[api]; got.Usage != want || got.Text != "a" {
			t.Errorf("%s: got %+v, want %+v", body, got, want)
		}
	}
}
