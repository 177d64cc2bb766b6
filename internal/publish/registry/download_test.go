package registry_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

func TestDownload(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Free)
		if _, err := w.Auth.SetPlan(t.Context(), "acme", access.Pro); err != nil {
			t.Fatal(err)
		}
		archive := registrytest.Skill(t, "A.")
		id := ada.Made("pdf", "1.0", archive)
		path := registrytest.VersionPath(id, "1.0") + "/download"
		a := ada.Get(path)
		registrytest.WantDownload(a, registrytest.Sum(archive))
		if !bytes.Equal(a.Body, archive) {
			t.Error("the archive is not what was sent")
		}
		if got := a.Header.Get("Content-Disposition"); !strings.Contains(got, "pdf-1.0.tar.gz") {
			t.Errorf("Content-Disposition %q", got)
		}
		head := ada.Do(http.MethodHead, path, nil).Want(http.StatusOK)
		if head.Header.Get("Content-Length") != a.Header.Get("Content-Length") {
			t.Errorf("HEAD: Content-Length %q", head.Header.Get("Content-Length"))
		}
		ada.Get(registrytest.VersionPath(id, "2.0")+"/download").WantErrorWith(http.StatusNotFound, "Version 2.0 not found")
		ada.Get(registrytest.VersionPath(uuid.NewString(), "1.0")+"/download").
			WantErrorWith(http.StatusNotFound, "Registry entry not found")
		w.Anonymous().Get(path).Want(http.StatusUnauthorized)
		if err := w.Blobs.Delete(t.Context(), w.KeyOf(registrytest.Sum(archive))); err != nil {
			t.Fatal(err)
		}
		ada.Get(path).WantErrorWith(http.StatusServiceUnavailable, "cannot be read now")
	})
}
