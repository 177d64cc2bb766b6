package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// each runs the test with the whole service on a new database of each kind.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, name))
		})
	}
}

// world is the service as it runs, and the database behind it.
type world struct {
	t    *testing.T
	url  string
	db   *store.DB
	auth *auth.Service
	org  auth.Organisation
	log  *logBuffer
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
	w := &world{t: t, log: &logBuffer{}}
	a, err := app.New(t.Context(), app.Options{Config: all.Config, Version: "test", Log: slog.New(slog.NewTextHandler(w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	w.run(a)
	w.url = a.ListenURL()
	if w.db, err = store.Open(t.Context(), store.Options{URL: databaseURL, MaxConns: 2}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.db.Close() })
	w.auth = &auth.Service{DB: w.db, Log: slog.New(slog.DiscardHandler)}
	if w.org, err = w.auth.OrgByName(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) run(a *app.App) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
}

// key makes a person of the organisation with a key; no permissions leave all
// that the role gives.
func (w *world) key(role access.Role, permissions ...access.Permission) (auth.Key, string) {
	w.t.Helper()
	email := fmt.Sprintf("%s-%s@example.org", role, uuid.NewString())
	_, k, raw, err := w.auth.IssueKey(w.t.Context(), auth.Holder{Email: email, Role: role},
		auth.NewKey{OrgID: w.org.ID, Name: "test", Permissions: permissions})
	if err != nil {
		w.t.Fatal(err)
	}
	return k, raw
}

// as is a browser in which a new person of that role is signed in.
func (w *world) as(role access.Role, permissions ...access.Permission) *browser {
	w.t.Helper()
	k, raw := w.key(role, permissions...)
	b := w.browser()
	b.key, b.keyID = raw, k.ID
	b.post("/login", url.Values{"api_key": {raw}}).want(http.StatusSeeOther)
	return b
}

func (w *world) browser() *browser {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{w: w, client: &http.Client{Jar: jar, Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// browser asks for pages and sends forms, as people do without a script.
type browser struct {
	w      *world
	client *http.Client
	key    string // what it signed in with
	keyID  string
}

func (b *browser) get(path string) *page {
	b.w.t.Helper()
	return b.do(http.MethodGet, path, nil, nil)
}

func (b *browser) post(path string, form url.Values) *page {
	b.w.t.Helper()
	return b.do(http.MethodPost, path, form, http.Header{"Sec-Fetch-Site": {"same-origin"}})
}

func (b *browser) do(method, path string, form url.Values, header http.Header) *page {
	b.w.t.Helper()
	req, err := http.NewRequestWithContext(b.w.t.Context(), method, b.w.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.w.t.Fatal(err)
	}
	req.Header = header
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.client.Do(req)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		b.w.t.Fatal(err)
	}
	return &page{t: b.w.t, name: method + " " + path, Response: res, body: string(body), doc: doc}
}

// api sends JSON with the browser's key to the API and wants a success.
func (b *browser) api(method, path string, body any) map[string]any {
	b.w.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.w.t.Context(), method, b.w.url+path, bytes.NewReader(raw))
	if err != nil {
		b.w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := b.client.Do(req)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		b.w.t.Fatalf("%s %s: %s, %s, %v", method, path, res.Status, answer, err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(answer, &out); err != nil {
		b.w.t.Fatal(err)
	}
	return out
}

// object is a JSON object.
type object = map[string]any

// sessions reports a session of a skill for each grade, at that time.
func (b *browser) sessions(skill string, at time.Time, grades ...float64) {
	b.w.t.Helper()
	var invocations, gradings, prompts []object
	for _, grade := range grades {
		id, when := uuid.NewString(), at.UTC().Format(time.RFC3339Nano)
		prompts = append(prompts, object{
			"prompt_id": id, "session_id": id, "occurred_at": when, "prompt_text": "Please use " + skill, "prompt_kind": "user",
		})
		invocations = append(invocations, object{
			"skill_invocation_id": id, "session_id": id, "skill_name": skill, "occurred_at": when, "triggered": true, "matched_prompt_id": id,
		})
		gradings = append(gradings, object{"grading_id": id, "session_id": id, "skill_name": skill, "graded_at": when, "pass_rate": grade})
	}
	b.api("POST", "/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": object{
		"skill_invocations": invocations, "grading_results": gradings, "prompts": prompts,
	}})
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

// logBuffer keeps what is logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
