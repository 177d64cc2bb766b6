package registry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
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

// newCountingWorld counts the objects that are read.
func newCountingWorld(t *testing.T, db *store.DB) (*registrytest.World, *atomic.Int64) {
	t.Helper()
	reads := new(atomic.Int64)
	return registrytest.NewWithBucket(t, db, func(b blob.Bucket) blob.Bucket { return countingBucket{b, reads} }), reads
}

// TestFilesAreCheap asks for small files of a large skill, from many clients at
// once, some of them without a key.
//
// It measures what the whole process allocates, so the databases take turns.
func TestFilesAreCheap(t *testing.T) {
	archive := registrytest.Skill(t, "Large.", "a.bin", registrytest.Noise(4<<20), "b.bin", registrytest.Noise(4<<20),
		"zeros", strings.Repeat("0", 9<<20), "zz.md", "the last\n")
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) { filesAreCheap(t, storetest.Open(t, database), archive) })
	}
}

func filesAreCheap(t *testing.T, db *store.DB, archive []byte) {
	w, reads := newCountingWorld(t, db)
	ada := w.Org("acme", access.Pro)
	id := ada.Made("large", "1", archive, object{"visibility": "public"})
	reads.Store(0)
	for _, c := range []struct {
		client     *registrytest.Client
		path, want string
		reads      int64 // at most
	}{
		{w.Anonymous(), "/.well-known/skills/large/SKILL.md", registrytest.SkillText("Large."), 0},
		{w.Anonymous(), "/.well-known/skills/large/zz.md", "the last\n", 2},
		{ada, registrytest.VersionPath(id, "1") + "/files/SKILL.md", registrytest.SkillText("Large."), 0},
		{ada, registrytest.VersionPath(id, "1") + "/files/zz.md", "the last\n", 0},
	} {
		reads.Store(0)
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				if a := c.client.Get(c.path); a.Status != http.StatusOK || string(a.Body) != c.want {
					t.Errorf("%s: %d %.100q", c.path, a.Status, a.Body)
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
}

// TestFilesOfOldVersions reads versions that were published when nothing of them
// was kept in the database.
func TestFilesOfOldVersions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, reads := newCountingWorld(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("old", "1", registrytest.Skill(t, "Old.", "a.md", "a"), object{"visibility": "public"})
		w.Exec(`UPDATE registry_versions SET skill_md = NULL`)
		reads.Store(0)
		for range 3 {
			for path, want := range map[string]string{"SKILL.md": registrytest.SkillText("Old."), "a.md": "a"} {
				for _, at := range []apptest.Response{
					w.Anonymous().Get("/.well-known/skills/old/" + path), ada.Get(registrytest.VersionPath(id, "1") + "/files/" + path),
				} {
					if string(at.Want(http.StatusOK).Body) != want {
						t.Errorf("%s: %q, want %q", at.What, at.Body, want)
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
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "A.", "a.md", "text", "b.png", "\x00"), object{"visibility": "public"})
		reads.Store(0)
		for path, content := range map[string]string{"a.md": "text", "b.png": "\x00"} {
			tag := `"` + registrytest.Sum([]byte(content)) + `"`
			for _, c := range []struct {
				client *registrytest.Client
				path   string
			}{{w.Anonymous(), "/.well-known/skills/pdf/" + path}, {ada, registrytest.VersionPath(id, "1") + "/files/" + path}} {
				for _, value := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
					a := c.client.Do(http.MethodGet, c.path, nil, "If-None-Match: "+value).Want(http.StatusNotModified)
					if len(a.Body) > 0 || a.Header.Get("ETag") != tag {
						t.Errorf("%s: ETag %q, body %q", c.path, a.Header.Get("ETag"), a.Body)
					}
				}
			}
		}
		if reads.Load() != 0 {
			t.Errorf("the archive was read %d times", reads.Load())
		}
		for _, path := range []string{"/.well-known/skills/pdf/a.md", registrytest.VersionPath(id, "1") + "/files/a.md"} {
			a := ada.Do(http.MethodGet, path, nil, `If-None-Match: "x"`).Want(http.StatusOK)
			if string(a.Body) != "text" || a.Header.Get("ETag") != `"`+registrytest.Sum([]byte("text"))+`"` {
				t.Errorf("%s: ETag %q, body %q", path, a.Header.Get("ETag"), a.Body)
			}
		}
	})
}

// TestOthersSeeLess asks for an entry's history as another organisation.
func TestOthersSeeLess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, eve := w.Org("acme", access.Team), w.Org("other", access.Team)
		for _, visibility := range []string{"public", "unlisted"} {
			id := ada.Made(visibility, "1", registrytest.Skill(t, "1."), object{"visibility": visibility})
			ada.Pushed(id, "2", registrytest.Skill(t, "2."))
			ada.Post(registrytest.EntryPath(id)+"/rollback", object{"reason": "the customer's name leaked"}).Want(http.StatusOK)
			ada.Install(id, nil)
			eve.Install(id, nil)
			w.Exec(`INSERT INTO skill_days (subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions, checks, triggers,
				confidence_sum, confidence_count, graded_sessions, pass_rate_sum)
				SELECT v.id, 1, 3, 3, 3, 3, 3, 3, 0, 0, 3, 3000000000 FROM registry_versions v WHERE v.entry_id = $1`, id)
			own := ada.Get(registrytest.EntryPath(id)).Want(http.StatusOK)
			foreign := eve.Get(registrytest.EntryPath(id)).Want(http.StatusOK)
			if own.Object()["installation_count"] != 2.0 || foreign.Object()["installation_count"] != 0.0 {
				t.Errorf("installation_count is %v, and %v for others", own.Object()["installation_count"],
					foreign.Object()["installation_count"])
			}
			for a, name := range map[*apptest.Response]string{&own: "own", &foreign: "other"} {
				apptest.WantKeys(t, a.Object(), "entry", "versions", "installation_count", "owners", "rollbacks")
				if apptest.Text(a.Object(), "entry", "organisation") != "acme" ||
					(apptest.At(a.Object(), "entry", "skill_id") == nil) != (name == "other") {
					t.Errorf("%s: entry %v", name, a.Object()["entry"])
				}
				for _, r := range a.List("rollbacks") {
					apptest.WantKeys(t, r, "from_version", "to_version", "reason", "rolled_back_by", "rolled_back_at", "published_version", "undone_at")
					secret := r["reason"] == nil && r["rolled_back_by"] == nil
					if secret != (name == "other") || apptest.Text(r, "from_version") != "2" {
						t.Errorf("%s: rollback %v", name, r)
					}
				}
			}
			for a, name := range map[*apptest.Response]string{&own: "own", &foreign: "other"} {
				for _, v := range a.List("versions") {
					secret := v["pushed_by"] == nil && v["aggregate_sessions"] == 0.0 && v["aggregate_pass_rate"] == nil
					if secret != (name == "other") {
						t.Errorf("%s: version %v", name, v)
					}
				}
			}
			for _, v := range eve.Get(registrytest.EntryPath(id) + "/versions").Want(http.StatusOK).List("versions") {
				if v["pushed_by"] != nil || v["aggregate_sessions"] != 0.0 {
					t.Errorf("other: version %v", v)
				}
			}
		}
		for c, want := range map[*registrytest.Client]float64{ada: 2, eve: 0} {
			listed := c.Get(registrytest.Path + "/public").Want(http.StatusOK).List("entries")[0]
			if listed["installation_count"] != want || (listed["pass_rate"] != nil) != (c == ada) ||
				(listed["eval_count"] != 0.0) != (c == ada) || apptest.Text(listed, "organisation") != "acme" {
				t.Errorf("the public list shows %s: %v", c.Org.Name, listed)
			}
		}
	})
}

// TestManyVersions reads an entry with more versions than are read at once, and
// with manifests that are larger than what is.
func TestManyVersions(t *testing.T) {
	t.Parallel()
	const many = 450
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "first", registrytest.Skill(t, "1."))
		manifest := `[{"path":"` + strings.Repeat("p", 30_000) + `","hash":"x","size":1}]`
		w.Exec(fmt.Sprintf(`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description,
			file_manifest, source, rolled_back, pushed_by, pushed_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			SELECT 'v' || i, $1, 'v' || i, 'x', 'x', 1, '', $2, 'cli', FALSE, $3, i / 7 FROM n`, many), id, manifest, ada.User.ID)
		for _, path := range []string{registrytest.EntryPath(id), registrytest.EntryPath(id) + "/versions"} {
			a := ada.Get(path).Want(http.StatusOK)
			if got := a.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
			seen := map[string]bool{}
			for i, v := range a.List("versions") {
				if (i == 0) != (apptest.Text(v, "version") == "first") || (i == 0) != (v["is_current"] == true) {
					t.Errorf("%d: version %v, current %v", i, v["version"], v["is_current"])
				}
				if files := v["file_manifest"].([]any); i > 0 && len(apptest.Text(files[0].(object), "path")) != 30_000 {
					t.Errorf("version %v has another manifest", v["version"])
				}
				seen[apptest.Text(v, "version")] = true
			}
			if len(seen) != many+1 {
				t.Errorf("%s: %d versions, want %d", path, len(seen), many+1)
			}
		}
	})
}
