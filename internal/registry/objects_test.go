package registry_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"strings"
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
		equal, own := skill(t, "Equal."), skill(t, "Own.")
		id := ada.made("first", "1", equal)
		ada.push(id, "2", own).want(http.StatusCreated)
		ada.post(entryPath(id)+"/install", nil).want(http.StatusOK)
		ada.post(entryPath(id)+"/rollback", nil).want(http.StatusOK)
		other := ada.made("second", "1", equal)
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
		w.wantNoOrphans()
		if n := len(w.contents()); n != 2 {
			t.Errorf("%d objects, want the two archives of the other entry", n)
		}
		got := ada.get(versionPath(other, "1") + "/download").want(http.StatusOK).body
		if !bytes.Equal(got, equal) {
			t.Error("the archive of the other entry is not what was sent")
		}
		ada.made("first", "1", own) // the name is free again

		ada.do(http.MethodDelete, entryPath(other), nil).want(http.StatusNoContent)
		w.settle()
		if len(w.contents()) != 2 {
			t.Errorf("contents %v, want the two archives of the new entry", w.contents())
		}
	})
}

// TestPushAgain looks at what lies in the bucket: a version has objects of its
// own, and a push that is repeated stores nothing.
func TestPushAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		archive := pack(t, file("a.md", "x")) // without a SKILL.md there is no canonical archive
		agent := object{"entry_type": "agent"}
		id := ada.made("one", "1", archive, agent)
		ada.made("two", "1", archive, agent)
		ada.push(id, "2", archive).want(http.StatusCreated)
		ada.push(id, "2", archive).want(http.StatusOK)
		if diff := cmp.Diff([]string{sum(archive), sum(archive), sum(archive)}, w.contents()); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
		w.wantNoOrphans()
	})
}

// hookedBucket calls a function once, after an object has been stored.
type hookedBucket struct {
	blob.Bucket
	hook atomic.Pointer[func()]
}

func (b *hookedBucket) Put(ctx context.Context, key string, r io.Reader, size int64) error {
	err := b.Bucket.Put(ctx, key, r, size)
	if hook := b.hook.Swap(nil); hook != nil {
		(*hook)()
	}
	return err
}

// TestDeletedUnderPush deletes an entry after a push to it has stored its
// objects and before it commits: they go with the push.
func TestDeletedUnderPush(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db}
		b := &hookedBucket{Bucket: blobtest.Files(t)}
		w.serve(func(*world) blob.Bucket { return b })
		w.work()
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", skill(t, "A."))
		remove := func() {
			ada.do(http.MethodDelete, entryPath(id), nil).want(http.StatusNoContent)
			w.settle()
		}
		b.hook.Store(&remove)
		ada.push(id, "2", skill(t, "B.")).wantError(http.StatusNotFound, "Registry entry not found")
		if n := len(w.contents()); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	})
}

// awayBucket cannot be reached for deletes while it is away.
type awayBucket struct {
	blob.Bucket
	away    atomic.Bool
	refused atomic.Int32
}

func (a *awayBucket) Delete(ctx context.Context, key string) error {
	if a.away.Load() {
		a.refused.Add(1)
		return fault.New(fault.Unavailable, "away")
	}
	return a.Bucket.Delete(ctx, key)
}

// TestRemovalRetries deletes objects after the bucket was away, and lets the
// same content be pushed meanwhile.
func TestRemovalRetries(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db}
		b := &awayBucket{Bucket: blobtest.Files(t)}
		w.serve(func(*world) blob.Bucket { return b })
		w.work()
		ada := w.org("acme", access.Pro)
		agent, archive := object{"entry_type": "agent"}, pack(t, file("a", "a"))
		id := ada.made("pdf", "1", archive, agent)
		b.away.Store(true)
		ada.do(http.MethodDelete, entryPath(id), nil).want(http.StatusNoContent)
		w.eventually("the removal to fail", func() bool { return b.refused.Load() > 0 })
		id = ada.made("pdf", "1", archive, agent)
		b.away.Store(false)
		w.eventually("the removal to succeed", func() bool { return len(w.contents()) == 1 })
		ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
		w.wantNoOrphans()
	})
}

// agedBucket shows its blobs as older than they are, except for some.
type agedBucket struct {
	blob.Bucket
	young map[string]bool
}

func (b *agedBucket) age(info blob.Info) blob.Info {
	if !b.young[info.Key] {
		info.Modified = info.Modified.Add(-blob.OrphanAge - time.Minute)
	}
	return info
}

func (b *agedBucket) Stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := b.Bucket.Stat(ctx, key)
	return b.age(info), err
}

func (b *agedBucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for info, err := range b.Bucket.List(ctx, prefix) {
			if !yield(b.age(info), err) {
				return
			}
		}
	}
}

// TestSweep leaves objects as a push does that died before its commit.
func TestSweep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db}
		b := &agedBucket{Bucket: blobtest.Files(t), young: map[string]bool{}}
		w.serve(func(*world) blob.Bucket { return b })
		w.work()
		ada := w.org("acme", access.Pro)
		kept := pack(t, file("kept", "x"))
		id := ada.made("kept", "1", kept, object{"entry_type": "agent"})
		leave := func(text, suffix string) string {
			key := "registry/00/" + sum([]byte(text)) + suffix
			if err := b.Put(t.Context(), key, strings.NewReader(text), int64(len(text))); err != nil {
				t.Fatal(err)
			}
			return key
		}
		b.young[leave("a push under way", ".1")] = true
		leave("a push that died", ".2")
		w.runNow("registry.sweep-blobs")
		want := []string{sum(kept), sum([]byte("a push under way"))}
		if diff := cmp.Diff(want, w.contents(), anyOrder()); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
		ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
	})
}
