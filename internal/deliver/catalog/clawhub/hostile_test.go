package clawhub_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestHostileNames has entries whose names would leave a folder, look like another
// one or break a format: none is served. Hostile versions of a good name are
// served as JSON strings only.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		archive := registrytest.Skill(t, "A.")
		for _, name := range []string{
			"..", ".", "...", ".git", "..%2f", "C:", "~", "-", "--force", "-rf", "a b", "a.b", "a_b", "A", "a\"b", "a'b", "a`b",
			"$(id)", "a;b", "a|b", "a&b", "a<b>", "{{a}}", "a:b", "a@b", "@a", "a%b", "a#b", "a?b", "a*b", "a+b", "a=b",
			"p\u0434f", "pdf\u0301", "\uff50\uff44\uff46", "\u13b7\u03c1df", "größe", "日本", "a\u2010b", "xn--pdf-",
		} {
			a := ada.Create(name, "1.0.0", archive, public)
			if a.Status == http.StatusBadRequest {
				continue
			}
			a.Want(http.StatusCreated)
			wantText(ada.Get("/api/v1/download?slug="+url.QueryEscape(name)), http.StatusNotFound, "Skill not found")
		}
		for _, list := range []string{"/api/v1/skills", "/api/v1/search?q=a", base("acme", ada.Key) + "/api/v1/skills"} {
			a := ada.Get(list).Want(http.StatusOK)
			if strings.Contains(string(a.Body), "slug") {
				t.Errorf("%s lists %.300s", list, a.Body)
			}
		}
		id := ada.Made("good", "1.0.0", archive, public)
		for i, version := range []string{"..", `"><script>`, "$(id)", "1.0.0\u202e", "-1", "a b", "%2e%2e", "latest", "1.0.0;x", "\\"} {
			if a := ada.Push(id, version, registrytest.Skill(t, fmt.Sprint(i))); a.Status == http.StatusBadRequest {
				continue
			}
			ada.Get("/api/v1/skills/good").Want(http.StatusOK)
			a := ada.Get("/api/v1/download?slug=good&version=" + url.QueryEscape(version)).Want(http.StatusOK)
			a.WantHeader("Content-Disposition", `attachment; filename="good.zip"`)
			unzipped(t, a.Body)
		}
	})
}

// TestLargeShelf searches the largest shelf: all of it is read in memory, and the
// number of versions does not matter.
func TestLargeShelf(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000) `
		w.Exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, current_version_id, current_version,
			current_hash, installation_count, created_by, created_at, updated_at) `+numbers+`
			SELECT '0a' || i, $1, 'a' || i, 'skill', $3, 'public', 'a' || i, '1.0.0', 'x', 0, $2, i, i FROM n`,
			ada.Org.ID, ada.User.ID, strings.Repeat("Words. ", 140))
		w.Exec(`INSERT INTO registry_versions (id, entry_id, version, content_hash, canonical_hash, tree_digest, size, description,
			file_manifest, source, rolled_back, pushed_by, pushed_at, file_paths) `+numbers+`
			SELECT 'a' || i, '0a' || i, '1.0.0', 'x', 'x', 'x', 1, '', '[]', 'cli', FALSE, $1, i, '[]' FROM n`, ada.User.ID)
		path := base("acme") + "/api/v1"
		results := w.Anonymous().Get(path + "/search?limit=1000&q=" + strings.Repeat("w+o+r+d+s+", 10)).Want(http.StatusOK).List("results")
		if len(results) != 200 {
			t.Errorf("%d results", len(results))
		}
		seen, cursor := map[string]bool{}, ""
		for range 30 {
			a := w.Anonymous().Get(path + "/skills?limit=200&cursor=" + cursor).Want(http.StatusOK)
			for _, item := range a.List("items") {
				seen[item["slug"].(string)] = true
			}
			next, more := a.Object()["nextCursor"].(string)
			if !more {
				break
			}
			cursor = next
		}
		if len(seen) != 5_000 {
			t.Errorf("%d skills in the pages", len(seen))
		}
		w.Anonymous().Get(path + "/resolve?slug=a5999&hash=00").Want(http.StatusOK) // behind what is listed
	})
}
