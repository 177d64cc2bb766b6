package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// TestPublishers adds and removes a trusted publisher on the page of an entry.
func TestPublishers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		admin := w.as(access.AdminRole)
		entry := admin.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads PDFs", "x")})
		path := "/registry/" + entry + "/publishers"
		admin.get("/registry/" + entry).want(http.StatusOK).wantText("trusted publishers")
		page := admin.get(path).want(http.StatusOK)
		checkPage(t, page.wantForms(path))
		page.wantText("None yet.", "id-token: write", "whetstone push ./pdf --entry "+entry, "WHETSTONE_ID_TOKEN")

		form := url.Values{"repository": {"<b>skills"}, "issuer": {""}, "ref": {"main"}, "workflow": {"release"}}
		admin.post(path, form).want(http.StatusBadRequest).
			wantText("Repository must be the path of a repository", "Workflow must be the name of a file", "None yet.")
		form.Set("repository", "acme/skills")
		form.Set("workflow", "release.yml")
		admin.post(path, form).want(http.StatusSeeOther)
		admin.get(path).want(http.StatusOK).wantText("acme/skills", "refs/heads/main", "release.yml", "pinned by the first run")
		admin.post(path, form).want(http.StatusConflict).wantText("pdf has this trusted publisher already")

		id := admin.api.Get("/api/v1/trusted-publishers").List("trusted_publishers")[0]["id"].(string)
		member := w.as(access.Member)
		member.get(path).want(http.StatusForbidden)
		member.post(path+"/"+id+"/delete", nil).want(http.StatusForbidden)
		admin.post(path+"/"+id+"/delete", nil).want(http.StatusSeeOther)
		admin.get(path).want(http.StatusOK).wantText("None yet.")
		admin.get("/settings/audit").want(http.StatusOK).wantText("added the trusted publisher", "removed the trusted publisher")
	})
}
