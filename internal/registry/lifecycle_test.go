package registry_test

import (
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestLifeOnS3 is the life of an entry with its bytes at a real S3 server.
func TestLifeOnS3(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := &world{t: t, db: db}
		w.serve(func(*world) blob.Bucket { return openBlobs(t, blobtest.S3(t)) })
		w.work()
		ada := w.org("acme", access.Team)
		one, two := skill(t, "One.", "a.md", "a\n"), skill(t, "Two.", "a.md", "b\n")
		id := ada.made("pdf", "1", one, object{"visibility": "public"})
		ada.push(id, "2", two).want(http.StatusCreated)
		ada.push(id, "2", two).want(http.StatusOK)
		ada.push(id, "2", one).want(http.StatusConflict)
		wantDownload(t, ada.get(versionPath(id, "1")+"/download"), sum(one))
		if got := string(ada.get(versionPath(id, "2") + "/files/a.md").want(http.StatusOK).body); got != "b\n" {
			t.Errorf("a.md holds %q", got)
		}
		ada.get(versionPath(id, "2") + "/diff").want(http.StatusOK)
		fetch(t, w, newIndex, w.anonymous().get(newIndex).list("skills")[0])

		ada.install(id, nil)
		ada.post(entryPath(id)+"/rollback", nil).want(http.StatusOK)
		update := ada.get(registryPath + "/sync/check").want(http.StatusOK).list("entries")[0]
		link := w.anonymous().get(text(update, "download_url")).want(http.StatusOK)
		if got := sum(link.body); got != sum(one) || update["latest_version"] != "1" || link.header.Get("ETag") == "" {
			t.Errorf("the update is %v and gives %s", update, got)
		}
		w.anonymous().get(text(update, "download_url") + "0").want(http.StatusForbidden)

		other := ada.made("docx", "1", two)
		ada.do(http.MethodDelete, entryPath(id), nil).want(http.StatusNoContent)
		w.settle()
		if got := w.contents(); len(got) != 2 {
			t.Errorf("contents %v, want the two archives of one version", got)
		}
		wantDownload(t, ada.get(versionPath(other, "1")+"/download"), sum(two))
		ada.do(http.MethodDelete, entryPath(other), nil).want(http.StatusNoContent)
		w.settle()
		if got := w.contents(); len(got) != 0 {
			t.Errorf("contents %v, want none", got)
		}
	})
}
