package clients_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
)

const (
	// axeTabs check pages at the same time.
	axeTabs = 2
	// samples is how many pages of a route are checked, and as many with a query: they
	// have different things to show.
	samples = 2
	// readMost is how many pages of a route are read for their links.
	readMost = 12
	// pageTimeout is how long a page may take in all modes, also on a busy machine.
	pageTimeout = 3 * time.Minute
)

// axeModes are how people look at a page, and what axe looks for then: in other
// colours the elements are the same.
var axeModes = []struct {
	name, scheme  string
	width, height int64
	rules         string
}{{"light", "light", 1280, 900, axeTags}, {"dark", "dark", 1280, 900, axeColours}, {"phone", "light", 390, 844, axeTags}}

const (
	axeTags    = `{ type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }`
	axeColours = `{ type: "rule", values: ["color-contrast", "link-in-text-block"] }`
)

// axeRun opens what is folded and returns what axe finds by some of its rules, a line
// each. It computes the contrast that axe leaves undecided, e.g. of text on a gradient,
// and finds what is wider than the window, or cut off.
const axeRun = `(async () => {
	for (const d of [...document.querySelectorAll("main details")].slice(0, 20)) d.open = true; // those of /docs are all alike
	const { violations, incomplete } = await axe.run(document, { runOnly: RULES, resultTypes: ["violations", "incomplete"] });
	const found = violations.flatMap(v => v.nodes.map(n => v.id + " (" + v.impact + "): " + n.target.join(" ") + "\n\t" + n.html.slice(0, 200) + "\n\t" + n.any.concat(n.all, n.none).map(c => c.message).join("; ").slice(0, 300)));
	const contrast = CONTRAST;
	for (const n of incomplete.filter(v => v.id === "color-contrast").flatMap(v => v.nodes)) {
		const e = document.querySelector(n.target.join(" "));
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const lacking = contrast(e);
		if (lacking) found.push(lacking + ": " + n.target.join(" ") + "\n\t" + n.html.slice(0, 200));
	}
	const wide = document.scrollingElement.scrollWidth - innerWidth;
	if (wide > 0) found.push(wide + " pixels wider than the window");
	for (const e of document.querySelectorAll("main .scroll:has(> table)")) {
		const cut = e.scrollWidth - e.clientWidth;
		if (cut > 1) found.push("the table " + e.getAttribute("aria-label") + " is cut off by " + cut + " pixels");
	}
	return found;
})()`

// notHTML are the routes of the dashboard that answer with something else than a page
// of their own.
var notHTML = []string{
	"/account/export", "/account/link/{}", "/login/oidc/{}", "/login/oidc/{}/callback", "/improve-runs/{}/events", "/runs/{}/events",
	"/registry/{}/versions/{}/diff", "/registry/{}/versions/{}/download", "/registry/{}/versions/{}/files/{}",
	"/sources/{}/changes.diff", "/sources/{}/files/{}", "/sources/{}/validation.sarif", "/suites/{}/compare", "/suites/{}/export",
}

// TestAxe visits every page of the demo and lets axe-core look for what keeps people
// from using it, in light and dark colours and on a phone. No page is wider than its
// window, and no table than its place.
func TestAxe(t *testing.T) {
	needSite(t)
	programs := servertest.InstallNPM(t, root, "e2e/clients")
	source, err := os.ReadFile(filepath.Join(programs, "../axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	d := startDemo(t)
	invitation := d.api.Post("/api/v1/invitations", map[string]any{"role": "viewer"}).Want(http.StatusCreated).Text("url")
	_, token, _ := strings.Cut(invitation, "/invite/")
	outside := []string{"/login", "/invite/" + token}
	signedIn := append([]string{"/docs"}, d.pages(t)...) // the page that takes longest first
	queue := make(chan string, len(signedIn))
	for _, path := range signedIn {
		queue <- path
	}
	close(queue)
	chromium := servertest.StartChromium(t)
	var wg sync.WaitGroup
	for i := range axeTabs {
		wg.Go(func() {
			a := &axe{t: t, site: d.api.URL, source: string(source)}
			var cancel context.CancelFunc
			a.ctx, cancel = chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
			defer cancel()
			// Without a timeout, which would close the tab.
			if err := chromedp.Do(a.ctx, chromedp.Navigate("about:blank")); err != nil {
				t.Error(err)
				return
			}
			for j := i; j < len(outside); j += axeTabs {
				a.check(outside[j], chromedp.Navigate(a.site+outside[j]))
			}
			if i == 0 {
				a.check("/login/device", chromedp.Navigate(a.site+"/login"), chromedp.Click(`form[action="/login/device"] button`), chromedp.WaitVisible(".usercode"))
			}
			a.check("/", chromedp.Navigate(a.site+"/login"), chromedp.SendKeys("#api_key", d.api.Key+"\r"), chromedp.WaitVisible(".side"))
			for path := range queue {
				a.check(path, chromedp.Navigate(a.site+path))
			}
			if i == axeTabs-1 {
				a.check("/account", chromedp.Navigate(a.site+"/login/oidc/corp?next=/account"))
				a.check("/account/link", chromedp.Navigate(a.site+"/account/link/second"), chromedp.WaitReady(`form[action="/account/link"]`))
			}
		})
	}
	wg.Wait()
	t.Logf("axe looked at %d pages in %d modes", len(signedIn)+len(outside)+1, len(axeModes))
}

// axe checks pages in a tab.
type axe struct {
	t            *testing.T
	ctx          context.Context
	site, source string
}

// check goes to a page and runs axe in all modes.
func (a *axe) check(path string, to ...chromedp.Action[chromedp.Void]) {
	ctx, cancel := context.WithTimeout(a.ctx, pageTimeout)
	defer cancel()
	err := show(ctx, 0)
	if err == nil {
		err = chromedp.Do(ctx, append(to, chromedp.WaitReady("main"), chromedp.Evaluate[chromedp.Void](a.source))...)
	}
	for i, mode := range axeModes {
		var found []string
		if err == nil {
			err = show(ctx, i)
		}
		if err == nil {
			found, err = chromedp.Run(ctx, chromedp.Evaluate[[]string](
				strings.NewReplacer("RULES", mode.rules, "CONTRAST", servertest.Contrast).Replace(axeRun), chromedp.EvalAwaitPromise))
		}
		for _, violation := range found {
			a.t.Errorf("%s, %s: %s", path, mode.name, violation)
		}
	}
	if err != nil {
		a.t.Errorf("%s: %v", path, err)
	}
}

// show changes how the page that is open looks.
func show(ctx context.Context, i int) error {
	mode := axeModes[i]
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: mode.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	if err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.EmulateViewport(mode.width, mode.height))
}

// demo is a service with the demo organisation.
type demo struct {
	data    string
	api     *apptest.Caller
	browser *http.Client // signed in
}

var demoKey = regexp.MustCompile(`(?m)^API key of .*: (st_\w+)$`)

func startDemo(t *testing.T) *demo {
	t.Helper()
	dir := t.TempDir()
	args := []string{"serve", "--demo", "--addr", "127.0.0.1:0", "--data", filepath.Join(dir, "data")}
	for _, name := range []string{"corp", "second"} {
		args = append(args, "--oidc", name+"="+oidctest.New(t).URL, "--oidc-client-id", name+"="+oidctest.ClientID,
			"--oidc-client-secret", name+"="+oidctest.ClientSecret)
	}
	var printed strings.Builder
	server, err := servertest.Start(servertest.Command{
		Path: site.binary, Args: args, Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Stdout: &printed,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Terminate(); err != nil {
			t.Error(err)
		}
	})
	key := demoKey.FindStringSubmatch(printed.String())
	if key == nil {
		t.Fatalf("the demo has no key:\n%s", printed.String())
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{filepath.Join(dir, "data"), &apptest.Caller{T: t, URL: server.URL, Key: key[1]}, &http.Client{Jar: jar, Timeout: time.Minute}}
	res, err := d.browser.PostForm(server.URL+"/login", url.Values{"api_key": {d.api.Key}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("signing in: %s", res.Status)
	}
	return d
}

// pages finds pages of every route of the dashboard, by links, and by what it makes for
// the few that nothing of the demo leads to.
func (d *demo) pages(t *testing.T) (all []string) {
	t.Helper()
	missing := map[string]bool{}
	for route := range apptest.Pages() {
		if path, ok := strings.CutPrefix(route, "GET "); ok && !slices.Contains(notHTML, path) && !isFile(path) {
			missing[path] = true
		}
	}
	patterns := slices.Collect(maps.Keys(missing))
	for _, path := range []string{"/login", "/login/device", "/invite/{}", "/account/link"} { // seen by TestAxe itself
		delete(missing, path)
	}
	seen, read, kept := map[string]bool{}, map[string]int{}, map[string]int{}
	for queue := append([]string{"/", "/registry/lock-file"}, d.fill(t)...); len(queue) > 0; queue = queue[1:] {
		path, query, _ := strings.Cut(queue[0], "?")
		pattern := patternOf(patterns, path)
		shape := pattern
		if query != "" {
			shape += "?"
		}
		if pattern == "" || isFile(path) || seen[queue[0]] || read[shape] == readMost {
			continue
		}
		seen[queue[0]] = true
		read[shape]++
		links, err := d.links(t, queue[0])
		if err != nil {
			t.Error(err)
			continue
		}
		queue = append(queue, links...)
		if delete(missing, pattern); kept[shape] < samples {
			kept[shape]++
			all = append(all, queue[0])
		}
	}
	for pattern := range missing {
		t.Errorf("no link leads to %s", pattern)
	}
	return append(all, "/nothing-is-here")
}

// fill makes what the demo has no page of, and returns paths to begin with.
func (d *demo) fill(t *testing.T) []string {
	t.Helper()
	account := d.api.Post("/api/v1/service-accounts", map[string]any{"name": "nightly-bot", "role": "member"}).
		Want(http.StatusCreated).Text("service_account", "id")
	service{data: d.data}.admin(t, "repohost", "init-repo", "acme/deploy")
	d.api.Post("/api/v1/repohost/installations", map[string]any{"installation_id": 1, "account_login": "acme", "account_type": "Organization"}).
		Want(http.StatusCreated)
	entry := apptest.Text(d.api.Get("/api/v1/registry").Want(http.StatusOK).List("entries")[0], "id")
	connection := d.api.Post("/api/v1/repohost/connections", map[string]any{"entry_id": entry, "installation_id": 1, "repo_full_name": "acme/deploy"}).
		Want(http.StatusCreated).Text("id")
	var sources []struct{ ID string }
	d.api.Get("/api/v1/cloud-sources").Want(http.StatusOK).Into(&sources)
	source := sources[0].ID
	snapshot := d.api.Get("/api/v1/cloud-sources/"+source).Want(http.StatusOK).Text("currentSnapshot", "id")
	var runs []string
	for _, suite := range d.api.Get("/api/v1/eval-suites").Want(http.StatusOK).List("suites") {
		for _, run := range d.api.Get("/api/v1/eval-suites/" + apptest.Text(suite, "id") + "/runs").Want(http.StatusOK).List("runs") {
			runs = append(runs, apptest.Text(run, "id"))
		}
		if len(runs) > 1 {
			break
		}
		runs = nil
	}
	return []string{
		"/settings/service-accounts/" + account, "/sources/" + source + "/diff?from=" + snapshot + "&to=" + snapshot,
		"/runs/" + runs[0] + "/compare?with=" + runs[1], "/repohost/connections/" + connection, "/repohost/connections/new?installation=1",
	}
}

// isFile reports whether a path leads to an exported list.
func isFile(path string) bool { return strings.HasSuffix(path, ".csv") }

// patternOf returns the pattern of a path, e.g. "/skills/{}", the one with the fewest
// parameters if several match; "" if none does.
func patternOf(patterns []string, path string) (found string) {
	for _, p := range patterns {
		expression := "^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\{\}`, "[^/]+") + "$"
		if p == "/{}" { // Home
			expression = "^/$"
		}
		if matches, _ := regexp.MatchString(expression, path); matches && (found == "" || strings.Count(p, "{}") < strings.Count(found, "{}")) {
			found = p
		}
	}
	return found
}

var href = regexp.MustCompile(`href="(/[^"#]*)`)

var problem = regexp.MustCompile(`<(?:h1|p class="error")[^>]*>([^<]*)`)

// links returns the pages that a page leads to.
func (d *demo) links(t *testing.T, path string) (all []string, err error) {
	t.Helper()
	res, err := d.browser.Get(d.api.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range href.FindAllStringSubmatch(string(page), -1) {
		all = append(all, html.UnescapeString(match[1]))
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is linked, but answers %s: %q", path, res.Status, problem.FindAllStringSubmatch(string(page), -1))
	}
	return all, err
}
