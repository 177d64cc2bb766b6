package e2e_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// apiReference searches the API reference by keyboard, opens what it finds, and copies
// its command; in both colours and on a phone.
func apiReference(b *tab, _ string) {
	b.visit("/docs")
	for _, look := range []struct {
		scheme string
		width  int64
	}{{"dark", 1280}, {"light", 390}, {"light", 1280}} {
		b.look(look.scheme, look.width)
		for _, problem := range run(b, chromedp.Evaluate[[]string](audit)) {
			if !strings.HasPrefix(problem, "foreign element: <script") { // its own, which the policy allows by its hash
				b.t.Errorf("%s, %d wide: %s", look.scheme, look.width, problem)
			}
		}
	}
	found := func(text string) {
		b.t.Helper()
		b.until(fmt.Sprintf(`document.getElementById("found").textContent.includes(%q)`, text))
	}
	search := func(words string) {
		b.press("/")
		b.until(`document.activeElement.id === "q"`)
		b.press(kb.Backspace + words) // chromedp sends the / to the field, a keyboard does not
	}
	search("mute alert")
	found("1 operation and ")
	// Not b.press: chromedp types a newline after the key, at what has the focus then.
	run(b, chromedp.Evaluate[bool](`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}))`))
	b.until(`document.getElementById("post-api-v1-alerts-id-snooze").open`)
	b.wantText("#post-api-v1-alerts-id-snooze pre", "curl -X POST '"+b.site+"/api/v1/alerts/ID/snooze'", `"until": "`)
	b.do(chromedp.Click("#post-api-v1-alerts-id-snooze .copy"))
	b.until(`document.querySelector("#post-api-v1-alerts-id-snooze .copy").textContent !== "Copy"`)

	search("graded_sessions get skills")
	b.until(`!document.getElementById("get-v1-skills").hidden`)
	b.wantText("#get-v1-skills .by", "graded_sessions")
	search("no such thing")
	found(`No match for "no such thing"`)
	b.press(kb.Escape)
	found("Press / to search")

	b.visit("/docs#schema-SkillsListItem")
	b.wantText("#schema-SkillsListItem h3", "SkillsListItem")
	b.do(chromedp.Click(`a[href="/"]`), chromedp.WaitVisible("#api_key"))
}

// pictures leaves the pictures of the documents in WHETSTONE_SHOTS, if that is set.
func pictures(b *tab, key string) {
	shots := os.Getenv("WHETSTONE_SHOTS")
	if shots == "" {
		b.t.Skip("WHETSTONE_SHOTS is not set")
	}
	b.signIn(key)
	first := func(path, list, field, value string) (id string) {
		b.t.Helper()
		apptest.Eventually(b.t, path+" has one with the "+field+" "+value, func() bool { // jobs make some of them
			for _, one := range b.api(key, "GET", path, nil)[list].([]any) {
				if o := one.(object); fmt.Sprint(o[field]) == value {
					id = o["id"].(string)
					return true
				}
			}
			return false
		})
		return id
	}
	suite := first("/api/v1/eval-suites", "suites", "name", "Write release notes: triggering")
	for _, p := range []struct {
		name, path string
		height     int64
	}{
		{"home", "/", 900},
		{"skill", "/skills/invoice-reader", 1000},
		{"run", "/runs/" + first("/api/v1/eval-suites/"+suite+"/runs", "runs", "baseline", "previous"), 1000},
		{"gate", "/gates/" + first("/api/v1/gates", "gates", "verdict", "block"), 880},
		{"catalogue", "/catalogue?context_window=32000&days=7", 900},
		{"improve", "/improve-runs/" + first("/api/v1/improve-runs", "improve_runs", "status", "succeeded"), 1000},
		{"review", "/review", 440},
		{"connect", "/settings/connect", 900},
	} {
		b.visit(p.path)
		b.look("light", 1440)
		b.do(chromedp.EmulateViewport(1440, p.height))
		if err := os.WriteFile(shots+"/"+p.name+".png", run(b, chromedp.CaptureScreenshot()), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}
