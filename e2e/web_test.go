package e2e_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
)

// object is a JSON object.
type object = map[string]any

// startSite starts a service with a few skills and returns where it is, and
// its first key.
func startSite(t *testing.T) (site, key string) {
	t.Helper()
	dir := t.TempDir()
	s := &server{dir: dir}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "WHETSTONE_DATA=" + filepath.Join(dir, "data")}
	site, key, err := s.start(env, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	report(t, site, key, "healthy-one", 1, 1, 1, 1, 1, 1, 1, 1)
	report(t, site, key, "broken-one", 0, 0, 0, 1, 0, 0, 0, 1)
	report(t, site, key, hostile, 0, 0, 0, 0, 0, 0)
	return site, key
}

// hostile is the name of a skill that runs as a script if it is not escaped.
const hostile = `"><img src=x onerror=window.pwned=1><script>window.pwned=1</script>`

// report sends a session of the skill for each grade.
func report(t *testing.T, site, key, skill string, grades ...float64) {
	t.Helper()
	var invocations, gradings, prompts []object
	for i, grade := range grades {
		id, at := uuid.NewString(), time.Now().Add(-time.Duration(i)*25*time.Hour).UTC().Format(time.RFC3339)
		prompts = append(prompts, object{"prompt_id": id, "session_id": id, "occurred_at": at, "prompt_text": hostile, "prompt_kind": "user"})
		invocations = append(invocations, object{
			"skill_invocation_id": id, "session_id": id, "skill_name": skill, "occurred_at": at, "triggered": true, "matched_prompt_id": id,
		})
		gradings = append(gradings, object{"grading_id": id, "session_id": id, "skill_name": skill, "graded_at": at, "pass_rate": grade})
	}
	body, err := json.Marshal(object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": object{
		"skill_invocations": invocations, "grading_results": gradings, "prompts": prompts,
	}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, site+"/api/v1/push", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("push: %s", res.Status)
	}
}

// TestDashboard visits every page of the menu, and some behind it, in both
// colours and on a phone.
func TestDashboard(t *testing.T) {
	t.Parallel()
	site, key := startSite(t)
	tab := newTab(t, site)
	tab.visit("/login")
	tab.checkLooks("/login")
	tab.signIn(key)
	tab.wantText("main", "broken-one", "critical")
	paths := run(tab, chromedp.Evaluate[[]string](`[...document.querySelectorAll("nav[aria-label=Main] a")].map(a => a.getAttribute("href"))`))
	if len(paths) < 2 {
		t.Fatalf("the menu has %q", paths)
	}
	paths = append(paths, "/skills/broken-one", "/skills/"+url.PathEscape(hostile), "/account", "/device")
	for _, path := range paths {
		tab.visit(path)
		tab.checkLooks(path)
	}
}

// TestDashboardByKeyboard signs in and walks to a page without the mouse.
func TestDashboardByKeyboard(t *testing.T) {
	t.Parallel()
	site, key := startSite(t)
	tab := newTab(t, site)
	tab.signIn(key)
	focused := func() string {
		return run(tab, chromedp.Evaluate[string](`document.activeElement.textContent.trim()`))
	}
	tab.do(chromedp.KeyEvent("\t"))
	if got := focused(); got != "Skip to the content" {
		t.Errorf("the first stop is %q", got)
	}
	for range 3 {
		tab.do(chromedp.KeyEvent("\t"))
	}
	if got := focused(); got != "Skills" {
		t.Fatalf("the fourth stop is %q, want Skills", got)
	}
	if width := run(tab, chromedp.Evaluate[string](`getComputedStyle(document.activeElement).outlineWidth`)); width != "2px" {
		t.Errorf("the focus is drawn %s wide", width)
	}
	tab.do(chromedp.KeyEvent("\r"), chromedp.WaitVisible(".filters"))
	if at := run(tab, chromedp.Location()); at != site+"/skills" {
		t.Errorf("Enter leads to %s", at)
	}
}

// TestDashboardScript checks what the script does: the reader's zone, the
// colours, the copying.
func TestDashboardScript(t *testing.T) {
	t.Parallel()
	site, key := startSite(t)
	tab := newTab(t, site)
	tab.call(emulation.SetTimezoneOverride.Method, func() error {
		_, err := chromedp.Call(tab.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Pacific/Kiritimati"})
		return err
	})
	tab.look("light", 1280)
	tab.signIn(key)
	tab.visit("/account")
	moment := run(tab, chromedp.Evaluate[[]string](`(t => [t.textContent, t.title, t.dateTime])(document.querySelector("td time"))`))
	at, err := time.Parse(time.RFC3339, moment[2])
	if err != nil {
		t.Fatal(err)
	}
	if local := at.In(time.FixedZone("", 14*60*60)).Format("Jan 2, 2006, 3:04"); !strings.HasPrefix(moment[0], local) || moment[1] != at.Format("2006-01-02 15:04:05 UTC") {
		t.Errorf("the time is shown as %q, on hover %q, want %s and the UTC", moment[0], moment[1], local)
	}
	theme := func() string {
		return run(tab, chromedp.Evaluate[string](`document.documentElement.dataset.theme || ""`))
	}
	tab.do(chromedp.Click(".theme button"))
	if got := theme(); got != "dark" {
		t.Errorf("the theme is %q after a click", got)
	}
	tab.visit("/")
	if got := theme(); got != "dark" {
		t.Errorf("the theme is %q on the next page", got)
	}
}

// TestDashboardWithoutScript reads pages and sends forms in a browser that runs
// no scripts.
func TestDashboardWithoutScript(t *testing.T) {
	t.Parallel()
	site, key := startSite(t)
	tab := newTab(t, site)
	tab.call("no scripts", func() error {
		_, err := chromedp.Call(tab.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
	tab.signIn(key)
	tab.wantText("main", "broken-one")
	tab.do(chromedp.Navigate(site+"/skills?sort=-pass_rate"), chromedp.WaitVisible("table"))
	tab.wantText("main", "healthy-one")
	tab.do(chromedp.Click(".theme button"), chromedp.WaitVisible(`html[data-theme="dark"]`))
	tab.do(chromedp.Navigate(site + "/account"))
	tab.wantText("main", "UTC")
	tab.do(chromedp.Click(`.who form[action="/logout"] button`), chromedp.WaitVisible("#api_key"))
	tab.wantText("main", "You are signed out.")
}
