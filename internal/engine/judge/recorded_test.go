package judge_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

// TestRecorded: recorded answers are given, a verdict only with a quotation that is in the
// material; what isn't recorded is unavailable, or the built-in judge's.
func TestRecorded(t *testing.T) {
	t.Parallel()
	j := judge.NewRecorded(judge.Recorded{
		Grade: func(r judge.GradeRequest) []judge.Result {
			if r.Material != "All tests pass." {
				return nil
			}
			return []judge.Result{{Passed: true, Evidence: "all tests pass"}, {Passed: true, Evidence: "nothing failed"}, {Evidence: "no file"}}
		},
		Complete: func(p judge.Prompt) string { return map[string]string{"known": "yes", "odd": "no"}[p.User] },
		Rewrite: func(r judge.RewriteRequest) (string, string) {
			return map[string]string{"pdf": "Fills forms."}[r.Skill.Name], "shorter"
		},
	})
	got, err := j.Grade(t.Context(), judge.GradeRequest{Criteria: []string{"a", "b", "c"}, Material: "All tests pass."})
	if err != nil {
		t.Fatal(err)
	}
	want := []judge.Result{
		{ID: 1, Passed: true, Evidence: "all tests pass"}, {ID: 2, Downgraded: true, Evidence: "nothing failed"}, {ID: 3, Evidence: "no file"},
	}
	if diff := cmp.Diff(want, got.Results); diff != "" || got.Record.Model != "recorded" {
		t.Errorf("by %s (-want +got):\n%s", got.Record.Model, diff)
	}
	if _, err := j.Grade(t.Context(), judge.GradeRequest{Criteria: []string{"a"}, Material: "Other."}); judge.CodeOf(err) != judge.Unavailable {
		t.Errorf("a material that isn't recorded: %v", err)
	}
	onlyYes := func(answer string) error {
		if answer != "yes" {
			return errors.New("say yes")
		}
		return nil
	}
	for user, code := range map[string]judge.Code{"known": "", "odd": judge.Unusable, "other": judge.Unavailable} {
		if _, err := j.Complete(t.Context(), judge.Prompt{User: user, Check: onlyYes}); judge.CodeOf(err) != code {
			t.Errorf("the prompt %q: %v, want %q", user, err, code)
		}
	}
	pdf := judge.RewriteRequest{Skill: judge.Skill{Name: "pdf", Description: "Forms."}}
	if got, err := j.Rewrite(t.Context(), pdf); err != nil || got.Description != "Fills forms." || got.Reason != "shorter" {
		t.Errorf("got %+v, %v", got, err)
	}
	pdf.Tried = []judge.Attempt{{Description: "Fills forms."}}
	if _, err := j.Rewrite(t.Context(), pdf); judge.CodeOf(err) != judge.Unusable {
		t.Errorf("a description that was tried: %v", err)
	}
	words := judge.RewriteRequest{
		Skill: judge.Skill{Name: "csv", Description: "Cleans tables."}, Samples: []judge.Sample{{Query: "broken umlauts", Wanted: true}},
	}
	if got, err := j.Rewrite(t.Context(), words); err != nil || got.Description != "Cleans tables. Use when asked about broken, umlauts." {
		t.Errorf("a skill that isn't recorded: %+v, %v", got, err)
	}
}
