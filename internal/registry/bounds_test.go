package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// countingBucket counts how often blobs are read.
type countingBucket struct {
	blob.Bucket
	reads *atomic.Int64
}

// Get implements blob.Bucket.
func (b countingBucket) Get(ctx context.Context, key string) (io.ReadCloser, blob.Info, error) {
	b.reads.Add(1)
	return b.Bucket.Get(ctx, key)
}

// newCountingWorld is newWorld with a count of the blobs that are read.
func newCountingWorld(t *testing.T, db *store.DB) (*world, *atomic.Int64) {
	t.Helper()
	w, reads := &world{t: t, db: db}, new(atomic.Int64)
	w.serve(func(w *world) blob.Bucket {
		return countingBucket{openBlobs(w.t, blob.Options{
			Dir: t.TempDir(), Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return w.server.URL },
		}), reads}
	})
	return w, reads
}

// with sends a request with one more header.
func (c *client) with(path, header, value string) answer {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.w.server.URL+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set(header, value)
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.w.server.Client().Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{t: c.t, what: "GET " + path, status: resp.StatusCode, header: resp.Header, body: body}
}

// TestFilesAreCheap asks for small files of a large skill, from many clients at
// once, some of them without a key.
func TestFilesAreCheap(t *testing.T) {
	archive := skill(t, "Large.", "a.bin", noise(4<<20), "b.bin", noise(4<<20), "zeros", strings.Repeat("0", 9<<20), "zz.md", "the last\n")
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, reads := newCountingWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.made("large", "1", archive, object{"visibility": "public"})
		reads.Store(0)
		for _, c := range []struct {
			client     *client
			path, want string
			reads      int64 // at most
		}{
			{w.anonymous(), "/.well-known/skills/large/SKILL.md", skillText("Large."), 0},
			{w.anonymous(), "/.well-known/skills/large/zz.md", "the last\n", 2},
			{ada, versionPath(id, "1") + "/files/SKILL.md", skillText("Large."), 0},
			{ada, versionPath(id, "1") + "/files/zz.md", "the last\n", 0},
		} {
			reads.Store(0)
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					if a := c.client.get(c.path); a.status != http.StatusOK || string(a.body) != c.want {
						t.Errorf("%s: %d %.100q", c.path, a.status, a.body)
					}
				})
			}
			wg.Wait()
			runtime.ReadMemStats(&after)
			if reads.Load() > c.reads {
				t.Errorf("%s: the archive was read %d times, want at most %d", c.path, reads.Load(), c.reads)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 {
				t.Errorf("%s: 32 requests allocated %d MiB", c.path, used>>20)
			}
		}
	})
}

// TestFilesOfOldVersions reads versions that were published when nothing of them
// was kept in the database.
func TestFilesOfOldVersions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, reads := newCountingWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.made("old", "1", skill(t, "Old.", "a.md", "a"), object{"visibility": "public"})
		w.exec(`UPDATE registry_versions SET skill_md = NULL`)
		reads.Store(0)
		for range 3 {
			for path, want := range map[string]string{"SKILL.md": skillText("Old."), "a.md": "a"} {
				for _, at := range []answer{w.anonymous().get("/.well-known/skills/old/" + path), ada.get(versionPath(id, "1") + "/files/" + path)} {
					if string(at.want(http.StatusOK).body) != want {
						t.Errorf("%s: %q, want %q", at.what, at.body, want)
					}
				}
			}
		}
		if reads.Load() != 1 {
			t.Errorf("the archive was read %d times, want once", reads.Load())
		}
	})
}

// TestFilesByTag asks for files that the client has: nothing is read for it.
func TestFilesByTag(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, reads := newCountingWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", skill(t, "A.", "a.md", "text", "b.png", "\x00"), object{"visibility": "public"})
		reads.Store(0)
		for path, content := range map[string]string{"a.md": "text", "b.png": "\x00"} {
			tag := `"` + sum([]byte(content)) + `"`
			for _, c := range []struct {
				client *client
				path   string
			}{{w.anonymous(), "/.well-known/skills/pdf/" + path}, {ada, versionPath(id, "1") + "/files/" + path}} {
				for _, value := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
					a := c.client.with(c.path, "If-None-Match", value).want(http.StatusNotModified)
					if len(a.body) > 0 || a.header.Get("ETag") != tag {
						t.Errorf("%s: ETag %q, body %q", c.path, a.header.Get("ETag"), a.body)
					}
				}
			}
		}
		if reads.Load() != 0 {
			t.Errorf("the archive was read %d times", reads.Load())
		}
		for _, path := range []string{"/.well-known/skills/pdf/a.md", versionPath(id, "1") + "/files/a.md"} {
			if a := ada.with(path, "If-None-Match", `"x"`).want(http.StatusOK); string(a.body) != "text" || a.header.Get("ETag") != `"`+sum([]byte("text"))+`"` {
				t.Errorf("%s: ETag %q, body %q", path, a.header.Get("ETag"), a.body)
			}
		}
	})
}

// TestIndexIsKept reads indexes again: they are made anew only after a change.
func TestIndexIsKept(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.org("acme", access.Pro), w.org("other", access.Pro)
		for i := range 20 {
			ada.made(fmt.Sprintf("skill-%d", i), "1", skill(t, "First.", "docs/a.md", "x"), object{"visibility": "public"})
		}
		for _, path := range []string{newIndex, oldIndex, base("acme") + newIndex, base("acme", ada.key) + oldIndex} {
			first := w.anonymous().get(path).want(http.StatusOK)
			if !strings.Contains(string(first.body), "First.") {
				t.Errorf("%s: %.200s", path, first.body)
			}
			w.exec(`UPDATE registry_versions SET description = 'Changed behind its back.'`)
			if again := w.anonymous().get(path); !bytes.Equal(again.body, first.body) {
				t.Errorf("%s was made again", path)
			}
			bob.made(strings.ReplaceAll(sum([]byte(path)), "0", "x"), "1", skill(t, "Of another."), object{"visibility": "public"})
			again := string(w.anonymous().get(path).body)
			if whole := !strings.HasPrefix(path, "/o/"); strings.Contains(again, "behind its back") != whole || strings.Contains(again, "Of another.") != whole {
				t.Errorf("%s after another organisation's push: %.200s", path, again)
			}
			w.exec(`UPDATE registry_versions SET description = 'First.'`)
			ada.made(sum([]byte(path))[:20], "1", skill(t, "One more."), object{"visibility": "public"})
			// On another replica, too.
			for _, at := range []*world{w, w.replica()} {
				if got := string(at.anonymous().get(path).want(http.StatusOK).body); !strings.Contains(got, "One more.") {
					t.Errorf("%s after a push: %.200s", path, got)
				}
			}
		}
	})
}

func TestIndexIsCompressed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.org("acme", access.Pro).made("pdf", "1", skill(t, strings.Repeat("Words. ", 140), "docs/a.md", "x"), object{"visibility": "public"})
		for _, path := range []string{newIndex, oldIndex} {
			plain := w.anonymous().with(path, "Accept-Encoding", "gzip;q=0, identity").want(http.StatusOK)
			packed := w.anonymous().with(path, "Accept-Encoding", "br, gzip;q=0.5").want(http.StatusOK)
			if plain.header.Get("Content-Encoding") != "" || packed.header.Get("Content-Encoding") != "gzip" || packed.header.Get("Vary") != "Accept-Encoding" {
				t.Fatalf("%s: encodings %q and %q", path, plain.header.Get("Content-Encoding"), packed.header.Get("Content-Encoding"))
			}
			r, err := gzip.NewReader(bytes.NewReader(packed.body))
			if err != nil {
				t.Fatal(err)
			}
			unpacked, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(unpacked, plain.body) || len(packed.body) >= len(plain.body) {
				t.Errorf("%s: %d bytes packed, %d unpacked, %d plain, %v", path, len(packed.body), len(unpacked), len(plain.body), err)
			}
			if plain.header.Get("ETag") == packed.header.Get("ETag") {
				t.Errorf("%s: both forms have the ETag %s", path, plain.header.Get("ETag"))
			}
		}
	})
}

// fill writes public skills of an organisation straight into the database.
func (c *client) fill(prefix string, n int) {
	c.t.Helper()
	const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) `
	c.w.exec(fmt.Sprintf(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, current_version_id, current_version,
		current_hash, installation_count, created_by, created_at, updated_at) `+numbers+`
		SELECT '0%s' || i, $1, '%s' || i, 'skill', 'Filled.', 'public', '%s' || i, '1', 'x', 0, $2, 0, 0 FROM n`, n, prefix, prefix, prefix), c.org.ID, c.user.ID)
	c.w.exec(fmt.Sprintf(`INSERT INTO registry_versions (id, entry_id, version, content_hash, canonical_hash, tree_digest, size, description,
		file_manifest, source, rolled_back, pushed_by, pushed_at, file_paths) `+numbers+`
		SELECT '%s' || i, '0%s' || i, '1', 'x', 'x', 'x', 1, '', '[]', 'cli', FALSE, $1, 0, $2 FROM n`, n, prefix, prefix),
		c.user.ID, `["`+strings.Repeat("p", 2_000)+`"]`)
	c.w.exec(fmt.Sprintf(`INSERT INTO registry_names (name, org_id) `+numbers+` SELECT '%s' || i, $1 FROM n`, n, prefix), c.org.ID)
}

// TestShelfIsShared has one organisation that published more than fits, before
// all others.
func TestShelfIsShared(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob, eve := w.org("first", access.Pro), w.org("second", access.Pro), w.org("third", access.Pro)
		ada.fill("a", 6_000)
		bob.fill("b", 30)
		eve.made("zebra", "1", skill(t, "The last."), object{"visibility": "public"})
		for _, c := range []struct {
			path  string
			total int // at most
		}{{newIndex, 5_000}, {oldIndex, 4_200}} { // 8 MiB of 2,000 bytes each
			count := map[byte]int{}
			list := w.anonymous().get(c.path).want(http.StatusOK).list("skills")
			for _, s := range list {
				count[text(s, "name")[0]]++
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
		w := newWorld(t, db)
		ada, bob := w.org("first", access.Pro), w.org("second", access.Pro)
		public := object{"visibility": "public"}
		mine := ada.made("pdf", "1", skill(t, "Of the first."), public)
		other := bob.made("pdf", "1", skill(t, "Of the second."), public)
		step := 1
		push := func(c *client, id, description string) {
			t.Helper()
			step++
			c.push(id, fmt.Sprint(step), skill(t, description)).want(http.StatusCreated)
		}
		want := func(when string, names ...string) {
			t.Helper()
			got := []string{}
			for _, s := range w.anonymous().get(newIndex).want(http.StatusOK).list("skills") {
				got = append(got, text(s, "description"))
			}
			if diff := cmp.Diff(append([]string{}, names...), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
			status := http.StatusOK
			if len(names) == 0 {
				status = http.StatusNotFound
			}
			w.anonymous().get("/.well-known/skills/pdf/SKILL.md").want(status)
		}
		want("both are there", "Of the first.")
		ada.do(http.MethodDelete, entryPath(mine), nil).want(http.StatusNoContent)
		want("the first is deleted")
		push(bob, other, "Of the second, again.")
		want("the second pushes")
		if got := w.anonymous().get(base("second") + newIndex).list("skills"); len(got) != 1 {
			t.Errorf("the second's own index lists %v", got)
		}
		mine = ada.made("pdf", "1", skill(t, "Of the first, again."), public)
		want("the first is back", "Of the first, again.")
		ada.do(http.MethodDelete, entryPath(mine), nil).want(http.StatusNoContent)
		w.exec(`UPDATE registry_names SET released_at = released_at - $1`, int64(91*24*3600*1_000_000))
		want("long after")
		push(bob, other, "Of the second, at last.")
		want("the second pushes long after", "Of the second, at last.")
		ada.made("pdf", "1", skill(t, "Of the first, too late."), public)
		want("the first comes back too late", "Of the second, at last.")
	})
}

// TestOthersSeeLess asks for an entry's history as another organisation.
func TestOthersSeeLess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.org("acme", access.Team), w.org("other", access.Team)
		for _, visibility := range []string{"public", "unlisted"} {
			id := ada.made(visibility, "1", skill(t, "1."), object{"visibility": visibility})
			ada.push(id, "2", skill(t, "2.")).want(http.StatusCreated)
			ada.post(entryPath(id)+"/rollback", object{"reason": "the customer's name leaked"}).want(http.StatusOK)
			ada.install(id, nil)
			eve.install(id, nil)
			w.exec(`INSERT INTO skill_days (subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions, checks, triggers,
				confidence_sum, confidence_count, graded_sessions, pass_rate_sum)
				SELECT v.id, 1, 3, 3, 3, 3, 3, 3, 0, 0, 3, 3000000000 FROM registry_versions v WHERE v.entry_id = $1`, id)
			own, foreign := ada.get(entryPath(id)).want(http.StatusOK), eve.get(entryPath(id)).want(http.StatusOK)
			if own.object()["installation_count"] != 2.0 || foreign.object()["installation_count"] != 0.0 {
				t.Errorf("installation_count is %v, and %v for others", own.object()["installation_count"], foreign.object()["installation_count"])
			}
			for a, name := range map[*answer]string{&own: "own", &foreign: "other"} {
				wantKeys(t, a.object(), "entry", "versions", "installation_count", "rollbacks")
				if text(a.object(), "entry", "organisation") != "acme" || (at(a.object(), "entry", "skill_id") == nil) != (name == "other") {
					t.Errorf("%s: entry %v", name, a.object()["entry"])
				}
				for _, r := range a.list("rollbacks") {
					wantKeys(t, r, "from_version", "to_version", "reason", "rolled_back_by", "rolled_back_at")
					if secret := r["reason"] == nil && r["rolled_back_by"] == nil; secret != (name == "other") || text(r, "from_version") != "2" {
						t.Errorf("%s: rollback %v", name, r)
					}
				}
			}
			for a, name := range map[*answer]string{&own: "own", &foreign: "other"} {
				for _, v := range a.list("versions") {
					if secret := v["pushed_by"] == nil && v["aggregate_sessions"] == 0.0 && v["aggregate_pass_rate"] == nil; secret != (name == "other") {
						t.Errorf("%s: version %v", name, v)
					}
				}
			}
			for _, v := range eve.get(entryPath(id) + "/versions").want(http.StatusOK).list("versions") {
				if v["pushed_by"] != nil || v["aggregate_sessions"] != 0.0 {
					t.Errorf("other: version %v", v)
				}
			}
		}
		for c, want := range map[*client]float64{ada: 2, eve: 0} {
			listed := c.get(registryPath + "/public").want(http.StatusOK).list("entries")[0]
			if listed["installation_count"] != want || (listed["pass_rate"] != nil) != (c == ada) || (listed["eval_count"] != 0.0) != (c == ada) || text(listed, "organisation") != "acme" {
				t.Errorf("the public list shows %s: %v", c.org.Name, listed)
			}
		}
	})
}

// TestInstallationsOfOneUser has a client that never reports the same device twice.
func TestInstallationsOfOneUser(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", skill(t, "1."))
		ada.install(id, object{"device_id": "oldest"})
		w.exec(`UPDATE registry_installations SET last_seen_at = 0`)
		w.exec(`INSERT INTO registry_installations (id, entry_id, org_id, user_id, device_id, install_path, content_hash, installed_at, last_seen_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
			SELECT 'i' || i, $1, $2, $3, 'd' || i, '', '', 0, i FROM n`, id, ada.org.ID, ada.user.ID)
		ada.install(id, object{"device_id": "newest"})
		if n := ada.installs(id); n != 1_000 {
			t.Errorf("%d installations, want 1,000", n)
		}
		if w.count(`registry_installations WHERE device_id = 'oldest'`) != 0 || w.count(`registry_installations WHERE device_id = 'newest'`) != 1 {
			t.Error("another one is gone than the oldest")
		}
	})
}

// TestManyVersions reads an entry with more versions than are read at once, and
// with manifests that are larger than what is.
func TestManyVersions(t *testing.T) {
	t.Parallel()
	const many = 450
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "first", skill(t, "1."))
		manifest := `[{"path":"` + strings.Repeat("p", 30_000) + `","hash":"x","size":1}]`
		w.exec(fmt.Sprintf(`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description,
			file_manifest, source, rolled_back, pushed_by, pushed_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT 'v' || i, $1, 'v' || i, 'x', 'x', 1, '', $2, 'cli', FALSE, $3, i / 7 FROM n`, many), id, manifest, ada.user.ID)
		for _, path := range []string{entryPath(id), entryPath(id) + "/versions"} {
			a := ada.get(path).want(http.StatusOK)
			if got := a.header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
			seen := map[string]bool{}
			for i, v := range a.list("versions") {
				if (i == 0) != (text(v, "version") == "first") || (i == 0) != (v["is_current"] == true) {
					t.Errorf("%d: version %v, current %v", i, v["version"], v["is_current"])
				}
				if files := v["file_manifest"].([]any); i > 0 && len(text(files[0].(object), "path")) != 30_000 {
					t.Errorf("version %v has another manifest", v["version"])
				}
				seen[text(v, "version")] = true
			}
			if len(seen) != many+1 {
				t.Errorf("%s: %d versions, want %d", path, len(seen), many+1)
			}
		}
	})
}
