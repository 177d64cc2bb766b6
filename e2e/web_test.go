package e2e_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

var browserAll = flag.Bool("browser-all", false, "TestBrowser visits every page, and does all walks on both databases")

// TestBrowser uses the dashboard as people do, in one real browser: with the
// demo organisation, and with one whose every text is hostile. `make e2e-browser`
// does all of it, the tests some walks through the demo.
func TestBrowser(t *testing.T) {
	t.Parallel()
	c := &chromium{servertest.StartChromium(t)}
	t.Run("demo", func(t *testing.T) {
		site, key := startDemo(t)
		if *browserAll {
			t.Run("every page", func(t *testing.T) { everyPage(c.tab(t, site), key) })
		}
		for _, test := range []struct {
			name  string
			do    func(b *tab, key string)
			short bool // also in the tests
		}{
			{"palette", palette, true},
			{"filtering", filtering, false},
			{"pictures", pictures, false},
			{"signing in and out", signingInAndOut, true},
			{"keyboard", walkingByKeyboard, true},
			{"zone and colours", zoneAndColours, false},
			{"without scripts", withoutScripts, true},
			{"review by keyboard", reviewByKeyboard, false},
			{"dropping a folder", droppingFolder, true},
			{"dropping a zip", droppingZip, false},
			{"live run", liveRun, true},
			{"rolling back", rollingBack, true},
			{"alert with preview", alertWithPreview, false},
			{"approving a device", approvingDevice, false},
			{"making a key", makingKey, false},
		} {
			if test.short || *browserAll {
				t.Run(test.name, func(t *testing.T) { test.do(c.tab(t, site), key) })
			}
		}
	})
	if !*browserAll {
		return
	}
	t.Run("hostile", func(t *testing.T) { hostileTexts(t, c) })
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run("loop on "+database, func(t *testing.T) { wholeLoop(t, c, database) })
		t.Run("sessions on "+database, func(t *testing.T) { fromNumberToCase(t, c, database) })
		t.Run("rolling back on "+database, func(t *testing.T) { fromTroubleToRollback(t, c, database) })
		t.Run("walks on "+database, func(t *testing.T) { walks(t, c, database) })
		t.Run("single sign-on on "+database, func(t *testing.T) { signingInWithProvider(t, c, database) })
		t.Run("people on "+database, func(t *testing.T) { peopleDecide(t, c, database) })
		t.Run("trials on "+database, func(t *testing.T) { fromVerdictToTrial(t, c, database) })
	}
	t.Run("live improve run", func(t *testing.T) { liveImproveRun(t, c) })
}

// object is a JSON object.
type object = map[string]any

// api sends JSON to the API with a key and wants a success.
func (b *tab) api(key, method, path string, body any) object {
	b.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.send(key, method, path, "application/json", bytes.NewReader(text))
}

func (b *tab) send(key, method, path, contentType string, body io.Reader) object {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.site+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		b.t.Fatalf("%s %s: %s, %s, %v", method, path, res.Status, answer, err)
	}
	out := object{}
	if len(answer) > 0 {
		if err := json.Unmarshal(answer, &out); err != nil {
			b.t.Fatal(err)
		}
	}
	return out
}

func signingInAndOut(b *tab, key string) {
	b.expected = "status of 401"
	b.visit("/skills")
	if at := run(b, chromedp.Location()); at != b.site+"/login?next=%2Fskills" {
		b.t.Errorf("somebody who is not signed in is at %s", at)
	}
	b.do(chromedp.SendKeys("#api_key", "st_live_wrong\r"))
	b.await("main", "Unknown API key")
	b.do(chromedp.SendKeys("#api_key", key+"\r"), chromedp.WaitVisible(".filters"))
	if at := run(b, chromedp.Location()); at != b.site+"/skills" {
		b.t.Errorf("signing in leads to %s", at)
	}
	b.do(chromedp.Click(`.who form[action="/logout"] button`), chromedp.WaitVisible("#api_key"))
	b.wantText("main", "You are signed out.")
	b.visit("/")
	b.wantText("main", "API key")
}

// walkingByKeyboard walks to a page without the mouse.
func walkingByKeyboard(b *tab, key string) {
	b.signIn(key)
	focused := func() string {
		return run(b, chromedp.Evaluate[string](`document.activeElement.textContent.trim()`))
	}
	b.press("\t")
	if got := focused(); got != "Skip to content" {
		b.t.Errorf("the first stop is %q", got)
	}
	// The name of the service, the search, Home, and then Skills.
	for range 4 {
		b.press("\t")
	}
	if got := focused(); got != "Skills" {
		b.t.Fatalf("the fifth stop is %q, want Skills", got)
	}
	if width := run(b, chromedp.Evaluate[string](`getComputedStyle(document.activeElement).outlineWidth`)); width != "2px" {
		b.t.Errorf("the focus is drawn %s wide", width)
	}
	b.do(chromedp.KeyEvent("\r"), chromedp.WaitVisible(".filters"))
	if at := run(b, chromedp.Location()); at != b.site+"/skills" {
		b.t.Errorf("Enter leads to %s", at)
	}
}

// zoneAndColours checks what the script does on every page: the reader's zone
// and the colours.
func zoneAndColours(b *tab, key string) {
	b.call(emulation.SetTimezoneOverride.Method, func() error {
		_, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Pacific/Kiritimati"})
		return err
	})
	b.look("light", 1280)
	b.signIn(key)
	b.visit("/account")
	moment := run(b, chromedp.Evaluate[[]string](`(t => [t.textContent, t.title, t.dateTime])(document.querySelector("td time"))`))
	at, err := time.Parse(time.RFC3339, moment[2])
	if err != nil {
		b.t.Fatal(err)
	}
	local := at.In(time.FixedZone("", 14*60*60)).Format("Jan 2, 2006, 3:04")
	if moment[0] != "just now" && !strings.HasSuffix(moment[0], " ago") || !strings.HasPrefix(moment[1], local) || !strings.Contains(moment[1], at.Format("(2006-01-02 15:04:05 UTC)")) {
		b.t.Errorf("the time is shown as %q, on hover %q, want %s and the UTC", moment[0], moment[1], local)
	}
	theme := func() string {
		return run(b, chromedp.Evaluate[string](`document.documentElement.dataset.theme || ""`))
	}
	b.do(chromedp.Click(".theme button"))
	if got := theme(); got != "dark" {
		b.t.Errorf("the theme is %q after a click", got)
	}
	b.visit("/")
	if got := theme(); got != "dark" {
		b.t.Errorf("the theme is %q on the next page", got)
	}
}

// withoutScripts reads pages and sends forms in a browser that runs no
// scripts.
func withoutScripts(b *tab, key string) {
	b.call("no scripts", func() error {
		_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
	b.signIn(key)
	b.wantText("main", "Needs attention")
	b.do(chromedp.Navigate(b.site+"/skills?sort=-pass_rate"), chromedp.WaitVisible("table"))
	b.do(chromedp.Click(".theme button"), chromedp.WaitVisible(`html[data-theme="dark"]`))
	b.do(chromedp.Navigate(b.site + "/settings/audit"))
	b.wantText("main", "UTC")

	b.do(chromedp.Navigate(b.site+"/review"), chromedp.Click(`[data-key=a]`))
	b.await(".flash", "Accepted as a draft.")
	b.do(chromedp.Click(`[data-key=u]`))
	b.await(".flash", "The decision was undone.")
	b.do(chromedp.Navigate(b.site+"/alerts/new"), chromedp.SetValue("[name=pass_rate]", "100"), chromedp.Click("#preview-button"))
	b.await("#preview", "it would have fired")
	file := skillZip(b.t, "plain-upload")
	b.doOn("/sources", chromedp.SetUploadFiles("#file", []string{file}), chromedp.SendKeys("#label", "By a form"), chromedp.Click("form.upload button"))
	b.await(".flash", "The source was created.")
	b.wantText("h1", "By a form")
	b.do(chromedp.Click(`.who form[action="/logout"] button`), chromedp.WaitVisible("#api_key"))
	b.wantText("main", "You are signed out.")
}

// waiting is how many suggestions the queue says to wait.
func (b *tab) waiting() int {
	b.t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(run(b, chromedp.Text("[data-total]")), " pending"))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// reviewByKeyboard clears some of the queue without touching the mouse.
func reviewByKeyboard(b *tab, key string) {
	b.signIn(key)
	b.visit("/review")
	begin := b.waiting()
	if begin < 4 {
		b.t.Fatalf("%d suggestions wait, which is too few for this test", begin)
	}
	first := run(b, chromedp.Text("#query"))
	for _, step := range []struct {
		key, says string
		left      int
	}{
		{"a", "Accepted as a draft.", begin - 1},
		{"r", "Rejected.", begin - 2},
		{"u", "The decision was undone.", begin - 1},
		{"u", "The decision was undone.", begin},
	} {
		b.press(step.key)
		b.await(".flash", step.says)
		b.await("[data-total]", fmt.Sprintf("%d pending", step.left))
	}
	if got := run(b, chromedp.Text("#query")); got != first {
		b.t.Errorf("after all was taken back %q is shown, want %q", got, first)
	}
	b.press("n")
	b.await(".places", fmt.Sprintf("2 of %d", begin))
	b.press("p")
	b.await(".places", fmt.Sprintf("1 of %d", begin))

	suite := run(b, chromedp.Value("#suite"))
	cases := b.cases(key, suite)
	b.press("s")
	b.await(".flash", "Added to the suite.")
	b.await("[data-total]", fmt.Sprintf("%d pending", begin-1))
	if got := b.cases(key, suite); got != cases+1 {
		b.t.Errorf("the suite has %d cases, want %d", got, cases+1)
	}
	b.press("u")
	b.await(".flash", "The decision was undone.")
	if got := b.cases(key, suite); got != cases {
		b.t.Errorf("the suite has %d cases, want %d again", got, cases)
	}
}

// cases counts those of a suite.
func (b *tab) cases(key, suite string) int {
	b.t.Helper()
	return int(b.api(key, "GET", "/api/v1/eval-suites/"+suite, nil)["suite"].(object)["case_count"].(float64))
}

// liveRun starts a run and watches it to its end.
func liveRun(b *tab, key string) {
	var cases []object
	for i := range 100 { // so many take a moment
		cases = append(cases, object{"case_kind": "trigger_query", "query": fmt.Sprintf("extract table %d", i), "expectation": "should_trigger"})
	}
	suite := b.api(key, "POST", "/api/v1/eval-suites", object{"name": "Watched", "verifier_kind": "llm_judge", "source_kind": "manual", "cases_json": cases})
	b.signIn(key)
	b.visit("/suites/" + suite["suite"].(object)["id"].(string))
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#subject").selectedIndex = 1`), chromedp.SetValue("#trials", "30"),
		chromedp.Click(".run-form button"), chromedp.WaitReady("[data-status]"))
	// What was seen outlives the page, which the end of the run loads again.
	b.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const done = document.querySelector("[data-done]");
		const keep = () => { sessionStorage.seen = (sessionStorage.seen ?? "") + " " + done.textContent; };
		if (done) { keep(); new MutationObserver(keep).observe(done, { childList: true, characterData: true, subtree: true }); }
	})()`))
	b.await("[data-status]", "succeeded")
	b.await("main", "Pass rate")
	seen := strings.Fields(run(b, chromedp.Evaluate[string](`sessionStorage.seen ?? ""`)))
	if len(seen) < 3 || seen[0] == seen[len(seen)-1] {
		b.t.Errorf("the progress was seen at %v, want it to grow", seen)
	}
}

// rollingBack takes an entry back to an older version and says why.
func rollingBack(b *tab, key string) {
	b.signIn(key)
	b.visit("/registry")
	for _, path := range b.links() {
		if kindOf(path) != "/registry/{}" {
			continue
		}
		b.visit(path)
		if run(b, chromedp.Evaluate[int](`document.querySelectorAll("input[name=version]").length`)) > 0 {
			break
		}
	}
	target := run(b, chromedp.Evaluate[string](`document.querySelector("input[name=version]:checked").value`))
	const reason = "The new one forgets the footnotes."
	b.do(chromedp.Click("details:has(#reason) > summary"), chromedp.WaitVisible("#reason"), chromedp.SendKeys("#reason", reason+"\r"))
	b.await(".flash", " to "+target+".")
	b.wantText("h1", target)
	b.wantText(`[aria-label="Rollbacks"]`, reason, target)
	b.do(chromedp.Click(`form[action$="/rollback/undo"] button`))
	b.await(".flash", "is current again.")
	b.wantText(`[aria-label="Rollbacks"]`, "undone")
}

// alertWithPreview makes an alert, which shows what it would have done while
// it is typed.
func alertWithPreview(b *tab, key string) {
	b.signIn(key)
	b.visit("/alerts/new")
	before := run(b, chromedp.Text("#preview strong"))
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=pass_rate]").select()`), chromedp.SendKeys("[name=pass_rate]", "99"))
	b.until(fmt.Sprintf(`document.querySelector("#preview strong")?.innerText !== %q`, before))
	b.wantText("#preview", "it would have fired")
	b.do(chromedp.SendKeys("#address", "https://hooks.example.org/notices"), chromedp.Click("#alert-form .row button"), chromedp.WaitVisible(".copy code"))
	b.wantText("main", "It is not shown again.", "whsec_")
	b.do(chromedp.Click("main .button"))
	b.await("h1", "All skills: pass rate below 99\u202f% (sequential)")
}

// approvingDevice lets a program in that shows a code.
func approvingDevice(b *tab, key string) {
	b.signIn(key)
	login := b.api(key, "POST", "/api/v1/device-code", object{"client_id": "a program"})
	b.visit("/device")
	b.do(chromedp.SendKeys("#code", strings.ToLower(login["user_code"].(string))+"\r"))
	b.await("main", "a program wants to act on your behalf")
	b.do(chromedp.Click(`button[value=approve]`))
	b.await(".flash", "The login was approved.")
	got := b.api(key, "POST", "/api/v1/device-code/poll", object{"device_code": login["device_code"]})
	if got["status"] != "approved" {
		b.t.Fatalf("the program got %v", got)
	}
	b.api(got["api_key"].(string), "GET", "/api/v1/me", nil)
}

// makingKey makes a key that is shown once, and connects an agent with another.
func makingKey(b *tab, key string) {
	b.signIn(key)
	b.visit("/settings/keys")
	b.do(chromedp.SendKeys("#name", "nightly"), chromedp.Click(`#preset-read`), chromedp.SendKeys("#days", "\r"))
	b.await(".made", "It is not shown again.")
	b.api(run(b, chromedp.TextContent(".made code")), "GET", "/api/v1/me", nil)
	b.visit("/settings/connect")
	b.do(chromedp.Click(`button[value=agents]`))
	b.await(".flash", "The new key is filled in below.")
	b.wantText("main", b.site, "Authorization=Bearer st_live_")
}
