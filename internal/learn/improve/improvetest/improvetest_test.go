package improvetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/improvetest"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/writer"
)

// passes counts the cases that a skill passes.
func passes(t *testing.T, j *judge.Judge, skill string) (n int) {
	t.Helper()
	for _, c := range improvetest.Cases(5) {
		c := c.(map[string]any)
		said, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: c["prompt"].(string), SkillName: "invoices", Skill: skill})
		if err != nil {
			t.Fatal(err)
		}
		got, err := j.Grade(t.Context(), judge.GradeRequest{Criteria: []string{c["rubric"].(string)}, Material: said.Text})
		if err != nil {
			t.Fatal(err)
		}
		if got.Results[0].Passed {
			n++
		}
	}
	return n
}

// TestModel mends the skill by hand, in two rounds.
func TestModel(t *testing.T) {
	model := improvetest.NewModel(t)
	j, err := judge.New(judge.Options{API: judge.OpenAI, URL: model.URL(judgetest.OpenAI), Model: "m", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(skill string) writer.Answer {
		t.Helper()
		got, err := writer.Write(t.Context(), j, writer.Request{Skill: skill, Original: improvetest.SkillMD, Target: edit.Body})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	skill := improvetest.SkillMD
	for _, want := range []int{1, 3, 5} {
		if got := passes(t, j, skill); got != want {
			t.Errorf("%d of 5 cases passed, want %d", got, want)
		}
		if got := ask(skill); got.Skill != "" {
			skill = got.Skill
		}
	}
	if got := ask(skill); len(got.Edits) > 0 || passes(t, j, "") != 0 {
		t.Errorf("the mended skill gets the edits %+v", got.Edits)
	}
	if n := model.Count(improvetest.Write); n != 4 || len(model.Written()) != n {
		t.Errorf("the writer was asked %d times", n)
	}
	for _, bad := range improvetest.BadWriters() {
		model.SetWriter(bad.Writer)
		if got := ask(improvetest.SkillMD); len(got.Edits) > 0 || !strings.Contains(got.Reason, bad.Why) {
			t.Errorf("%s: got %d edits, %q", bad.Name, len(got.Edits), got.Reason)
		}
	}
	model.SetWriter(improvetest.Useless())
	for range 2 {
		if got := ask(improvetest.SkillMD); len(got.Edits) != 1 || passes(t, j, got.Skill) != 1 {
			t.Errorf("a useless writer wrote %+v", got)
		}
	}
}
