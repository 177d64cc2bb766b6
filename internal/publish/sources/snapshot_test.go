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

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// TestSnapshots covers the operations that runs use.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada, eve := w.Org("acme"), w.Org("evil")
		ctx, s := t.Context(), w.Sources
		id := ada.Made(object{"type": "upload", "label": "x"})
		if _, err := s.Snapshot(ctx, ada.Org.ID, id, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("got %v, want that there is none yet", err)
		}
		// A name that does not fit into a plain tar.
		long := strings.Repeat("ä", 60) + ".md"
		first := ada.Upload(uploadPath, field("source_id", id), filePart("SKILL.md", skillText), filePart(long, "x")).
			Want(http.StatusCreated).Object()
		bad := ada.Upload(uploadPath, field("source_id", id), filePart("readme.md", "x")).Want(http.StatusCreated).Object()

		current, err := s.Snapshot(ctx, ada.Org.ID, id, "")
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
		named, err := s.Snapshot(ctx, ada.Org.ID, strings.TrimPrefix(id, "src_"), previous.ID)
		if diff := cmp.Diff(previous, named); diff != "" || err != nil {
			t.Errorf("by its id: %v (-want +got):\n%s", err, diff)
		}
		if alone, err := s.Snapshot(ctx, ada.Org.ID, "", previous.ID); err != nil || alone.SourceID != previous.SourceID {
			t.Errorf("without its source: %+v, %v", alone, err)
		}
		if _, err := s.Snapshot(ctx, eve.Org.ID, "", previous.ID); !fault.Is(err, fault.NotFound) {
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

		for orgID, want := range map[string]fault.Kind{ada.Org.ID: fault.Internal, eve.Org.ID: fault.Denied} {
			err := s.Exists(ctx, db, orgID, id)
			if want == fault.Internal && err != nil || want != fault.Internal && !fault.Is(err, want) {
				t.Errorf("exists: %v, want kind %v", err, want)
			}
			if _, err := s.Snapshot(ctx, orgID, id, ""); want != fault.Internal && !fault.Is(err, want) {
				t.Errorf("snapshot: %v, want kind %v", err, want)
			}
		}
		if err := s.Exists(ctx, db, ada.Org.ID, uuid.NewString()); !fault.Is(err, fault.NotFound) {
			t.Errorf("an unknown source: %v", err)
		}
		other := ada.Made(object{"type": "upload", "label": "x"})
		if _, err := s.Snapshot(ctx, ada.Org.ID, other, previous.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another source's snapshot: %v", err)
		}
	})
}

// TestSweep: blobs of a process that died before its commit are deleted.
func TestSweep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		id := strings.TrimPrefix(text(ada.Uploaded(zipped(t, "SKILL.md", skillText)), "id"), "src_")
		kept := w.BlobKeys()
		put := func(key string) string {
			if err := w.Blobs.Put(t.Context(), key, strings.NewReader("x"), 1); err != nil {
				t.Fatal(err)
			}
			return key
		}
		young := put("sources/" + id + "/" + sum("young"))
		for _, key := range append([]string{
			put("sources/" + id + "/" + sum("old")),
			put("sources/" + uuid.NewString() + "/" + sum("gone")),
		}, kept...) {
			old := time.Now().Add(-blob.OrphanAge - time.Minute)
			if err := os.Chtimes(filepath.Join(w.BlobDir, "objects", key), old, old); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Sources.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{young: true, kept[0]: true}
		got := map[string]bool{}
		for _, key := range w.BlobKeys() {
			got[key] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
	})
}
