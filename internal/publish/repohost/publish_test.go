package repohost_test

import (
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// mapFS is a folder with the files.
func mapFS(t *testing.T, files map[string]string) fs.FS {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root.FS()
}

func skillFiles(body string) map[string]string {
	return map[string]string{"SKILL.md": hosttest.Skill("deploy", body)}
}

// connected is a world with the repository acme/deploy connected to an entry.
func connected(t *testing.T, db *store.DB, fields object) (*world, *client, *hosttest.Work, string, string) {
	t.Helper()
	w := newWorld(t, db)
	c := w.org("acme", access.Pro)
	work := w.repos.Create("acme/deploy")
	c.bind(1, "acme")
	entry := c.entry("deploy", "0.0.0-repohost.0000000")
	connection := c.connect(entry, "acme/deploy", fields)
	return w, c, work, entry, connection
}

func TestPushAndTag(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, entry, connection := connected(t, db, nil)
		w.Work()

		sha := work.Push("Say more\n\nbecause", skillFiles("One."))
		w.hook("d1", "acme/deploy", "refs/heads/main", sha)
		w.Settle()
		pre := publication.Prerelease(sha)
		got := c.versions(entry)[pre]
		want := object{
			"source": "repohost", "source_ref": sha, "source_repo": "acme/deploy", "change_summary": "Say more",
			"is_current": true, "pushed_by": c.User.ID,
		}
		for field, value := range want {
			if got[field] != value {
				t.Errorf("prerelease: %s is %v, want %v", field, got[field], value)
			}
		}
		last := c.last()
		if last["status"] != "published" || last["trigger"] != "push" || last["version"] != pre ||
			last["source_ref"] != sha || last["write_back_status"] != "disabled" || last["attempted_at"] == nil {
			t.Errorf("last attempt: got %v", last)
		}

		work.Git("tag", "--annotate", "v1.2.0", "--message", "release")
		work.Git("push", "--quiet", "--tags")
		object1 := work.Git("rev-parse", "v1.2.0")
		w.hook("d2", "acme/deploy", "refs/tags/v1.2.0", object1)
		w.Settle()
		if got := c.versions(entry)["1.2.0"]; got["is_current"] != true || got["source_ref"] != "v1.2.0" {
			t.Errorf("release: got %v", got)
		}
		if last := c.last(); last["trigger"] != "tag" || last["source_ref"] != "v1.2.0" {
			t.Errorf("last attempt: got %v", last)
		}

		// A prerelease does not take the place of a release.
		sha = work.Push("more", skillFiles("Two."))
		w.hook("d3", "acme/deploy", "refs/heads/main", sha)
		w.Settle()
		if got := c.current(entry); got != "1.2.0" || len(c.versions(entry)) != 4 {
			t.Errorf("current is %s of %d versions, want 1.2.0 of 4", got, len(c.versions(entry)))
		}

		// The same delivery twice, and a redelivery, make one version.
		w.hook("d3", "acme/deploy", "refs/heads/main", sha)
		w.Settle()
		id, _ := c.Get(base + "/deliveries").Want(http.StatusOK).List("deliveries")[0]["id"].(string)
		c.Post(base+"/deliveries/"+id+"/redeliver", nil).Want(http.StatusAccepted)
		w.Settle()
		if n := len(c.versions(entry)); n != 4 {
			t.Errorf("got %d versions, want 4", n)
		}

		// Deleting the connection leaves the versions.
		c.Do(http.MethodDelete, base+"/connections/"+connection, nil).Want(http.StatusNoContent)
		if n := len(c.versions(entry)); n != 4 {
			t.Errorf("after the connection is deleted: got %d versions, want 4", n)
		}
		w.hook("d4", "acme/deploy", "refs/heads/main", work.Push("again", skillFiles("Three.")))
		w.Settle()
		if n := len(c.versions(entry)); n != 4 {
			t.Errorf("a push without a connection: got %d versions, want 4", n)
		}
		c.Do(http.MethodDelete, base+"/connections/"+connection, nil).Want(http.StatusNotFound)
	})
}

func TestWhichRefsPublish(t *testing.T) {
	w, c, work, entry, _ := connected(t, storetest.Open(t, "sqlite"), object{"tag_pattern": "deploy/v*"})
	w.Work()
	sha := work.Commit("first", skillFiles("One."))
	tags := []string{"deploy/v1.0.0", "deploy/v1.0.1", "deploy/v1.1.0", "deploy/v2.0.0", "other/v9.0.0", "v3.0.0"}
	push := []string{"push", "--quiet", "origin", "HEAD:refs/heads/topic"}
	refs := []string{"refs/heads/topic", sha}
	for _, tag := range tags {
		push = append(push, "HEAD:refs/tags/"+tag)
		refs = append(refs, "refs/tags/"+tag, sha)
	}
	work.Git(push...)
	// More than three tags at once, the latest first.
	slices.Reverse(refs)
	for i := 0; i < len(refs); i += 2 {
		refs[i], refs[i+1] = refs[i+1], refs[i]
	}
	refs = append(refs, "refs/tags/deploy/v0.9.0", zero) // deleted
	w.hook("d1", "acme/deploy", refs...)
	w.Settle()
	want := []string{"0.0.0-repohost.0000000", "1.0.0", "1.0.1", "1.1.0", "2.0.0"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(c.versions(entry)))); diff != "" {
		t.Errorf("versions (- want, + got):\n%s", diff)
	}
	if got := c.current(entry); got != "2.0.0" {
		t.Errorf("current is %s, want 2.0.0", got)
	}
}

func TestAutoPublishOff(t *testing.T) {
	w, c, work, entry, connection := connected(t, storetest.Open(t, "sqlite"), object{"auto_publish": false})
	w.Work()
	sha := work.Push("first", skillFiles("One."))
	work.Git("push", "--quiet", "origin", "HEAD:refs/tags/v1.0.0")
	w.hook("d1", "acme/deploy", "refs/tags/v1.0.0", sha, "refs/heads/main", sha)
	w.Settle()
	w.reconcile()
	if _, published := c.versions(entry)["1.0.0"]; published || len(c.versions(entry)) != 2 {
		t.Errorf("got %d versions, want the prerelease only", len(c.versions(entry)))
	}
	if got := c.sync(connection); got["version"] != "1.0.0" || c.current(entry) != "1.0.0" {
		t.Errorf("sync: got %v", got)
	}
}

func TestOutOfOrderAndForced(t *testing.T) {
	w, c, work, entry, _ := connected(t, storetest.Open(t, "sqlite"), nil)
	w.Work()
	first := work.Push("first", skillFiles("One."))
	second := work.Push("second", skillFiles("Two."))
	w.hook("d2", "acme/deploy", "refs/heads/main", second)
	w.Settle()
	w.hook("d1", "acme/deploy", "refs/heads/main", first)
	w.Settle()
	if got := c.current(entry); got != publication.Prerelease(second) || len(c.versions(entry)) != 3 {
		t.Errorf("current is %s of %d versions, want the second commit's of 3", got, len(c.versions(entry)))
	}
	work.Git("reset", "--quiet", "--hard", first)
	third := work.Commit("third", skillFiles("Three."))
	work.Git("push", "--quiet", "--force", "origin", "main")
	w.hook("d3", "acme/deploy", "refs/heads/main", third)
	w.Settle()
	if got := c.current(entry); got != publication.Prerelease(third) {
		t.Errorf("current is %s, want the forced commit's", got)
	}
}

func TestMovedTag(t *testing.T) {
	w, c, work, entry, _ := connected(t, storetest.Open(t, "sqlite"), nil)
	w.Work()
	first := work.Push("first", skillFiles("One."))
	work.Git("push", "--quiet", "origin", "HEAD:refs/tags/v1.0.0")
	w.hook("d1", "acme/deploy", "refs/tags/v1.0.0", first)
	w.Settle()
	second := work.Push("second", skillFiles("Two."))
	work.Git("push", "--quiet", "--force", "origin", "HEAD:refs/tags/v1.0.0")
	w.hook("d2", "acme/deploy", "refs/tags/v1.0.0", second)
	w.Settle()
	last := c.last()
	if message, _ := last["message"].(string); last["status"] != "failed" ||
		!strings.Contains(message, "exists with other content") {
		t.Errorf("got %v", last)
	}
	if n := len(c.versions(entry)); n != 2 {
		t.Errorf("got %d versions, want 2", n)
	}
}

func TestMonorepo(t *testing.T) {
	fields := object{"skill_path": "./skills/deploy/", "tag_pattern": "deploy@*"}
	w, c, work, entry, _ := connected(t, storetest.Open(t, "sqlite"), fields)
	w.Work()
	sha := work.Push("first", map[string]string{
		"README.md":              "x",
		"skills/deploy/SKILL.md": hosttest.Skill("deploy", "x"),
		"skills/other/SKILL.md":  hosttest.Skill("other", "x"),
	})
	work.Git("push", "--quiet", "origin", "HEAD:refs/tags/deploy@1.2.3")
	w.hook("d1", "acme/deploy", "refs/tags/deploy@1.2.3", sha)
	w.Settle()
	manifest, _ := c.versions(entry)["1.2.3"]["file_manifest"].([]any)
	if len(manifest) != 1 {
		t.Errorf("got %d files, want SKILL.md only", len(manifest))
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		path  string
		want  string
	}{
		"bad SKILL.md":   {map[string]string{"SKILL.md": "no frontmatter"}, ".", "frontmatter"},
		"no SKILL.md":    {map[string]string{"README.md": "x"}, ".", "No SKILL.md in the root"},
		"missing folder": {map[string]string{"README.md": "x"}, "skills/deploy", "no folder skills/deploy"},
		"submodule":      {map[string]string{"SKILL.md": hosttest.Skill("deploy", "x"), "sub": "submodule"}, ".", "submodule"},
		"LFS pointer":    {map[string]string{"SKILL.md": hosttest.Skill("deploy", "x"), "a.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"}, ".", "LFS pointer"},
		"too large":      {map[string]string{"SKILL.md": hosttest.Skill("deploy", "x"), "a.txt": strings.Repeat("0123456789\n", 1_000_000)}, ".", "larger than 10 MiB"},
		"link out":       {map[string]string{"SKILL.md": hosttest.Skill("deploy", "x"), "passwd": "-> /etc/passwd"}, ".", "link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, cl, work, entry, connection := connected(t, storetest.Open(t, "sqlite"), object{"skill_path": c.path})
			w.Work()
			if c.files["sub"] == "submodule" {
				delete(c.files, "sub")
				work.Commit("files", c.files)
				work.Git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("a", 40)+",sub")
				work.Git("commit", "--quiet", "--message", "submodule")
				work.Git("push", "--quiet", "origin", "main")
			} else {
				work.Push("files", c.files)
			}
			sha := work.Git("rev-parse", "HEAD")
			w.hook("d1", "acme/deploy", "refs/heads/main", sha)
			w.Settle()
			last := cl.last()
			if message, _ := last["message"].(string); last["status"] != "failed" || !strings.Contains(message, c.want) ||
				last["version"] != nil {
				t.Errorf("got %v, want a failure that says %q", last, c.want)
			}
			if n := len(cl.versions(entry)); n != 1 {
				t.Errorf("got %d versions, want none but the first", n)
			}
			if got := cl.sync(connection); got["status"] != "failed" || got["version"] != nil || got["published_at"] != nil {
				t.Errorf("sync: got %v", got)
			}
		})
	}
}

func TestSync(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, entry, connection := connected(t, db, nil)
		if got := c.sync(connection); got["status"] != "skipped" || got["version"] != nil {
			t.Errorf("an empty repository: got %v", got)
		}
		sha := work.Push("first", skillFiles("One."))
		got := c.sync(connection)
		group := connection[strings.LastIndex(connection, "-")+1:]
		want := object{
			"connection_id": connection, "status": "published", "version": publication.Prerelease(sha), "source_ref": sha,
			"write_back_status": "disabled", "check_run_id": nil, "status_context": "whetstone/publish/" + group[:8], "trigger": "sync",
			"message": "Published version " + publication.Prerelease(sha) + " from " + sha[:7], "published_at": got["published_at"],
		}
		if diff := cmp.Diff(want, got); diff != "" || got["published_at"] == nil {
			t.Errorf("first (- want, + got):\n%s", diff)
		}
		if v := c.versions(entry)[publication.Prerelease(sha)]; v["source"] != "repohost-direct" {
			t.Errorf("source is %v, want repohost-direct", v["source"])
		}
		if got := c.sync(connection); got["status"] != "unchanged" || got["version"] != publication.Prerelease(sha) {
			t.Errorf("again: got %v", got)
		}
		work.Push("outside", map[string]string{".skillignore": "*.txt\n"})
		if got := c.sync(connection); got["status"] != "published" {
			t.Errorf("other content: got %v", got)
		}
		work.Push("left out", map[string]string{"a.txt": "x"})
		if got := c.sync(connection); got["status"] != "unchanged" {
			t.Errorf("the same content in another commit: got %v", got)
		}
		push := []string{"push", "--quiet", "origin"}
		for i := range 13 {
			push = append(push, fmt.Sprintf("HEAD:refs/tags/v1.0.%d", i))
		}
		work.Git(push...)
		if got := c.sync(connection); got["status"] != "published" || got["version"] != "1.0.12" || got["source_ref"] != "v1.0.12" {
			t.Errorf("tags: got %v", got)
		}
		w.Work()
		w.Settle()
		if got := c.current(entry); got != "1.0.12" || len(c.versions(entry)) != 16 {
			t.Errorf("current is %s of %d versions, want 1.0.12 of 16", got, len(c.versions(entry)))
		}
		c.Post(base+"/connections/none/sync", nil).Want(http.StatusNotFound)
	})
}

func TestReconcile(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, entry, _ := connected(t, db, nil)
		w.Work()
		w.Settle()
		sha := work.Push("no hook told of this", skillFiles("One."))
		for i := range 5 {
			work.Git("tag", fmt.Sprintf("v1.%d.0", i))
		}
		work.Git("tag", "unrelated")
		work.Git("push", "--quiet", "--tags")
		w.reconcile()
		want := []string{"0.0.0-repohost.0000000", publication.Prerelease(sha), "1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"}
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(c.versions(entry)))); diff != "" {
			t.Errorf("versions (- want, + got):\n%s", diff)
		}
		if got := c.current(entry); got != "1.4.0" {
			t.Errorf("current is %s, want 1.4.0", got)
		}
		if last := c.last(); last["trigger"] != "reconcile" || c.versions(entry)["1.4.0"]["source"] != "repohost" {
			t.Errorf("last attempt: got %v", last)
		}
		// Published and refused commits are not tried again.
		work.Push("bad", map[string]string{"SKILL.md": "bad"})
		w.reconcile()
		last := c.last()
		if last["status"] != "failed" {
			t.Errorf("got %v, want a failure", last)
		}
		w.reconcile()
		if diff := cmp.Diff(last, c.last()); diff != "" {
			t.Errorf("the same commit was tried again:\n%s", diff)
		}
	})
}

// TestLease: a worker whose lease has expired does not end the one of the worker
// that took its place.
func TestLease(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, _, _, _, id := connected(t, db, nil)
		acquire := func(want bool) (renew func(want bool), release func()) {
			t.Helper()
			l, acquired, err := repohost.AcquireLease(t.Context(), w.DB, repohost.Connections, id)
			if err != nil || acquired != want {
				t.Errorf("acquired %t, %v, want %t", acquired, err, want)
			}
			return func(want bool) {
				t.Helper()
				if renewed, err := l.Renew(t.Context()); err != nil || renewed != want {
					t.Errorf("renewed %t, %v, want %t", renewed, err, want)
				}
			}, func() { l.Release(t.Context(), w.service.Log) }
		}
		renewFirst, releaseFirst := acquire(true)
		acquire(false)
		renewFirst(true)
		w.Exec(`UPDATE repohost_connections SET held_until = 1`) // it expires
		renewSecond, releaseSecond := acquire(true)
		renewFirst(false)
		releaseFirst()
		acquire(false)
		renewSecond(true)
		releaseSecond()
		acquire(true)
	})
}

// TestPushedUnderWorker delivers the same push again after a worker has read its
// attempt: both deliveries end when it is published.
func TestPushedUnderWorker(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, entry, id := connected(t, db, nil)
		sha := work.Push("first", skillFiles("One."))
		deliver := func(name string) {
			w.hook(name, "acme/deploy", "refs/heads/main", sha)
			newest := c.Get(base + "/deliveries").Want(http.StatusOK).List("deliveries")[0]
			if err := w.service.ProcessDelivery(t.Context(), apptest.Text(newest, "id")); err != nil {
				t.Fatal(err)
			}
		}
		deliver("d1")
		a, err := w.service.OldestQueued(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		deliver("d2")
		if err := w.service.PublishNext(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		for _, d := range c.Get(base + "/deliveries").Want(http.StatusOK).List("deliveries") {
			if d["status"] != "done" {
				t.Errorf("the delivery %s is %s, want it done", d["delivery_id"], d["status"])
			}
		}
		if n := len(c.versions(entry)); n != 2 {
			t.Errorf("%d versions, want 2", n)
		}
	})
}

// TestDeletedUnderWorker deletes a connection after a worker has read its queued
// attempt.
func TestDeletedUnderWorker(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		if err := w.service.PublishNext(t.Context(), publication.Attempt{ID: "gone", ConnectionID: "gone"}); err != nil {
			t.Errorf("the worker fails: %v", err)
		}
	})
}

// TestDeletedOrganisation: a push to a repository of it publishes nothing.
func TestDeletedOrganisation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, _, _ := connected(t, db, nil)
		w.Work()
		versions := w.Count("registry_versions")
		w.CloseOrg(c.Org.ID)
		w.hook("d1", "acme/deploy", "refs/heads/main", work.Push("Late", skillFiles("One.")))
		w.Settle()
		w.reconcile()
		w.Settle()
		if n := w.Count("registry_versions"); n != versions {
			t.Errorf("%d versions, want %d", n, versions)
		}
	})
}
