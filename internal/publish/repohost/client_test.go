package repohost_test

import (
	"bytes"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const base = "/api/v1/repohost"

// client calls the API with a key.
type client struct {
	*apptest.Caller
	w *world
}

type (
	object = apptest.Object
	answer = apptest.Response
)

// entry creates a registry entry with a first version.
func (c *client) entry(name, version string) string {
	c.T.Helper()
	var archive bytes.Buffer
	files := mapFS(c.w.T, map[string]string{"SKILL.md": hosttest.Skill(name, "The first version.")})
	options := skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()}
	packed, err := skillpkg.Pack(c.T.Context(), files, &archive, options)
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	e, _, err := c.w.registry.Create(c.T.Context(), registry.Publication{
		OrgID: c.Org.ID, UserID: c.User.ID, Name: name, Type: registry.TypeSkill, Visibility: registry.Org, Version: version,
		Source: registry.FromCLI, Archive: bytes.NewReader(archive.Bytes()), Size: packed.Size,
	})
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	return e.ID
}

// bind binds an installation of an account that is the organisation's, or is free.
func (c *client) bind(id int64, account string) {
	c.T.Helper()
	// Where the server has several organisations, the operator assigns the account.
	if err := claims.Allow(c.T.Context(), c.w.DB, c.Org.ID, account, false); err != nil {
		c.w.T.Fatal(err)
	}
	body := apptest.With(bindBody(id, account), object{"account_type": "Organization"})
	c.Post(base+"/installations", body).Want(http.StatusCreated)
}

// connect connects acme/NAME, of installation 1, to an entry; fields are added.
func (c *client) connect(entryID, repo string, fields object) string {
	c.T.Helper()
	body := apptest.With(object{"entry_id": entryID, "installation_id": 1, "repo_full_name": repo}, fields)
	return apptest.Text(c.Post(base+"/connections", body).Want(http.StatusCreated).Object(), "id")
}

// versions maps the versions of an entry to whether they are current.
func (c *client) versions(entryID string) map[string]object {
	c.T.Helper()
	all := map[string]object{}
	for _, v := range c.Get("/api/v1/registry/" + entryID + "/versions").Want(http.StatusOK).List("versions") {
		all[apptest.Text(v, "version")] = v
	}
	return all
}

// current returns the current version of an entry.
func (c *client) current(entryID string) string {
	c.T.Helper()
	for name, v := range c.versions(entryID) {
		if v["is_current"] == true {
			return name
		}
	}
	c.T.Fatalf("no version is current")
	return ""
}

// last returns the last attempt of the only connection.
func (c *client) last() object {
	c.T.Helper()
	all := c.Get(base + "/connections").Want(http.StatusOK).List("connections")
	if len(all) != 1 {
		c.T.Fatalf("got %d connections, want one", len(all))
	}
	last, _ := all[0]["last_attempt"].(object)
	return last
}

func (c *client) sync(id string) object {
	c.T.Helper()
	return c.Post(base+"/connections/"+id+"/sync", nil).Want(http.StatusOK).Object()
}
