package apptest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
)

// T is a *testing.T or a *rapid.T.
type T interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Object is a JSON object.
type Object = map[string]any

// A Caller calls the API of a World, or of a service at a URL, with one person's
// key. Many goroutines may use it at once.
type Caller struct {
	T     T
	World *World
	URL   string // e.g. "http://127.0.0.1:8080"; "" for the World's
	Org   auth.Organisation
	User  auth.User
	KeyID string
	Key   string
}

// In returns the caller for a subtest.
func (c *Caller) In(t T) *Caller {
	inside := *c
	inside.T = t
	return &inside
}

// Do sends a request. A body is sent as it is if it is a string or []byte, in
// chunks if it is an io.Reader, and as JSON otherwise; nil sends none. Each header
// is "Name: value", and an empty value removes the header.
func (c *Caller) Do(method, path string, body any, headers ...string) Response {
	c.T.Helper()
	var content io.Reader
	switch body := body.(type) {
	case nil:
		content = http.NoBody
	case string:
		content = strings.NewReader(body)
	case []byte:
		content = bytes.NewReader(body)
	case io.Reader:
		content = io.NopCloser(body) // hides its length
	default:
		content = bytes.NewReader(marshal(c.T, body))
	}
	if body != nil {
		headers = append([]string{"Content-Type: application/json"}, headers...)
	}
	return c.send(method, path, content, headers)
}

// Get is Do without a body.
func (c *Caller) Get(path string) Response {
	c.T.Helper()
	return c.Do(http.MethodGet, path, nil)
}

// Post is Do with the method POST.
func (c *Caller) Post(path string, body any) Response {
	c.T.Helper()
	return c.Do(http.MethodPost, path, body)
}

// send goes straight to the handler of a World that has no server, and through TCP
// otherwise. A path that is an absolute URL, e.g. a signed one, goes where it says.
func (c *Caller) send(method, path string, body io.Reader, headers []string) Response {
	c.T.Helper()
	r := Response{T: c.T, What: method + " " + path}
	client, base := http.DefaultClient, c.URL
	if base == "" && c.World.Server != nil {
		client, base = c.World.Server.Client(), c.World.Server.URL
	}
	target := path
	if strings.HasPrefix(path, "/") {
		target = base + path
	}
	req, err := http.NewRequestWithContext(c.T.Context(), method, target, body)
	if err != nil {
		c.T.Fatalf("%s: %v", r.What, err)
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	if base == "" {
		recorder := httptest.NewRecorder()
		req.RemoteAddr, req.RequestURI = "192.0.2.1:1234", path
		c.World.API.ServeHTTP(recorder, req)
		r.Status, r.Header, r.Body = recorder.Code, recorder.Header(), recorder.Body.Bytes()
		return r
	}
	resp, err := client.Do(req)
	if err != nil {
		c.T.Errorf("%s: %v", r.What, err)
		return r
	}
	defer resp.Body.Close()
	r.Status, r.Header = resp.StatusCode, resp.Header
	if r.Body, err = io.ReadAll(resp.Body); err != nil {
		c.T.Errorf("%s: %v", r.What, err)
	}
	return r
}

// A Part is a field of a multipart form, or a file if it has a file name.
type Part struct {
	Name, File string
	Content    []byte
}

// JSONPart is a field that holds JSON.
func JSONPart(t T, name string, value any) Part { return Part{Name: name, Content: marshal(t, value)} }

// Upload posts a multipart form.
func (c *Caller) Upload(path string, parts ...Part) Response {
	c.T.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, p := range parts {
		create := func() (io.Writer, error) { return form.CreateFormField(p.Name) }
		if p.File != "" {
			create = func() (io.Writer, error) { return form.CreateFormFile(p.Name, p.File) }
		}
		w, err := create()
		if err != nil {
			c.T.Fatalf("%v", err)
		}
		_, _ = w.Write(p.Content) // into memory
	}
	_ = form.Close()
	return c.Do(http.MethodPost, path, body.Bytes(), "Content-Type: "+form.FormDataContentType())
}

// A Response is what came back, bound to the test that asked.
type Response struct {
	T      T
	What   string // "GET /api/v1/alerts"
	Status int
	Header http.Header
	Body   []byte
}

// Want ends the test unless the response has the status. One that says that there
// is no content must have none.
func (r Response) Want(status int) Response {
	r.T.Helper()
	if r.Status != status || status == http.StatusNoContent && len(r.Body) > 0 {
		r.T.Fatalf("%s: status %d, want %d: %s", r.What, r.Status, status, r.Body)
	}
	return r
}

// Into decodes the body.
func (r Response) Into(out any) {
	r.T.Helper()
	if err := json.Unmarshal(r.Body, out); err != nil {
		r.T.Fatalf("%s: %v in %q", r.What, err, r.Body)
	}
}

// Text is the string at a path of the body; see the function Text.
func (r Response) Text(path ...string) string {
	r.T.Helper()
	return Text(r.Object(), path...)
}

// Object decodes the body, which must be a JSON object.
func (r Response) Object() (o Object) {
	r.T.Helper()
	r.Into(&o)
	return o
}

// Field is the object in a field of the body. It must not be null.
func (r Response) Field(name string) Object {
	r.T.Helper()
	o, ok := r.Object()[name].(Object)
	if !ok {
		r.T.Fatalf("%s: no object %s in %s", r.What, name, r.Body)
	}
	return o
}

// List is the array of objects in a field of the body. It must not be null.
func (r Response) List(field string) []Object {
	r.T.Helper()
	return List(r.T, r.Object(), field)
}

// WantBody compares the body with one written as Go values.
func (r Response) WantBody(want any) {
	r.T.Helper()
	var got any
	r.Into(&got)
	if diff := cmp.Diff(Plain(r.T, want), got); diff != "" {
		r.T.Errorf("%s (-want +got):\n%s", r.What, diff)
	}
}

// WantJSON checks the status and the whole body, which must be declared as JSON.
func (r Response) WantJSON(status int, body string) {
	r.T.Helper()
	r.Want(status).WantHeader("Content-Type", "application/json")
	var want any
	if err := json.Unmarshal([]byte(body), &want); err != nil {
		r.T.Fatalf("%v in %q", err, body)
	}
	r.WantBody(want)
}

// WantHeader checks a header; "" is a header that must be missing or empty.
func (r Response) WantHeader(name, want string) {
	r.T.Helper()
	if got := r.Header.Get(name); got != want {
		r.T.Errorf("%s: %s is %q, want %q", r.What, name, got, want)
	}
}

// WantError checks status and body of an error with exactly this message.
func (r Response) WantError(status int, message string) {
	r.T.Helper()
	r.Want(status).WantHeader("Content-Type", "application/json")
	r.WantBody(Object{"error": Object{"message": message, "status": status}})
}

// WantErrorWith checks status and body of an error whose message contains part.
func (r Response) WantErrorWith(status int, part string) {
	r.T.Helper()
	message := Text(r.Want(status).Object(), "error", "message")
	r.WantError(status, message)
	if !strings.Contains(message, part) {
		r.T.Errorf("%s: message %q, want one with %q", r.What, message, part)
	}
}

// WantCode checks status and body of an error with a code whose message contains
// the parts.
func (r Response) WantCode(status int, code string, parts ...string) {
	r.T.Helper()
	message := Text(r.Want(status).Object(), "error", "message")
	r.WantBody(Object{"error": Object{"message": message, "status": status, "code": code}})
	for _, part := range parts {
		if !strings.Contains(message, part) {
			r.T.Errorf("%s: message %q, want one with %q", r.What, message, part)
		}
	}
}

// WantIssues checks the whole body of a failed validation: pairs of a path,
// e.g. "signals.0.confidence", and its message.
func (r Response) WantIssues(pairs ...string) {
	r.T.Helper()
	issues := []Object{}
	for i := 0; i < len(pairs); i += 2 {
		path := []string{}
		if pairs[i] != "" {
			path = strings.Split(pairs[i], ".")
		}
		issues = append(issues, Object{"path": path, "message": pairs[i+1]})
	}
	r.Want(http.StatusBadRequest).WantHeader("Content-Type", "application/json")
	r.WantBody(Object{"error": "Validation failed", "details": issues[0], "issues": issues})
}

// WantIssueWith checks the body of a failed validation whose first issue is at
// the path and has a message that contains part.
func (r Response) WantIssueWith(path, part string) {
	r.T.Helper()
	var body struct {
		Error   string
		Details issue
		Issues  []issue
	}
	r.Want(http.StatusBadRequest).Into(&body)
	WantKeys(r.T, r.Object(), "error", "details", "issues")
	if body.Error != "Validation failed" || len(body.Issues) == 0 || cmp.Diff(body.Issues[0], body.Details) != "" {
		r.T.Errorf("%s: not the body of a failed validation: %s", r.What, r.Body)
	}
	if got := strings.Join(body.Details.Path, "."); got != path || !strings.Contains(body.Details.Message, part) {
		r.T.Errorf("%s: %q at %q, want %q at %q", r.What, body.Details.Message, got, part, path)
	}
}

type issue struct {
	Path    []string
	Message string
}

// List is the array of objects in a field of o. It must not be null.
func List(t T, o Object, field string) []Object {
	t.Helper()
	raw, ok := o[field].([]any)
	if !ok {
		t.Fatalf("no array %s in %v", field, o)
	}
	list := make([]Object, len(raw))
	for i, item := range raw {
		list[i] = item.(Object)
	}
	return list
}

// WantKeys checks that an object has exactly these fields.
func WantKeys(t T, o Object, keys ...string) {
	t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(keys)), slices.Sorted(maps.Keys(o))); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// At walks down objects: At(o, "entry", "id").
func At(o Object, path ...string) any {
	var v any = o
	for _, key := range path {
		inner, _ := v.(Object)
		v = inner[key]
	}
	return v
}

// Text is At for a string.
func Text(o Object, path ...string) string {
	s, _ := At(o, path...).(string)
	return s
}

// With returns o with other fields set.
func With(o, fields Object) Object {
	o = maps.Clone(o)
	maps.Copy(o, fields)
	return o
}

// Without returns o without some fields.
func Without(o Object, fields ...string) Object {
	o = maps.Clone(o)
	for _, field := range fields {
		delete(o, field)
	}
	return o
}

// Pick returns the fields of an object that another one has, e.g. what a test wants.
func Pick(o Object, like any) any {
	some := Object{}
	for name := range like.(Object) {
		some[name] = o[name]
	}
	return some
}

// Plain is a value as it comes out of JSON.
func Plain(t T, v any) (out any) {
	t.Helper()
	if err := json.Unmarshal(marshal(t, v), &out); err != nil {
		t.Fatalf("%v in %v", err, v)
	}
	return out
}

func marshal(t T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%v in %v", err, v)
	}
	return raw
}
