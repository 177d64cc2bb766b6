package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// TestEveryPage checks what must hold on all pages: nothing runs or loads from
// elsewhere, nothing is cached, and screen readers can navigate the pages.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	in := w.as(access.Owner)
	in.sessions("pdf", now(), 1, 1, 0, 1, 1)
	for _, path := range []string{"/", "/skills", "/skills/pdf", "/account", "/device", "/nothing/here", "/skills/none"} {
		checkPage(t, in.get(path))
	}
	checkPage(t, w.browser().get("/login"))
	checkPage(t, w.browser().get("/nothing"))
	checkPage(t, w.browser().post("/login", url.Values{"api_key": {"st_live_0123456789012345"}}))
}

func checkPage(t *testing.T, p *page) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Type": "text/html; charset=utf-8", "Referrer-Policy": "same-origin",
	} {
		if got := p.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", p.name, name, got, want)
		}
	}
	landmarks := map[string]bool{}
	for n := range p.doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		checkElement(t, p, n)
		if name := landmark(n); name != "" {
			if landmarks[name] {
				t.Errorf("%s has two landmarks %s", p.name, name)
			}
			landmarks[name] = true
		}
	}
	if got := len(p.all("h1")); got != 1 {
		t.Errorf("%s has %d headings of level 1", p.name, got)
	}
	for _, landmark := range []string{"main#main", "a.skip", "title"} {
		if len(p.all(landmark)) == 0 {
			t.Errorf("%s has no %s", p.name, landmark)
		}
	}
}

// landmark returns the role and name by which readers of screens jump to an element;
// "" if they do not.
func landmark(n *html.Node) string {
	name := attr(n, "aria-label") + attr(n, "aria-labelledby")
	if n.Data == "nav" || n.Data == "aside" || (n.Data == "section" || n.Data == "form") && name != "" {
		return n.Data + " " + name
	}
	return ""
}

func checkElement(t *testing.T, p *page, n *html.Node) {
	t.Helper()
	for _, a := range n.Attr {
		if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
			t.Errorf("%s: <%s> has the attribute %s", p.name, n.Data, a.Key)
		}
		if (a.Key == "src" || a.Key == "href" || a.Key == "action") && (strings.Contains(a.Val, "//") || a.Val == "") {
			t.Errorf("%s: <%s> leads to %q", p.name, n.Data, a.Val)
		}
	}
	switch n.Data {
	case "style":
		t.Errorf("%s has a <style>", p.name)
	case "script":
		if n.FirstChild != nil || attr(n, "src") == "" {
			t.Errorf("%s has an inline script", p.name)
		}
	case "form":
		if m := attr(n, "method"); m != "post" && m != "get" {
			t.Errorf("%s: a form has the method %q", p.name, m)
		}
	case "input", "select", "textarea":
		if attr(n, "type") != "hidden" && attr(n, "aria-label") == "" && !labelled(p, attr(n, "id")) {
			t.Errorf("%s: the field %q has no label", p.name, attr(n, "name"))
		}
	case "button", "a", "th":
		if textOf(n) == "" {
			t.Errorf("%s: a <%s> says nothing", p.name, n.Data)
		}
	case "svg":
		if attr(n, "aria-hidden") != "true" && attr(n, "aria-label") == "" {
			t.Errorf("%s: a picture says nothing", p.name)
		}
	}
}

func labelled(p *page, id string) bool {
	for _, label := range p.all("label") {
		if id != "" && attr(label, "for") == id {
			return true
		}
	}
	return false
}

// TestFormsOfOtherSites: what another site sends in a person's name is refused.
func TestFormsOfOtherSites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://evil.example"}},
	} {
		b.do("POST", "/logout", nil, header).want(http.StatusForbidden).wantText("sent from another site")
	}
	b.get("/account").want(http.StatusOK)
	b.do("POST", "/logout", nil, http.Header{"Origin": {w.URL}}).wantLocation("/login")
	b.get("/account").wantLocation("/login?next=%2Faccount")
}

func TestMissingPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Viewer)
	b.get("/nothing/here").want(http.StatusNotFound).wantText("Not found", "There is no page at /nothing/here")
	b.get("/skills/none").want(http.StatusNotFound).wantText("Skill not found")
	b.get("/static/none.css").want(http.StatusNotFound).wantText("Not found")
	for _, path := range []string{"/api/v1/none", "/v1/none"} {
		p := b.get(path).want(http.StatusNotFound)
		if got := p.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s is answered with %s, want JSON: programs ask there", path, got)
		}
	}
}

func TestStaticFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	p := w.browser().get("/login")
	var names []string
	for _, n := range append(p.all("script"), p.all("link")...) {
		names = append(names, attr(n, "src")+attr(n, "href"))
	}
	if len(names) < 3 {
		t.Fatalf("the page loads %q", names)
	}
	for _, name := range names {
		file := w.browser().get(name).want(http.StatusOK)
		if got := file.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control %q", name, got)
		}
		if strings.HasPrefix(file.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s is %s", name, file.Header.Get("Content-Type"))
		}
	}
}

// TestStrangers: who is not signed in learns what this is, and robots which pages are for
// them.
func TestStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.browser()
	b.get("/").wantLocation("/login?next=%2F")
	p := b.get("/login").want(http.StatusOK).wantText("See which agent skills work.", "API reference")
	checkPage(t, p)
	described := false
	for _, meta := range p.all("meta") {
		described = described || attr(meta, "name") == "description" && attr(meta, "content") != ""
	}
	if !described || len(p.all("svg.loop")) != 1 {
		t.Error("the page has no description or no picture")
	}
	if robots := b.get("/robots.txt").want(http.StatusOK).body; !strings.Contains(robots, "Disallow: /\n") {
		t.Errorf("robots.txt says %q", robots)
	}
	// A page that is not there offers a search.
	found := false
	for _, form := range w.as(access.Viewer).get("/nothing/here").all("form") {
		found = found || attr(form, "action") == "/search"
	}
	if !found {
		t.Error("a missing page has no search")
	}
}

// TestPermissions: a page asks for the same as the API's route, and shows no
// button that it would refuse.
func TestPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	viewer, admin := w.as(access.Viewer), w.as(access.AdminRole)
	viewer.get("/settings/keys").want(http.StatusForbidden)
	admin.get("/settings/keys").want(http.StatusOK).wantText("Keys of default", "Revoke")
	viewer.post("/settings/keys/"+admin.api.KeyID+"/revoke", nil).want(http.StatusForbidden).
		wantText("This needs the permission admin, which an admin can give you", "See who is an admin")
	for b, want := range map[*browser]bool{viewer: false, admin: true} {
		if got := strings.Contains(b.get("/").texts("nav")[0], "Code host"); got != want {
			t.Errorf("the menu offers the code host: %v, want %v", got, want)
		}
	}
	narrowed := w.as(access.Owner, access.RegistryPush)
	for _, path := range []string{"/", "/skills", "/skills/pdf"} {
		narrowed.get(path).want(http.StatusForbidden).wantText("This needs the permission read")
	}
	narrowed.get("/account").want(http.StatusOK).wantText("registry:push").wantNoText("Keys of the organisation")
}

func TestLargeForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	form := url.Values{"api_key": {strings.Repeat("x", 2<<20)}}
	w.browser().post("/login", form).want(http.StatusRequestEntityTooLarge).wantText("over the limit of 1 MiB")
}

func TestTheme(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.browser()
	theme := func() string { return attr(b.get("/login").all("html")[0], "data-theme") }
	if got := theme(); got != "" {
		t.Errorf("the theme is %q before one was chosen", got)
	}
	for _, want := range []string{"dark", "light"} {
		b.post("/theme", url.Values{"theme": {want}, "next": {"/login"}}).wantLocation("/login")
		if got := theme(); got != want {
			t.Errorf("the theme is %q, want %s", got, want)
		}
	}
	b.post("/theme", url.Values{"theme": {"pink"}, "next": {"https://evil.example/"}}).wantLocation("/")
	if got := theme(); got != "" {
		t.Errorf("the theme is %q after nonsense", got)
	}
}

// TestNoText: PostgreSQL keeps neither NUL nor broken UTF-8, so pages refuse
// them before they get that far.
func TestNoText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "postgres")
	in := w.as(access.Owner)
	for _, path := range []string{"/skills/%00", "/skills?q=%00", "/registry?q=%ff", "/registry/a%00b", "/community?skill=%00"} {
		if got := in.get(path).StatusCode; got != http.StatusBadRequest {
			t.Errorf("GET %s: %d, want 400", path, got)
		}
	}
	for path, form := range map[string]url.Values{
		"/alerts":        {"type": {"no_data"}, "channel": {"email"}, "address": {"a@example.org"}, "skill": {"\x00"}},
		"/suites/new":    {"name": {"a\x00b"}, "verifier": {"llm_judge"}},
		"/alerts/x":      {"\xff": {"x"}},
		"/proposals/%00": {"decision": {"approve"}},
	} {
		if got := in.post(path, form).StatusCode; got != http.StatusBadRequest {
			t.Errorf("POST %q: %d, want 400", path, got)
		}
	}
}
