package repohost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

const base = "/api/v1/repohost"

// client calls the API with a key.
type client struct {
	t    *testing.T
	w    *world
	org  auth.Organisation
	user auth.User
	key  string
}

type object = map[string]any

// answer is a response.
type answer struct {
	t      *testing.T
	what   string
	status int
	body   []byte
}

func (c *client) do(method, path string, body any) answer {
	c.t.Helper()
	var content io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		content = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.w.server.URL+path, content)
	if err != nil {
		c.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.send(req)
}

func (c *client) send(req *http.Request) answer {
	c.t.Helper()
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.w.server.Client().Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	a := answer{t: c.t, what: req.Method + " " + req.URL.Path, status: resp.StatusCode}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *client) get(path string) answer { c.t.Helper(); return c.do(http.MethodGet, path, nil) }
func (c *client) post(path string, body any) answer {
	c.t.Helper()
	return c.do(http.MethodPost, path, body)
}

func (c *client) patch(path string, body any) answer {
	c.t.Helper()
	return c.do(http.MethodPatch, path, body)
}

func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

func (a answer) object() object {
	a.t.Helper()
	var o object
	if err := json.Unmarshal(a.body, &o); err != nil {
		a.t.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	return o
}

func (a answer) list(field string) []object {
	a.t.Helper()
	items, ok := a.object()[field].([]any)
	if !ok {
		a.t.Fatalf("%s: no list %s in %s", a.what, field, a.body)
	}
	out := make([]object, len(items))
	for i, item := range items {
		out[i], _ = item.(object)
	}
	return out
}

// message returns the message of a structured error.
func (a answer) message() string {
	a.t.Helper()
	e, _ := a.object()["error"].(object)
	text, _ := e["message"].(string)
	return text
}

// issue returns the path of the first validation issue.
func (a answer) issue() string {
	a.t.Helper()
	details, _ := a.want(http.StatusBadRequest).object()["details"].(object)
	path, _ := details["path"].([]any)
	return fmt.Sprint(path...)
}

// entry creates a registry entry with a first version.
func (c *client) entry(name, version string) string {
	c.t.Helper()
	var archive bytes.Buffer
	files := mapFS(c.t, map[string]string{"SKILL.md": hosttest.Skill(name, "The first version.")})
	packed, err := skillpkg.Pack(c.t.Context(), files, &archive, skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()})
	if err != nil {
		c.t.Fatal(err)
	}
	e, _, err := c.w.registry.Create(c.t.Context(), registry.Publication{
		OrgID: c.org.ID, UserID: c.user.ID, Name: name, Type: registry.TypeSkill, Visibility: registry.Org, Version: version,
		Source: registry.FromCLI, Archive: bytes.NewReader(archive.Bytes()), Size: packed.Size,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return e.ID
}

// bind binds an installation of an account.
func (c *client) bind(id int64, account string) {
	c.t.Helper()
	c.post(base+"/installations", object{"installation_id": id, "account_login": account, "account_type": "Organization"}).want(http.StatusCreated)
}

// connect connects acme/NAME, of installation 1, to an entry; fields are added.
func (c *client) connect(entryID, repo string, fields object) string {
	c.t.Helper()
	body := object{"entry_id": entryID, "installation_id": 1, "repo_full_name": repo}
	for name, value := range fields {
		body[name] = value
	}
	id, _ := c.post(base+"/connections", body).want(http.StatusCreated).object()["id"].(string)
	return id
}

// versions maps the versions of an entry to whether they are current.
func (c *client) versions(entryID string) map[string]object {
	c.t.Helper()
	all := map[string]object{}
	for _, v := range c.get("/api/v1/registry/" + entryID + "/versions").want(http.StatusOK).list("versions") {
		name, _ := v["version"].(string)
		all[name] = v
	}
	return all
}

// current returns the current version of an entry.
func (c *client) current(entryID string) string {
	c.t.Helper()
	for name, v := range c.versions(entryID) {
		if v["is_current"] == true {
			return name
		}
	}
	c.t.Fatal("no version is current")
	return ""
}

// last returns the last attempt of the only connection.
func (c *client) last() object {
	c.t.Helper()
	all := c.get(base + "/connections").want(http.StatusOK).list("connections")
	if len(all) != 1 {
		c.t.Fatalf("got %d connections, want one", len(all))
	}
	last, _ := all[0]["last_attempt"].(object)
	return last
}

func (c *client) sync(id string) object {
	c.t.Helper()
	return c.post(base+"/connections/"+id+"/sync", nil).want(http.StatusOK).object()
}
