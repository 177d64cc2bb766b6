package registry_test

import (
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestDeletedElsewhere: an entry that another replica deletes is gone at once, and nothing
// can be pushed to it.
func TestDeletedElsewhere(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		other := w.Replica()
		other.Work()
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "First."))
		download := registrytest.VersionPath(id, "1") + "/download"
		for range 2 {
			ada.Get(download).Want(http.StatusOK)
		}
		ada.Pushed(id, "2", registrytest.Skill(t, "Second."))

		there := ada.At(other)
		there.Get(download).Want(http.StatusOK)
		there.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		there.Get(download).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		ada.Push(id, "3", registrytest.Skill(t, "Third.")).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		ada.Get(download).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		other.Settle()
		if left := other.Contents(); len(left) != 0 {
			t.Errorf("contents %v are left", left)
		}
	})
}
