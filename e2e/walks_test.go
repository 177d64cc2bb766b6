package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// walks does the tasks that people come for, with the clicks counted, on one demo.
func walks(t *testing.T, c *chromium, database string) {
	t.Helper()
	p := startProcess(t, database, "--demo", "--allow-private-targets")
	for _, task := range []struct {
		name string
		do   func(b *walk, p *process)
	}{
		{"a run of a suite", walkToSuite},
		{"evidence of a bad skill, and a case", walkToEvidence},
		{"two versions, and two runs", walkToComparison},
		{"an approval", walkToApproval},
		{"an agent", walkToAgent},
		{"an invitation", walkToInvitation},
		{"costs, and what agents list", walkToFigures},
		{"ten reviews", walkThroughReviews},
		{"reviews in one go", walkThroughList},
		{"an alert with a test", walkToAlert},
		{"a suite from a file and its run", walkToRun},
		{"publish, compare, roll back, undo", walkThroughVersions},
		{"a member and a key", walkToMember},
		{"a bare repository", walkToRepository},
		{"a device login", walkToDevice},
		{"a limited person", walkWithLimits},
	} {
		t.Run(task.name, func(t *testing.T) { task.do(&walk{tab: c.tab(t, p.url)}, p) })
	}
}

// menu clicks on an item of the menu.
func (b *walk) menu(path, heading string) {
	b.t.Helper()
	b.click(fmt.Sprintf(`nav[aria-label=Main] a[href=%q]`, path), heading)
}

// choose selects an option, which is a click, too.
func (b *walk) choose(selector, value string) {
	b.t.Helper()
	b.clicks++
	b.do(chromedp.SetValue(selector, value))
}

// send clicks on a button, and waits for what the next page says.
func (b *walk) send(selector, element, says string) {
	b.t.Helper()
	b.clicks++
	b.until(fmt.Sprintf("document.querySelector(%q)", selector))
	b.do(chromedp.Click(selector))
	b.await(element, says)
}

// walkToEvidence goes from Home to a failed session of the worst skill, and makes a case
// of it.
func walkToEvidence(b *walk, p *process) {
	b.signIn(p.key)
	b.click(`.trouble tbody a[href^="/sessions?"]`, "sessions")
	b.click(`tbody a[href^="/sessions/"]`, "")
	b.await("main", "Why it failed")
	b.wantAtMost(2)

	b.clicks++
	b.do(chromedp.Click(`.title a[href="#query"]`), chromedp.WaitVisible("#case form button"))
	b.send("#case form button", ".flash", "The case was added to")
	b.wantAtMost(2)
}

// walkToSuite runs a suite with the skill and the terms that its form begins with.
func walkToSuite(b *walk, p *process) {
	b.signIn(p.key)
	b.menu("/suites", "Suites")
	b.click(`tbody th a[href="`+b.withRuns(p.key)+`"]`, "")
	b.send(".run-form button", "[data-status]", "")
	b.wantAtMost(3)
	b.until(`document.querySelector("#improve-next, #again, progress")`)
}

// walkToComparison sees what a version changed, and which cases differ between the two
// newest runs of a suite.
func walkToComparison(b *walk, p *process) {
	b.signIn(p.key)
	b.until(`(all => all.find((a) => a.textContent === "invoice-reader").id = "fallen")([...document.querySelectorAll(".trouble th a")])`)
	b.click("#fallen", "invoice-reader")
	b.click(`.hub a[href*="?from="]`, "")
	b.await("main", "From ")
	b.wantText("main", "pass rate")
	b.wantAtMost(2)

	b.visit("/suites")
	b.click(`tbody th a[href="`+b.withRuns(p.key)+`"]`, "")
	b.send(`.runs button`, "h1", "Compare")
	b.wantAtMost(2)
}

// withRuns is the page of a suite that has at least two runs.
func (b *walk) withRuns(key string) (path string) {
	b.t.Helper()
	for _, suite := range b.api(key, "GET", "/api/v1/eval-suites", nil)["suites"].([]any) {
		id := suite.(object)["id"].(string)
		if len(b.api(key, "GET", "/api/v1/eval-suites/"+id+"/runs", nil)["runs"].([]any)) > 1 {
			return "/suites/" + id
		}
	}
	b.t.Fatal("no suite has two runs")
	return ""
}

func walkToApproval(b *walk, p *process) {
	b.signIn(p.key)
	b.click(`.aside a[href$="/review"]`, "Review of")
	b.send(`button[value="approve"]`, ".flash", "is current.")
	b.wantAtMost(3)
}

// walkToAgent gets the settings of an agent with a new key into the clipboard.
func walkToAgent(b *walk, p *process) {
	b.signIn(p.key)
	b.menu("/settings", "")
	b.click(`nav[aria-label=Settings] a[href="/settings/connect"]`, "Connect agents")
	b.send(`button[value=agents]`, ".flash", "The new key is filled in below.")
	b.do(chromedp.Evaluate[chromedp.Void](`Object.defineProperty(navigator, "clipboard", { value: { writeText: (text) => { window.copied = text; return Promise.resolve(); } } })`))
	b.clicks++
	b.do(chromedp.Click("details[open] .copy button"))
	b.until(`window.copied?.includes("st_live_")`)
	b.wantAtMost(4)
}

// walkToInvitation invites a person, who opens the link and joins.
func walkToInvitation(b *walk, p *process) {
	b.signIn(p.key)
	b.menu("/settings", "")
	b.click(`nav[aria-label=Settings] a[href="/settings/members"]`, "Members")
	b.do(chromedp.SendKeys("#email", "linus@example.org"))
	b.send(`form[action="/settings/members/invitations"] button`, ".made", "It is not shown again")
	b.wantAtMost(3)

	_, token, _ := strings.Cut(run(b.tab, chromedp.TextContent(".made code")), "/invite/")
	b.do(chromedp.Click(`.who form[action="/logout"] button`), chromedp.WaitVisible("#api_key"))
	b.clicks++ // on the link
	b.visit("/invite/" + strings.TrimSpace(token))
	b.do(chromedp.SendKeys("#name", "Linus"))
	b.send("main form button", "h1", "Welcome to")
	b.wantAtMost(2)
}

// walkToFigures finds what a use of a version costs, and what agents show of the skills.
func walkToFigures(b *walk, p *process) {
	b.signIn(p.key)
	b.visit("/skills/invoice-reader")
	b.click(`.tabs a[href$="tab=versions"]`, "invoice-reader")
	b.wantText("main", "Cost per use", "$0.")
	b.wantAtMost(1)
	b.visit("/skills")
	b.click(`main a[href="/catalogue"]`, "")
	b.wantAtMost(1)
}

// walkThroughReviews clears ten suggestions by keyboard, a key each.
func walkThroughReviews(b *walk, p *process) {
	p.awaitJobs(b.t, "sources.suggest") // they withdraw some of the demo's
	b.signIn(p.key)
	b.visit("/review")
	begin := b.waiting()
	for i := range 10 {
		key := "a"
		if i%3 == 2 {
			key = "r"
		}
		b.press(key)
		b.clicks++
		b.await("[data-total]", fmt.Sprintf("%d pending", begin-i-1))
	}
	b.wantAtMost(10)
}

// walkThroughList rejects three suggestions at once by keyboard, and takes it back.
func walkThroughList(b *walk, p *process) {
	b.signIn(p.key)
	b.visit("/review")
	begin := b.waiting()
	b.click(`a[href*="view=list"]`, "Review")
	b.await("#several", "Accept selected")
	for _, key := range []string{"j", "x", "j", "x", "j", "x"} {
		b.press(key)
	}
	b.until(`document.querySelectorAll(".pick:checked").length === 3`)
	b.checkLooks("review-list")
	b.look("light", 1280)
	b.press("r")
	b.await(".flash", "3 rejected.")
	b.await("[data-total]", fmt.Sprintf("%d pending", begin-3))
	b.press("u")
	b.await(".flash", "3 decisions were undone.")
	b.await("[data-total]", fmt.Sprintf("%d pending", begin))
	b.send("[data-all]", "#several", "Accept selected")
	b.until(`document.querySelectorAll(".pick:not(:checked)").length === 0`)
	b.wantAtMost(2)
}

func walkToAlert(b *walk, p *process) {
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.t.Cleanup(receiver.Close)
	b.signIn(p.key)
	b.click(`main a[href="/alerts/new"]`, "New alert")
	b.do(chromedp.SendKeys("#address", receiver.URL+"/hook"))
	b.send("#alert-form .row button", "h1", "Signing secret")
	b.send(`form[action$="/test"] button`, ".flash", "The test notification was delivered.")
	b.wantAtMost(3)
}

func walkToRun(b *walk, p *process) {
	file := filepath.Join(b.t.TempDir(), "triggers.json")
	text := `[{"query": "Extract the tables of this PDF", "should_trigger": true}, {"query": "Sing a song", "should_trigger": false}]`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.signIn(p.key)
	b.menu("/suites", "Suites")
	b.clicks++ // on the file
	b.do(chromedp.SetUploadFiles("#file", []string{file}))
	b.send(`form[action="/suites/import"] button`, "#subject", "choose")
	b.choose("#subject", run(b.tab, chromedp.Evaluate[string](`document.querySelector("#subject option[value^='entry:']").value`)))
	b.send(".run-form button", "[data-status]", "")
	b.await("[data-status]", "succeeded")
	b.wantAtMost(5)
}

func walkThroughVersions(b *walk, p *process) {
	p.release(b.t, "1.0.0", "Read the columns.")
	p.release(b.t, "1.1.0", "Read the rows.")
	b.signIn(p.key)
	b.menu("/registry", "Registry")
	b.do(chromedp.SendKeys("#q", "pdf-tables"))
	b.until(`location.search === "?q=pdf-tables"`)
	b.click("tbody th a", "pdf-tables")
	entry := run(b.tab, chromedp.Location())
	b.click(`tbody a[href$="/versions/1.1.0"]`, "1.1.0")
	b.send(".filters button", "main", "Read the columns.")
	b.wantText("main", "From 1.0.0 to 1.1.0", "Read the rows.")
	b.wantAtMost(4)

	b.visit(strings.TrimPrefix(entry, b.site))
	b.clicks++
	b.do(chromedp.Click("#rollback > summary"), chromedp.WaitVisible("#reason"), chromedp.SendKeys("#reason", "The rows are wrong."))
	b.send("#rollback button", ".flash", "Rolled back from version 1.1.0 to 1.0.0.")
	b.send(`form[action$="/rollback/undo"] button`, ".flash", "is current again.")
	b.wantAtMost(3)
}

func walkToMember(b *walk, p *process) {
	b.signIn(p.key)
	b.menu("/settings", "")
	b.click(`nav[aria-label=Settings] a[href="/settings/members"]`, "Members")
	b.do(chromedp.SendKeys("#email", "grace@example.org"))
	b.send(`form[action="/settings/members/invitations"] button`, ".made", "It is not shown again")
	b.wantAtMost(3)

	b.click(`nav[aria-label=Settings] a[href="/settings/keys"]`, "Keys")
	b.do(chromedp.SendKeys("#name", "to-be-revoked"))
	b.send(`form[action="/settings/keys"] button`, ".made", "It is not shown again")
	key := run(b.tab, chromedp.TextContent(".made code"))
	b.api(key, "GET", "/api/v1/me", nil)
	b.wantAtMost(2)

	b.do(chromedp.Evaluate[chromedp.Void](`window.confirm = () => true`))
	b.clicks++ // on the dialog
	b.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("tbody tr")].find(r => r.innerText.includes("to-be-revoked")).querySelector("button").id = "revoke"`))
	b.send("#revoke", ".flash", "revoked")
	b.wantAtMost(2)
}

// walkToRepository connects a repository whose SKILL.md becomes a new entry.
func walkToRepository(b *walk, p *process) {
	p.command(b.t, "repohost", "init-repo", "acme/from-git")
	work := filepath.Join(b.t.TempDir(), "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		b.t.Fatal(err)
	}
	skill := "---\nname: from-git\ndescription: Comes from a repository. Use it to try that.\n---\nShip it.\n"
	if err := os.WriteFile(filepath.Join(work, "SKILL.md"), []byte(skill), 0o600); err != nil {
		b.t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "."},
		{"-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "First"},
		{"push", "-q", filepath.Join(p.dir, "data", "repos", "acme", "from-git.git"), "HEAD:main"},
	} {
		cmd := exec.CommandContext(b.t.Context(), "git", args...)
		cmd.Dir, cmd.Env = work, p.env
		if out, err := cmd.CombinedOutput(); err != nil {
			b.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	b.signIn(p.key)
	b.menu("/repohost", "Code host")
	b.do(chromedp.SendKeys("#account_login", "acme"), chromedp.SendKeys("#bind_installation", "7"))
	b.send(`form[action="/repohost/installations"] button`, ".flash", "The account acme was connected.")
	b.click(`main a[href="/repohost/connections/new"]`, "Connect")
	b.click(`td.actions a[href*="from-git"]`, "Connect")
	b.choose("#entry_id", "new")
	b.send(`form[action="/repohost/connections"] > button`, ".flash", "acme/from-git is connected to from-git.")
	b.wantAtMost(6)
	b.visit("/registry?q=from-git")
	b.wantText("tbody", "from-git", "Comes from a repository.")
}

func walkToDevice(b *walk, p *process) {
	login := b.api(p.key, "POST", "/api/v1/device-code", object{"client_id": "the command line"})
	b.signIn(p.key)
	b.visit("/device?code=" + login["user_code"].(string))
	b.send("button[value=approve]", ".flash", "The login was approved.")
	b.wantAtMost(2)
	got := b.api(p.key, "POST", "/api/v1/device-code/poll", object{"device_code": login["device_code"]})
	if got["status"] != "approved" {
		b.t.Errorf("the program got %v", got)
	}
}

// walkWithLimits: a viewer, and an organisation on the free plan, see what they are
// allowed to, and messages say what to do about the rest.
func walkWithLimits(b *walk, p *process) {
	key := func(org, role string) string {
		var made struct {
			APIKey string `json:"api_key"`
		}
		if err := json.Unmarshal(p.command(b.t, "key", "create", "--org", org, "--role", role, "--json"), &made); err != nil {
			b.t.Fatal(err)
		}
		return made.APIKey
	}
	b.expected = "status of 403"
	b.signIn(key("default", "viewer"))
	b.wantText("main", "Needs attention")
	b.menu("/suites", "Suites")
	b.click("tbody th a", "")
	for _, path := range []string{"/", "/suites", "/alerts", "/review", "/proposals", "/registry"} {
		b.visit(path)
		if n := run(b.tab, chromedp.Evaluate[int](`document.querySelectorAll("main form[method=post]").length`)); n != 0 {
			b.t.Errorf("%s offers a viewer %d forms", path, n)
		}
	}
	b.visit("/settings/members")
	b.wantText("main", "Admins and owners can invite people and change roles.")
	b.visit("/settings/keys")
	b.wantText("main", "Access denied", "admin")

	p.command(b.t, "org", "create", "small", "--plan", "free")
	b.do(chromedp.Click(`.who form[action="/logout"] button`), chromedp.WaitVisible("#api_key"))
	b.signIn(key("small", "owner"))
	b.clicks = 0
	b.menu("/registry", "Registry")
	b.wantText("main", "Publishing needs the pro plan; the organisation is on free.")
	b.click(`main a[href="/settings/plan"]`, "")
	b.wantText("main", "free")
	b.visit("/repohost")
	b.wantText("main", "pro plan")
	b.click(`main a[href="/settings/plan"]`, "")
	b.wantAtMost(3)
}
