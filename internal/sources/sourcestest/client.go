package sourcestest

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/auth"
)

// Client calls the API with a key. It may be used by many goroutines at once.
type Client struct {
	T    *testing.T
	W    *World
	Org  auth.Organisation
	User auth.User
	Key  string // "" sends none
}

// In returns the client for a subtest.
func (c *Client) In(t *testing.T) *Client {
	inside := *c
	inside.T = t
	return &inside
}

// An Answer is the response to a request.
type Answer struct {
	What   string // the request
	Status int
	Header http.Header
	Body   []byte

	t *testing.T
}

// Do sends a request to a path, or to an absolute URL. A body that is not nil
// is sent as JSON.
func (c *Client) Do(method, path string, body any) Answer {
	c.T.Helper()
	if body == nil {
		return c.Send(method, path, "", nil)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		c.T.Error(err)
	}
	return c.Send(method, path, "application/json", raw)
}

// Get sends a GET request.
func (c *Client) Get(path string) Answer {
	c.T.Helper()
	return c.Do(http.MethodGet, path, nil)
}

// Post sends a POST request with a JSON body.
func (c *Client) Post(path string, body any) Answer {
	c.T.Helper()
	return c.Do(http.MethodPost, path, body)
}

// Send sends a request with a body as it is.
func (c *Client) Send(method, path, contentType string, body []byte) Answer {
	t := c.T
	t.Helper()
	if strings.HasPrefix(path, "/") {
		path = c.W.Server.URL + path
	}
	a := Answer{t: t, What: method + " " + path}
	req, err := http.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return a
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.W.Server.Client().Do(req)
	if err != nil {
		t.Errorf("%s: %v", a.What, err)
		return a
	}
	defer resp.Body.Close()
	a.Status, a.Header = resp.StatusCode, resp.Header
	if a.Body, err = io.ReadAll(resp.Body); err != nil {
		t.Errorf("%s: %v", a.What, err)
	}
	return a
}

// Anonymous is a client without a key.
func (w *World) Anonymous() *Client { return &Client{T: w.T, W: w} }

// Want ends the test unless the answer has the status.
func (a Answer) Want(status int) Answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.What, a.Status, status, a.Body)
	}
	return a
}

// Object is a JSON object.
type Object = map[string]any

// Object decodes the body.
func (a Answer) Object() Object {
	a.t.Helper()
	var o Object
	if err := json.Unmarshal(a.Body, &o); err != nil {
		a.t.Fatalf("%s: %v in %q", a.What, err, a.Body)
	}
	return o
}

// List decodes the array in a field of the body; it must not be null.
func (a Answer) List(field string) []Object {
	a.t.Helper()
	raw, ok := a.Object()[field].([]any)
	if !ok {
		a.t.Fatalf("%s: no array %s in %s", a.What, field, a.Body)
	}
	list := make([]Object, len(raw))
	for i, item := range raw {
		list[i] = item.(Object)
	}
	return list
}

// WantError checks the structured body, whose message must contain the text.
func (a Answer) WantError(status int, text string) {
	a.t.Helper()
	a.Want(status)
	message, _ := At(a.Object(), "error", "message").(string)
	want := Object{"error": Object{"message": message, "status": float64(status)}}
	if diff := cmp.Diff(want, a.Object()); diff != "" {
		a.t.Errorf("%s: body (-want +got):\n%s", a.What, diff)
	}
	if !strings.Contains(message, text) {
		a.t.Errorf("%s: message %q, want one with %q", a.What, message, text)
	}
}

// WantInvalid checks the validation body: the first problem is at the path,
// and its message contains the text.
func (a Answer) WantInvalid(path, text string) {
	a.t.Helper()
	a.Want(http.StatusBadRequest)
	var body struct {
		Error   string
		Details struct {
			Path    []string
			Message string
		}
		Issues []struct{ Message string }
	}
	if err := json.Unmarshal(a.Body, &body); err != nil {
		a.t.Fatalf("%s: %v in %s", a.What, err, a.Body)
	}
	WantKeys(a.t, a.Object(), "error", "details", "issues")
	if body.Error != "Validation failed" || len(body.Issues) == 0 || body.Issues[0].Message != body.Details.Message {
		a.t.Errorf("%s: not a validation body: %s", a.What, a.Body)
	}
	if got := strings.Join(body.Details.Path, "."); got != path || !strings.Contains(body.Details.Message, text) {
		a.t.Errorf("%s: %q at %q, want %q at %q", a.What, body.Details.Message, got, text, path)
	}
}

// WantKeys checks that an object has exactly these fields.
func WantKeys(t *testing.T, o Object, keys ...string) {
	t.Helper()
	got := slices.Sorted(maps.Keys(o))
	slices.Sort(keys)
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// At returns the value at a path of objects.
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

// A Part is one part of a form.
type Part struct {
	Name, File string // without a file name it is a field
	Content    []byte
}

// Upload sends a form.
func (c *Client) Upload(path string, parts ...Part) Answer {
	c.T.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, p := range parts {
		var w io.Writer
		var err error
		if p.File == "" {
			w, err = form.CreateFormField(p.Name)
		} else {
			w, err = form.CreateFormFile(p.Name, p.File)
		}
		if err == nil {
			_, err = w.Write(p.Content)
		}
		if err != nil {
			c.T.Error(err)
		}
	}
	if err := form.Close(); err != nil {
		c.T.Error(err)
	}
	return c.Send(http.MethodPost, path, form.FormDataContentType(), body.Bytes())
}

// SourcesPath is the path of the collection.
const SourcesPath = "/api/v1/cloud-sources"

// SourcePath is the path of a source.
func SourcePath(id string) string { return SourcesPath + "/" + id }

// Field is a field of a form.
func Field(name, value string) Part { return Part{Name: name, Content: []byte(value)} }

// FilePart is a file under its own path.
func FilePart(path, content string) Part {
	return Part{Name: path, File: "blob", Content: []byte(content)}
}

// ArchivePart is an archive in the part file.
func ArchivePart(content []byte) Part { return Part{Name: "file", File: "skill.zip", Content: content} }

// Uploaded makes a source from an archive and returns the answer.
func (c *Client) Uploaded(archive []byte, more ...Part) Object {
	c.T.Helper()
	parts := append([]Part{Field("label", "demo"), ArchivePart(archive)}, more...)
	return c.Upload(SourcesPath+"/upload", parts...).Want(http.StatusCreated).Object()
}

// Made makes an empty source and returns its id.
func (c *Client) Made(body Object) string {
	c.T.Helper()
	return Text(c.Post(SourcesPath, body).Want(http.StatusCreated).Object(), "id")
}

// Linked makes an upload source that is linked to a skill.
func (c *Client) Linked(skill string) string {
	c.T.Helper()
	return c.Made(Object{"type": "upload", "label": "demo", "skill_id": c.W.Skill(c, skill)})
}

// Detail reads a source.
func (c *Client) Detail(id string) Object {
	c.T.Helper()
	return c.Get(SourcePath(id)).Want(http.StatusOK).Object()
}

// Objects returns the array of objects in a field.
func Objects(t *testing.T, o Object, field string) []Object {
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

// Pending returns the suggestions in the detail of a source.
func (c *Client) Pending(id string) []Object {
	c.T.Helper()
	return Objects(c.T, c.Detail(id), "evalSuggestions")
}

// Reviewed returns the reviews in the detail of a source.
func (c *Client) Reviewed(id string) []Object {
	c.T.Helper()
	return Objects(c.T, c.Detail(id), "reviewedSuggestions")
}

// Decode decodes JSON.
func Decode(t *testing.T, raw []byte, out any) {
	t.Helper()
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}

// Decision is a body that accepts a suggestion, with changes; nil removes a
// field.
func Decision(change Object) Object {
	o := Object{
		"suggestion_id": "0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70", "query": "Read the table", "should_trigger": true,
		"review_status": "accepted", "source": "linked_telemetry", "provenance": "missed_query",
	}
	for key, value := range change {
		o[key] = value
		if value == nil {
			delete(o, key)
		}
	}
	return o
}

// Review sends a decision on a suggestion.
func (c *Client) Review(id string, change Object) Answer {
	c.T.Helper()
	return c.Post(SourcePath(id)+"/eval-suggestions/review", Decision(change))
}

// Clear deletes the review of a suggestion.
func (c *Client) Clear(id, suggestionID string) Answer {
	c.T.Helper()
	return c.Do(http.MethodDelete, SourcePath(id)+"/eval-suggestions/"+suggestionID+"/review", nil)
}

// Apply appends a suggestion to a suite.
func (c *Client) Apply(id, suggestionID, suiteID string, change Object) Answer {
	c.T.Helper()
	body := Decision(change)
	body["suite_id"] = suiteID
	for _, not := range []string{"suggestion_id", "review_status"} {
		delete(body, not)
	}
	return c.Post(SourcePath(id)+"/eval-suggestions/"+suggestionID+"/apply-to-suite", body)
}

// Together makes calls at the same time and returns their answers.
func Together(calls ...func() Answer) []Answer {
	answers := make([]Answer, len(calls))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			<-start
			answers[i] = call()
		})
	}
	close(start)
	wg.Wait()
	return answers
}
