package registry_test

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme", access.Pro)
		shared, own := skill(t, "Shared."), skill(t, "Own.")
		id := ada.made("first", "1", shared)
		ada.push(id, "2", own).want(http.StatusCreated)
		ada.post(entryPath(id)+"/install", nil).want(http.StatusOK)
		ada.post(entryPath(id)+"/rollback", nil).want(http.StatusOK)
		other := ada.made("second", "1", shared)
		bob := w.org("other", access.Pro)

		bob.do(http.MethodDelete, entryPath(id), nil).wantError(http.StatusNotFound, "Registry entry not found")
		if a := ada.do(http.MethodDelete, entryPath(id), nil).want(http.StatusNoContent); len(a.body) != 0 {
			t.Errorf("body %q, want none", a.body)
		}
		ada.do(http.MethodDelete, entryPath(id), nil).wantError(http.StatusNotFound, "Registry entry not found")
		for _, path := range []string{"", "/versions", "/versions/1/download", "/versions/1/files/SKILL.md"} {
			ada.get(entryPath(id)+path).wantError(http.StatusNotFound, "Registry entry not found")
		}
		for _, table := range []string{"registry_versions", "registry_rollbacks", "registry_installations"} {
			if n := w.count(table+` WHERE entry_id = $1`, id); n != 0 {
				t.Errorf("%s has %d rows of the entry", table, n)
			}
		}
		w.settle()
		if _, err := w.blobs.Stat(t.Context(), blob.ContentKey(sum(own))); err == nil {
			t.Error("the bytes that nobody needs are still there")
		}
		if len(w.contents()) != 2 || w.count("registry_blobs") != 2 {
			t.Errorf("contents %v, %d counted, want the two forms of the shared one", w.contents(), w.count("registry_blobs"))
		}
		got := ada.get(versionPath(other, "1") + "/download").want(http.StatusOK).body
		if !bytes.Equal(got, shared) {
			t.Error("the shared archive is not what was sent")
		}
		ada.made("first", "1", own) // the name is free again

		ada.do(http.MethodDelete, entryPath(other), nil).want(http.StatusNoContent)
		w.settle()
		if len(w.contents()) != 2 {
			t.Errorf("contents %v, want the two forms of the new entry", w.contents())
		}
	})
}

// TestCrashLeftovers puts what dead processes leave into the database.
func TestCrashLeftovers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme", access.Pro)
		kept := pack(t, file("kept", "x"))
		ada.made("kept", "1", kept, object{"entry_type": "agent"})
		leave := func(text string, refs int, deleting bool, age time.Duration) string {
			hash := sum([]byte(text))
			if _, err := blob.PutContent(t.Context(), w.blobs, bytes.NewReader([]byte(text))); err != nil {
				t.Fatal(err)
			}
			w.exec(`INSERT INTO registry_blobs (hash, refs, deleting, touched_at) VALUES ($1, $2, $3, $4)`,
				hash, refs, deleting, store.Micros(time.Now().Add(-age)))
			return hash
		}
		leave("a push that died long ago", 2, false, 61*time.Minute)
		young := leave("a push under way", 1, false, 50*time.Minute)
		leave("a removal that died", 0, true, 2*time.Minute)
		removing := leave("a removal under way", 0, true, 10*time.Second)
		// The count of the entry's own content is wrong, both ways in turn.
		for _, refs := range []int{0, 7} {
			w.exec(`UPDATE registry_blobs SET refs = $1, touched_at = $2 WHERE hash = $3`,
				refs, store.Micros(time.Now().Add(-2*time.Hour)), sum(kept))
			w.runNow("registry.recount-blobs")
			want := []string{sum(kept), young, removing}
			if diff := cmp.Diff(want, w.contents(), anyOrder()); diff != "" {
				t.Errorf("contents after a count of %d (-want +got):\n%s", refs, diff)
			}
			if n := w.count(`registry_blobs WHERE hash = $1 AND refs = 1`, sum(kept)); n != 1 {
				t.Errorf("the count of %d was not put right", refs)
			}
			if n := w.count("registry_blobs"); n != len(want) {
				t.Errorf("%d rows, want %d", n, len(want))
			}
		}
	})
}

// TestUncertainCommit is about a push that was told its commit failed while
// it had not: it gives its use back although the version is there.
func TestUncertainCommit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", skill(t, "A."))
		w.exec(`UPDATE registry_blobs SET refs = 0`)
		ada.create("pdf", "1", skill(t, "B.")).want(http.StatusConflict) // makes the job run
		w.settle()
		ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
		if n := len(w.contents()); n != 2 {
			t.Errorf("%d contents, want the two forms of version 1", n)
		}
	})
}

// TestDeadRemoval checks that a removal which died does not keep its content
// from being pushed for long.
func TestDeadRemoval(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		archive := skill(t, "A.")
		w.exec(`INSERT INTO registry_blobs (hash, refs, deleting, touched_at) VALUES ($1, 0, TRUE, $2)`,
			sum(archive), store.Micros(time.Now()))
		a := ada.create("pdf", "1", archive)
		a.wantError(http.StatusServiceUnavailable, "This content is being removed; try again")
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q, want 1", a.header.Get("Retry-After"))
		}
		w.exec(`UPDATE registry_blobs SET touched_at = $1`, store.Micros(time.Now().Add(-2*time.Minute)))
		id := ada.made("pdf", "1", archive)
		if n := w.count(`registry_removals WHERE hash = $1`, sum(archive)); n != 1 {
			t.Error("other pushes are not told that the dead removal may have hit their bytes")
		}
		w.work()
		ada.create("pdf", "1", skill(t, "B.")).want(http.StatusConflict)
		w.settle()
		ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
	})
}

// heldBucket holds the first delete of a blob until it is opened.
type heldBucket struct {
	blob.Bucket
	arrived, open chan struct{}
}

func (g *heldBucket) Delete(ctx context.Context, key string) error {
	select {
	case g.arrived <- struct{}{}: // only the first fits
		select {
		case <-g.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
	}
	return g.Bucket.Delete(ctx, key)
}

// TestSlowRemoval holds one removal up while others and pushes go on: its
// delete must not hit the bytes of a later push.
func TestSlowRemoval(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db}
		g := &heldBucket{Bucket: blobtest.Files(t), arrived: make(chan struct{}, 1), open: make(chan struct{})}
		w.serve(func(*world) blob.Bucket { return g })
		w.work()
		ada := w.org("acme", access.Pro)
		agent := object{"entry_type": "agent"}
		archive, another := pack(t, file("a", "a")), pack(t, file("b", "b"))
		ada.do(http.MethodDelete, entryPath(ada.made("pdf", "1", archive, agent)), nil).want(http.StatusNoContent)
		w.eventually("the removal to begin", func() bool { return len(g.arrived) == 1 })

		ada.do(http.MethodDelete, entryPath(ada.made("docx", "1", another, agent)), nil).want(http.StatusNoContent)
		w.eventually("the second removal to end", func() bool { return w.count(`registry_blobs WHERE hash = $1`, sum(another)) == 0 })
		ada.create("pdf", "1", archive, agent).want(http.StatusServiceUnavailable)
		pushed := make(chan answer)
		go func() { pushed <- ada.create("pdf", "1", archive, agent) }()
		close(g.open)
		id := text((<-pushed).want(http.StatusCreated).object(), "entry", "id")
		w.settle()
		ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
	})
}

// awayBucket cannot be reached for deletes.
type awayBucket struct {
	blob.Bucket
	refused atomic.Int32
}

func (a *awayBucket) Delete(context.Context, string) error {
	a.refused.Add(1)
	return fault.New(fault.Unavailable, "away").Because(blob.ErrUnreached)
}

// TestUnreachedRemoval lets a push have content at once whose removal did not
// reach the bucket.
func TestUnreachedRemoval(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db}
		away := &awayBucket{Bucket: blobtest.Files(t)}
		w.serve(func(*world) blob.Bucket { return away })
		w.work()
		ada := w.org("acme", access.Pro)
		agent, archive := object{"entry_type": "agent"}, pack(t, file("a", "a"))
		ada.do(http.MethodDelete, entryPath(ada.made("pdf", "1", archive, agent)), nil).want(http.StatusNoContent)
		w.eventually("the removal to fail", func() bool { return away.refused.Load() > 0 })
		id := ada.made("pdf", "1", archive, agent)
		ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
	})
}

// hookedBucket calls a function once, when a push has found content that it
// need not store again.
type hookedBucket struct {
	blob.Bucket
	hook atomic.Pointer[func()]
}

func (b *hookedBucket) Stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := b.Bucket.Stat(ctx, key)
	if hook := b.hook.Swap(nil); hook != nil {
		(*hook)()
	}
	return info, err
}

// TestRemovedUnderPush removes bytes after a push has found them there and
// before it commits: the push stores them again.
func TestRemovedUnderPush(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db}
		b := &hookedBucket{Bucket: blobtest.Files(t)}
		w.serve(func(*world) blob.Bucket { return b })
		w.work()
		ada := w.org("acme", access.Pro)
		agent, archive := object{"entry_type": "agent"}, pack(t, file("a", "a"))
		first := ada.made("first", "1", archive, agent)
		remove := func() {
			ada.do(http.MethodDelete, entryPath(first), nil).want(http.StatusNoContent)
			w.settle()
			if n := len(w.contents()); n != 0 {
				t.Errorf("%d contents are left: nothing was hit", n)
			}
		}
		b.hook.Store(&remove)
		second := ada.made("second", "1", archive, agent)
		ada.get(versionPath(second, "1") + "/download").want(http.StatusOK)
		w.settle()
		w.wantNoOrphans()

		if n := w.count("registry_removals"); n != 1 {
			t.Errorf("%d notes of removals, want 1", n)
		}
		w.exec(`UPDATE registry_removals SET removed_at = $1`, store.Micros(time.Now().Add(-2*time.Hour)))
		w.runNow("registry.recount-blobs")
		if n := w.count("registry_removals"); n != 0 {
			t.Errorf("%d notes of removals that no push needs", n)
		}
	})
}

// agedBucket shows some of its blobs as older than they are.
type agedBucket struct {
	blob.Bucket
	old map[string]bool
}

func (b *agedBucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range b.Bucket.List(ctx, prefix) {
			if b.old[info.Key] {
				info.Modified = info.Modified.Add(-blob.OrphanAge - time.Minute)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// TestSweep leaves bytes as a push does that died before its commit.
func TestSweep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db}
		b := &agedBucket{Bucket: blobtest.Files(t), old: map[string]bool{}}
		w.serve(func(*world) blob.Bucket { return b })
		w.work()
		ada := w.org("acme", access.Pro)
		kept := pack(t, file("kept", "x"))
		id := ada.made("kept", "1", kept, object{"entry_type": "agent"})
		leave := func(text string) string {
			ref, err := blob.PutContent(t.Context(), b, bytes.NewReader([]byte(text)))
			if err != nil {
				t.Fatal(err)
			}
			return ref.Key
		}
		young := leave("a push under way")
		b.old[leave("a push that died")] = true
		b.old[blob.ContentKey(sum(kept))] = true
		w.runNow("registry.sweep-blobs")
		want := []string{sum(kept), young[len(young)-64:]}
		if diff := cmp.Diff(want, w.contents(), anyOrder()); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
		ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
	})
}
