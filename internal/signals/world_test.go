package signals_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/signals"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// world is the service as internal/app wires it.
type world struct {
	t       *testing.T
	db      *store.DB
	auth    *auth.Service
	signals *signals.Service
	api     *httpapi.API
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	queue, err := jobs.New(jobs.Options{DB: db, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: db, auth: &auth.Service{DB: db, Seal: sealtest.Keyring(), Log: log}}
	secret, err := w.auth.Secret(t.Context(), "signals")
	if err != nil {
		t.Fatal(err)
	}
	findings := &proposals.Service{DB: db, Jobs: queue}
	findings.Register()
	w.signals = &signals.Service{DB: db, Secret: secret, Watcher: findings, Proposals: findings}
	w.api = httpapi.New(httpapi.Options{DB: db, Auth: w.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	w.signals.Mount(w.api)
	return w
}

// org creates an organisation and returns its owner, with the key of a relay,
// which may name contributors.
func (w *world) org(t tester) *client {
	t.Helper()
	o, err := w.auth.CreateOrg(t.Context(), uuid.NewString(), access.Team)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return w.join(t, o, access.Owner, true)
}

// member adds a user to an organisation.
func (w *world) member(t tester, o auth.Organisation, role access.Role) *client {
	t.Helper()
	return w.join(t, o, role, false)
}

func (w *world) join(t tester, o auth.Organisation, role access.Role, relay bool) *client {
	t.Helper()
	u, err := w.auth.CreateUser(t.Context(), auth.NewUser{OrgID: o.ID, Email: uuid.NewString() + "@example.org", Role: role})
	if err != nil {
		t.Fatalf("%v", err)
	}
	_, raw, err := w.auth.CreateKey(t.Context(), auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "test", Relay: relay})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &client{t: t, w: w, org: o, user: u, key: raw}
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// client calls the API with a key.
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

// object is a JSON object.
type object = map[string]any

const path = "/api/v1/signals"

func (c *client) get(path string) answer { return c.do(http.MethodGet, path, nil) }

func (c *client) post(body any) answer {
	c.t.Helper()
	if text, is := body.(string); is {
		return c.do(http.MethodPost, path, []byte(text))
	}
	raw, err := json.Marshal(body)
	if err != nil {
		c.t.Fatalf("%v", err)
	}
	return c.do(http.MethodPost, path, raw)
}

// do sends a request. Each header is "Name: value".
func (c *client) do(method, path string, body []byte, headers ...string) answer {
	req := httptest.NewRequestWithContext(c.t.Context(), method, path, bytes.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+c.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	rec := httptest.NewRecorder()
	c.w.api.ServeHTTP(rec, req)
	return answer{c.t, method + " " + path, rec.Code, rec.Header(), rec.Body.Bytes()}
}

// answer is a response.
type answer struct {
	t      tester
	what   string
	status int
	header http.Header
	body   []byte
}

// want fails the test unless the response has the status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

// object decodes the body, without the time of the response and the reasons of
// suppressed figures, which are all the same.
func (a answer) object() object {
	a.t.Helper()
	var o object
	if err := json.Unmarshal(a.body, &o); err != nil {
		a.t.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	if at, is := o["generated_at"].(string); is && !strings.HasSuffix(at, "Z") {
		a.t.Errorf("generated_at %q", at)
	}
	delete(o, "generated_at")
	a.takeReasons(o)
	return o
}

// takeReasons checks that every suppressed figure has the reason, and removes it.
func (a answer) takeReasons(value any) {
	a.t.Helper()
	switch value := value.(type) {
	case []any:
		for _, inner := range value {
			a.takeReasons(inner)
		}
	case object:
		reason, _ := value["suppressed_reason"].(string)
		if withheld := value["suppressed"] == true; withheld != strings.Contains(reason, "people contributed to it") {
			a.t.Errorf("%s: suppressed %t with the reason %q", a.what, withheld, reason)
		}
		delete(value, "suppressed_reason")
		for _, inner := range value {
			a.takeReasons(inner)
		}
	}
}

// wantBody compares the body with Go values.
func (a answer) wantBody(want any) {
	a.t.Helper()
	if diff := cmp.Diff(plain(a.t, want), any(a.object())); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", a.what, diff)
	}
}

// wantIssues checks the body of a failed validation: pairs of path and message.
func (a answer) wantIssues(pairs ...string) {
	a.t.Helper()
	var issues []any
	for i := 0; i < len(pairs); i += 2 {
		elements := []string{}
		if pairs[i] != "" {
			elements = strings.Split(pairs[i], ".")
		}
		issues = append(issues, object{"path": elements, "message": pairs[i+1]})
	}
	a.want(http.StatusBadRequest).wantBody(object{"error": "Validation failed", "details": issues[0], "issues": issues})
}

// wantError checks the body of a structured error.
func (a answer) wantError(status int, message string) {
	a.t.Helper()
	a.want(status).wantBody(object{"error": object{"message": message, "status": status}})
}

// plain converts a value to the types that encoding/json decodes to.
func plain(t tester, v any) (out any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatalf("%v in %v", err, v)
	}
	return out
}

// signal is one of a batch.
func signal(skill, kind, key string, confidence float64, cohort string) object {
	o := object{"skill_name": skill, "signal_type": kind, "source_key": key, "confidence": confidence}
	if cohort != "" {
		o["user_cohort"] = cohort
	}
	return o
}

func batch(signals ...object) object { return object{"signals": signals} }

// sessionBody returns the body of one session.
func sessionBody(skill, cohort, week string, says object) object {
	return object{
		"version": 1, "signal_type": "skill_session", "skill_name": skill, "relay_destination": uuid.NewString(),
		"skill_hash": "sk_sha256_2cf24dba5fb0", "user_cohort": cohort, "timestamp_bucket": week, "client_version": "1.2.3", "signals": says,
	}
}

// count counts the rows of a table that an organisation has.
func (c *client) count(table string) int {
	c.t.Helper()
	rows, err := c.w.db.Query(c.t.Context(), fmt.Sprintf(`SELECT COUNT(*) FROM %s WHERE org_id = $1`, table), c.org.ID)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		c.t.Fatalf("%v", err)
	}
	return n
}

func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return "?" + v.Encode()
}
