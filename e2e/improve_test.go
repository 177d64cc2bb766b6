package e2e_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
)

// liveImproveRun starts an improve run and watches it: what is scored appears
// on the page that is open, and the end loads it again.
func liveImproveRun(t *testing.T, c *chromium) {
	t.Helper()
	write := make(chan struct{})
	model := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		better := strings.Contains(r.System, "Reads invoices")
		return judgetest.Model{
			Route: func(query string, _ []string) string {
				if better && strings.Contains(query, "invoice") {
					return "accounts"
				}
				return ""
			},
			Rewrite: func(string) string {
				<-write
				return "Keeps the accounts in order. Reads invoices."
			},
		}.Respond(r)
	})
	site, key := startSite(t, "--judge-api", "openai", "--judge-url", model.URL(judgetest.OpenAI), "--judge-model", "scripted", "--judge-key", "sk-secret")
	b := c.tab(t, site)
	h := &planter{tab: b, key: key}
	h.upload("/api/v1/cloud-sources/upload", "file", map[string]string{"label": "accounts"}, map[string]string{
		"SKILL.md": "---\nname: accounts\ndescription: Keeps the accounts in order.\n---\nBook it.\n",
	})
	var cases []object
	for _, word := range []string{"read", "book", "check", "pay", "file"} {
		cases = append(cases, object{"case_kind": "trigger_query", "query": word + " the invoice", "expectation": "should_trigger"})
	}
	suite := h.text(h.post("/api/v1/eval-suites", object{"name": "Watched", "verifier_kind": "llm_judge", "source_kind": "manual", "cases_json": cases}), "suite", "id")
	b.signIn(key)
	b.visit("/suites/" + suite)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#improve-subject").selectedIndex = 1`), chromedp.Click(".improve-form button"), chromedp.WaitReady("[data-status]"))
	b.do(chromedp.Evaluate[chromedp.Void](`window.stayed = true`))
	b.await("[data-fresh]", "0 of 2")
	b.await("[data-done]", "15")
	if !run(b, chromedp.Evaluate[bool](`window.stayed === true`)) {
		t.Error("the page was loaded again while the run goes on")
	}
	b.checkLooks("improve-run-live")
	close(write)
	b.await("[data-status]", "succeeded")
	b.await(".prose-diff", "Reads invoices.")
	b.checkLooks("improve-run-won")
	b.leave(run(b, chromedp.Evaluate[string](`document.querySelector(".prose-diff .button").getAttribute("href")`)))
	b.await("h1", "accounts: change the description")
}
