package e2e_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// maxPages bounds how far everyPage follows links.
const maxPages = 120

// everyPage follows the links of the dashboard: every kind of page loads, and
// passes the audit in both colours and on a phone. With WHETSTONE_SHOTS it
// leaves pictures of them.
func everyPage(b *tab, key string) {
	b.visit("/login")
	b.checkLooks("login")
	b.signIn(key)
	b.follow([]string{"/repohost/connections/new"}, func(kind string) { b.checkLooks(pictureOf(kind)) },
		"/", "/skills", "/skills/{}", "/skills/{}/grader", "/sessions", "/sessions/{}", "/costs", "/review", "/sources", "/sources/{}", "/suites", "/suites/{}", "/suites/new", "/runs/{}", "/suites/{}/improve-runs", "/improve-runs/{}", "/registry", "/registry/{}",
		"/registry/{}/versions/{}", "/repohost", "/repohost/connections/new", "/alerts", "/alerts/{}", "/alerts/new", "/community",
		"/signals", "/signals/{}", "/proposals", "/proposals/{}", "/account", "/device",
		"/settings", "/settings/members", "/settings/teams", "/settings/service-accounts", "/settings/keys", "/settings/catalog", "/settings/audit", "/settings/grader", "/settings/prices", "/settings/connect")
}

// palette goes by keyboard to a page of the menu and to a skill, and shows the keys.
func palette(b *tab, key string) {
	b.signIn(key)
	b.press("?")
	b.until(`document.getElementById("keys").open`)
	b.checkPage("keys")
	b.press(kb.Escape)
	for heading, path := range map[string]string{"Proposals": "/proposals", "invoice-reader": "/skills/"} {
		b.press("/")
		b.until(`document.getElementById("palette").open`)
		b.press(kb.Backspace + heading) // chromedp sends the / to the field, a keyboard does not
		b.until(fmt.Sprintf(`!!document.querySelector('#palette li:first-child a[href^=%q]')`, path))
		b.press(kb.Enter)
		b.await("h1", heading)
		b.visit("/")
	}
}

// follow visits a page of each kind that links lead to, from Home and from
// others, and wants these kinds to be among them.
func (b *tab) follow(from []string, check func(kind string), want ...string) {
	b.t.Helper()
	seen := map[string]bool{}
	queue := append([]string{"/"}, from...)
	for len(queue) > 0 && len(seen) < maxPages {
		path := queue[0]
		queue = queue[1:]
		kind := kindOf(path)
		if seen[kind] {
			continue
		}
		seen[kind] = true
		b.visit(path)
		check(kind)
		queue = append(queue, b.links()...)
	}
	for _, kind := range want {
		if !seen[kind] {
			b.t.Errorf("no link leads to %s", kind)
		}
	}
}

// pictureOf names the picture of a kind of page.
func pictureOf(kind string) string {
	if kind == "/" {
		return "home"
	}
	return strings.NewReplacer("/", "-", "{}", "one").Replace(kind[1:])
}

// startDemo starts a service with the demo organisation.
func startDemo(t *testing.T) (site, key string) {
	t.Helper()
	return startSite(t, "--demo")
}

// startSite starts a service with more flags and returns where it is, and its
// first key.
func startSite(t *testing.T, flags ...string) (site, key string) {
	t.Helper()
	dir := t.TempDir()
	s := &server{dir: dir}
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "WHETSTONE_DATA=" + filepath.Join(dir, "data")}
	site, key, err := s.start(env, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	return site, key
}

// links are the pages of the service that the open one leads to.
func (b *tab) links() []string {
	b.t.Helper()
	var paths []string
	for _, href := range run(b, chromedp.Evaluate[[]string](`[...document.querySelectorAll("main a[href], .side a[href]")].map(a => a.href)`)) {
		if path, ours := strings.CutPrefix(href, b.site); ours && isPage(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// isPage leaves out what is downloaded, and the way out.
func isPage(path string) bool {
	return !strings.Contains(path, "/files/") && !strings.Contains(path, "/export") && !strings.Contains(path, "sarif") && !strings.Contains(path, ".csv") && !strings.Contains(path, "/download") &&
		!strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/docs") && !strings.HasPrefix(path, "/logout") && !strings.HasPrefix(path, "/#")
}

var (
	ids  = regexp.MustCompile(`/(src_)?[0-9a-f]{8}-[0-9a-f-]{27}`)
	name = regexp.MustCompile(`^(/skills|/signals|/community|/registry/\{\}/versions)/[^/?]+`)
)

// kindOf is a path without what tells pages of one kind apart.
func kindOf(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Path == "" {
		return "/"
	}
	kind := name.ReplaceAllString(ids.ReplaceAllString(u.Path, "/{}"), "$1/{}")
	if tab := u.Query().Get("tab"); tab != "" { // each tab is a page of its own
		kind += "/tab-" + tab
	}
	return kind
}

// filtering types into the filter of a list, which sends itself, and goes back.
func filtering(b *tab, key string) {
	const rows = `document.querySelectorAll("main tbody tr").length`
	b.signIn(key)
	b.visit("/skills")
	all := run(b, chromedp.Evaluate[int](rows))
	b.do(chromedp.SendKeys("#q", "invoice"))
	b.until(rows + ` === 1 && location.search === "?q=invoice"`)
	b.wantText("main", "invoice-reader")
	b.press("-") // the field has kept the focus and its cursor
	b.until(`document.activeElement.id === "q" && location.search === "?q=invoice-"`)
	b.do(chromedp.SetValue("#status", "critical"))
	b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("status").dispatchEvent(new Event("change", { bubbles: true }))`))
	b.until(`location.search === "?q=invoice-&status=critical" && !!document.querySelector("main form[data-auto] [role=status]").textContent`)
	b.checkPage("skills-filtered")
	b.do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	b.until(`location.search === "?q=invoice-" && document.getElementById("status").value === "" && ` + rows + ` === 1`)
	b.do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	b.until(fmt.Sprintf(`location.search === "" && document.getElementById("q").value === "" && %s === %d`, rows, all))
	b.do(chromedp.Click(`th[aria-sort] a[href="/skills?sort=name"]`))
	b.until(`document.querySelector("th[aria-sort=ascending]")?.innerText.startsWith("Skill")`)
	b.do(chromedp.SendKeys("#q", "a"))
	b.until(`new URLSearchParams(location.search).get("sort") === "name" && new URLSearchParams(location.search).get("q") === "a"`)
}
