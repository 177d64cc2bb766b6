package catalogtest_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/gitrepo"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// git runs git, which must work unless it may fail.
func git(t *testing.T, mayFail bool, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil && !mayFail {
		t.Fatalf("git %s:\n%s", strings.Join(args, " "), out)
	}
	return string(out)
}

// TestRemovedLeavesCatalogs takes a public skill away on one replica, and asks all catalogs
// of another one for it at once: without a key, as another organisation, with the ETags and
// the signed URL from before.
func TestRemovedLeavesCatalogs(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(acme *registrytest.Client, id string) apptest.Response{
		"withdrawn": func(acme *registrytest.Client, id string) apptest.Response {
			return acme.Post(registrytest.VersionPath(id, "7.7.7")+"/withdraw", object{"reason": "It leaks."}).Want(http.StatusOK)
		},
		"deleted": func(acme *registrytest.Client, id string) apptest.Response {
			return acme.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		},
		"private": func(acme *registrytest.Client, id string) apptest.Response {
			return acme.Do(http.MethodPatch, registrytest.EntryPath(id), object{"visibility": "org"}).Want(http.StatusOK)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				h := newHall(t, db)
				(&gitrepo.Service{Catalog: h.Catalog, Marketplace: &marketplace.Service{Catalog: h.Catalog}}).Mount(h.API)
				acme, other := h.Org("acme", access.Team), h.Org("other", access.Team)
				public := object{"visibility": "public"}
				id := acme.Made("hidden", "7.7.7", registrytest.Skill(t, "A zebra.", "zebra.txt", "zebra"), public)
				acme.Made("shown", "1.0.0", registrytest.Skill(t, "Public."), public)

				index := registrytest.Resolve(t, newIndex, h.Anonymous().Get("/o/acme" + newIndex).List("skills")[0])
				shop := h.Anonymous().Get("/o/acme/marketplace.json").Want(http.StatusOK).List("plugins")
				in := func(plugin object) string {
					return strings.TrimPrefix(h.path(plugin["source"].(object)["url"].(string)), "/o/acme")
				}
				zips := []string{index, in(shop[0]), in(shop[2])}
				paths := addresses(zips[0], zips[1], zips[2])
				etags := map[string]string{}
				for _, path := range paths {
					etags[path] = h.Anonymous().Get("/o/acme" + path).Header.Get("ETag")
				}
				for _, path := range zips {
					if etags[path] == "" {
						t.Fatalf("%s is not served", path)
					}
				}
				clone := filepath.Join(t.TempDir(), "clone")
				git(t, false, "clone", "--quiet", h.Server.URL+"/o/acme/marketplace.git", clone)
				head := strings.TrimSpace(git(t, false, "-C", clone, "rev-parse", "HEAD"))
				signed := apptest.Text(other.Sync(registrytest.Item(id, "none"))[0], "download_url")
				h.Anonymous().Get(signed).Want(http.StatusOK)
				download := registrytest.VersionPath(id, "7.7.7") + "/download"
				etag := other.Get(download).Want(http.StatusOK).Header.Get("ETag")

				remove(acme.At(h.Replica()), id)

				for _, path := range paths {
					for _, header := range []string{"If-None-Match: " + etags[path], "Range: bytes=0-5", "Authorization: Bearer " + other.Key} {
						for _, method := range []string{http.MethodGet, http.MethodHead} {
							a := h.Anonymous().Do(method, "/o/acme"+path, nil, header)
							if body := string(a.Body); strings.Contains(body, "zebra") || strings.Contains(body, "7.7.7") || a.Status >= 500 {
								t.Errorf("%s %s with %q: %d %.300s", method, path, header, a.Status, body)
							}
						}
					}
				}
				for _, path := range zips {
					h.Anonymous().Do(http.MethodGet, "/o/acme"+path, nil, "If-None-Match: "+etags[path]).Want(http.StatusNotFound)
				}
				want := http.StatusNotFound
				if name == "withdrawn" {
					want = http.StatusGone
				}
				for _, header := range []string{"If-None-Match: " + etag, "Range: bytes=0-5", "Accept: */*"} {
					for _, method := range []string{http.MethodGet, http.MethodHead} {
						h.Anonymous().Do(method, signed, nil, header).Want(want)
						other.Do(method, download, nil, header).Want(want)
					}
				}
				if items := other.Sync(registrytest.Item(id, "none")); len(items) > 0 {
					t.Errorf("sync answers %v", items)
				}

				if out := git(t, false, "-C", clone, "pull", "--quiet"); strings.Contains(out, "up to date") {
					t.Errorf("git pull: %s", out)
				}
				if _, err := os.Stat(filepath.Join(clone, "plugins", "hidden")); err == nil {
					t.Error("the skill is still there after git pull")
				}
				fresh := filepath.Join(t.TempDir(), "clone")
				git(t, false, "clone", "--quiet", h.Server.URL+"/o/acme/marketplace.git", fresh)
				if out := git(t, true, "-C", fresh, "grep", "zebra", "--", "."); strings.Contains(out, "zebra") {
					t.Errorf("a new clone has %s", out)
				}
				if out := git(t, true, "-C", fresh, "fetch", "origin", head); !strings.Contains(out, "not our ref") {
					t.Errorf("git fetch of the commit before: %s", out)
				}

				// A new entry of that name does not bring the old one back.
				if name == "deleted" {
					fresh := acme.Made("hidden", "1.0.0", registrytest.Skill(t, "Other."), public)
					h.Anonymous().Get("/o/acme/hidden" + newIndex).Want(http.StatusOK)
					h.Anonymous().Get("/o/acme" + index).Want(http.StatusNotFound)
					other.Get(registrytest.VersionPath(fresh, "7.7.7") + "/download").Want(http.StatusNotFound)
					h.Anonymous().Get(signed).Want(http.StatusNotFound)
				}
			})
		})
	}
}

// TestUnlisted: lookups by name find an unlisted skill, for everybody who knows its
// organisation; no list and no search has it.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHall(t, db)
		acme, other := h.Org("acme", access.Pro), h.Org("other", access.Pro)
		acme.Made("hidden", "7.7.7", registrytest.Skill(t, "A zebra."), object{"visibility": "unlisted"})
		token := acme.Post("/api/v1/catalog-tokens", object{"name": "x"}).Want(http.StatusCreated).Text("token")
		for _, base := range []string{"/o/acme", "/o/acme/" + token} {
			for _, header := range []string{"Accept: */*", "Authorization: Bearer " + other.Key, "Authorization: Bearer " + acme.Key} {
				get := func(path string) apptest.Response { return h.Anonymous().Do(http.MethodGet, base+path, nil, header) }
				one := get("/hidden" + newIndex).Want(http.StatusOK).List("skills")
				archive := registrytest.Resolve(t, base+"/hidden"+newIndex, one[0])
				h.Anonymous().Get(archive).Want(http.StatusOK)
				for _, path := range []string{
					"/.well-known/skills/hidden/SKILL.md", "/api/v1/skills/hidden", "/api/v1/skills/hidden/versions",
					"/api/v1/skills/hidden/versions/7.7.7", "/api/v1/skills/hidden/install", "/api/v1/skills/hidden/file?path=SKILL.md",
					"/api/v1/download?slug=hidden", "/api/v1/resolve?slug=hidden&hash=" + strings.Repeat("a", 64),
				} {
					get(path).Want(http.StatusOK)
				}
				for _, path := range []string{
					newIndex, oldIndex, "/marketplace.json", "/api/search?q=zebra", "/api/search", "/api/v1/skills", "/api/v1/search?q=hidden",
					"/api/v1/search?q=hidden&mode=exact", "/api/v1/skills?prefix=hid",
				} {
					if a := get(path); strings.Contains(string(a.Body), "hidden") {
						t.Errorf("%s%s lists it: %s", base, path, a.Body)
					}
				}
			}
		}
		// At the host's own address by the name of the organisation, too.
		for _, c := range []*registrytest.Client{h.Anonymous(), other} {
			c.Get("/api/v1/skills/hidden?ownerHandle=acme").Want(http.StatusOK)
			c.Get("/api/v1/download?slug=hidden&ownerHandle=ACME").Want(http.StatusOK)
			c.Get("/api/v1/skills/hidden").Want(http.StatusNotFound)
		}
		acme.Get("/api/v1/skills/hidden").Want(http.StatusOK)
		h.Anonymous().Get("/hidden" + newIndex).Want(http.StatusNotFound)

		for query, want := range map[string]int{
			"": 0, "?name=hidden": 0, "?organisation=acme": 0, "?organisation=acme&q=zebra": 0, "?organisation=other&name=hidden": 0,
			"?organisation=acme&name=hidden": 1,
		} {
			if got := other.Get(registrytest.Path + "/public" + query).Want(http.StatusOK).List("entries"); len(got) != want {
				t.Errorf("public%s: %v, want %d", query, got, want)
			}
		}
		acme.Made("private", "1.0.0", registrytest.Skill(t, "A lion."))
		if got := other.Get(registrytest.Path + "/public?organisation=acme&name=private").List("entries"); len(got) > 0 {
			t.Errorf("a private entry is found: %v", got)
		}
		h.Anonymous().Get("/o/acme/private" + newIndex).Want(http.StatusNotFound)
	})
}
