package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// liveImproveRun goes from a failing skill to its better version without leaving the
// dashboard. It watches the improve run: what is scored appears on the page that is
// open, and the end loads it again.
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
	made := h.upload("/api/v1/registry", "archive", map[string]string{"metadata": `{"name":"accounts","version":"1.0.0"}`}, map[string]string{
		"SKILL.md": "---\nname: accounts\ndescription: Keeps the accounts in order.\n---\nBook it.\n",
	})
	var cases []object
	for _, verb := range []string{"read", "book", "check", "pay", "file"} {
		for _, which := range []string{"the", "this", "each", "my"} {
			cases = append(cases, object{"case_kind": "trigger_query", "query": verb + " " + which + " invoice", "expectation": "should_trigger"})
		}
	}
	suite := h.text(h.post("/api/v1/eval-suites", object{"name": "Watched", "verifier_kind": "llm_judge", "source_kind": "manual", "cases_json": cases}), "suite", "id")
	b.signIn(key)
	h.api(key, http.MethodPut, "/api/v1/registry/"+h.text(made, "entry", "id")+"/gate-policy", object{"mode": "report", "suites": []string{suite}})
	b.visit("/skills/accounts?tab=improve")
	b.checkLooks("skill-improve")
	b.leave(run(b, chromedp.Evaluate[string](`document.querySelector("#improve p a").getAttribute("href")`)))
	b.await("#estimate", "Requests to models")
	b.checkLooks("improve-new")
	b.do(chromedp.Click("#estimate button"), chromedp.WaitReady("[data-status]"))
	b.do(chromedp.Evaluate[chromedp.Void](`window.stayed = true`))
	b.await("[data-fresh]", "0 of 4")
	b.await("[data-done]", "60")
	if !run(b, chromedp.Evaluate[bool](`window.stayed === true`)) {
		t.Error("the page was loaded again while the run goes on")
	}
	b.checkLooks("improve-run-live")
	close(write)
	b.await("[data-status]", "succeeded")
	b.await(".diff", "Reads invoices.")
	b.checkLooks("improve-run-won")
	b.leave(run(b, chromedp.Evaluate[string](`document.querySelector('main a.button[href^="/proposals/"]').getAttribute("href")`)))
	b.await("h1", "accounts: change the description")
	b.checkLooks("proposal")
	b.do(chromedp.Evaluate[chromedp.Void](`window.confirm = () => true`))
	b.do(chromedp.Click(`#apply button[value="version"]`), chromedp.WaitReady("#outcome"))
	proposal := run(b, chromedp.Evaluate[string](`location.pathname`))
	for range 100 {
		if strings.Contains(run(b, chromedp.Evaluate[string](`document.querySelector("#outcome").textContent`)), "published") {
			break
		}
		b.visit(proposal)
	}
	b.await("#outcome", "published")
	b.visit("/skills/accounts?tab=versions")
	b.await("main", "1.0.1")
	b.wantText("main", "1.0.1", "current")
}
