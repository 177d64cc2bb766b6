package sources_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestSnapshots is what runs ask for.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.org("acme"), w.org("evil")
		ctx, s := t.Context(), w.sources
		id := ada.made(object{"type": "upload", "label": "x"})
		if _, err := s.Snapshot(ctx, ada.org.ID, id, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("got %v, want that there is none yet", err)
		}
		// A name that a plain tar cannot hold is kept as well.
		long := strings.Repeat("ä", 60) + ".md"
		first := ada.upload(uploadPath, field("source_id", id), filePart("SKILL.md", skillText), filePart(long, "x")).want(http.StatusCreated).object()
		bad := ada.upload(uploadPath, field("source_id", id), filePart("readme.md", "x")).want(http.StatusCreated).object()

		current, err := s.Snapshot(ctx, ada.org.ID, id, "")
		if err != nil || current.ID != text(bad, "snapshot", "id") || current.Runnable {
			t.Errorf("current %+v, %v", current, err)
		}
		previous, err := s.Previous(ctx, current)
		if err != nil || previous.ID != text(first, "snapshot", "id") || !previous.Runnable {
			t.Errorf("previous %+v, %v", previous, err)
		}
		if _, err := s.Previous(ctx, previous); !fault.Is(err, fault.NotFound) {
			t.Errorf("before the first: %v", err)
		}
		named, err := s.Snapshot(ctx, ada.org.ID, strings.TrimPrefix(id, "src_"), previous.ID)
		if diff := cmp.Diff(previous, named); diff != "" || err != nil {
			t.Errorf("by its id: %v (-want +got):\n%s", err, diff)
		}
		if alone, err := s.Snapshot(ctx, ada.org.ID, "", previous.ID); err != nil || alone.SourceID != previous.SourceID {
			t.Errorf("without its source: %+v, %v", alone, err)
		}
		if _, err := s.Snapshot(ctx, eve.org.ID, "", previous.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another organisation's: %v", err)
		}
		pkg, err := s.OpenSnapshot(ctx, previous)
		if err != nil {
			t.Fatal(err)
		}
		defer pkg.Close()
		if content, err := pkg.ReadFile(long); err != nil || string(content) != "x" {
			t.Errorf("%q, %v", content, err)
		}
		if got, err := pkg.ReadFile("SKILL.md"); err != nil || string(got) != skillText {
			t.Errorf("%q, %v", got, err)
		}

		for orgID, want := range map[string]fault.Kind{ada.org.ID: fault.Internal, eve.org.ID: fault.Denied} {
			err := s.Exists(ctx, db, orgID, id)
			if want == fault.Internal && err != nil || want != fault.Internal && !fault.Is(err, want) {
				t.Errorf("exists: %v, want kind %v", err, want)
			}
			if _, err := s.Snapshot(ctx, orgID, id, ""); want != fault.Internal && !fault.Is(err, want) {
				t.Errorf("snapshot: %v, want kind %v", err, want)
			}
		}
		if err := s.Exists(ctx, db, ada.org.ID, uuid.NewString()); !fault.Is(err, fault.NotFound) {
			t.Errorf("an unknown source: %v", err)
		}
		other := ada.made(object{"type": "upload", "label": "x"})
		if _, err := s.Snapshot(ctx, ada.org.ID, other, previous.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another source's snapshot: %v", err)
		}
	})
}

// TestSweep removes what a process left that died before it committed.
func TestSweep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		id := strings.TrimPrefix(text(ada.uploaded(zipped(t, "SKILL.md", skillText)), "id"), "src_")
		kept := w.blobKeys()
		put := func(key string) string {
			if err := w.blobs.Put(t.Context(), key, strings.NewReader("x"), 1); err != nil {
				t.Fatal(err)
			}
			return key
		}
		young := put("sources/" + id + "/" + sum("young"))
		for _, key := range append([]string{put("sources/" + id + "/" + sum("old")), put("sources/" + uuid.NewString() + "/" + sum("gone"))}, kept...) {
			old := time.Now().Add(-blob.OrphanAge - time.Minute)
			if err := os.Chtimes(filepath.Join(w.dir, "objects", key), old, old); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.sources.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{young: true, kept[0]: true}
		got := map[string]bool{}
		for _, key := range w.blobKeys() {
			got[key] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	})
}
