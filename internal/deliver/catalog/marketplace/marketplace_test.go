package marketplace_test

import (
	"archive/zip"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type object = apptest.Object

const server = "https://skills.example"

func newWorld(t *testing.T, db *store.DB) *registrytest.World {
	t.Helper()
	w := registrytest.New(t, db)
	w.Catalog.PublicURL = server
	(&marketplace.Service{Catalog: w.Catalog}).Mount(w.API)
	return w
}

func token(c *registrytest.Client) string {
	c.T.Helper()
	return c.Do(http.MethodPost, "/api/v1/catalog-tokens", object{"name": "test"}).Want(http.StatusCreated).Text("token")
}

// fetch downloads the archive of a plugin, checks its digest, and returns the files.
func fetch(w *registrytest.World, plugin object) map[string]string {
	w.T.Helper()
	src := plugin["source"].(object)
	if src["source"] != "archive" {
		w.T.Fatalf("source %v", src)
	}
	path, ok := strings.CutPrefix(apptest.Text(src, "url"), server)
	if !ok {
		w.T.Fatalf("source %v", src)
	}
	a := w.Anonymous().Get(path).Want(http.StatusOK)
	if got := a.Header.Get("Content-Type"); got != "application/zip" {
		w.T.Errorf("Content-Type %q", got)
	}
	if want, given := src["sha256"]; given && want != registrytest.Sum(a.Body) {
		w.T.Errorf("%s has the digest %s, want %s", path, registrytest.Sum(a.Body), want)
	}
	w.Anonymous().Do(http.MethodGet, path, nil, "If-None-Match: "+a.Header.Get("ETag")).Want(http.StatusNotModified)
	members, err := zip.NewReader(bytes.NewReader(a.Body), int64(len(a.Body)))
	if err != nil {
		w.T.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range members.File {
		r, err := f.Open()
		if err != nil {
			w.T.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			w.T.Fatal(err)
		}
		files[f.Name] = string(content)
	}
	return files
}

func names(plugins []object) (all []string) {
	for _, p := range plugins {
		all = append(all, apptest.Text(p, "name"))
	}
	return all
}

// plugins reads a marketplace until it has these.
func plugins(w *registrytest.World, path string, want ...string) []object {
	w.T.Helper()
	var list []object
	apptest.Eventually(w.T, path+" has "+strings.Join(want, " "), func() bool {
		list = w.Anonymous().Get(path).Want(http.StatusOK).List("plugins")
		return slices.Equal(names(list), want)
	})
	return list
}

func TestMarketplace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.Org("acme inc", access.Pro), w.Org("other", access.Pro)
		public := object{"visibility": "public"}
		pdf := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "Reads <tables> \"here\".", "scripts/run.sh", "echo hi\n"), public)
		mine := ada.Made("mine", "1.0.0", registrytest.Skill(t, "Mine."))
		ada.Made("hidden", "1.0.0", registrytest.Skill(t, "Hidden."), object{"visibility": "unlisted"})
		bob.Made("theirs", "1.0.0", registrytest.Skill(t, "Theirs."), public)
		bob.Made("secret", "1.0.0", registrytest.Skill(t, "Secret."))
		org := "/o/" + url.PathEscape("acme inc")
		own := org + "/" + token(ada)

		plugins(w, "/marketplace.json", "pdf", "theirs", "everything")
		plugins(w, org+"/marketplace.json", "pdf", "everything")
		plugins(w, "/o/nobody/marketplace.json")
		w.Anonymous().Get(own + "x/marketplace.json").Want(http.StatusNotFound)
		w.Anonymous().Get("/o/other/" + strings.TrimPrefix(own, org+"/") + "/marketplace.json").Want(http.StatusNotFound)

		all := w.Anonymous().Get(own + "/marketplace.json").Want(http.StatusOK)
		apptest.WantKeys(t, all.Object(), "name", "owner", "description", "forceRemoveDeletedPlugins", "plugins")
		if all.Text("name") != "whetstone-acme-inc" || all.Text("owner", "name") != "acme inc" || all.Object()["forceRemoveDeletedPlugins"] != true {
			t.Errorf("marketplace %s", all.Body)
		}
		list := plugins(w, own+"/marketplace.json", "mine", "pdf", "everything")
		apptest.WantKeys(t, list[1], "name", "description", "version", "source", "strict", "homepage")
		if list[1]["version"] != "1.0.0" || list[1]["strict"] != false || list[1]["description"] != "Reads <tables> \"here\"." {
			t.Errorf("plugin %v", list[1])
		}
		text := fetch(w, list[0])["skills/mine/SKILL.md"]
		if !strings.Contains(text, "Mine.") {
			t.Errorf("mine has %q", text)
		}
		want := map[string]string{
			"skills/pdf/SKILL.md": fetch(w, list[1])["skills/pdf/SKILL.md"], "skills/pdf/scripts/run.sh": "echo hi\n",
		}
		if diff := cmp.Diff(want, fetch(w, list[1])); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		everything := map[string]string{
			"skills/mine/SKILL.md": text, "skills/pdf/SKILL.md": want["skills/pdf/SKILL.md"], "skills/pdf/scripts/run.sh": "echo hi\n",
		}
		if diff := cmp.Diff(everything, fetch(w, list[2])); diff != "" {
			t.Errorf("everything (-want +got):\n%s", diff)
		}

		// An update, a withdrawal and a deletion.
		ada.Pushed(pdf, "1.1.0", registrytest.Skill(t, "New."))
		var newer []object
		apptest.Eventually(t, "the new version", func() bool {
			newer = w.Anonymous().Get(own + "/marketplace.json").Want(http.StatusOK).List("plugins")
			return newer[1]["version"] == "1.1.0" && newer[2]["version"] != list[2]["version"]
		})
		fetch(w, list[1]) // as read before
		fetch(w, newer[1])
		ada.Do(http.MethodPost, registrytest.VersionPath(pdf, "1.1.0")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
		apptest.Eventually(t, "the version of before", func() bool {
			return w.Anonymous().Get(own + "/marketplace.json").List("plugins")[1]["version"] == "1.0.0"
		})
		w.Anonymous().Get(strings.TrimPrefix(apptest.Text(newer[1]["source"].(object), "url"), server)).Want(http.StatusNotFound)
		ada.Do(http.MethodDelete, registrytest.EntryPath(mine), nil).Want(http.StatusNoContent)
		plugins(w, own+"/marketplace.json", "pdf", "everything")
		w.Anonymous().Get(strings.TrimPrefix(apptest.Text(list[0]["source"].(object), "url"), server)).Want(http.StatusNotFound)
		// A version that was rolled forward has the files of an older one.
		ada.Pushed(pdf, "1.2.0", registrytest.Skill(t, "Reads <tables> \"here\".", "scripts/run.sh", "echo hi\n"))
		ada.Do(http.MethodPost, registrytest.VersionPath(pdf, "1.2.0")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
		fetch(w, list[1])
		// A private skill's archive is not below the public base.
		w.Anonymous().Get("/.well-known/plugins/secret/" + strings.Repeat("0", 64) + ".zip").Want(http.StatusNotFound)
	})
}

// TestHostileNames has versions and names that would break out of a client's folders,
// or collide.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("A .. b", access.Pro)
		folder := regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]*$`)
		for i, version := range []string{"..", ".", "1..2", "-rf", "~", "$(id)", "a b", "1\\..\\2", `"`, "CON ", "ü", strings.Repeat("9", 128), "1.0.0+b_c-d"} {
			ada.Made("skill-"+string(rune('a'+i)), version, registrytest.Skill(t, "x</script> {{.}} &"), object{"visibility": "public"})
		}
		ada.Made("everything", "1", registrytest.Skill(t, "Takes the name of the bundle."), object{"visibility": "public"})
		ada.Made("whetstone", "1", registrytest.Skill(t, "Takes that of the marketplace."), object{"visibility": "public"})
		for _, name := range []string{"__proto__", "a.b", "../x", "con.txt", "a--b"} {
			ada.Create(name, "1", registrytest.Skill(t, "x"), object{"visibility": "public"})
		}
		a := w.Anonymous().Get("/marketplace.json").Want(http.StatusOK)
		seen := map[string]bool{a.Text("name"): true}
		for _, p := range a.List("plugins") {
			name := apptest.Text(p, "name")
			if seen[name] || !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(name) {
				t.Errorf("a second %s", name)
			}
			seen[name] = true
			version, given := p["version"].(string)
			if given && (!folder.MatchString(version) || strings.Contains(version, "..")) {
				t.Errorf("%s has the version %q", name, version)
			}
			for file := range fetch(w, p) {
				if strings.Contains(file, "..") || strings.HasPrefix(file, "/") {
					t.Errorf("%s has %s", name, file)
				}
			}
		}
		if len(seen) != 13+2+2 || a.Text("name") != "whetstone-marketplace" || !seen["everything-skills"] {
			t.Errorf("names %v", seen)
		}
		if got := w.Anonymous().Get("/o/A%20..%20b/marketplace.json").Want(http.StatusOK).Text("name"); got != "whetstone-A-..-b" {
			t.Errorf("name %q", got)
		}
	})
}

// TestLackingHashes has versions from before there were hashes of zips.
func TestLackingHashes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("pdf", "1", registrytest.Skill(t, "x"), object{"visibility": "public"})
		rows, err := db.Query(t.Context(), `SELECT hash FROM registry_tree_hashes WHERE kind = 'plugin-zip'`)
		want, err := store.One(rows, err, "Hash", store.Value[string])
		if err != nil {
			t.Fatal(err)
		}
		w.Exec(`DELETE FROM registry_tree_hashes`)
		p := w.Anonymous().Get("/marketplace.json").Want(http.StatusOK).List("plugins")[0]
		if got := p["source"].(object)["sha256"]; got != want {
			t.Errorf("digest %v, want %s", got, want)
		}
		fetch(w, p)
	})
}
