package registry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/auth"
)

// client calls the API with a key. It may be used by many goroutines at once.
type client struct {
	t     *testing.T
	w     *world
	org   auth.Organisation
	user  auth.User
	keyID string
	key   string
}

// in returns the client for a subtest.
func (c *client) in(t *testing.T) *client {
	inside := *c
	inside.t = t
	return &inside
}

// at returns the client of another replica.
func (c *client) at(w *world) *client {
	there := *c
	there.w = w
	return &there
}

// answer is what came back.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   []byte
}

// do sends a request to a path, or to an absolute URL. A body that is not nil
// is sent as JSON.
func (c *client) do(method, path string, body any) answer {
	c.t.Helper()
	if body == nil {
		return c.send(method, path, "", nil)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		c.t.Error(err)
	}
	return c.send(method, path, "application/json", raw)
}

func (c *client) get(path string) answer {
	c.t.Helper()
	return c.do(http.MethodGet, path, nil)
}

func (c *client) post(path string, body any) answer {
	c.t.Helper()
	return c.do(http.MethodPost, path, body)
}

func (c *client) send(method, path, contentType string, body []byte) answer {
	t := c.t
	t.Helper()
	if strings.HasPrefix(path, "/") {
		path = c.w.server.URL + path
	}
	a := answer{t: t, what: method + " " + path}
	req, err := http.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return a
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.w.server.Client().Do(req)
	if err != nil {
		t.Errorf("%s: %v", a.what, err)
		return a
	}
	defer resp.Body.Close()
	a.status, a.header = resp.StatusCode, resp.Header
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		t.Errorf("%s: %v", a.what, err)
	}
	return a
}

// anonymous is a client without a key.
func (w *world) anonymous() *client { return &client{t: w.t, w: w} }

// want ends the test unless the answer has the status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

// object is a JSON object.
type object = map[string]any

// object reads the body.
func (a answer) object() object {
	a.t.Helper()
	var o object
	if err := json.Unmarshal(a.body, &o); err != nil {
		a.t.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	return o
}

// list reads the array that a field of the body holds; it must not be null.
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

// wantError checks the structured body, whose message must contain the text.
func (a answer) wantError(status int, text string) {
	a.t.Helper()
	a.want(status)
	message, _ := at(a.object(), "error", "message").(string)
	want := object{"error": object{"message": message, "status": float64(status)}}
	if diff := cmp.Diff(want, a.object()); diff != "" {
		a.t.Errorf("%s: body (-want +got):\n%s", a.what, diff)
	}
	if !strings.Contains(message, text) {
		a.t.Errorf("%s: message %q, want one with %q", a.what, message, text)
	}
}

// wantInvalid checks the validation body: the first problem is at the path,
// and its message contains the text.
func (a answer) wantInvalid(path, text string) {
	a.t.Helper()
	a.want(http.StatusBadRequest)
	var body struct {
		Error   string
		Details struct {
			Path    []string
			Message string
		}
		Issues []struct{ Message string }
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		a.t.Fatalf("%s: %v in %s", a.what, err, a.body)
	}
	wantKeys(a.t, a.object(), "error", "details", "issues")
	if body.Error != "Validation failed" || len(body.Issues) == 0 || body.Issues[0].Message != body.Details.Message {
		a.t.Errorf("%s: not a validation body: %s", a.what, a.body)
	}
	if got := strings.Join(body.Details.Path, "."); got != path || !strings.Contains(body.Details.Message, text) {
		a.t.Errorf("%s: %q at %q, want %q at %q", a.what, body.Details.Message, got, text, path)
	}
}

// wantKeys checks that an object has exactly these fields.
func wantKeys(t *testing.T, o object, keys ...string) {
	t.Helper()
	got := slices.Sorted(maps.Keys(o))
	slices.Sort(keys)
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// at returns the value at a path of objects.
func at(o object, path ...string) any {
	var v any = o
	for _, key := range path {
		inner, _ := v.(object)
		v = inner[key]
	}
	return v
}

// text is at for a string.
func text(o object, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

// part is one part of a form.
type part struct {
	name, file string
	content    []byte
}

// upload sends a form.
func (c *client) upload(path string, parts ...part) answer {
	c.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, p := range parts {
		var w io.Writer
		var err error
		if p.file == "" {
			w, err = form.CreateFormField(p.name)
		} else {
			w, err = form.CreateFormFile(p.name, p.file)
		}
		if err == nil {
			_, err = w.Write(p.content)
		}
		if err != nil {
			c.t.Error(err)
		}
	}
	if err := form.Close(); err != nil {
		c.t.Error(err)
	}
	return c.send(http.MethodPost, path, form.FormDataContentType(), body.Bytes())
}

// metadata is the part of that name.
func metadata(o object) part {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return part{name: "metadata", content: raw}
}

func archivePart(content []byte) part {
	return part{name: "archive", file: "skill.tar.gz", content: content}
}

const registryPath = "/api/v1/registry"

// create makes an entry; fields are added to the metadata.
func (c *client) create(name, version string, archive []byte, fields ...object) answer {
	c.t.Helper()
	o := object{"name": name, "version": version}
	for _, f := range fields {
		maps.Copy(o, f)
	}
	return c.upload(registryPath, metadata(o), archivePart(archive))
}

// made is create that must work, and returns the id of the entry.
func (c *client) made(name, version string, archive []byte, fields ...object) string {
	c.t.Helper()
	return text(c.create(name, version, archive, fields...).want(http.StatusCreated).object(), "entry", "id")
}

// push adds a version.
func (c *client) push(id, version string, archive []byte, fields ...object) answer {
	c.t.Helper()
	o := object{"version": version}
	for _, f := range fields {
		maps.Copy(o, f)
	}
	return c.upload(entryPath(id)+"/versions", metadata(o), archivePart(archive))
}

func entryPath(id string) string { return registryPath + "/" + id }

func versionPath(id, version string) string {
	return fmt.Sprintf("%s/versions/%s", entryPath(id), version)
}

// versions returns the versions of an entry by name.
func (c *client) versions(id string) map[string]object {
	c.t.Helper()
	byName := map[string]object{}
	for _, v := range c.get(entryPath(id)).want(http.StatusOK).list("versions") {
		byName[text(v, "version")] = v
	}
	return byName
}

// current returns the version that is current, of which there must be one.
func (c *client) current(id string) string {
	c.t.Helper()
	var current []string
	for name, v := range c.versions(id) {
		if v["is_current"] == true {
			current = append(current, name)
		}
	}
	if len(current) != 1 {
		c.t.Fatalf("current versions %v, want one", current)
	}
	return current[0]
}
