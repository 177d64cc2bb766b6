package runs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// graded is a case with graders, each a name and its fields.
func graded(prompt string, graders ...object) object {
	return object{"case_kind": "llm_rubric", "prompt": prompt, "graders": graders}
}

// TestGraders decides one case by deterministic graders and a judge together, with
// the skill and without it.
func TestGraders(t *testing.T) {
	t.Parallel()
	greets, report := "It greets Alex by name.", "The report has a total."
	server := func(t *testing.T) *judgetest.Server {
		return judgetest.New(t, judgetest.Model{
			Criteria: []string{greets, report},
			Grade: func(criterion, material string) (string, bool) {
				if criterion == greets {
					return "Hello Alex", strings.Contains(material, "Hello Alex")
				}
				return "total: 42", strings.Contains(material, "total: 42")
			},
		}.Respond)
	}
	scripts := map[string][]modeltest.Reply{
		"greet": {useSkill("pdf"), shell("echo 'total: 42' >report.md"), say("Hello Alex")},
		"plain": {shell("echo none >other.md"), say("Hello Alex")},
	}
	all := []object{
		{"name": "fired", "type": "tool_used", "tool": "Skill"},
		{"name": "wrote", "type": "file_exists", "path": "*.md", "weight": 2},
		{"name": "order", "type": "tool_order", "before": "Skill", "after": "Bash", "arm": "with-only"},
		{"name": "greets", "type": "llm", "criteria": greets},
		{"name": "total", "type": "llm", "criteria": report, "focus": object{"source": "file", "path": "report.md"}},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db, runstest.Scripted(server(t)), withAgents(t, scripts))
		c := w.Org("acme")
		w.Work()
		suite := c.Create(with(judged(graded("greet", all...), graded("plain", all...)), object{"supports_no_skill": true}))
		if suite["runnable"] != true {
			t.Fatalf("issues: %v", suite["runnability_issues"])
		}

		// Without a comparison, every grader counts.
		run := c.Finish(suite, claude)
		if diff := cmp.Diff([]any{"pass", "fail"}, verdicts(t, run)); diff != "" {
			t.Fatalf("verdicts (-want +got):\n%s", diff)
		}
		plain := trialOf(t, run, 1, "skill", 1)
		if plain["score"] != 3.0/6 {
			t.Errorf("score %v, want 3 of 6 by weight", plain["score"])
		}
		var got []string
		for _, g := range plain["evidence"].(object)["graders"].([]any) {
			got = append(got, fmt.Sprint(g.(object)["name"], " ", g.(object)["passed"], " ", g.(object)["scored"]))
		}
		if diff := cmp.Diff([]string{"fired false true", "wrote true true", "order false true", "greets true true", "total false true"}, got); diff != "" {
			t.Errorf("graders (-want +got):\n%s", diff)
		}
		if summary := fmt.Sprint(plain["evidence"].(object)["summary"]); !strings.Contains(summary, `3 of 5 graders failed: fired: Skill was called 0 times`) ||
			!strings.Contains(summary, `total: the file "report.md" does not exist`) {
			t.Errorf("summary %q", summary)
		}

		// Compared with no skill, those that only the skill's arm can pass are shown,
		// and do not count.
		run = c.Finish(suite, claude, object{"baseline": "no_skill"})
		plain = trialOf(t, run, 1, "skill", 1)
		if plain["score"] != 3.0/4 || plain["verdict"] != "fail" {
			t.Errorf("score %v, want 3 of 4 by weight", plain["score"])
		}
		without := trialOf(t, run, 1, "no_skill", 1)
		if n := len(without["evidence"].(object)["graders"].([]any)); n != 3 || without["score"] != 3.0/4 {
			t.Errorf("without the skill: %v by %d graders", without["score"], n)
		}
		// Two judgements of one trial cost what both of them cost.
		judgement := trialOf(t, run, 0, "skill", 1)["evidence"].(object)["judge"].(object)
		if judgement["attempts"] != 4.0 {
			t.Errorf("two gradings of two requests each: %v", judgement)
		}
	})
}

// TestGradersNeedAgent: what no agent did is an error of its trial, and nothing is
// asked for it.
func TestGradersNeedAgent(t *testing.T) {
	t.Parallel()
	server := judgetest.New(t, judgetest.Model{Answer: func(string, string) string { return "hello" }}.Respond)
	w := runstest.New(t, storetest.Open(t, "sqlite"), runstest.Scripted(server))
	c := w.Org("acme")
	w.Work()
	kind := object{"case_kind": "boolean_assertion"}
	run := c.Finish(c.Create(deterministic(
		with(graded("hi", object{"name": "a", "type": "tool_used", "tool": "Bash"}), kind),
		with(graded("hi", object{"name": "a", "type": "regex", "pattern": "^hello$"}), kind),
	)))
	if diff := cmp.Diff([]any{"error", "pass"}, verdicts(t, run)); diff != "" {
		t.Fatalf("verdicts (-want +got):\n%s", diff)
	}
	if message := fmt.Sprint(trialOf(t, run, 0, "skill", 1)["error"]); !strings.HasPrefix(message, "unsupported: ") {
		t.Errorf("error %q", message)
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestCaseLimits: a case may limit whichever agent the run has.
func TestCaseLimits(t *testing.T) {
	t.Parallel()
	w := runstest.New(t, storetest.Open(t, "sqlite"), withAgents(t, map[string][]modeltest.Reply{
		"turns": {shell("true"), shell("true"), say("hello")},
	}))
	c := w.Org("acme")
	w.Work()
	limited := object{"case_kind": "exact_match", "prompt": "turns", "expected": "hello", "agent": object{"max_turns": 2}}
	run := c.Finish(c.Create(deterministic(limited, without(limited, "agent"))), claude)
	if diff := cmp.Diff([]any{"fail", "pass"}, verdicts(t, run)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	suite := c.Create(deterministic(with(limited, object{"agent": object{"model": "sonnet"}})))
	if issues := apptest.List(t, suite, "runnability_issues"); len(issues) != 1 || issues[0]["message"] != "agent.model needs an agent.name" {
		t.Errorf("issues %v", issues)
	}
}
