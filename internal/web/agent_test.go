package web_test

import (
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

func TestMain(m *testing.M) {
	agentstest.Main()
	os.Exit(m.Run())
}

// TestAgentRun starts a run with an agent by the form, and shows what it did and
// what it cost; the form then knows what the next one would cost.
func TestAgentRun(t *testing.T) {
	t.Parallel()
	agentstest.Service(t, "") // skips the test where there is no sandbox
	model := modeltest.Messages(t,
		modeltest.Reply{Calls: []modeltest.Call{{Tool: "Skill", Input: modeltest.Object{"skill": "pdf"}}}, Usage: modeltest.Tokens{Input: 1000}},
		modeltest.Reply{Text: payload, Usage: modeltest.Tokens{Output: 100}})
	w := newWorld(t, "sqlite", "--agents", agentstest.StandIns(t), "--model", "claude-sonnet-4-5="+model.URL,
		"--model-api", "claude-sonnet-4-5=anthropic")
	b := w.as(access.Member)
	source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
	made := b.api.Post("/api/v1/eval-suites", object{
		"name": "agents", "source_kind": "manual", "verifier_kind": "deterministic",
		"cases_json": []object{{"case_kind": "boolean_assertion", "prompt": "read", "assertion": "activated"}},
	}).Want(http.StatusCreated)
	suite := "/suites/" + apptest.Text(made.Object(), "suite", "id")
	checkPage(t, b.get(suite).wantText("claude-code 9.8.7, claude-sonnet-4-5", "Spending limit (USD)").wantNoText("about $"))
	path := b.run(suite, source, url.Values{"agent": {"claude-code claude-sonnet-4-5"}, "max_cost_usd": {"2"}})
	p := b.get(path).want(http.StatusOK).wantInert().wantText("Agent claude-code claude-sonnet-4-5, up to 50 turns", "Cost $0.0045",
		"activated the skill, 2 turns, 1 tool call", "What the agent did", "Skill", "May cost $2.00", "100")
	checkPage(t, p)
	b.get(suite).wantText("about $0.0045 for one trial of each case")
}
