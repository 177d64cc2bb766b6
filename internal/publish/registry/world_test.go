package registry_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type object = apptest.Object

// newWorldOn serves the registry with its archives in another bucket than the
// usual.
func newWorldOn(t *testing.T, db *store.DB, b blob.Bucket) *registrytest.World {
	t.Helper()
	return registrytest.NewWithBucket(t, db, func(blob.Bucket) blob.Bucket { return b })
}

// wantNothing checks that the registry has stored nothing at all.
func wantNothing(w *registrytest.World) {
	w.T.Helper()
	for _, table := range []string{
		"registry_entries", "registry_versions", "registry_rollbacks", "registry_currents", "registry_installations", "skills",
	} {
		if n := w.Count(table); n != 0 {
			w.T.Errorf("%s has %d rows, want none", table, n)
		}
	}
	err := fs.WalkDir(os.DirFS(w.Dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			w.T.Errorf("file %s is left", path)
		}
		return err
	})
	if err != nil {
		w.T.Error(err)
	}
}

// anyOrder compares lists of texts as sets.
func anyOrder() cmp.Option { return cmpopts.SortSlices(strings.Compare) }
