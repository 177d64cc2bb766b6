package catalog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// wantIndex reads an index until it is as wanted: one that took long to build,
// on a busy machine, is served for a while after a change.
func wantIndex(w *registrytest.World, when, path string, wanted func(body string) bool) {
	w.T.Helper()
	apptest.Eventually(w.T, path+" "+when, func() bool {
		return wanted(string(w.Anonymous().Get(path).Want(http.StatusOK).Body))
	})
}

// TestIndexIsKept reads indexes again: they are made anew only after a change.
func TestIndexIsKept(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		for i := range 20 {
			ada.Made(fmt.Sprintf("skill-%d", i), "1", registrytest.Skill(t, "First.", "docs/a.md", "x"), object{"visibility": "public"})
		}
		for _, path := range []string{newIndex, oldIndex, base("acme") + newIndex, base("acme", ada.Key) + oldIndex} {
			first := w.Anonymous().Get(path).Want(http.StatusOK)
			if !strings.Contains(string(first.Body), "First.") {
				t.Errorf("%s: %.200s", path, first.Body)
			}
			w.Exec(`UPDATE registry_versions SET description = 'Changed behind its back.'`)
			if again := w.Anonymous().Get(path); !bytes.Equal(again.Body, first.Body) {
				t.Errorf("%s was made again", path)
			}
			bob.Made(strings.ReplaceAll(registrytest.Sum([]byte(path)), "0", "x"), "1", registrytest.Skill(t, "Of another."),
				object{"visibility": "public"})
			whole := !strings.HasPrefix(path, "/o/")
			wantIndex(w, "after another organisation's push", path, func(body string) bool {
				return strings.Contains(body, "behind its back") == whole && strings.Contains(body, "Of another.") == whole
			})
			w.Exec(`UPDATE registry_versions SET description = 'First.'`)
			ada.Made(registrytest.Sum([]byte(path))[:20], "1", registrytest.Skill(t, "One more."), object{"visibility": "public"})
			// On another replica, too.
			for _, at := range []*registrytest.World{w, w.Replica()} {
				wantIndex(at, "after a push", path, func(body string) bool { return strings.Contains(body, "One more.") })
			}
		}
	})
}

func TestIndexIsCompressed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		archive := registrytest.Skill(t, strings.Repeat("Words. ", 140), "docs/a.md", "x")
		w.Org("acme", access.Pro).Made("pdf", "1", archive, object{"visibility": "public"})
		for _, path := range []string{newIndex, oldIndex} {
			plain := w.Anonymous().Do(http.MethodGet, path, nil, "Accept-Encoding: gzip;q=0, identity").Want(http.StatusOK)
			packed := w.Anonymous().Do(http.MethodGet, path, nil, "Accept-Encoding: br, gzip;q=0.5").Want(http.StatusOK)
			if plain.Header.Get("Content-Encoding") != "" || packed.Header.Get("Content-Encoding") != "gzip" ||
				!slices.Equal(packed.Header.Values("Vary"), []string{"Authorization", "Accept-Encoding"}) {
				t.Fatalf("%s: encodings %q and %q", path, plain.Header.Get("Content-Encoding"), packed.Header.Get("Content-Encoding"))
			}
			r, err := gzip.NewReader(bytes.NewReader(packed.Body))
			if err != nil {
				t.Fatal(err)
			}
			unpacked, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(unpacked, plain.Body) || len(packed.Body) >= len(plain.Body) {
				t.Errorf("%s: %d bytes packed, %d unpacked, %d plain, %v", path, len(packed.Body), len(unpacked), len(plain.Body), err)
			}
			if plain.Header.Get("ETag") == packed.Header.Get("ETag") {
				t.Errorf("%s: both forms have the ETag %s", path, plain.Header.Get("ETag"))
			}
		}
	})
}

// fill writes public skills of an organisation straight into the database.
func fill(c *registrytest.Client, prefix string, n int) {
	c.T.Helper()
	const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) `
	c.World.Exec(fmt.Sprintf(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, current_version_id, current_version,
		current_hash, installation_count, created_by, created_at, updated_at) `+numbers+`
		SELECT '0%s' || i, $1, '%s' || i, 'skill', 'Filled.', 'public', '%s' || i, '1', 'x', 0, $2, 0, 0 FROM n`, n, prefix, prefix, prefix), c.Org.ID, c.User.ID)
	c.World.Exec(fmt.Sprintf(`INSERT INTO registry_versions (id, entry_id, version, content_hash, canonical_hash, tree_digest, size, description,
		file_manifest, source, rolled_back, pushed_by, pushed_at, file_paths) `+numbers+`
		SELECT '%s' || i, '0%s' || i, '1', 'x', 'x', 'x', 1, '', '[]', 'cli', FALSE, $1, 0, $2 FROM n`, n, prefix, prefix),
		c.User.ID, `["`+strings.Repeat("p", 2_000)+`"]`)
	c.World.Exec(fmt.Sprintf(`INSERT INTO registry_names (name, org_id) `+numbers+`
		SELECT '%s' || i, $1 FROM n`, n, prefix), c.Org.ID)
}

// TestShelfIsShared has one organisation that published more than fits, before
// all others.
func TestShelfIsShared(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob, eve := w.Org("first", access.Pro), w.Org("second", access.Pro), w.Org("third", access.Pro)
		fill(ada, "a", 6_000)
		fill(bob, "b", 30)
		eve.Made("zebra", "1", registrytest.Skill(t, "The last."), object{"visibility": "public"})
		for _, c := range []struct {
			path  string
			total int // at most
		}{{newIndex, 5_000}, {oldIndex, 4_200}} { // 8 MiB of 2,000 bytes each
			count := map[byte]int{}
			list := w.Anonymous().Get(c.path).Want(http.StatusOK).List("skills")
			for _, s := range list {
				count[apptest.Text(s, "name")[0]]++
			}
			if len(list) > c.total || len(list) < c.total*9/10 || count['b'] != 30 || count['z'] != 1 || count['a'] != len(list)-31 {
				t.Errorf("%s lists %d skills: %v", c.path, len(list), count)
			}
		}
	})
}

// TestNamesAreHeld deletes the skill that has a name at the host's own index,
// where another organisation has one of that name, too.
func TestNamesAreHeld(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob := w.Org("first", access.Pro), w.Org("second", access.Pro)
		public := object{"visibility": "public"}
		mine := ada.Made("pdf", "1", registrytest.Skill(t, "Of the first."), public)
		other := bob.Made("pdf", "1", registrytest.Skill(t, "Of the second."), public)
		step := 1
		push := func(c *registrytest.Client, id, description string) {
			t.Helper()
			step++
			c.Pushed(id, fmt.Sprint(step), registrytest.Skill(t, description))
		}
		want := func(when string, names ...string) {
			t.Helper()
			wantIndex(w, "when "+when, newIndex, func(body string) bool {
				var index struct {
					Skills []struct{ Description string }
				}
				if err := json.Unmarshal([]byte(body), &index); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, s := range index.Skills {
					got = append(got, s.Description)
				}
				return slices.Equal(names, got)
			})
			status := http.StatusOK
			if len(names) == 0 {
				status = http.StatusNotFound
			}
			w.Anonymous().Get("/.well-known/skills/pdf/SKILL.md").Want(status)
		}
		want("both are there", "Of the first.")
		ada.Do(http.MethodDelete, registrytest.EntryPath(mine), nil).Want(http.StatusNoContent)
		want("the first is deleted")
		push(bob, other, "Of the second, again.")
		want("the second pushes")
		if got := w.Anonymous().Get(base("second") + newIndex).List("skills"); len(got) != 1 {
			t.Errorf("the second's own index lists %v", got)
		}
		mine = ada.Made("pdf", "1", registrytest.Skill(t, "Of the first, again."), public)
		want("the first is back", "Of the first, again.")
		ada.Do(http.MethodDelete, registrytest.EntryPath(mine), nil).Want(http.StatusNoContent)
		w.Exec(`UPDATE registry_names SET released_at = released_at - $1`, int64(91*24*3600*1_000_000))
		want("long after")
		push(bob, other, "Of the second, at last.")
		want("the second pushes long after", "Of the second, at last.")
		ada.Made("pdf", "1", registrytest.Skill(t, "Of the first, too late."), public)
		want("the first comes back too late", "Of the second, at last.")
	})
}
