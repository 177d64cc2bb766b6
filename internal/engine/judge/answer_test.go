package judge_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

func TestAnswer(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		model := judgetest.Model{Answer: func(prompt, skill string) string { return prompt + "/" + skill }}
		s := judgetest.New(t, model.Respond)
		j, _ := newJudge(t, s, judge.Options{API: api})
		for skill, want := range map[string]string{
			"":                            "Hi {name}/",
			"# Greet\n\n100% of the time": "Hi {name}/# Greet\n\n100% of the time",
		} {
			got, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: "Hi {name}", SkillName: "greeting", Skill: skill})
			if err != nil || got.Text != want {
				t.Errorf("got %+v, %v, want %q", got, err, want)
			}
			if r := got.Record; r.PromptVersion != "answer-1" || r.SchemaVersion != "" || r.Structured != "" || r.Raw != want {
				t.Errorf("got the record %+v", r)
			}
		}
		for _, r := range s.Requests() {
			if field(r, "response_format")+field(r, "output_config") != "" {
				t.Errorf("a form was asked for: %s", r.Body)
			}
		}
	})
}

// TestAnswerAgain asks once more, in the same words: they are what is examined.
func TestAnswerAgain(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		s := judgetest.New(t, nil)
		s.Then(judgetest.Reply{Text: "It is a long sto", Finish: "length"}, judgetest.Text("Short."))
		j, _ := newJudge(t, s, judge.Options{API: api, MaxTokens: 10})
		got, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: "Tell"})
		if err != nil || got.Text != "Short." || !got.Record.Repaired {
			t.Fatalf("got %+v, %v", got, err)
		}
		first, second := s.Requests()[0], s.Requests()[1]
		if first.System != second.System || first.User != second.User || field(first, "max_tokens") != "10" ||
			field(second, "max_tokens") != "20" {
			t.Errorf("got %s, then %s", first.Body, second.Body)
		}
	})
}

func TestAnswerErrors(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for _, finish := range []string{"length", "refusal", "content_filter"} {
			s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Reply{Text: "no", Finish: finish} })
			j, _ := newJudge(t, s, judge.Options{API: api})
			got, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: "Tell"})
			if e := wantCode(t, err, judge.Unusable); got.Text != "" || strings.Contains(e.Message, "\n") {
				t.Errorf("%s: got %+v, %v", finish, got, err)
			}
		}
		s := judgetest.New(t, nil)
		j, _ := newJudge(t, s, judge.Options{API: api})
		_, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: " \n"})
		wantCode(t, err, judge.Rejected)
	})
}
