package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// frame is an API with a test's routes behind a real HTTP server.
type frame struct {
	*httpapi.API
	url     string
	log     *logBuffer
	metrics *prometheus.Registry
}

// newFrame starts a server; db may be nil where no route has a limit.
func newFrame(t *testing.T, db *store.DB, mount func(*httpapi.API)) *frame {
	t.Helper()
	f := &frame{log: &logBuffer{}, metrics: prometheus.NewRegistry()}
	f.API = httpapi.New(httpapi.Options{
		DB: db, Auth: callers, Metrics: f.metrics, Version: "1.2.3",
		Log: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	mount(f.API)
	server := httptest.NewServer(f.API)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// holders are the callers by their tokens.
type holders map[string]access.Caller

var callers = holders{
	"owner":        caller("acme", "owner", access.Enterprise, access.Owner),
	"member":       caller("acme", "member", access.Pro, access.Member),
	"pro-viewer":   caller("acme", "viewer", access.Pro, access.Viewer),
	"small-viewer": caller("small", "viewer", access.Free, access.Viewer),
}

func caller(org, name string, plan access.Plan, role access.Role) access.Caller {
	return access.Caller{OrgID: org, OrgName: org, UserID: name, KeyID: "key-of-" + name, Plan: plan, Role: role, Permissions: role.Permissions()}
}

func (h holders) Authenticate(_ context.Context, token string) (access.Caller, error) {
	if c, ok := h[token]; ok {
		return c, nil
	}
	return access.Caller{}, fault.New(fault.Unauthorized, "Unknown API key")
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request as the owner, with a JSON body unless it is empty. Each
// header is "Name: value" and replaces what would be sent; an empty value
// sends none.
func (f *frame) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequest(method, f.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer owner")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	return send(t, req)
}

func send(t *testing.T, req *http.Request) answer {
	t.Helper()
	res, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s %s: no X-Request-Id", req.Method, req.URL.Path)
	}
	return answer{res.StatusCode, res.Header, string(body)}
}

// want checks the status and the whole JSON body.
func (a answer) want(t *testing.T, status int, body string) {
	t.Helper()
	if a.status != status {
		t.Errorf("status %d, want %d; body %s", a.status, status, a.body)
	}
	if diff := cmp.Diff(parse(t, body), parse(t, a.body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q, want application/json", got)
	}
}

// wantError checks for a structured error.
func (a answer) wantError(t *testing.T, status int, message string) {
	t.Helper()
	var body httpapi.StructuredError
	body.Error.Status, body.Error.Message = status, message
	a.want(t, status, marshal(t, body))
}

// wantIssues checks for a failed validation; each issue is "path.to.field|message".
func (a answer) wantIssues(t *testing.T, issues ...string) {
	t.Helper()
	body := httpapi.ValidationError{Error: "Validation failed"}
	for _, issue := range issues {
		path, message, _ := strings.Cut(issue, "|")
		elements := []string{}
		if path != "" {
			elements = strings.Split(path, ".")
		}
		body.Issues = append(body.Issues, httpapi.Issue{Path: elements, Message: message})
	}
	body.Details = body.Issues[0]
	a.want(t, http.StatusBadRequest, marshal(t, body))
}

func (a answer) wantHeader(t *testing.T, name, value string) {
	t.Helper()
	if got := a.header.Get(name); got != value {
		t.Errorf("%s: %q, want %q", name, got, value)
	}
}

func parse(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// logBuffer keeps what is logged while requests are served.
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
