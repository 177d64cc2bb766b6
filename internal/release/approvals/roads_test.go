package approvals_test

import (
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/clawhub"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestByClawHub publishes with another client: the version waits for people as that of
// a push does, and clients get the one before until then.
func TestByClawHub(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 2})
		hub := &clawhub.Service{
			DB: db, Blobs: w.Blobs, Jobs: w.Queue, Catalog: w.Catalog, Registry: w.Registry, Auth: w.Auth,
			Installations: &installations.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Registry: w.Registry},
			PublicURL:     w.Server.URL, Log: w.Log,
		}
		hub.Register()
		hub.Mount(w.API)
		const skills = "/api/v1/skills"
		publish := func(by *registrytest.Client, slug, version string) object {
			t.Helper()
			payload := object{"slug": slug, "displayName": slug, "version": version, "changelog": "", "tags": []string{"latest"}}
			return by.Upload(skills, apptest.JSONPart(t, "payload", payload),
				apptest.Part{Name: "files", File: "SKILL.md", Content: []byte(registrytest.SkillText("By ClawHub " + version))}).Want(http.StatusOK).Object()
		}
		latest := func(want string) {
			t.Helper()
			if got := apptest.Text(w.dan.Get(skills+"/pdf").Want(http.StatusOK).Object(), "latestVersion", "version"); got != want {
				t.Errorf("the latest version is %s, want %s", got, want)
			}
		}
		if a := publish(w.dan, "pdf", "1.1.0"); a["publicationStatus"] != "pending" {
			t.Errorf("published: %v", a)
		}
		w.want("1.1.0", "candidate", "1.0.0")
		latest("1.0.0")
		w.answer(w.dan, "1.1.0", "approve").Want(http.StatusForbidden)
		wantReview(w.answer(w.ben, "1.1.0", "approve"), "candidate", 1, 2, "it has 1 of 2 approvals")
		// To send it again changes nothing, neither the version nor the approval.
		if a := publish(w.dan, "pdf", "1.1.0"); a["publicationStatus"] != "pending" {
			t.Errorf("published again: %v", a)
		}
		w.ada.Post(registrytest.VersionPath(w.entry, "1.1.0")+"/promote", object{"reason": "now"}).
			WantErrorWith(http.StatusConflict, "it has 1 of 2 approvals")
		wantReview(w.answer(w.cyd, "1.1.0", "approve"), "published", 2, 2, nil)
		w.want("1.1.0", "published", "1.1.0")
		latest("1.1.0")

		// An approver who publishes does not approve their own, whatever the client.
		publish(w.ben, "pdf", "1.2.0")
		w.answer(w.ben, "1.2.0", "approve").WantErrorWith(http.StatusForbidden, "another person must approve it")
		w.want("1.2.0", "candidate", "1.1.0")

		// The first version of a new skill waits by the organisation's default.
		w.ada.Do(http.MethodPut, "/api/v1/settings/gate-policy", object{"mode": "off", "approvals": 1}).Want(http.StatusOK)
		if a := publish(w.dan, "fresh", "1.0.0"); a["publicationStatus"] != "pending" {
			t.Errorf("the first version: %v", a)
		}
	})
}
