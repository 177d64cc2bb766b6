package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// frame is an API with a test's routes behind a real HTTP server. It has a world
// without the real callers and, unless a test gives it one, without a database.
type frame struct {
	*apptest.World
	metrics *prometheus.Registry
}

// newFrame starts a server; db may be nil where no route has a limit.
func newFrame(t *testing.T, db *store.DB, mount func(*httpapi.API)) *frame {
	t.Helper()
	f := &frame{&apptest.World{T: t, DB: db, Logged: &apptest.Buffer{}}, prometheus.NewRegistry()}
	f.API = httpapi.New(httpapi.Options{
		DB: db, Auth: callers, Metrics: f.metrics, Version: "1.2.3",
		Log: slog.New(slog.NewTextHandler(f.Logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	mount(f.API)
	f.Server = httptest.NewServer(f.API)
	t.Cleanup(f.Server.Close)
	f.Server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
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

func (h holders) AuthenticateEntry(ctx context.Context, token, _ string) (access.Caller, error) {
	return h.Authenticate(ctx, token)
}

// do sends a request as the owner, with a JSON body unless it is empty; see
// apptest.Caller.Do for other bodies and for headers.
func (f *frame) do(t *testing.T, method, path string, body any, headers ...string) apptest.Response {
	t.Helper()
	if body == "" {
		body = nil
	}
	owner := apptest.Caller{T: t, World: f.World, Key: "owner"}
	r := owner.Do(method, path, body, headers...)
	if r.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s: no X-Request-Id", r.What)
	}
	return r
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
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
