package catalogtest_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/gitrepo"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/mcpserver"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// rpc asks the MCP server below a base, and returns its answer as text.
func (h *hall) rpc(base, method string, params object) string {
	h.T.Helper()
	a := h.Anonymous().Do(http.MethodPost, base+"/mcp", object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
		"Accept: application/json, text/event-stream")
	return string(a.Body)
}

// TestBoundTokens asks every catalog with tokens that are bound to sets, for what the sets do not
// have: skills, and versions that are not in a range.
func TestBoundTokens(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHall(t, db)
		h.Sets.Mount(h.API)
		(&mcpserver.Service{
			DB: db, Catalog: h.Catalog, Registry: h.Registry, Auth: h.Auth, PublicURL: h.Server.URL, Log: h.Log,
		}).Mount(h.API)
		shop := &marketplace.Service{Catalog: h.Catalog}
		(&gitrepo.Service{Catalog: h.Catalog, Marketplace: shop}).Mount(h.API)
		acme, other := h.Org("acme", access.Team), h.Org("other", access.Team)
		acme.Made("hidden", "7.7.7", registrytest.Skill(t, "A zebra.", "zebra.txt", "zebra"))
		acme.Made("public", "7.7.7", registrytest.Skill(t, "A zebra for all."), object{"visibility": "public"})
		pdf := acme.Made("pdf", "1.0.0", registrytest.Skill(t, "Reads one."))
		acme.Pushed(pdf, "1.1.0", registrytest.Skill(t, "Reads more."))
		acme.Pushed(pdf, "7.7.7", registrytest.Skill(t, "A zebra of seven."))
		acme.Made("sql", "1.0.0", registrytest.Skill(t, "Asks."))
		set := func(c *registrytest.Client, name string, entries ...object) string {
			return c.Post("/api/v1/sets", object{"name": name, "entries": entries}).Want(http.StatusCreated).Text("set", "id")
		}
		one := set(acme, "one", object{"name": "pdf", "range": "^1"})
		two := set(acme, "two", object{"name": "sql"})
		foreign := set(other, "one")
		token := func(c *registrytest.Client, sets ...string) (id, raw string) {
			a := c.Post("/api/v1/catalog-tokens", object{"name": "x", "sets": sets}).Want(http.StatusCreated)
			if got := len(a.Field("catalog_token")["sets"].([]any)); got != len(sets) {
				t.Errorf("a token of %d sets, want %d", got, len(sets))
			}
			return a.Text("catalog_token", "id"), a.Text("token")
		}
		acme.Post("/api/v1/catalog-tokens", object{"name": "x", "sets": []string{foreign}}).Want(http.StatusBadRequest)
		_, open := token(acme)
		_, first := token(acme, one)
		bothID, both := token(acme, one, two)
		_, theirs := token(other, foreign)

		// What a token without sets gets, with its ETags, from warm caches.
		base := "/o/acme/" + open
		var index, plugin, bundle string
		for _, s := range h.Anonymous().Get(base + newIndex).List("skills") {
			if s["name"] == "hidden" {
				index = registrytest.Resolve(t, newIndex, s)
			}
		}
		for _, p := range h.Anonymous().Get(base + "/marketplace.json").Want(http.StatusOK).List("plugins") {
			at := strings.TrimPrefix(h.path(p["source"].(object)["url"].(string)), base)
			switch p["name"] {
			case "hidden":
				plugin = at
			case "everything":
				bundle = at
			}
		}
		paths := addresses(index, plugin, bundle)
		for _, path := range addresses(index, plugin, bundle) {
			if strings.Contains(path, "hidden") {
				paths = append(paths, strings.ReplaceAll(path, "hidden", "public"), strings.ReplaceAll(path, "hidden", "pdf"))
			}
		}
		var pdfIndex, pdfPlugin string
		for _, s := range h.Anonymous().Get(base + newIndex).List("skills") {
			if s["name"] == "pdf" {
				pdfIndex = registrytest.Resolve(t, newIndex, s)
			}
		}
		for _, p := range h.Anonymous().Get(base + "/marketplace.json").List("plugins") {
			if p["name"] == "pdf" {
				pdfPlugin = strings.TrimPrefix(h.path(p["source"].(object)["url"].(string)), base)
			}
		}
		paths = append(paths, pdfIndex, pdfPlugin)
		etags := map[string]string{}
		for _, path := range paths {
			etags[path] = h.Anonymous().Get(base + path).Header.Get("ETag")
		}
		for _, at := range []struct {
			base, header string
			names        []string
		}{
			{"/o/acme/" + first, "", []string{"pdf"}},
			{"/o/acme/" + first + "/sets/one", "", []string{"pdf"}},
			{"/o/acme/" + open + "/sets/one", "", []string{"pdf"}},
			{"/o/acme", "Authorization: Bearer " + first, []string{"pdf"}},
			{"/o/acme/" + both, "", []string{"pdf", "sql"}},
			{"/o/acme/" + both + "/sets/two", "", []string{"sql"}},
		} {
			var headers []string
			if at.header != "" {
				headers = []string{at.header}
			}
			if diff := cmp.Diff(at.names, registrytest.Names(h.Anonymous().Do(http.MethodGet, at.base+newIndex, nil, headers...).Want(http.StatusOK).List("skills"))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", at.base, diff)
			}
			for _, path := range paths {
				for _, conditional := range []string{"", etags[path]} {
					with := headers
					if conditional != "" {
						with = append([]string{"If-None-Match: " + conditional}, headers...)
					}
					a := h.Anonymous().Do(http.MethodGet, at.base+path, nil, with...)
					if body := string(a.Body); strings.Contains(body, "zebra") || strings.Contains(strings.ReplaceAll(body, path, ""), "7.7.7") {
						t.Fatalf("%s%s shows %.300s", at.base, path, body)
					}
					if a.Status == http.StatusNotModified || a.Status >= 500 {
						t.Errorf("%s%s with %q: status %d", at.base, path, conditional, a.Status)
					}
					if a.Status == http.StatusOK && strings.Contains(a.Header.Get("Cache-Control"), "public") {
						t.Errorf("%s%s: Cache-Control %q", at.base, path, a.Header.Get("Cache-Control"))
					}
				}
			}
		}
		for _, base := range []string{
			"/o/acme/" + first + "/sets/two", "/o/acme/" + first + "/sets/nope", "/o/acme/" + theirs, "/o/acme/" + theirs + "/sets/one",
			"/o/other/" + first, "/o/other/" + first + "/sets/one", "/o/acme/nope/sets/one",
		} {
			for _, path := range []string{newIndex, oldIndex, "/marketplace.json", "/api/v1/skills", "/api/search", "/marketplace.git/info/refs?service=git-upload-pack"} {
				h.Anonymous().Get(base + path).Want(http.StatusNotFound)
			}
		}

		// The versions of its ranges, and no others.
		at := "/o/acme/" + first
		if got := h.Anonymous().Get(at + "/api/v1/skills/pdf").Want(http.StatusOK); !strings.Contains(string(got.Body), "1.1.0") {
			t.Errorf("pdf is %s", got.Body)
		}
		h.Anonymous().Get(at + "/api/v1/skills/pdf/versions/1.0.0").Want(http.StatusOK)
		h.Anonymous().Get(at + "/api/v1/skills/pdf/versions/7.7.7").Want(http.StatusNotFound)
		h.Anonymous().Get(at + "/api/v1/download?slug=pdf&version=7.7.7").Want(http.StatusNotFound)
		h.Anonymous().Get(at + "/sets/one/pdf" + newIndex).Want(http.StatusOK)
		plugins := h.Anonymous().Get(at + "/sets/one/marketplace.json").Want(http.StatusOK).List("plugins")
		if got := strings.Join(registrytest.Names(plugins), " "); got != "pdf everything" || plugins[0]["version"] != "1.1.0" {
			t.Errorf("plugins %v", plugins)
		}
		for _, p := range plugins {
			h.Anonymous().Get(h.path(p["source"].(object)["url"].(string))).Want(http.StatusOK)
		}

		for method, params := range map[string]object{
			"skills/list": {}, "resources/list": {}, "skills/get": {"uri": "skill://acme/hidden/SKILL.md"},
			"resources/read": {"uri": "skill://acme/v/7.7.7/pdf/SKILL.md"}, "resources/directory/read": {"uri": "skill://acme/hidden"},
		} {
			if got := h.rpc(at, method, params); strings.Contains(got, "zebra") || strings.Contains(got, `"7.7.7"`) {
				t.Errorf("%s shows %s", method, got)
			}
		}
		for tool, arguments := range map[string]object{
			"search_skills": {"query": "zebra"}, "get_skill": {"name": "hidden"}, "get_skill ": {"name": "pdf", "version": "7.7.7"},
			"get_skill  ": {"name": "public"},
		} {
			got := h.rpc(at, "tools/call", object{"name": strings.TrimSpace(tool), "arguments": arguments})
			if strings.Contains(got, "A zebra") || strings.Contains(got, "zebra.txt") {
				t.Errorf("%s %v shows %s", tool, arguments, got)
			}
		}
		if got := h.rpc(at, "tools/call", object{"name": "get_skill", "arguments": object{"name": "pdf"}}); !strings.Contains(got, "Reads more.") {
			t.Errorf("get_skill of its own: %s", got)
		}

		clone := func(base string) string {
			dir := t.TempDir()
			out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", h.Server.URL+base+"/marketplace.git", dir).CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v: %s", base, err, out)
			}
			found, err := filepath.Glob(filepath.Join(dir, "plugins", "*"))
			if err != nil {
				t.Fatal(err)
			}
			for i := range found {
				found[i] = filepath.Base(found[i])
			}
			return strings.Join(found, " ")
		}
		for base, want := range map[string]string{
			"/o/acme/" + open: "everything hidden pdf public sql", at: "everything pdf", "/o/acme/" + both: "everything pdf sql",
			"/o/acme/" + both + "/sets/two": "everything sql",
		} {
			if got := clone(base); got != want {
				t.Errorf("a clone of %s has %q, want %q", base, got, want)
			}
		}

		// What leaves a set leaves its catalogs with the answer, and a deleted set opens nothing.
		names := func(at *registrytest.World, raw string) string {
			return strings.Join(registrytest.Names(at.Anonymous().Get("/o/acme/"+raw+newIndex).Want(http.StatusOK).List("skills")), " ")
		}
		replica := h.Replica()
		acme.Do(http.MethodPut, "/api/v1/sets/"+one, object{"name": "one", "entries": []object{{"name": "sql"}}}).Want(http.StatusOK)
		for i, w := range []*registrytest.World{h.World, replica} {
			if got := names(w, first); got != "sql" {
				t.Errorf("replica %d shows %q after a change", i, got)
			}
		}
		h.Anonymous().Get(at + "/api/v1/skills/pdf").Want(http.StatusNotFound)
		rotated := acme.Post(fmt.Sprintf("/api/v1/catalog-tokens/%s/rotate", bothID), object{}).Want(http.StatusCreated).Text("token")
		for _, id := range []string{one, two} {
			acme.Do(http.MethodDelete, "/api/v1/sets/"+id, nil).Want(http.StatusNoContent)
		}
		for i, w := range []*registrytest.World{h.World, replica} {
			for _, raw := range []string{first, both, rotated} {
				if got := names(w, raw); got != "" {
					t.Errorf("replica %d shows %q after the deletion", i, got)
				}
			}
		}
		if got := clone(at); got != "" {
			t.Errorf("a clone after the deletion has %q", got)
		}
		// The version before looks tokens up by the SHA-256 of their text.
		if n := h.Count("catalog_tokens WHERE sets <> '' AND hash = $1", registrytest.Sum([]byte(first))); n != 0 {
			t.Error("a binary that knows no sets would open the token")
		}
	})
}
