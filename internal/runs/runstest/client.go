package runstest

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

// A Client calls the API with a key.
type Client struct {
	T    *testing.T
	W    *World
	Org  auth.Organisation
	User auth.User
	Key  string
}

// In returns the client for a subtest.
func (c *Client) In(t *testing.T) *Client {
	inside := *c
	inside.T = t
	return &inside
}

// An Answer is a response.
type Answer struct {
	T      *testing.T
	What   string
	Status int
	Header http.Header
	Body   []byte
}

// An Object is a JSON object.
type Object = map[string]any

// SuitesPath is where suites are.
const SuitesPath = "/api/v1/eval-suites"

// Do sends a request. A body that is not nil is sent as JSON, or as it is if
// it is text.
func (c *Client) Do(method, path string, body any) Answer {
	t := c.T
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
	req, err := http.NewRequestWithContext(t.Context(), method, c.W.Server.URL+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.Send(req)
}

// Send sends a request with the key of the caller.
func (c *Client) Send(req *http.Request) Answer {
	t := c.T
	t.Helper()
	req.Header.Set("Authorization", "Bearer "+c.Key)
	resp, err := c.W.Server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	a := Answer{T: t, What: req.Method + " " + req.URL.Path, Status: resp.StatusCode, Header: resp.Header}
	if a.Body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return a
}

// Get sends a request.
func (c *Client) Get(path string) Answer {
	c.T.Helper()
	return c.Do(http.MethodGet, path, nil)
}

// Post sends a request.
func (c *Client) Post(path string, body any) Answer {
	c.T.Helper()
	return c.Do(http.MethodPost, path, body)
}

// Patch sends a request.
func (c *Client) Patch(id string, body any) Answer {
	c.T.Helper()
	return c.Do(http.MethodPatch, SuitesPath+"/"+id, body)
}

// Upload imports a file with the fields beside it, which come in pairs.
func (c *Client) Upload(name string, content []byte, fields ...string) Answer {
	c.T.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(fields); i += 2 {
		if err := form.WriteField(fields[i], fields[i+1]); err != nil {
			c.T.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("file", name)
	if err != nil {
		c.T.Fatal(err)
	}
	_, _ = part.Write(content) // a buffer takes everything
	if err := form.Close(); err != nil {
		c.T.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.T.Context(), http.MethodPost, c.W.Server.URL+SuitesPath+"/import", &body)
	if err != nil {
		c.T.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	return c.Send(req)
}

// Want ends the test unless the answer has the status.
func (a Answer) Want(status int) Answer {
	a.T.Helper()
	if a.Status != status {
		a.T.Fatalf("%s: status %d, want %d: %s", a.What, a.Status, status, a.Body)
	}
	return a
}

// Object reads the body.
func (a Answer) Object() Object {
	a.T.Helper()
	var o Object
	if err := json.Unmarshal(a.Body, &o); err != nil {
		a.T.Fatalf("%s: %v in %q", a.What, err, a.Body)
	}
	return o
}

// Field reads an object that a field of the body holds.
func (a Answer) Field(name string) Object {
	a.T.Helper()
	o, ok := a.Object()[name].(Object)
	if !ok {
		a.T.Fatalf("%s: no %s in %s", a.What, name, a.Body)
	}
	return o
}

// List reads the array that a field of an Object holds; it must not be null.
func List(t *testing.T, o Object, field string) []Object {
	t.Helper()
	raw, ok := o[field].([]any)
	if !ok {
		t.Fatalf("no array %s in %v", field, o)
	}
	all := make([]Object, len(raw))
	for i, item := range raw {
		all[i] = item.(Object)
	}
	return all
}

// WantBody compares the body with one written as Go values.
func (a Answer) WantBody(want Object) {
	a.T.Helper()
	if diff := cmp.Diff(Plain(a.T, want), any(a.Object())); diff != "" {
		a.T.Errorf("%s (-want +got):\n%s", a.What, diff)
	}
}

// WantError checks the structured body, whose message has the part.
func (a Answer) WantError(status int, part string) {
	a.T.Helper()
	inner, _ := a.Want(status).Object()["error"].(Object)
	message, _ := inner["message"].(string)
	if !strings.Contains(message, part) {
		a.T.Errorf("%s: message %q, want one with %q", a.What, message, part)
	}
	a.WantBody(Object{"error": Object{"message": message, "status": status}})
}

// WantInvalid checks the validation body: its first problem is at the path,
// and its message has the part.
func (a Answer) WantInvalid(part string, path ...string) {
	a.T.Helper()
	o := a.Want(http.StatusBadRequest).Object()
	details, _ := o["details"].(Object)
	message, _ := details["message"].(string)
	if !strings.Contains(message, part) {
		a.T.Errorf("%s: message %q, want one with %q", a.What, message, part)
	}
	if diff := cmp.Diff(Plain(a.T, path), details["path"]); diff != "" {
		a.T.Errorf("%s: path (-want +got):\n%s", a.What, diff)
	}
	if issues := List(a.T, o, "issues"); o["error"] != "Validation failed" || len(issues) == 0 || !cmp.Equal(issues[0], details) {
		a.T.Errorf("%s: %s", a.What, a.Body)
	}
}

// Plain is a value as JSON gives it back.
func Plain(t *testing.T, v any) (out any) {
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

// With copies an Object and sets fields of the copy; nil takes one away.
func With(o Object, pairs ...any) Object {
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

// Judged is the body of a suite of trigger queries.
func Judged(cases ...Object) Object {
	return Object{"name": "Triggers", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": cases}
}

// Deterministic is the body of a suite that programs verify.
func Deterministic(cases ...Object) Object {
	return Object{"name": "Checks", "source_kind": "manual", "verifier_kind": "deterministic", "cases_json": cases}
}

// Trigger is a query that must trigger the skill.
func Trigger(query string) Object {
	return Object{"case_kind": "trigger_query", "query": query, "expectation": "should_trigger"}
}

// Avoid is a query that must not trigger the skill.
func Avoid(query string) Object { return With(Trigger(query), "expectation", "should_not_trigger") }

// Exact is a case that compares an output.
func Exact(output, expected string) Object {
	return Object{"case_kind": "exact_match", "output": output, "expected": expected}
}

// Create makes a suite and returns it.
func (c *Client) Create(body Object) Object {
	c.T.Helper()
	return c.Post(SuitesPath, body).Want(http.StatusCreated).Field("suite")
}
