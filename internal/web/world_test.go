package web_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// each runs the test with the whole service on a new database of each kind.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, name := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, name))
		})
	}
}

// world is the service as it runs, and the database behind it.
type world struct {
	*apptest.World
	URL string
	org auth.Organisation
}

func newWorld(t *testing.T, database string, flags ...string) *world {
	t.Helper()
	databaseURL := storetest.URL(t, database)
	var all struct {
		config.Config `embed:""`
	}
	parser, err := kong.New(&all)
	if err != nil {
		t.Fatal(err)
	}
	flags = append([]string{"--data", t.TempDir(), "--addr", "127.0.0.1:0", "--database-url", databaseURL}, flags...)
	if _, err := parser.Parse(flags); err != nil {
		t.Fatal(err)
	}
	logged := &apptest.Buffer{}
	a, err := app.New(t.Context(), app.Options{Config: all.Config, Version: "test", Log: slog.New(slog.NewTextHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	db, err := store.Open(t.Context(), store.Options{URL: databaseURL, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w := &world{URL: a.ListenURL(), World: &apptest.World{
		T: t, DB: db, Auth: &auth.Service{DB: db, Log: slog.New(slog.DiscardHandler)}, Logged: logged,
	}}
	if w.org, err = w.Auth.OrgByName(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	return w
}

// as is a browser in which a new person of that role is signed in; no
// permissions leave all that the role gives.
func (w *world) as(role access.Role, permissions ...access.Permission) *browser {
	w.T.Helper()
	return w.signIn(w.Member(w.org, role, permissions...))
}

// otherOrg is a browser of an owner of another organisation.
func (w *world) otherOrg(plan access.Plan) *browser {
	w.T.Helper()
	return w.signIn(w.OrgWithPlan("other-"+string(plan), plan))
}

func (w *world) signIn(c *apptest.Caller) *browser {
	w.T.Helper()
	b := w.browser()
	b.api = w.here(c)
	b.post("/login", url.Values{"api_key": {c.Key}}).want(http.StatusSeeOther)
	return b
}

// here lets a caller ask the running service.
func (w *world) here(c *apptest.Caller) *apptest.Caller {
	c.URL = w.URL
	return c
}

func (w *world) browser() *browser {
	w.T.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.T.Fatal(err)
	}
	return &browser{w: w, client: &http.Client{Jar: jar, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// browser asks for pages and sends forms, as people do without a script.
type browser struct {
	w      *world
	client *http.Client
	api    *apptest.Caller // with the key that it signed in with
}

func (b *browser) get(path string) *page {
	b.w.T.Helper()
	return b.do(http.MethodGet, path, nil, nil)
}

func (b *browser) post(path string, form url.Values) *page {
	b.w.T.Helper()
	return b.do(http.MethodPost, path, form, http.Header{"Sec-Fetch-Site": {"same-origin"}})
}

func (b *browser) do(method, path string, form url.Values, header http.Header) *page {
	b.w.T.Helper()
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if method == http.MethodPost {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return b.request(method, path, strings.NewReader(form.Encode()), header)
}

func (b *browser) request(method, path string, body io.Reader, header http.Header) *page {
	b.w.T.Helper()
	req, err := http.NewRequestWithContext(b.w.T.Context(), method, b.w.URL+path, body)
	if err != nil {
		b.w.T.Fatal(err)
	}
	req.Header = header
	req.Header.Set("Accept", "text/html")
	res, err := b.client.Do(req)
	if err != nil {
		b.w.T.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		b.w.T.Fatal(err)
	}
	doc, err := html.Parse(bytes.NewReader(answer))
	if err != nil {
		b.w.T.Fatal(err)
	}
	return &page{t: b.w.T, name: method + " " + path, Response: res, body: string(answer), doc: doc}
}

type object = apptest.Object

// sessions reports a session of a skill for each grade, at that time.
func (b *browser) sessions(skill string, at time.Time, grades ...float64) {
	b.w.T.Helper()
	var invocations, gradings, prompts []object
	for _, grade := range grades {
		id, when := uuid.NewString(), at.UTC().Format(time.RFC3339Nano)
		prompts = append(prompts, object{
			"prompt_id": id, "session_id": id, "occurred_at": when, "prompt_text": "Please use " + skill, "prompt_kind": "user",
		})
		invocations = append(invocations, object{
			"skill_invocation_id": id, "session_id": id, "skill_name": skill, "occurred_at": when,
			"triggered": true, "matched_prompt_id": id,
		})
		gradings = append(gradings, object{"grading_id": id, "session_id": id, "skill_name": skill, "graded_at": when, "pass_rate": grade})
	}
	b.api.Post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": object{
		"skill_invocations": invocations, "grading_results": gradings, "prompts": prompts,
	}}).Want(http.StatusCreated)
}

// page is an answer, parsed.
type page struct {
	*http.Response
	t    *testing.T
	name string
	body string
	doc  *html.Node
}

func (p *page) want(status int) *page {
	p.t.Helper()
	if p.StatusCode != status {
		p.t.Fatalf("%s: %d, want %d\n%s", p.name, p.StatusCode, status, p.body)
	}
	return p
}

// wantLocation checks where a redirect leads.
func (p *page) wantLocation(want string) *page {
	p.t.Helper()
	if got := p.want(http.StatusSeeOther).Header.Get("Location"); got != want {
		p.t.Errorf("%s leads to %q, want %q", p.name, got, want)
	}
	return p
}

// wantText checks that the text of the page has all of these.
func (p *page) wantText(want ...string) *page {
	p.t.Helper()
	text := textOf(p.doc)
	for _, w := range want {
		if !strings.Contains(text, w) {
			p.t.Errorf("%s does not say %q:\n%s", p.name, w, text)
		}
	}
	return p
}

// wantNoText checks that the text of the page has none of these.
func (p *page) wantNoText(unwanted ...string) *page {
	p.t.Helper()
	text := textOf(p.doc)
	for _, w := range unwanted {
		if strings.Contains(text, w) {
			p.t.Errorf("%s says %q:\n%s", p.name, w, text)
		}
	}
	return p
}

// all finds elements by "tag", "tag.class" or "tag#id".
func (p *page) all(selector string) []*html.Node {
	tag, class, _ := strings.Cut(selector, ".")
	tag, id, _ := strings.Cut(tag, "#")
	var found []*html.Node
	for n := range p.doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == tag && (id == "" || attr(n, "id") == id) &&
			(class == "" || slices.Contains(strings.Fields(attr(n, "class")), class)) {
			found = append(found, n)
		}
	}
	return found
}

// texts are the texts of the elements that a selector finds.
func (p *page) texts(selector string) []string {
	all := []string{}
	for _, n := range p.all(selector) {
		all = append(all, textOf(n))
	}
	return all
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// textOf is what a person reads, with single spaces.
func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode && c.Parent.Data != "style" && c.Parent.Data != "script" {
			b.WriteString(c.Data)
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
