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

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Work()
		ada := w.Org("acme", access.Pro)
		equal, own := registrytest.Skill(t, "Equal."), registrytest.Skill(t, "Own.")
		id := ada.Made("first", "1", equal)
		ada.Pushed(id, "2", own)
		ada.Post(registrytest.EntryPath(id)+"/install", nil).Want(http.StatusOK)
		ada.Post(registrytest.EntryPath(id)+"/rollback", nil).Want(http.StatusOK)
		other := ada.Made("second", "1", equal)
		bob := w.Org("other", access.Pro)

		bob.Do(http.MethodDelete, registrytest.EntryPath(id), nil).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		if a := ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent); len(a.Body) != 0 {
			t.Errorf("body %q, want none", a.Body)
		}
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		for _, path := range []string{"", "/versions", "/versions/1/download", "/versions/1/files/SKILL.md"} {
			ada.Get(registrytest.EntryPath(id)+path).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		}
		for _, table := range []string{"registry_versions", "registry_rollbacks", "registry_installations"} {
			if n := w.Count(table+` WHERE entry_id = $1`, id); n != 0 {
				t.Errorf("%s has %d rows of the entry", table, n)
			}
		}
		w.Settle()
		wantNoOrphans(w)
		if n := len(w.Contents()); n != 2 {
			t.Errorf("%d objects, want the two archives of the other entry", n)
		}
		got := ada.Get(registrytest.VersionPath(other, "1") + "/download").Want(http.StatusOK).Body
		if !bytes.Equal(got, equal) {
			t.Error("the archive of the other entry is not what was sent")
		}
		ada.Made("first", "1", own) // the name is free again

		ada.Do(http.MethodDelete, registrytest.EntryPath(other), nil).Want(http.StatusNoContent)
		w.Settle()
		if len(w.Contents()) != 2 {
			t.Errorf("contents %v, want the two archives of the new entry", w.Contents())
		}
	})
}

// TestPushAgain looks at what lies in the bucket: a version has objects of its
// own, and a push that is repeated stores nothing.
func TestPushAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		archive := registrytest.Pack(t, registrytest.File("a.md", "x")) // without a SKILL.md there is no canonical archive
		agent := object{"entry_type": "agent"}
		id := ada.Made("one", "1", archive, agent)
		ada.Made("two", "1", archive, agent)
		ada.Pushed(id, "2", archive)
		ada.Push(id, "2", archive).Want(http.StatusOK)
		if diff := cmp.Diff([]string{registrytest.Sum(archive), registrytest.Sum(archive), registrytest.Sum(archive)},
			w.Contents()); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
		wantNoOrphans(w)
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
		b := &hookedBucket{Bucket: blobtest.Files(t)}
		w := newWorldOn(t, db, b)
		w.Work()
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "A."))
		remove := func() {
			ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
			w.Settle()
		}
		b.hook.Store(&remove)
		ada.Push(id, "2", registrytest.Skill(t, "B.")).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		if n := len(w.Contents()); n != 0 {
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
		b := &awayBucket{Bucket: blobtest.Files(t)}
		w := newWorldOn(t, db, b)
		w.Work()
		ada := w.Org("acme", access.Pro)
		agent, archive := object{"entry_type": "agent"}, registrytest.Pack(t, registrytest.File("a", "a"))
		id := ada.Made("pdf", "1", archive, agent)
		b.away.Store(true)
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		apptest.Eventually(t, "the removal to fail", func() bool { return b.refused.Load() > 0 })
		id = ada.Made("pdf", "1", archive, agent)
		b.away.Store(false)
		apptest.Eventually(t, "the removal to succeed", func() bool { return len(w.Contents()) == 1 })
		ada.Get(registrytest.VersionPath(id, "1") + "/download").Want(http.StatusOK)
		wantNoOrphans(w)
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
		b := &agedBucket{Bucket: blobtest.Files(t), young: map[string]bool{}}
		w := newWorldOn(t, db, b)
		w.Work()
		ada := w.Org("acme", access.Pro)
		kept := registrytest.Pack(t, registrytest.File("kept", "x"))
		id := ada.Made("kept", "1", kept, object{"entry_type": "agent"})
		leave := func(text, suffix string) string {
			key := "registry/00/" + registrytest.Sum([]byte(text)) + suffix
			if err := b.Put(t.Context(), key, strings.NewReader(text), int64(len(text))); err != nil {
				t.Fatal(err)
			}
			return key
		}
		b.young[leave("a push under way", ".1")] = true
		leave("a push that died", ".2")
		w.RunNow("registry.sweep-blobs")
		want := []string{registrytest.Sum(kept), registrytest.Sum([]byte("a push under way"))}
		if diff := cmp.Diff(want, w.Contents(), anyOrder()); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
		ada.Get(registrytest.VersionPath(id, "1") + "/download").Want(http.StatusOK)
	})
}
