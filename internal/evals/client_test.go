package evals_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// answer is what came back.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   []byte
}

// object is a JSON object.
type object = map[string]any

const suitesPath = "/api/v1/eval-suites"

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
	a := answer{t: t, what: req.Method + " " + req.URL.Path, status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
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

func (c *client) patch(id string, body any) answer {
	c.t.Helper()
	return c.do(http.MethodPatch, suitesPath+"/"+id, body)
}

// upload imports a file with the fields beside it, which come in pairs.
func (c *client) upload(name string, content []byte, fields ...string) answer {
	c.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		if err := form.WriteField(fields[i], fields[i+1]); err != nil {
			c.t.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("file", name)
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = part.Write(content) // a buffer takes everything
	if err := form.Close(); err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.w.server.URL+suitesPath+"/import", &body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	return c.send(req)
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

// suite reads the suite in the body.
func (a answer) suite() object {
	a.t.Helper()
	suite, ok := a.object()["suite"].(object)
	if !ok {
		a.t.Fatalf("%s: no suite in %s", a.what, a.body)
	}
	return suite
}

// list reads the array that a field of an object holds; it must not be null.
func list(t *testing.T, o object, field string) []object {
	t.Helper()
	raw, ok := o[field].([]any)
	if !ok {
		t.Fatalf("no array %s in %v", field, o)
	}
	all := make([]object, len(raw))
	for i, item := range raw {
		all[i] = item.(object)
	}
	return all
}

// wantBody compares the body with one written as Go values.
func (a answer) wantBody(want object) {
	a.t.Helper()
	if diff := cmp.Diff(plain(a.t, want), any(a.object())); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", a.what, diff)
	}
}

// wantError checks the structured body, whose message has the part.
func (a answer) wantError(status int, part string) {
	a.t.Helper()
	inner, _ := a.want(status).object()["error"].(object)
	message, _ := inner["message"].(string)
	if !strings.Contains(message, part) {
		a.t.Errorf("%s: message %q, want one with %q", a.what, message, part)
	}
	a.wantBody(object{"error": object{"message": message, "status": status}})
}

// wantInvalid checks the validation body: its first problem is at the path,
// and its message has the part.
func (a answer) wantInvalid(part string, path ...string) {
	a.t.Helper()
	o := a.want(http.StatusBadRequest).object()
	details, _ := o["details"].(object)
	message, _ := details["message"].(string)
	if !strings.Contains(message, part) {
		a.t.Errorf("%s: message %q, want one with %q", a.what, message, part)
	}
	if diff := cmp.Diff(plain(a.t, path), details["path"]); diff != "" {
		a.t.Errorf("%s: path (-want +got):\n%s", a.what, diff)
	}
	if issues := list(a.t, o, "issues"); o["error"] != "Validation failed" || len(issues) == 0 || !cmp.Equal(issues[0], details) {
		a.t.Errorf("%s: %s", a.what, a.body)
	}
}

// plain is a value as JSON gives it back.
func plain(t *testing.T, v any) (out any) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// with copies an object and sets fields of the copy; nil takes one away.
func with(o object, pairs ...any) object {
	o = maps.Clone(o)
	for i := 0; i < len(pairs); i += 2 {
		if name := pairs[i].(string); pairs[i+1] == nil {
			delete(o, name)
		} else {
			o[name] = pairs[i+1]
		}
	}
	return o
}

// judged is the body of a suite of trigger queries.
func judged(cases ...object) object {
	return object{"name": "Triggers", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": cases}
}

// deterministic is the body of a suite that programs verify.
func deterministic(cases ...object) object {
	return object{"name": "Checks", "source_kind": "manual", "verifier_kind": "deterministic", "cases_json": cases}
}

func trigger(query string) object {
	return object{"case_kind": "trigger_query", "query": query, "expectation": "should_trigger"}
}

// create makes a suite and returns it.
func (c *client) create(body object) object {
	c.t.Helper()
	return c.post(suitesPath, body).want(http.StatusCreated).suite()
}
