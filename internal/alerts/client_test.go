package alerts_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/auth"
)

// client calls the API with a key.
type client struct {
	t    *testing.T
	w    *world
	org  auth.Organisation
	user auth.User
	key  string
}

// in returns the client for a subtest.
func (c *client) in(t *testing.T) *client {
	inside := *c
	inside.t = t
	return &inside
}

// answer is a response.
type answer struct {
	t      *testing.T
	what   string
	status int
	body   []byte
}

// object is a JSON object.
type object = map[string]any

const alertsPath = "/api/v1/alerts"

// do sends a request. A body that is not nil is sent as JSON, or as it is if
// it is text.
func (c *client) do(method, path string, body any) answer {
	t := c.t
	t.Helper()
	var raw []byte
	if text, ok := body.(string); ok {
		raw = []byte(text)
	} else if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.w.server.URL+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.send(req)
}

func (c *client) send(req *http.Request) answer {
	t := c.t
	t.Helper()
	req.Header.Set("Authorization", "Bearer "+c.key)
	resp, err := c.w.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{t: t, what: req.Method + " " + req.URL.Path, status: resp.StatusCode}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	_, _ = c.w.answers.Write(a.body) // never fails
	return a
}

func (c *client) get(path string) answer {
	c.t.Helper()
	return c.do(http.MethodGet, path, nil)
}

func (c *client) post(path string, body any) answer {
	c.t.Helper()
	return c.do(http.MethodPost, path, body)
}

// want fails the test unless the response has the status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

// object decodes the body.
func (a answer) object() object {
	a.t.Helper()
	var o object
	if err := json.Unmarshal(a.body, &o); err != nil {
		a.t.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	return o
}

// list decodes the array in a field of the body; it must not be null.
func (a answer) list(field string) []object {
	a.t.Helper()
	raw, ok := a.object()[field].([]any)
	if !ok {
		a.t.Fatalf("%s: no array %s in %s", a.what, field, a.body)
	}
	list := make([]object, len(raw))
	for i, item := range raw {
		list[i] = item.(object)
	}
	return list
}

// wantBody compares the body with Go values.
func (a answer) wantBody(want object) {
	a.t.Helper()
	if diff := cmp.Diff(plain(a.t, want), a.object()); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", a.what, diff)
	}
}

// wantError checks the body of a structured error.
func (a answer) wantError(status int, message string) {
	a.t.Helper()
	a.want(status).wantBody(object{"error": object{"message": message, "status": status}})
}

// issue is one validation issue of a response.
func issue(message string, path ...string) object {
	return object{"path": append([]string{}, path...), "message": message}
}

// wantInvalid checks the whole body of a failed validation.
func (a answer) wantInvalid(issues ...object) {
	a.t.Helper()
	a.want(http.StatusBadRequest).wantBody(object{"error": "Validation failed", "details": issues[0], "issues": issues})
}

// plain converts an object to the types that encoding/json decodes to.
func plain(t *testing.T, v object) (out object) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// with returns an object with other fields added.
func with(o, fields object) object {
	o = maps.Clone(o)
	maps.Copy(o, fields)
	return o
}

// without returns an object with fields removed.
func without(o object, fields ...string) object {
	o = maps.Clone(o)
	for _, field := range fields {
		delete(o, field)
	}
	return o
}

// passRate is the body of an alert that posts to a URL.
func passRate(url string) object {
	return object{"type": "pass_rate_below", "channel": "webhook", "config": object{"webhook_url": url}}
}

// alert creates an alert and returns its id.
func (c *client) alert(body object) string {
	c.t.Helper()
	return c.post(alertsPath, body).want(http.StatusCreated).object()["id"].(string)
}

// sessions pushes a session of the skill for each grade, at this time.
func (c *client) sessions(skill string, grades ...float64) {
	c.t.Helper()
	c.sessionsAt(skill, time.Now(), grades...)
}

func (c *client) sessionsAt(skill string, at time.Time, grades ...float64) {
	c.t.Helper()
	var invocations, verdicts []object
	for _, grade := range grades {
		session, when := uuid.NewString(), at.UTC().Format(time.RFC3339Nano)
		invocations = append(invocations, object{
			"skill_invocation_id": session, "session_id": session, "skill_name": skill, "occurred_at": when, "triggered": true,
		})
		verdicts = append(verdicts, object{
			"grading_id": session, "session_id": session, "skill_name": skill, "graded_at": when, "pass_rate": grade,
		})
	}
	c.pushRecords(object{"skill_invocations": invocations, "grading_results": verdicts})
}

// seenAt pushes an ungraded session of the skill.
func (c *client) seenAt(skill string, at time.Time) {
	c.t.Helper()
	session := uuid.NewString()
	c.pushRecords(object{"skill_invocations": []object{{
		"skill_invocation_id": session, "session_id": session, "skill_name": skill,
		"occurred_at": at.UTC().Format(time.RFC3339Nano), "triggered": false,
	}}})
}

func (c *client) pushRecords(canonical object) {
	c.t.Helper()
	a := c.post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": canonical}).want(http.StatusCreated)
	if rejected := a.list("rejected"); len(rejected) > 0 {
		c.t.Fatalf("rejected: %v", rejected)
	}
}

// repeat returns a grade n times.
func repeat(grade float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = grade
	}
	return all
}

// skill returns the id of a skill.
func (c *client) skill(name string) string {
	c.t.Helper()
	return c.get("/v1/skills/" + name).want(http.StatusOK).object()["skill"].(object)["skill_id"].(string)
}

// events lists the transitions, oldest first, e.g. "firing pdf".
func (c *client) events() []string {
	c.t.Helper()
	all := []string{}
	for _, e := range c.get("/api/v1/alert-events?per_page=100").want(http.StatusOK).list("events") {
		all = append([]string{fmt.Sprintf("%s %s", e["transition"], e["skill_name"])}, all...)
	}
	return all
}

// wantEvents compares the events of the organisation, oldest first, and that
// each has one delivery.
func (c *client) wantEvents(want ...string) {
	c.t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), c.events()); diff != "" {
		c.t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := c.w.count("alert_deliveries WHERE org_id = $1 AND event_id IS NOT NULL", c.org.ID); n != len(want) {
		c.t.Errorf("%d deliveries for %d events", n, len(want))
	}
}

// deliveries returns those of an alert, newest first.
func (c *client) deliveries(id string) []object {
	c.t.Helper()
	return c.get(alertsPath + "/" + id + "/deliveries?per_page=100").want(http.StatusOK).list("deliveries")
}
