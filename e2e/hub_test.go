package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"
)

// walk counts the clicks of a person who wants to get somewhere.
type walk struct {
	*tab
	clicks int
}

// click clicks on an element, and waits for the heading of the page that it leads to.
func (b *walk) click(selector, heading string) {
	b.t.Helper()
	b.send(selector, "h1", heading)
}

func (b *walk) wantAtMost(clicks int) {
	b.t.Helper()
	b.t.Logf("%d clicks or keys, at most %d", b.clicks, clicks)
	if b.clicks > clicks {
		b.t.Errorf("%d clicks, want at most %d", b.clicks, clicks)
	}
	b.clicks = 0
}

// fromTroubleToRollback walks from Home to the evidence of a bad skill, and from the
// page of the skill to the version that was good, with the clicks counted.
func fromTroubleToRollback(t *testing.T, c *chromium, database string) {
	t.Helper()
	p := startProcess(t, database)
	b := &walk{tab: c.tab(t, p.url)}
	p.release(t, "1.3.0", "Read the columns from left to right.")
	b.graded(p.key, 30, 2)
	p.release(t, "1.4.0", "Read the rows from the bottom up.")
	b.graded(p.key, 24, 18)
	b.signIn(p.key)

	const fell = "Fell from 93\u202f% to 25\u202f% with 1.4.0"
	b.await("main", fell)
	b.click(`.trouble tbody a[href^="/sessions?"]`, "sessions")
	if n := run(b.tab, chromedp.Evaluate[int](`document.querySelectorAll("tbody tr").length`)); n != 18 {
		t.Errorf("%d failed sessions of the version, want 18", n)
	}
	b.click(`tbody a[href^="/sessions/"]`, "")
	b.await("#grades", "0\u202f%")
	b.wantAtMost(2)

	b.visit("/")
	b.click(`.trouble tbody a[href^="/skills/"]`, "pdf-tables")
	b.wantText(".diagnosis", fell, "30 graded sessions before, 24 after", "93\u202f% of 30 graded sessions, all time")
	b.checkLooks("skill-fallen")
	b.look("light", 1280)
	b.readingChart()
	b.click(`.diagnosis a[href*="outcome=fail"]`, "sessions")
	b.wantAtMost(2)

	b.visit("/skills/pdf-tables")
	b.click(`.hub a[href*="?from=1.3.0"]`, "1.4.0")
	b.wantText("main", "Read the rows from the bottom up.", "Read the columns from left to right.")
	b.visit("/skills/pdf-tables")
	b.clicks = 0
	b.click(`.diagnosis a[href$="#rollback"]`, "pdf-tables")
	b.wantText("#rollback", "93\u202f%", "25\u202f%")
	b.click("#rollback button", "1.3.0")
	b.await(".flash", "Rolled back from version 1.4.0 to 1.3.0.")
	b.wantText(`[aria-label="Rollbacks"]`, fell)
	b.wantAtMost(3)
	b.visit("/skills/pdf-tables")
	b.wantText(".diagnosis", fell, "1.3.0 is current", "0 graded sessions since")
}

// release publishes a version of pdf-tables.
func (p *process) release(t *testing.T, version, body string) {
	t.Helper()
	folder := filepath.Join(p.dir, "pdf-tables")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "---\nname: pdf-tables\ndescription: Reads the tables of PDF files.\n---\n\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(folder, "SKILL.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.whetstone(t, "push", "pdf-tables", "--version", version)
}

// graded reports sessions of pdf-tables, of which some failed.
func (b *walk) graded(key string, n, failed int) {
	b.t.Helper()
	var invocations, gradings []object
	for i := range n {
		id, at := uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano)
		grade := 1
		if i < failed {
			grade = 0
		}
		invocations = append(invocations, object{
			"skill_invocation_id": id, "session_id": id, "skill_name": "pdf-tables", "occurred_at": at, "triggered": true,
		})
		gradings = append(gradings, object{"grading_id": id, "session_id": id, "skill_name": "pdf-tables", "graded_at": at, "pass_rate": grade})
	}
	b.api(key, "POST", "/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": object{
		"skill_invocations": invocations, "grading_results": gradings,
	}})
}

// readingChart reads the newest day of the chart by keys, by mouse and by touch.
func (b *walk) readingChart() {
	b.t.Helper()
	shown := func(how string) {
		b.t.Helper()
		text := run(b.tab, chromedp.Evaluate[string](`(t => t.hidden ? "" : t.innerText)(document.querySelector(".tip"))`))
		if want := "7-day pass rate 63\u202f%"; !strings.Contains(text, want) {
			b.t.Errorf("%s: the day says %q, want %q", how, text, want)
		}
		b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".plot .scroll").blur()`))
	}
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".plot .scroll").focus()`))
	b.press(kb.ArrowLeft)
	b.press(kb.ArrowLeft)
	b.press(kb.ArrowRight)
	shown("keys")
	const newest = `[...document.querySelectorAll(".plot .day[data-href]")].at(-1)`
	b.do(chromedp.Evaluate[chromedp.Void](newest + `.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, pointerType: "mouse" }))`))
	shown("mouse")
	at := run(b.tab, chromedp.Location())
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(d => {
		d.dispatchEvent(new PointerEvent("pointerdown", { bubbles: true, pointerType: "touch" }));
		d.dispatchEvent(new MouseEvent("click", { bubbles: true }));
	})(%s)`, newest)))
	shown("touch")
	if now := run(b.tab, chromedp.Location()); now != at {
		b.t.Errorf("the first touch leads to %s", now)
	}
}
