package e2e_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// judgedSession is a session of the real Claude Code, in whose answer the judge finds
// one of two expectations.
const judgedSession = "711a3b08-7433-4837-855b-7920162fe37c"

// fromNumberToCase walks the README's path from an empty server: the sessions that
// Claude Code keeps are imported and graded, and a person gets from the pass rate to
// the sentence behind it, to what goes wrong, and to a test case.
func fromNumberToCase(t *testing.T, c *chromium, database string) {
	t.Helper()
	judge := judgetest.New(t, quoting("Pencils, 12.50.", "It names the price", "It names the supplier").Respond)
	p := startProcess(t, database, "--judge-api", "openai", "--judge-url", judge.URL(judgetest.OpenAI), "--judge-model", "scripted", "--judge-key", "sk-secret")
	yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
	p.plantTranscripts(t, yesterday, "tool", "twice")
	for _, command := range []string{
		"push pdf-tables", "source upload pdf-tables", "settings content on", "import --with-content --grade",
	} {
		p.whetstone(t, strings.Fields(command)...)
	}

	b := c.tab(t, p.url)
	b.signIn(p.key)
	b.visit("/skills")
	b.wantText("tbody", "pdf-tables", "50\u202f%")
	b.do(chromedp.Click(`tbody th a`))
	b.await("h1", "pdf-tables")
	b.wantText(".headline", "50\u202f%", "from 2 graded sessions", "judged by a model", "the judge is not compared with people yet")
	b.checkLooks("skill-judged")
	skill := run(b, chromedp.Location())
	b.do(chromedp.Click(`.tabs a[href$="tab=failures"]`))
	b.await("#failures", "It names the supplier")
	b.wantText("#failures", judgedSession[:13])
	b.checkLooks("skill-failures")
	b.visit(strings.TrimPrefix(skill, b.site))

	// A click on the day opens its sessions.
	day := fmt.Sprintf(`rect.day[data-href*="since=%s"]`, yesterday)
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector('%s').scrollIntoView({ block: "center" })`, day)), chromedp.Click(day))
	b.await("h1", "Sessions")
	if at := run(b, chromedp.Location()); !strings.Contains(at, "since="+yesterday) {
		t.Errorf("the day leads to %s", at)
	}
	if n := run(b, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`)); n != 2 {
		t.Errorf("%d sessions on that day, want 2", n)
	}
	b.do(chromedp.Click(fmt.Sprintf(`a[href="/sessions/%s"]`, judgedSession)))
	b.await("#grades", "It names the price")
	b.wantText("#grades", "50\u202f%", "judge", "scripted", "Pencils, 12.50.", "It names the supplier")
	b.wantText("#timeline", "What does the invoice say?", "pdf-tables", "Pencils, 12.50.")
	b.checkLooks("session-judged")

	b.press("c")
	b.await(".flash", "The case was added to pdf-tables.")
	b.do(chromedp.Click(".flash a"))
	b.await("h1", "Case 1")
	suite := strings.Split(run(b, chromedp.Location()), "/suites/")[1][:36]
	// A draft is one step from being a case, too.
	b.visit("/sessions/" + judgedSession)
	b.do(chromedp.Click("#case summary"), chromedp.SetValue("#query", "Who sent it?"))
	draft := run(b, chromedp.Evaluate[string](`[...document.querySelectorAll("#target option")].find((o) => o.text.startsWith("drafts")).value`))
	b.do(chromedp.SetValue("#target", draft), chromedp.Click("#case form button"))
	b.await(".flash", "The case is a draft.")
	b.do(chromedp.Click(".flash a"))
	b.await("#drafts", "Drafts")
	b.checkLooks("source-drafts")
	b.do(chromedp.Click(`form[action$="/drafts"] button`))
	b.await(".flash", "1 added to pdf-tables.")
	cases := b.api(p.key, "GET", "/api/v1/eval-suites/"+suite, nil)["suite"].(object)["cases_json"].([]any)
	if len(cases) != 2 || !strings.HasPrefix(cases[0].(object)["query"].(string), "What does the invoice say?") {
		t.Errorf("cases: %v, want the prompt of the session and the draft", cases)
	}
	readingTimeline(b, p.key)
}

// plantTranscripts puts transcripts of real sessions where Claude Code keeps them, as
// if they were of a day, and a skill beside them.
func (p *process) plantTranscripts(t *testing.T, day string, names ...string) {
	t.Helper()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(p.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		files, err := filepath.Glob("../internal/local/transcripts/testdata/agents/" + name + "/*.jsonl")
		if err != nil || len(files) == 0 {
			t.Fatalf("no transcripts of %s: %v", name, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			write(filepath.Join(".claude/projects/shop", filepath.Base(file)), strings.ReplaceAll(string(text), "2026-11-16T", day+"T"))
		}
	}
	write("pdf-tables/SKILL.md", "---\nname: pdf-tables\ndescription: Extracts tables from PDF files. Use it for invoices.\n---\nRead the invoice.\n")
	write("pdf-tables/evals/evals.json", `{"skill_name": "pdf-tables", "evals": [{"id": 1, "prompt": "What does the invoice say?",
		"expectations": ["It names the price", "It names the supplier"]}]}`)
}

// whetstone runs a command of the client.
func (p *process) whetstone(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(binDir, "whetstone"), args...)
	command.Dir = p.dir
	command.Env = append(slices.Clip(p.env), "WHETSTONE_SERVER="+p.url, "WHETSTONE_API_KEY="+p.key)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("whetstone %v: %v\n%s", args, err, out)
	}
}

// readingTimeline reads a session of many turns, of which the page has the first: the
// rest is loaded by scrolling, and by a key that looks for something further down.
func readingTimeline(b *tab, key string) {
	b.t.Helper()
	const turns = 2000
	at := time.Now().Add(-24 * time.Hour)
	var prompts, calls []object
	for i := range turns {
		when := at.Add(time.Duration(i) * time.Second).UTC()
		prompts = append(prompts, object{"prompt_id": fmt.Sprint("p", i), "session_id": "long", "occurred_at": when.Format(time.RFC3339)})
		calls = append(calls, object{
			"tool_call_id": fmt.Sprint("t", i), "session_id": "long", "occurred_at": when.Add(time.Millisecond).Format(time.RFC3339Nano),
			"tool_name": "Bash", "success": i != 1 && i != 500,
		})
	}
	b.api(key, "POST", "/api/v1/push", object{"canonical": object{"prompts": prompts, "tool_calls": calls}})
	b.visit("/sessions/long")
	shown := func() int { return run(b, chromedp.Evaluate[int](`document.querySelectorAll(".turn").length`)) }
	focused := func(want string) {
		b.t.Helper()
		b.until(fmt.Sprintf(`(document.activeElement.closest(".turn")?.querySelector("h3").textContent ?? "").trim() === %q`, want))
	}
	if n := shown(); n != 100 {
		b.t.Errorf("the page begins with %d turns, want 100", n)
	}
	for _, step := range []struct{ key, turn string }{
		{"j", "Turn 1"}, {"j", "Turn 2"}, {"j", "Turn 3"}, {"k", "Turn 2"}, {"k", "Turn 1"}, {"f", "Turn 2"},
	} {
		b.press(step.key)
		focused(step.turn)
	}
	b.do(chromedp.Evaluate[chromedp.Void](`scrollTo(0, document.body.scrollHeight)`))
	b.until(`document.querySelectorAll(".turn").length > 100`)
	b.press("f") // the next failure is further down than what was loaded
	focused("Turn 501")
	if n := run(b, chromedp.Evaluate[int](`new Set([...document.querySelectorAll(".turn h3")].map(h => h.textContent)).size`)); n != shown() || n < 501 {
		b.t.Errorf("%d different turns of %d", n, shown())
	}

	// Without a known prompt the key opens the form.
	b.press("c")
	if got := run(b, chromedp.Evaluate[string](`document.activeElement.closest("#case")?.querySelector("details").open + ""`)); got != "true" {
		b.t.Errorf("the form is open: %s", got)
	}
	if at, err := url.Parse(run(b, chromedp.Location())); err != nil || at.Path != "/sessions/long" {
		b.t.Errorf("the keys lead to %v, %v", at, err)
	}
}
