package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// TestContentPage says what is kept, and lets owners only change it.
func TestContentPage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		const path = "/settings/content"
		owner, admin, viewer := w.as(access.Owner), w.as(access.AdminRole), w.as(access.Viewer)
		checkPage(t, viewer.get(path).want(http.StatusOK).wantText(
			"No content is stored", "evidence:read", "(owner)", "90 days after it was received", "An owner of the organisation can change this").wantForms())
		for _, action := range []string{"on", "off", "delete"} {
			viewer.post(path, url.Values{"action": {action}}).want(http.StatusForbidden)
			admin.post(path, url.Values{"action": {action}}).want(http.StatusForbidden).wantText("This needs the role owner")
		}
		owner.post(path, url.Values{"action": {"maybe"}}).want(http.StatusBadRequest)
		owner.post(path, url.Values{"action": {"on"}}).wantLocation(path)
		checkPage(t, owner.get(path).wantText("Content is stored when a client sends it explicitly", "Switch off").wantForms(path, path))
		owner.post(path, url.Values{"action": {"delete"}}).wantLocation(path)
		owner.post(path, url.Values{"action": {"off"}}).wantLocation(path)
		owner.get(path).wantText("What was kept before is still there", "Switch on")
	})
}
