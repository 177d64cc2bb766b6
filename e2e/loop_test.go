package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// wholeLoop walks from Home to the verdict of a gate, with the clicks counted: a failed
// session becomes a case, the case fails in a run, an improve run proposes another text,
// and its version is tried. The organisation has no cloud source, as one that pushes.
func wholeLoop(t *testing.T, c *chromium, database string) {
	t.Helper()
	model := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		return judgetest.Model{
			Route: func(query string, _ []string) string {
				if strings.Contains(r.System, "Reads invoices") && strings.Contains(query, "invoice") {
					return "accounts"
				}
				return ""
			},
			Rewrite: func(string) string { return "Keeps the accounts in order. Reads invoices." },
		}.Respond(r)
	})
	p := startProcess(t, database, "--judge-api", "openai", "--judge-url", model.URL(judgetest.OpenAI), "--judge-model", "scripted", "--judge-key", "sk-secret")
	b := &walk{tab: c.tab(t, p.url)}
	suite := plantLoop(&planter{tab: b.tab, key: p.key})

	b.signIn(p.key)
	b.click(`.trouble tbody a[href^="/sessions?"]`, "sessions")
	b.click(`tbody a[href^="/sessions/"]`, "invoice")
	b.press("c")
	b.clicks++
	b.await(".flash", "The case was added to accounts.")
	b.click(".flash a", "Case 21")
	b.click(`.crumbs a[href^="/suites/"]`, "accounts")
	b.send(".run-form button", "[data-status]", "21 failed")
	b.click("#improve-next", "Improve accounts")
	b.send("#estimate button", "[data-status]", "succeeded")
	b.click(`main a.button[href^="/proposals/"]`, "accounts: change the description")
	b.do(chromedp.Evaluate[chromedp.Void](`window.confirm = () => true`))
	b.clicks++ // on the dialog
	b.send(`#apply button[value="version"]`, "#gate", "verdict")
	b.click("#gate", "Gate of accounts 1.0.1")
	b.await(".title", "pass")
	b.wantAtMost(12)

	b.wantText("main", "21 cases")
	entry := b.api(p.key, http.MethodGet, "/api/v1/registry", nil)["entries"].([]any)[0].(object)
	if got := entry["current_version"].(object)["version"]; got != "1.0.1" {
		t.Errorf("the current version is %v, want 1.0.1", got)
	}
	if got := b.cases(p.key, suite); got != 21 {
		t.Errorf("the suite has %d cases, want 21", got)
	}
}

// plantLoop publishes a skill whose description is too narrow, with a suite that finds
// that, a gate, and sessions that failed. It returns the suite's id.
func plantLoop(h *planter) (suite string) {
	h.t.Helper()
	made := h.upload("/api/v1/registry", "archive", map[string]string{"metadata": `{"name":"accounts","version":"1.0.0"}`}, map[string]string{
		"SKILL.md": "---\nname: accounts\ndescription: Keeps the accounts in order.\n---\nBook it.\n",
	})
	var cases []object
	for _, verb := range []string{"read", "book", "check", "pay", "file"} {
		for _, which := range []string{"the", "this", "each", "my"} {
			cases = append(cases, object{"case_kind": "trigger_query", "query": verb + " " + which + " invoice", "expectation": "should_trigger"})
		}
	}
	suite = h.text(h.post("/api/v1/eval-suites", object{"name": "accounts", "verifier_kind": "llm_judge", "source_kind": "manual", "cases_json": cases}), "suite", "id")
	h.api(h.key, http.MethodPut, "/api/v1/registry/"+h.text(made, "entry", "id")+"/gate-policy", object{"policy": object{"mode": "enforce", "suites": []string{suite}}})
	h.api(h.key, http.MethodPut, "/api/v1/settings/content", object{"enabled": true})
	records := map[string][]object{}
	for i := range 6 {
		id, at := uuid.NewString(), time.Now().UTC().Add(-time.Duration(i)*time.Minute).Format(time.RFC3339)
		asked := fmt.Sprintf("What does invoice %d say?", i)
		add := func(kind string, record object) {
			record["session_id"], record["occurred_at"] = id, at
			records[kind] = append(records[kind], record)
		}
		add("prompts", object{"prompt_id": id, "prompt_kind": "user", "prompt_text": asked})
		add("transcripts", object{"prompt_id": id, "role": "user", "text": asked})
		add("skill_invocations", object{"skill_invocation_id": id, "matched_prompt_id": id, "skill_name": "accounts", "triggered": true})
		add("grading_results", object{"grading_id": id, "skill_name": "accounts", "graded_at": at, "pass_rate": 0})
	}
	h.post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": records})
	return suite
}
