package registry_test

import (
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestLifeOnS3 is the life of an entry with its bytes at a real S3 server.
func TestLifeOnS3(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		bucket, err := blob.Open(t.Context(), blobtest.S3(t))
		if err != nil {
			t.Fatal(err)
		}
		w := newWorldOn(t, db, bucket)
		w.Work()
		ada := w.Org("acme", access.Team)
		one, two := registrytest.Skill(t, "One.", "a.md", "a\n"), registrytest.Skill(t, "Two.", "a.md", "b\n")
		id := ada.Made("pdf", "1", one, object{"visibility": "public"})
		ada.Pushed(id, "2", two)
		ada.Push(id, "2", two).Want(http.StatusOK)
		ada.Push(id, "2", one).Want(http.StatusConflict)
		registrytest.WantDownload(ada.Get(registrytest.VersionPath(id, "1")+"/download"), registrytest.Sum(one))
		if got := string(ada.Get(registrytest.VersionPath(id, "2") + "/files/a.md").Want(http.StatusOK).Body); got != "b\n" {
			t.Errorf("a.md holds %q", got)
		}
		ada.Get(registrytest.VersionPath(id, "2") + "/diff").Want(http.StatusOK)
		const index = "/.well-known/agent-skills/index.json"
		w.Fetch(index, w.Anonymous().Get(index).List("skills")[0])

		ada.Install(id, nil)
		ada.Post(registrytest.EntryPath(id)+"/rollback", nil).Want(http.StatusOK)
		update := ada.Get(registrytest.Path + "/sync/check").Want(http.StatusOK).List("entries")[0]
		link := w.Anonymous().Get(apptest.Text(update, "download_url")).Want(http.StatusOK)
		if got := registrytest.Sum(link.Body); got != registrytest.Sum(one) || update["latest_version"] != "1" ||
			link.Header.Get("ETag") == "" {
			t.Errorf("the update is %v and gives %s", update, got)
		}
		w.Anonymous().Get(apptest.Text(update, "download_url") + "0").Want(http.StatusForbidden)

		other := ada.Made("docx", "1", two)
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		w.Settle()
		if got := w.Contents(); len(got) != 2 {
			t.Errorf("contents %v, want the two archives of one version", got)
		}
		registrytest.WantDownload(ada.Get(registrytest.VersionPath(other, "1")+"/download"), registrytest.Sum(two))
		ada.Do(http.MethodDelete, registrytest.EntryPath(other), nil).Want(http.StatusNoContent)
		w.Settle()
		if got := w.Contents(); len(got) != 0 {
			t.Errorf("contents %v, want none", got)
		}
	})
}
