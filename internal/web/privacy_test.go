package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

func TestPrivacyPage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		owner, viewer := w.as(access.Owner), w.as(access.Viewer)
		viewer.get("/settings/privacy").want(http.StatusOK).wantText("Download your data", "Owners can export").wantNoText("Make an archive")
		var mine struct{ Complete bool }
		if err := json.Unmarshal([]byte(viewer.get("/account/export").want(http.StatusOK).body), &mine); err != nil || !mine.Complete {
			t.Errorf("my data: %v, %v", mine, err)
		}
		viewer.post("/settings/privacy", url.Values{"action": {"export"}}).want(http.StatusForbidden)
		w.as(access.AdminRole).post("/settings/privacy", url.Values{"action": {"export"}}).want(http.StatusForbidden)

		checkPage(t, owner.get("/settings/privacy"))
		owner.post("/settings/privacy", url.Values{"action": {"export"}}).wantLocation("/settings/privacy")
		apptest.Eventually(t, "the archive", func() bool { return strings.Contains(owner.get("/settings/privacy").body, "/blobs/exports/") })

		name := w.org.Name
		remove := func(confirm string) *page {
			return owner.post("/settings/privacy", url.Values{"action": {"delete"}, "confirm": {confirm}})
		}
		remove("x").want(http.StatusBadRequest).wantText("confirm must be the name of the organisation")
		if _, err := w.DB.Exec(t.Context(), `UPDATE sessions SET created_at = created_at - 1000000000`); err != nil {
			t.Fatal(err)
		}
		remove(name).want(http.StatusForbidden).wantText("sign in again")
		if _, err := w.DB.Exec(t.Context(), `UPDATE sessions SET created_at = created_at + 1000000000`); err != nil {
			t.Fatal(err)
		}
		remove(name).wantLocation("/login")
		for _, b := range []*browser{owner, viewer} {
			b.get("/settings/privacy").want(http.StatusSeeOther)
		}
	})
}
