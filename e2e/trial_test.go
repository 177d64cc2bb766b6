package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
)

// fromVerdictToTrial gets from the verdict of a run to what the agent did, in both
// arms, and to the files that it left.
func fromVerdictToTrial(t *testing.T, c *chromium, database string) {
	t.Helper()
	agentstest.Service(t, "") // skips the test where there is no sandbox
	model := modeltest.Messages(t)
	model.ScriptBy(func(string) []modeltest.Reply {
		call := func(tool string, input modeltest.Object) modeltest.Reply {
			return modeltest.Reply{Text: "I go on.", Usage: modeltest.Tokens{Input: 1000}, Calls: []modeltest.Call{{Tool: tool, Input: input}}}
		}
		return []modeltest.Reply{
			call("Bash", modeltest.Object{"command": "echo three > answer.txt"}),
			{Text: "There are three.", Usage: modeltest.Tokens{Output: 100}},
		}
	})
	p := startProcess(t, database, "--agents", agentstest.StandIns(t), "--model", "claude-sonnet-4-5="+model.URL, "--model-api", "claude-sonnet-4-5=anthropic")
	p.plantTranscripts(t, "")
	suite := `{"name":"answers","source_kind":"manual","verifier_kind":"deterministic","supports_no_skill":true,"cases_json":[
		{"id":"count","case_kind":"boolean_assertion","prompt":"How many tables are there?","assertion":"files[\"answer.txt\"] == \"three\\n\""}]}`
	if err := os.WriteFile(filepath.Join(p.dir, "suite.json"), []byte(suite), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"push pdf-tables", "eval import suite.json",
		"eval run answers --entry pdf-tables --agent claude-code --baseline no_skill --trials 2 --wait",
	} {
		p.whetstone(t, strings.Fields(command)...)
	}

	b := c.tab(t, p.url)
	b.signIn(p.key)
	b.visit("/suites")
	b.do(chromedp.Click(`tbody th a`))
	b.await("h1", "answers")
	b.do(chromedp.Click(`a[href^="/runs/"]`))
	b.await(".case .label", "How many tables")
	b.do(chromedp.Click(".case > summary"), chromedp.Click(`.trial a[href*="/trials/1"]`))
	b.await("h1", "How many tables")
	b.wantText("#asked", "How many tables are there?")
	b.wantText("#files", "answer.txt", "added")
	b.wantText("#timeline", "The task", "Turn 1", "echo three", "Turn 2", "There are three.")
	for range 2 {
		b.press("j")
	}
	if at := run(b, chromedp.Evaluate[string](`document.activeElement.querySelector("h3")?.textContent.trim() ?? ""`)); at != "Turn 1" {
		t.Errorf("the key j leads to %q", at)
	}
	b.checkLooks("trial")
	b.look("light", 1280)

	b.do(chromedp.Click(`nav a[href*="/compare"]`))
	b.await(".beside", "Without the skill")
	b.wantText(".beside", "With the skill", "answer.txt", "There are three.")
	columns := `[...document.querySelectorAll(".beside > .card")].map(c => Math.round(c.getBoundingClientRect().top))`
	if tops := run(b, chromedp.Evaluate[[]int](columns)); len(tops) != 2 || tops[0] != tops[1] {
		t.Errorf("the columns begin at %v, want one height", tops)
	}
	b.checkLooks("trials-beside")
	if tops := run(b, chromedp.Evaluate[[]int](columns)); tops[0] == tops[1] {
		t.Error("on a phone the columns are side by side, want one below the other")
	}
}
