package catalogtest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// addresses are all that catalogs serve below a base about a skill that only its own
// organisation may see, with every parameter that chooses.
func addresses(index, plugin, bundle string) []string {
	paths := []string{
		newIndex, oldIndex, "/marketplace.json", "/hidden" + newIndex, "/hidden@hidden" + newIndex, "/.well-known/skills/hidden/SKILL.md",
		index, plugin, bundle,
		"/api/search", "/api/search?q=hidden&owner=acme&limit=100", "/api/search?q=zebra", "/.well-known/clawhub.json", "/api/v1/whoami",
		"/api/v1/search?q=hidden&limit=200", "/api/v1/search?q=hidden&mode=exact&ownerHandle=acme", "/api/v1/search?q=zebra&owner=acme",
	}
	for _, sort := range []string{"", "createdAt", "downloads", "stars", "installs", "trending", "updated"} {
		paths = append(paths, "/api/v1/skills?limit=200&sort="+sort, "/api/v1/skills?prefix=hid&ownerHandle=acme&sort="+sort)
	}
	for _, query := range []string{"", "?ownerHandle=acme", "?ownerHandle=%40ACME", "?version=7.7.7&ownerHandle=acme", "?tag=latest", "?path=SKILL.md&ownerHandle=acme"} {
		for _, file := range []string{"", "/versions", "/versions/7.7.7", "/file", "/install", "/moderation", "/verify"} {
			paths = append(paths, "/api/v1/skills/hidden"+file+query)
		}
		more := "&" + strings.TrimPrefix(query, "?")
		paths = append(paths, "/api/v1/download?slug=hidden"+more, "/api/v1/resolve?slug=hidden&hash="+strings.Repeat("a", 64)+more)
	}
	return paths
}

// TestIsolation asks every catalog for what only one organisation may see, as all
// others, with the ETags that this organisation gets.
func TestIsolation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHall(t, db)
		acme, other := h.Org("acme", access.Pro), h.Org("other", access.Pro)
		acme.Made("hidden", "7.7.7", registrytest.Skill(t, "A zebra.", "zebra.txt", "zebra"))
		acme.Made("unlisted", "7.7.7", registrytest.Skill(t, "A zebra, too."), object{"visibility": "unlisted"})
		acme.Made("shown", "1.0.0", registrytest.Skill(t, "Public."), object{"visibility": "public"})
		other.Made("theirs", "1.0.0", registrytest.Skill(t, "Theirs."))
		token := func(c *registrytest.Client) (id, raw string) {
			a := c.Post("/api/v1/catalog-tokens", object{"name": "x"}).Want(http.StatusCreated)
			return a.Text("catalog_token", "id"), a.Text("token")
		}
		_, own := token(acme)
		expiredID, expired := token(acme)
		deletedID, deleted := token(acme)
		_, foreign := token(other)
		noRead := h.WithKey(acme.Org, acme.User, access.TelemetryWrite)

		// What the organisation sees, and its ETags, from warm caches.
		base := "/o/acme/" + own
		index := registrytest.Resolve(t, newIndex, h.Anonymous().Get(base + newIndex).List("skills")[0])
		shop := h.Anonymous().Get(base + "/marketplace.json").Want(http.StatusOK).List("plugins")
		in := func(plugin object) string {
			return strings.TrimPrefix(h.path(plugin["source"].(object)["url"].(string)), base)
		}
		paths := addresses(index, in(shop[0]), in(shop[2]))
		etags := map[string]string{}
		seen := 0
		for _, path := range paths {
			a := h.Anonymous().Get(base + path)
			etags[path] = a.Header.Get("ETag")
			if strings.Contains(string(a.Body), "zebra") || strings.Contains(string(a.Body), "7.7.7") {
				seen++
			}
			if a.Status == http.StatusOK && strings.Contains(a.Header.Get("Cache-Control"), "public") {
				t.Errorf("%s: Cache-Control %q", path, a.Header.Get("Cache-Control"))
			}
			if a.Status == http.StatusOK && a.Header.Get("Cache-Control") == "" && !strings.HasPrefix(path, "/.well-known/clawhub") {
				t.Errorf("%s has no Cache-Control", path)
			}
		}
		if seen < 20 {
			t.Errorf("the organisation itself sees it in %d answers", seen)
		}

		for _, id := range []string{expiredID, deletedID} {
			h.Anonymous().Get("/o/acme/" + map[string]string{expiredID: expired, deletedID: deleted}[id] + newIndex).Want(http.StatusOK)
		}
		h.Exec(`UPDATE catalog_tokens SET expires_at = 1 WHERE id = $1`, expiredID)
		acme.Do(http.MethodDelete, "/api/v1/catalog-tokens/"+deletedID, nil).Want(http.StatusNoContent)
		for _, at := range []*registrytest.World{h.World, h.Replica()} {
			for _, raw := range []string{expired, deleted} {
				at.Anonymous().Get("/o/acme/" + raw + newIndex).Want(http.StatusNotFound)
			}
		}

		strangers := []string{"", "Bearer " + foreign, "Bearer " + other.Key, "Bearer " + expired, "Bearer " + deleted, "Bearer " + noRead.Key, "Basic " + own, "Bearer"}
		bases := []string{"", "/o/acme", "/o/ACME", "/o/other", "/o/other/" + foreign, "/o/other/" + own, "/o/acme/" + foreign, "/o/acme/" + expired, "/o/acme/" + deleted}
		asked := 0
		for _, header := range strangers {
			for _, base := range bases {
				if header != "" && strings.Count(base, "/") > 2 {
					continue // a token in the path alone decides
				}
				for _, path := range paths {
					for _, conditional := range []string{"If-None-Match: " + etags[path], "Range: bytes=0-5"} {
						headers := []string{conditional}
						if header != "" {
							headers = append(headers, "Authorization: "+header)
						}
						a := h.Anonymous().Do(http.MethodGet, base+path, nil, headers...)
						asked++
						if body := string(a.Body); strings.Contains(body, "zebra") || strings.Contains(body, "7.7.7") {
							t.Fatalf("%s %s with %q shows %.300s", base, path, header, body)
						}
						if a.Status == http.StatusNotModified || a.Status == http.StatusPartialContent || a.Status >= 500 {
							t.Errorf("%s%s with %q and %q: status %d", base, path, header, conditional, a.Status)
						}
						if (base == "/o/acme" || base == "") && a.Status == http.StatusOK && a.Header.Get("ETag") != "" && a.Header.Get("Vary") != "Authorization" {
							t.Errorf("%s%s: Vary %q", base, path, a.Header.Values("Vary"))
						}
					}
				}
			}
		}
		t.Logf("asked %d times", asked)
	})
}

// TestTokensOnlyRead tries to change something with a catalog token, in the path and
// in the header.
func TestTokensOnlyRead(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHall(t, db)
		token := h.ada.Post("/api/v1/catalog-tokens", object{"name": "x"}).Want(http.StatusCreated).Text("token")
		h.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "A."))
		before := h.Count("registry_versions") + h.Count("registry_installations") + h.Count("clawhub_uploads") + h.Count("audit_entries")
		bodies := map[string]any{
			"/api/v1/skills":                  object{"slug": "evil", "version": "1.0.0", "files": []object{}},
			"/api/v1/skills/-/upload-url":     object{"path": "SKILL.md", "size": 1, "sha256": strings.Repeat("a", 64)},
			"/api/v1/skills/-/upload/x":       object{},
			"/api/cli/telemetry/install":      object{"event": "install", "slug": "pdf"},
			"/api/v1/skills/pdf":              object{},
			"/api/v1/skills/pdf/undelete":     object{},
			"/api/v1/stars/pdf":               object{},
			"/marketplace.json":               object{},
			"/.well-known/plugins/pdf/x":      object{},
			newIndex:                          object{},
			"/.well-known/skills/pdf/x.md":    object{},
			"/api/search":                     object{},
			"/api/v1/download?slug=pdf":       object{},
			"/api/v1/resolve?slug=pdf":        object{},
			"/mcp":                            object{},
			"/api/v1/catalog-tokens":          object{"name": "y"},
			"/api/v1/registry/sync":           object{},
			"/" + url.PathEscape("pdf") + "/": object{},
		}
		for _, base := range []string{"", "/o/hostile", "/o/hostile/" + token} {
			for path, body := range bodies {
				for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
					for _, headers := range [][]string{nil, {"Authorization: Bearer " + token}} {
						if a := h.Anonymous().Do(method, base+path, body, headers...); a.Status < 400 || a.Status >= 500 {
							t.Errorf("%s %s %q: status %d", method, base+path, headers, a.Status)
						}
					}
				}
			}
		}
		after := h.Count("registry_versions") + h.Count("registry_installations") + h.Count("clawhub_uploads") + h.Count("audit_entries")
		if before != after {
			t.Errorf("%d rows before, %d after", before, after)
		}
	})
}
