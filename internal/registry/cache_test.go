package registry_test

import (
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestDeletedElsewhere: what a replica has cached of an entry expires soon after
// another replica deletes it, and nothing can be pushed to it.
func TestDeletedElsewhere(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		other := w.replica()
		other.work()
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", skill(t, "First."))
		download := versionPath(id, "1") + "/download"
		for range 2 {
			ada.get(download).want(http.StatusOK)
		}
		ada.push(id, "2", skill(t, "Second.")).want(http.StatusCreated)

		there := ada.at(other)
		there.get(download).want(http.StatusOK)
		there.do(http.MethodDelete, entryPath(id), nil).want(http.StatusNoContent)
		there.get(download).wantError(http.StatusNotFound, "Registry entry not found")
		ada.push(id, "3", skill(t, "Third.")).wantError(http.StatusNotFound, "Registry entry not found")
		w.eventually("the deleted entry to be gone here, too", func() bool {
			return ada.get(download).status == http.StatusNotFound
		})
		other.settle()
		if left := other.contents(); len(left) != 0 {
			t.Errorf("contents %v are left", left)
		}
	})
}
