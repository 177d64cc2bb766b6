package judge_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

var update = flag.Bool("update", false, "write the files of new versions")

// pinned holds a text to its version. Even with -update a file that exists
// stays as it is: verdicts were given by it.
func pinned(t *testing.T, version, got string) {
	t.Helper()
	path := filepath.Join("testdata", version+".txt")
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v; run the test with -update if the version is new", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the text of %s has changed: raise the version and run the test with -update (-pinned +now):\n%s",
			version, diff)
	}
}

// sent returns all that a call sends, with its repair.
func sent(t *testing.T, s *judgetest.Server) string {
	t.Helper()
	var b strings.Builder
	for _, r := range s.Requests() {
		fmt.Fprintf(&b, "SYSTEM\n%s\nUSER\n%s\nSCHEMA\n%s\n\n", r.System, r.User, r.Schema)
	}
	return b.String()
}

func TestRoutePromptIsPinned(t *testing.T) {
	s := judgetest.New(t, nil)
	j, _ := newJudge(t, s, judge.Options{})
	_, err := j.Route(t.Context(), judge.RouteRequest{
		Query: "Fill in\nthis form.", Skill: judge.Skill{Name: "pdf-forms", Description: "Fills in <PDF> forms."},
		Distractors: []judge.Skill{{Name: "slides", Description: "Makes slides."}}, Seed: 1,
	})
	wantCode(t, err, judge.Unusable)
	pinned(t, judge.RoutePromptVersion, sent(t, s))
}

func TestGradePromptIsPinned(t *testing.T) {
	criteria := []string{"It greets.", "It is polite."}
	model := judgetest.Model{Criteria: criteria, Grade: func(criterion, _ string) (string, bool) {
		return "Hello!", criterion == criteria[0]
	}}
	s := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		if r.Schema != nil && strings.Contains(r.User, "Grade the material") && strings.Contains(r.User, "Say hello.") {
			return model.Respond(r)
		}
		return judgetest.Text("ok") // unusable, so that the repair is seen, too
	})
	j, _ := newJudge(t, s, judge.Options{})
	for _, task := range []string{"", "Say hello."} {
		_, err := j.Grade(t.Context(), judge.GradeRequest{Task: task, Criteria: criteria, Material: "Hello!\nDear Sir."})
		wantCode(t, err, judge.Unusable)
	}
	text := withoutChance(sent(t, s), criteria)
	for _, c := range judge.Controls(judge.GradeRequest{
		Criteria: []string{"It does not hurry."}, Material: strings.Join(judge.ForeignWords(), " "),
	}, 1) {
		if !strings.HasPrefix(c, "It ") && !strings.HasPrefix(c, "The ") {
			t.Errorf("got the control %q", c)
		}
	}
	pinned(t, judge.GradePromptVersion, text+"CONTROLS\n"+judge.ControlLists())
}

var (
	randomCode = regexp.MustCompile(`[A-Z2-7]{26}`)
	randomID   = regexp.MustCompile(`(?m)^\d{5}: `)
	// anItem is a criterion, and the quotation that follows it in the second prompt.
	anItem = regexp.MustCompile(`(?m)^\(id\): (.*)\n(?:BEGIN \(code\)\n.*\nEND \(code\)\n\n)?`)
)

// withoutChance takes codes, ids and controls out of prompts.
func withoutChance(text string, criteria []string) string {
	text = randomID.ReplaceAllString(randomCode.ReplaceAllString(text, "(code)"), "(id): ")
	return anItem.ReplaceAllStringFunc(text, func(item string) string {
		if slices.Contains(criteria, anItem.FindStringSubmatch(item)[1]) {
			return item
		}
		return ""
	})
}

func TestAnswerPromptIsPinned(t *testing.T) {
	s := judgetest.New(t, nil)
	j, _ := newJudge(t, s, judge.Options{})
	for _, skill := range []string{"", "# Greeting\n\nSay hello."} {
		if _, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: "Hi", SkillName: "greeting", Skill: skill}); err != nil {
			t.Fatal(err)
		}
	}
	pinned(t, judge.AnswerPromptVersion, sent(t, s))
}

// TestBuiltinIsPinned holds words, ranking and threshold to their version.
func TestBuiltinIsPinned(t *testing.T) {
	var b strings.Builder
	for _, c := range readCorpus(t) {
		for _, q := range c.Queries {
			got := routeBuiltin(t, c.Skills, q.Query)
			fmt.Fprintf(&b, "%s\n  %q %.2f %s\n", q.Query, got.Skill, got.Confidence, got.Reason)
		}
	}
	pinned(t, judge.BuiltinModel, b.String())
}
