package sources_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

// TestUploadsAtOnce: concurrent uploads of one content are one snapshot.
func TestUploadsAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		w.Work()
		ada := w.Org("acme")
		id := ada.Made(object{"type": "upload", "label": "x"})
		for round := range 5 {
			archive := zipped(t, "SKILL.md", skillText, "round", fmt.Sprint(round))
			upload := func() answer { return ada.Upload(uploadPath, field("source_id", id), archivePart(archive)) }
			got := sourcestest.Together(upload, upload, upload)
			for _, a := range got {
				a.Want(http.StatusCreated)
				if text(a.Object(), "snapshot", "id") != text(got[0].Object(), "snapshot", "id") {
					t.Error("one content has two snapshots")
				}
			}
			if n := w.Count("source_snapshots"); n != round+1 {
				t.Errorf("%d snapshots after round %d", n, round)
			}
		}
		w.Settle()
		wantNoOrphans(w)
	})
}

// wantNoOrphans checks that every snapshot has its blob and its source, and that
// there are no other blobs.
func wantNoOrphans(w *sourcestest.World) {
	w.T.Helper()
	rows, err := w.DB.Query(w.T.Context(), `SELECT DISTINCT source_id || '/' || content_hash FROM source_snapshots ORDER BY 1`)
	want, err := store.All(rows, err, store.Value[string])
	if err != nil {
		w.T.Fatal(err)
	}
	got := []string{}
	for _, key := range w.BlobKeys() {
		got = append(got, strings.TrimPrefix(key, "sources/"))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.T.Errorf("bytes (-snapshots +blobs):\n%s", diff)
	}
	for _, table := range sourcestest.Tables[1:] {
		column := "source_id NOT IN (SELECT id FROM cloud_sources)"
		if table == "source_reports" {
			column = "snapshot_id NOT IN (SELECT id FROM source_snapshots)"
		}
		if n := w.Count(table + " WHERE " + column); n != 0 {
			w.T.Errorf("%s has %d orphans", table, n)
		}
	}
}

// TestDeleteAgainstOthers deletes a source during other requests.
func TestDeleteAgainstOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		w.Work()
		ada := w.Org("acme")
		second := zipped(t, "SKILL.md", skillText, "b", "b")
		for range 10 {
			id := ada.Linked("pdf")
			ada.Upload(uploadPath, field("source_id", id), filePart("SKILL.md", skillText)).Want(http.StatusCreated)
			got := sourcestest.Together(
				func() answer { return ada.Do(http.MethodDelete, sourcePath(id), nil) },
				func() answer { return ada.Upload(uploadPath, field("source_id", id), archivePart(second)) },
				func() answer { return ada.Review(id, nil) },
				func() answer { return ada.Get(sourcePath(id)) })
			for i, allowed := range [][]int{{204}, {201, 404}, {200, 404}, {200, 404}} {
				if !slices.Contains(allowed, got[i].Status) {
					t.Errorf("%s: status %d, want one of %v: %s", got[i].What, got[i].Status, allowed, got[i].Body)
				}
			}
		}
		w.Settle()
		w.WantNothing()
	})
}
