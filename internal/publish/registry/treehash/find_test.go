package treehash_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// TestFind looks versions up as they are pushed, rolled forward and deleted.
func TestFind(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Work()
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		archive := registrytest.Skill(t, "One.", "scripts/x.sh", "echo hi\n")
		id := ada.Made("pdf", "1.0.0", archive, nil)
		other := bob.Made("pdf", "7.0.0", archive, nil)
		rows, err := db.Query(t.Context(), `SELECT h.kind, h.hash FROM registry_tree_hashes h WHERE h.entry_id = $1`, id)
		hashes, err := store.All(rows, err, func(row store.Row) (h treehash.Hash, err error) {
			err = row.Scan(&h.Kind, &h.Hex)
			return h, err
		})
		if err != nil || len(hashes) != 8 {
			t.Fatalf("%v, %v", hashes, err)
		}
		want := func(entryID, want string) {
			t.Helper()
			for _, h := range hashes {
				got, err := treehash.Find(t.Context(), db, entryID, h)
				if got != want || (err != nil) != (want == "") || err != nil && !fault.Is(err, fault.NotFound) {
					t.Errorf("%s: got %q, %v, want %q", h.Kind, got, err, want)
				}
			}
		}
		want(id, "1.0.0")
		want(other, "7.0.0")
		want("unknown", "")
		ada.Pushed(id, "1.1.0", registrytest.Skill(t, "Two."))
		want(id, "1.0.0")
		ada.Do(http.MethodPost, registrytest.EntryPath(id)+"/rollback", apptest.Object{"roll_forward": true}).Want(http.StatusOK)
		want(id, "1.1.1") // has the files of 1.0.0
		w.Exec(`UPDATE registry_versions SET state = 'candidate' WHERE version = '1.1.1'`)
		want(id, "1.0.0")
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		want(id, "")
		want(other, "7.0.0")
		if n := w.Count("registry_tree_hashes"); n != 8 {
			t.Errorf("%d hashes are left, want the other organisation's 8", n)
		}
	})
}

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		q := storetest.Explainer{DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN [vhe]\b|Seq Scan on registry_(tree_hashes|versions|entries)`)}
		if _, err := treehash.Find(t.Context(), q, "a", treehash.Hash{Kind: treehash.ClawHub, Hex: "x"}); !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
		if _, err := treehash.NextLacking(t.Context(), q, 10); err != nil {
			t.Error(err)
		}
	})
}
