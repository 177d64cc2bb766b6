package catalogtest_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/catalogtest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/clawhub"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type object = apptest.Object

// A hall has a registry with all catalogs.
type hall struct {
	*registrytest.World
	ada *registrytest.Client // of the organisation "hostile"
}

func newHall(t *testing.T, db *store.DB) *hall {
	t.Helper()
	w := registrytest.New(t, db)
	w.Catalog.PublicURL = w.Server.URL
	(&marketplace.Service{Catalog: w.Catalog}).Mount(w.API)
	hub := &clawhub.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Catalog: w.Catalog, Registry: w.Registry, Auth: w.Auth,
		Installations: &installations.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Registry: w.Registry},
		PublicURL:     w.Server.URL, Log: w.Log,
	}
	hub.Register()
	hub.Mount(w.API)
	return &hall{w, w.Org("hostile", access.Pro)}
}

func (h *hall) push(s catalogtest.Skill) apptest.Response {
	h.T.Helper()
	fields := object{"visibility": "public"}
	if s.Description != nil {
		fields["description"] = *s.Description
	}
	var members []registrytest.Member
	for _, path := range s.Paths() {
		members = append(members, registrytest.File(path, s.Files[path]))
	}
	return h.ada.Create(s.Name, s.Version, registrytest.Pack(h.T, members...), fields)
}

// get reads JSON for everybody. All texts in it must be safe to print.
func (h *hall) get(path string) object {
	h.T.Helper()
	a := h.Anonymous().Get(path).Want(http.StatusOK)
	var all any
	if err := json.Unmarshal(a.Body, &all); err != nil {
		h.T.Fatalf("%s: %v", path, err)
	}
	h.wantPlain(path, all)
	return a.Object()
}

func (h *hall) wantPlain(path string, value any) {
	h.T.Helper()
	switch value := value.(type) {
	case string:
		if strings.ContainsFunc(value, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) }) {
			h.T.Errorf("%s has the text %q", path, value)
		}
	case []any:
		for _, v := range value {
			h.wantPlain(path, v)
		}
	case map[string]any:
		for k, v := range value {
			h.wantPlain(path, k)
			h.wantPlain(path, v)
		}
	}
}

// path is that of an address, which must be this server's, and the same after it was parsed.
func (h *hall) path(address string) string {
	h.T.Helper()
	u, err := url.Parse(address)
	if err != nil || u.String() != address || !strings.HasPrefix(address, h.Server.URL+"/") {
		h.T.Fatalf("address %q: %v", address, err)
	}
	return u.RequestURI()
}

func (h *hall) wantFiles(what string, want, got map[string]string) {
	h.T.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		h.T.Errorf("%s (- want, + got):\n%s", what, diff)
	}
}

// unzip reads a zip whose members all lie in a folder.
func (h *hall) unzip(packed []byte, folder string) map[string]string {
	h.T.Helper()
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		h.T.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		name, inside := strings.CutPrefix(f.Name, folder)
		if !inside || !fs.ValidPath(name) || !f.Mode().IsRegular() {
			h.T.Errorf("zip with %q %v, want regular files in %q", f.Name, f.Mode(), folder)
		}
		body, err := f.Open()
		if err != nil {
			h.T.Fatal(err)
		}
		content, err := io.ReadAll(body)
		if err != nil {
			h.T.Fatal(err)
		}
		files[name] = string(content)
	}
	return files
}

func names(skills []catalogtest.Skill) (all []string) {
	for _, s := range skills {
		all = append(all, s.Name)
	}
	slices.Sort(all)
	return all
}

func escaped(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

const (
	newIndex = "/.well-known/agent-skills/index.json"
	oldIndex = "/.well-known/skills/index.json"
)

// TestCorpus checks the corpus itself: each name once on every file system.
func TestCorpus(t *testing.T) {
	t.Parallel()
	listed, unlisted, refused := catalogtest.Listed(), catalogtest.Unlisted(), catalogtest.Refused()
	if all := len(listed) + len(unlisted) + len(refused); all < 400 {
		t.Errorf("%d skills", all)
	}
	folded := map[string]string{}
	for _, s := range listed {
		key := strings.ToLower(s.Name)
		if other, ok := folded[key]; ok {
			t.Errorf("%q and %q are the same folder", s.Name, other)
		}
		folded[key] = s.Name
	}
}

// TestRefused pushes what must not come in: the answer names the field, and nothing
// is stored.
func TestRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHall(t, db)
		for _, r := range catalogtest.Refused() {
			a := h.push(r.Skill)
			if a.Status != http.StatusBadRequest {
				t.Errorf("%q %q %q, which %s: status %d", r.Name, r.Version, r.Paths(), r.Why, a.Status)
				continue
			}
			a.WantIssueWith(r.Field, "")
		}
		if got := h.ada.Get(registrytest.Path).List("entries"); len(got) > 0 || len(h.Contents()) > 0 {
			t.Errorf("stored %v", got)
		}
	})
}

// plainVersion is one that may stand in the name of a download.
var plainVersion = regexp.MustCompile(`^\d+\.\d+\.\d+[0-9A-Za-z.+-]*$`)

// TestListed reads every catalog with all of them as its clients do.
func TestListed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHall(t, db)
		listed := catalogtest.Listed()
		for _, s := range append(catalogtest.Unlisted(), listed...) {
			if a := h.push(s); a.Status != http.StatusCreated {
				t.Errorf("%q %q %q, which %s: %d %s", s.Name, s.Version, s.Paths(), s.Why, a.Status, a.Body)
			}
		}
		token := h.ada.Post("/api/v1/catalog-tokens", object{"name": "x"}).Want(http.StatusCreated).Text("token")
		for _, base := range []string{"", "/o/hostile", "/o/hostile/" + token} {
			whole := base == "/o/hostile" // the others differ in their paths only
			h.discovery(base, listed, whole)
			h.clawHub(base, listed, whole)
			h.marketplace(base, listed, whole)
			for _, s := range catalogtest.Unlisted() {
				name := url.PathEscape(s.Name)
				if strings.Trim(s.Name, ".") == "" { // clients and servers alike resolve these
					name = strings.ReplaceAll(s.Name, ".", "%2e")
				}
				for _, path := range []string{"/.well-known/skills/" + name + "/SKILL.md", "/api/v1/skills/" + name, "/" + name + newIndex} {
					if a := h.Anonymous().Get(base + path); a.Status != http.StatusNotFound {
						t.Errorf("%s: %q, which %s, has the status %d", base+path, s.Name, s.Why, a.Status)
					}
				}
			}
		}
	})
}

// discovery reads both indexes, and the skills by the addresses in them.
func (h *hall) discovery(base string, listed []catalogtest.Skill, whole bool) {
	h.T.Helper()
	index := h.get(base + newIndex)
	h.wantNames(base+newIndex, listed, registrytest.Names(apptest.List(h.T, index, "skills")))
	old := h.get(base + oldIndex)
	h.wantNames(base+oldIndex, listed, registrytest.Names(apptest.List(h.T, old, "skills")))
	byName := map[string]object{}
	for _, entry := range apptest.List(h.T, index, "skills") {
		byName[apptest.Text(entry, "name")] = entry
	}
	for _, s := range listed {
		one := apptest.List(h.T, h.get(base+"/"+s.Name+newIndex), "skills")
		if len(one) != 1 || apptest.Text(one[0], "name") != s.Name {
			h.T.Errorf("%s/%s lists %v", base, s.Name, one)
		}
		if !whole {
			continue
		}
		headers, got := registrytest.Unpack(h.T, h.Fetch(base+newIndex, byName[s.Name]))
		if len(headers) != len(s.Files) {
			h.T.Errorf("%s has %d members", s.Name, len(headers))
		}
		h.wantFiles("archive of "+s.Name, s.Files, got)
		for path, content := range s.Files {
			a := h.Anonymous().Get(base + "/.well-known/skills/" + s.Name + "/" + escaped(path))
			if a.Status != http.StatusOK || string(a.Body) != content {
				h.T.Errorf("%s: %q has the status %d and %q", s.Name, path, a.Status, a.Body)
			}
		}
		found := apptest.List(h.T, h.get(base+"/api/search?limit=100&q="+s.Name), "skills")
		if at := slices.IndexFunc(found, func(o object) bool { return o["name"] == s.Name }); at < 0 {
			h.T.Errorf("a search for %s finds %v", s.Name, found)
		} else {
			h.get(h.path(apptest.Text(found[at], "source")) + newIndex)
		}
	}
}

func (h *hall) wantNames(what string, want []catalogtest.Skill, got []string) {
	h.T.Helper()
	slices.Sort(got)
	if diff := cmp.Diff(names(want), got); diff != "" {
		h.T.Errorf("%s lists (- want, + got):\n%s", what, diff)
	}
}

// clawHub reads the list, and every skill as the CLI does before and while it
// installs.
func (h *hall) clawHub(base string, listed []catalogtest.Skill, whole bool) {
	h.T.Helper()
	var slugs []string
	for cursor := ""; ; {
		page := h.get(base + "/api/v1/skills?limit=200&cursor=" + cursor)
		for _, item := range apptest.List(h.T, page, "items") {
			slugs = append(slugs, apptest.Text(item, "slug"))
		}
		if cursor = apptest.Text(page, "nextCursor"); cursor == "" {
			break
		}
	}
	h.wantNames(base+"/api/v1/skills", listed, slugs)
	for _, s := range listed {
		if !whole {
			break
		}
		skill := base + "/api/v1/skills/" + s.Name
		h.get(skill)
		if strings.Trim(s.Version, ".") != "" { // clients resolve such a path before they ask
			h.get(skill + "/versions/" + url.PathEscape(s.Version))
		}
		at := h.path(apptest.Text(h.get(skill+"/install"), "archive", "downloadUrl"))
		a := h.Anonymous().Get(at).Want(http.StatusOK)
		file := s.Name
		if named := a.Header.Get("Content-Disposition"); !strings.HasSuffix(named, `"`+s.Name+`.zip"`) && plainVersion.MatchString(s.Version) {
			file += "-" + s.Version
		}
		a.WantHeader("Content-Disposition", `attachment; filename="`+file+`.zip"`)
		h.wantFiles("zip of "+s.Name, s.Files, h.unzip(a.Body, ""))
		for path, content := range s.Files {
			if got := h.Anonymous().Get(skill + "/file?path=" + url.QueryEscape(path)).Want(http.StatusOK); string(got.Body) != content {
				h.T.Errorf("%s: %q has %q", s.Name, path, got.Body)
			}
		}
	}
}

// marketplace reads all plugins.
func (h *hall) marketplace(base string, listed []catalogtest.Skill, whole bool) {
	h.T.Helper()
	shop := h.get(base + "/marketplace.json")
	plugins := map[string]object{}
	for _, p := range apptest.List(h.T, shop, "plugins") {
		name := apptest.Text(p, "name")
		if plugins[name] != nil || strings.EqualFold(name, apptest.Text(shop, "name")) {
			h.T.Errorf("%s has two of the name %s", base, name)
		}
		plugins[name] = p
	}
	if len(plugins) != len(listed)+1 {
		h.T.Errorf("%s has %d plugins, want %d", base, len(plugins), len(listed)+1)
	}
	for _, s := range listed {
		if !whole {
			break
		}
		a := h.Anonymous().Get(h.path(apptest.Text(plugins[s.Name], "source", "url"))).Want(http.StatusOK)
		if got := registrytest.Sum(a.Body); got != apptest.Text(plugins[s.Name], "source", "sha256") {
			h.T.Errorf("the zip of %s has the digest %s", s.Name, got)
		}
		// Nothing else lies at the root, where it would be the plugin's own.
		h.wantFiles("plugin "+s.Name, s.Files, h.unzip(a.Body, "skills/"+s.Name+"/"))
		version := apptest.Text(plugins[s.Name], "version")
		if !fs.ValidPath(version) && version != "" || strings.HasSuffix(version, ".") || strings.ContainsAny(version, `:\ %`) {
			h.T.Errorf("plugin %s has the version %q", s.Name, version)
		}
	}
	bundle := h.Anonymous().Get(h.path(apptest.Text(plugins["everything-skills"], "source", "url"))).Want(http.StatusOK)
	all := h.unzip(bundle.Body, "skills/")
	for _, s := range listed {
		for path, content := range s.Files {
			if got, ok := all[s.Name+"/"+path]; !ok || got != content {
				h.T.Errorf("the bundle has %s %s: %q", s.Name, path, got)
			}
		}
	}
	if whole {
		h.unpackWithOthers(bundle.Body, all)
	}
}

// unpackWithOthers lets programs of others unpack a zip, where there are any.
func (h *hall) unpackWithOthers(packed []byte, want map[string]string) {
	h.T.Helper()
	for program, args := range map[string][]string{
		"unzip":   {"-q", "../all.zip"},
		"python3": {"-m", "zipfile", "-e", "../all.zip", "."},
		"bsdtar":  {"-xf", "../all.zip"},
	} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		dir := h.T.TempDir()
		inside := filepath.Join(dir, "inside")
		if err := os.Mkdir(inside, 0o700); err != nil {
			h.T.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "all.zip"), packed, 0o600); err != nil {
			h.T.Fatal(err)
		}
		cmd := exec.CommandContext(h.T.Context(), program, args...)
		cmd.Dir = inside
		if out, err := cmd.CombinedOutput(); err != nil {
			h.T.Errorf("%s: %v\n%s", program, err, out)
		}
		if outside, err := os.ReadDir(dir); err != nil || len(outside) != 2 {
			h.T.Errorf("%s wrote outside of its folder: %v, %v", program, outside, err)
		}
		got := map[string]string{}
		err := fs.WalkDir(os.DirFS(inside), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(filepath.Join(inside, path))
			got[strings.TrimPrefix(path, "skills/")] = string(content)
			return err
		})
		if err != nil {
			h.T.Fatal(err)
		}
		h.wantFiles(program, want, got)
	}
}
