package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// retention is that of the tests.
const retention = 90 * 24 * time.Hour

// world is the service as internal/app wires it.
type world struct {
	t     *testing.T
	db    *store.DB
	blobs *bucket
	dir   string // of the blobs
	queue *jobs.Queue
	auth  *auth.Service
	api   *httpapi.API
	log   *logBuffer // everything, down to debug

	registry *registry.Service
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, dir: t.TempDir(), log: &logBuffer{}}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	files, err := blob.Open(t.Context(), blob.Options{
		Dir: w.dir, Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return "http://127.0.0.1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.blobs = &bucket{Bucket: files}
	if w.queue, err = jobs.New(jobs.Options{DB: db, Log: log, Poll: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	w.auth = &auth.Service{DB: db, Seal: sealtest.Keyring(), Log: log}
	w.api = httpapi.New(httpapi.Options{DB: db, Auth: w.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	counts := &skills.Service{DB: db, Window: 30}
	w.registry = &registry.Service{DB: db, Blobs: w.blobs, Jobs: w.queue, Skills: counts, Log: log}
	counts.Versions = w.registry
	s := &telemetry.Service{
		DB: db, Blobs: w.blobs, Jobs: w.queue, Skills: counts, Auth: w.auth, Retention: retention, Log: log,
	}
	s.Register()
	counts.Mount(w.api)
	w.registry.Mount(w.api)
	s.Mount(w.api)
	return w
}

// bucket is a real bucket with a hook for tests.
type bucket struct {
	blob.Bucket
	afterPut atomic.Pointer[func()] // called when a blob has been stored
}

// keys lists the blobs.
func (w *world) keys() []string {
	w.t.Helper()
	keys := []string{}
	for info, err := range w.blobs.List(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// work runs jobs until the test ends.
func (w *world) work() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.queue.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// settle waits until the queue is empty.
func (w *world) settle() {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		counts, err := w.queue.Counts(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if !slices.ContainsFunc(counts, func(c jobs.Count) bool { return c.Waiting+c.Running+c.Retrying > 0 }) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("jobs are not done: %+v", counts)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// org makes an organisation and an owner of it.
func (w *world) org(name string) *client {
	w.t.Helper()
	o, err := w.auth.CreateOrg(w.t.Context(), name, access.Team)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.member(o, "owner", access.Owner)
}

// member adds a person to an organisation, whose key has all permissions of
// the role, or only those given.
func (w *world) member(o auth.Organisation, name string, role access.Role, permissions ...access.Permission) *client {
	w.t.Helper()
	u, err := w.auth.CreateUser(w.t.Context(), auth.NewUser{OrgID: o.ID, Email: name + "@example.org", Role: role})
	if err != nil {
		w.t.Fatal(err)
	}
	_, raw, err := w.auth.CreateKey(w.t.Context(), auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "test", Permissions: permissions})
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{t: w.t, w: w, org: o, user: u, key: raw}
}

// count counts the rows that a FROM clause gives.
func (w *world) count(from string, args ...any) int {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), `SELECT COUNT(*) FROM `+from, args...)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// client calls the API with a key. It may be used by many goroutines at once.
type client struct {
	t    tester
	w    *world
	org  auth.Organisation
	user auth.User
	key  string
}

// in returns the client for a subtest or a check.
func (c *client) in(t tester) *client {
	inside := *c
	inside.t = t
	return &inside
}

// answer is the response to a request.
type answer struct {
	t      tester
	what   string
	status int
	header http.Header
	body   []byte
}

// do sends a request. Each header is "Name: value"; an empty value sends none.
func (c *client) do(method, path string, body []byte, headers ...string) answer {
	c.t.Helper()
	req := httptest.NewRequestWithContext(c.t.Context(), method, path, bytes.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+c.key)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	return c.send(req)
}

func (c *client) send(req *http.Request) answer {
	rec := httptest.NewRecorder()
	c.w.api.ServeHTTP(rec, req)
	return answer{c.t, req.Method + " " + req.URL.String(), rec.Code, rec.Header(), rec.Body.Bytes()}
}

func (c *client) get(path string) answer {
	c.t.Helper()
	return c.do(http.MethodGet, path, nil)
}

// object is a JSON object.
type object = map[string]any

// push sends records, each array under its name, under a push_id of their own
// or, where that is empty, without.
func (c *client) push(pushID string, canonical object) answer {
	c.t.Helper()
	body := object{"schema_version": "2.0", "canonical": canonical}
	if pushID != "" {
		body["push_id"] = pushID
	}
	return c.pushBody(body)
}

func (c *client) pushBody(body any) answer {
	c.t.Helper()
	return c.do(http.MethodPost, "/api/v1/push", []byte(marshal(c.t, body)), "Content-Type: application/json")
}

func marshal(t tester, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(raw)
}

// want ends the test unless the answer has the status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

// object reads the body.
func (a answer) object() object {
	a.t.Helper()
	var o object
	if err := json.Unmarshal(a.body, &o); err != nil {
		a.t.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	return o
}

// wantBody compares the body with one written as Go values.
func (a answer) wantBody(want any) {
	a.t.Helper()
	if diff := cmp.Diff(plain(a.t, want), any(a.object())); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", a.what, diff)
	}
}

// wantError checks the structured body.
func (a answer) wantError(status int, message string) {
	a.t.Helper()
	a.want(status).wantBody(object{"error": object{"message": message, "status": status}})
}

// wantIssue checks the body of a failed validation of one field.
func (a answer) wantIssue(path, message string) {
	a.t.Helper()
	elements := []string{}
	if path != "" {
		elements = append(elements, path)
	}
	issue := object{"path": elements, "message": message}
	a.want(http.StatusBadRequest).wantBody(object{"error": "Validation failed", "details": issue, "issues": []any{issue}})
}

// plain returns a value as it is decoded from JSON.
func plain(t tester, v any) (out any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, fmt.Sprint(v))
	}
	return out
}

// logBuffer collects the log.
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
