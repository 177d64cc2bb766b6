package registrytest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// The paths of the API.
const (
	Path     = "/api/v1/registry"
	SyncPath = Path + "/sync"
)

// EntryPath is the path of an entry.
func EntryPath(id string) string { return Path + "/" + id }

// VersionPath is the path of a version, whose name must need no escape.
func VersionPath(id, version string) string { return EntryPath(id) + "/versions/" + version }

// A Client calls the API with a key. Many goroutines may use it at once.
type Client struct{ *apptest.Caller }

// In returns the client for a subtest.
func (c *Client) In(t apptest.T) *Client { return &Client{c.Caller.In(t)} }

// At returns the client of another replica.
func (c *Client) At(w *World) *Client {
	there := *c.Caller
	there.World = w.World
	return &Client{&there}
}

// ArchivePart is the part of a form with the archive.
func ArchivePart(content []byte) apptest.Part {
	return apptest.Part{Name: "archive", File: "skill.tar.gz", Content: content}
}

// Create asks for a new entry; fields are added to the metadata.
func (c *Client) Create(name, version string, archive []byte, fields ...apptest.Object) apptest.Response {
	c.T.Helper()
	return c.publish(Path, apptest.Object{"name": name, "version": version}, archive, fields)
}

// Push asks for a new version of an entry.
func (c *Client) Push(id, version string, archive []byte, fields ...apptest.Object) apptest.Response {
	c.T.Helper()
	return c.publish(EntryPath(id)+"/versions", apptest.Object{"version": version}, archive, fields)
}

func (c *Client) publish(path string, metadata apptest.Object, archive []byte, fields []apptest.Object) apptest.Response {
	c.T.Helper()
	for _, f := range fields {
		maps.Copy(metadata, f)
	}
	return c.Upload(path, apptest.JSONPart(c.T, "metadata", metadata), ArchivePart(archive))
}

// Made is Create that must work, and returns the id of the entry.
func (c *Client) Made(name, version string, archive []byte, fields ...apptest.Object) string {
	c.T.Helper()
	return apptest.Text(c.Create(name, version, archive, fields...).Want(http.StatusCreated).Object(), "entry", "id")
}

// Pushed is Push that must work.
func (c *Client) Pushed(id, version string, archive []byte, fields ...apptest.Object) apptest.Object {
	c.T.Helper()
	return c.Push(id, version, archive, fields...).Want(http.StatusCreated).Object()
}

// EntryOf makes an entry with the versions 1 to n.
func (c *Client) EntryOf(name string, n int) string {
	c.T.Helper()
	id := c.Made(name, "1", Skill(c.T, name+" 1"))
	for i := 2; i <= n; i++ {
		c.Pushed(id, fmt.Sprint(i), Skill(c.T, fmt.Sprintf("%s %d", name, i)))
	}
	return id
}

// Versions returns the versions of an entry by name.
func (c *Client) Versions(id string) map[string]apptest.Object {
	c.T.Helper()
	byName := map[string]apptest.Object{}
	for _, v := range c.Get(EntryPath(id)).Want(http.StatusOK).List("versions") {
		byName[apptest.Text(v, "version")] = v
	}
	return byName
}

// Current returns the version that is current, of which there must be one.
func (c *Client) Current(id string) string {
	c.T.Helper()
	var current []string
	for name, v := range c.Versions(id) {
		if v["is_current"] == true {
			current = append(current, name)
		}
	}
	if len(current) != 1 {
		c.T.Fatalf("current versions %v, want one", current)
	}
	return current[0]
}

// Flags lists the versions of an entry, newest first, and whether each is current
// and whether it was rolled back: "c" and "r".
func (c *Client) Flags(id string) string {
	c.T.Helper()
	var b strings.Builder
	for _, v := range c.Get(EntryPath(id) + "/versions").Want(http.StatusOK).List("versions") {
		b.WriteString(" " + apptest.Text(v, "version"))
		if v["is_current"] == true {
			b.WriteString("c")
		}
		if v["rolled_back"] == true {
			b.WriteString("r")
		}
	}
	return b.String()
}

// Install records an installation.
func (c *Client) Install(id string, body any) apptest.Object {
	c.T.Helper()
	return c.Post(EntryPath(id)+"/install", body).Want(http.StatusOK).Object()["installation"].(apptest.Object)
}

// Installs is the number of installations of an entry. Its installation_count
// must be the number of their users.
func (c *Client) Installs(id string) int {
	c.T.Helper()
	n, _ := c.Get(EntryPath(id)).Want(http.StatusOK).Object()["installation_count"].(float64)
	users := c.World.Count(`(SELECT DISTINCT user_id FROM registry_installations WHERE entry_id = $1) u`, id)
	if users != int(n) {
		c.T.Errorf("installation_count %v, but %d users", n, users)
	}
	return c.World.Count(`registry_installations WHERE entry_id = $1`, id)
}

// Item is what a client of sync has.
func Item(id string, hash any) apptest.Object {
	return apptest.Object{"entry_id": id, "current_version_hash": hash}
}

// Sync asks about the items and returns the entries of the answer.
func (c *Client) Sync(items ...apptest.Object) []apptest.Object {
	c.T.Helper()
	return c.Post(SyncPath, apptest.Object{"installations": items}).Want(http.StatusOK).List("entries")
}

// Names returns the names in a listing.
func Names(entries []apptest.Object) []string {
	list := []string{}
	for _, e := range entries {
		list = append(list, apptest.Text(e, "name"))
	}
	return list
}

// WireTime matches a time in an answer.
var WireTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// DropVarying deletes the fields of an object that differ every time, after a
// check that they look right.
func DropVarying(t apptest.T, o apptest.Object, ids, times []string) {
	t.Helper()
	for _, key := range ids {
		if id, err := uuid.Parse(apptest.Text(o, key)); err != nil || id.Version() != 7 {
			t.Errorf("%s is %v, want a UUIDv7", key, o[key])
		}
		delete(o, key)
	}
	for _, key := range times {
		if !WireTime.MatchString(apptest.Text(o, key)) {
			t.Errorf("%s is %v, want a time", key, o[key])
		}
		delete(o, key)
	}
}

// WantDownload checks an archive and the headers about it.
func WantDownload(a apptest.Response, hash string) {
	a.T.Helper()
	a.Want(http.StatusOK)
	if got := Sum(a.Body); got != hash {
		a.T.Errorf("%s: got %s, want %s", a.What, got, hash)
	}
	digest, err := hex.DecodeString(hash)
	if err != nil {
		a.T.Errorf("%s: %v in %q", a.What, err, hash)
	}
	for header, want := range map[string]string{
		"Content-Type": "application/gzip", "ETag": `"` + hash + `"`,
		"Digest":                 "sha-256=" + base64.StdEncoding.EncodeToString(digest),
		"X-Content-Type-Options": "nosniff", "Content-Encoding": "",
	} {
		if got := a.Header.Get(header); got != want {
			a.T.Errorf("%s: %s is %q, want %q", a.What, header, got, want)
		}
	}
	if got := a.Header.Get("Content-Disposition"); !strings.HasPrefix(got, "attachment") || !strings.Contains(got, ".tar.gz") {
		a.T.Errorf("%s: Content-Disposition %q", a.What, got)
	}
}

// Resolve is the URL of a skill in an index, which is relative to the index.
func Resolve(t apptest.T, index string, skill apptest.Object) string {
	t.Helper()
	at, err := url.Parse(index)
	if err != nil {
		t.Fatalf("%v", err)
	}
	link, err := at.Parse(apptest.Text(skill, "url"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return link.String()
}

// Fetch downloads a skill of an index and verifies its digest.
func (w *World) Fetch(index string, skill apptest.Object) []byte {
	w.T.Helper()
	a := w.Anonymous().Get(Resolve(w.T, index, skill))
	hash, ok := strings.CutPrefix(apptest.Text(skill, "digest"), "sha256:")
	if !ok {
		w.T.Errorf("digest %v", skill["digest"])
	}
	WantDownload(a, hash)
	if a.Header.Get("Access-Control-Allow-Origin") != "*" {
		w.T.Error("no CORS header on the archive")
	}
	return a.Body
}
