package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

// TestTeams creates a team, changes it and deletes it, as people do in the settings.
func TestTeams(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, member := w.as(access.AdminRole), w.as(access.Member)
		const path = "/settings/teams"
		checkPage(t, member.get(path).want(http.StatusOK).wantText("None yet.", "Admins create them.").wantNoText("New team"))
		member.post(path, url.Values{"name": {"Docs"}}).want(http.StatusForbidden)
		checkPage(t, admin.get(path).want(http.StatusOK).wantText("New team"))

		// A mistyped address creates nothing, and the input stays.
		form := url.Values{"name": {"Docs <b>"}, "description": {"writes"}, "members": {"nobody@example.org"}}
		refused := admin.post(path, form).want(http.StatusBadRequest).wantText("no member who is a person has the address", "Teams of default 0")
		if !strings.Contains(refused.body, `value="nobody@example.org"`) {
			t.Error("the input is gone")
		}
		admin.post(path, url.Values{"name": {" "}}).want(http.StatusBadRequest).wantText("Name must be one line")
		form.Set("members", member.api.User.Email+", "+strings.ToUpper(admin.api.User.Email))
		one := admin.post(path, form).want(http.StatusSeeOther).Header.Get("Location")
		checkPage(t, admin.get(one).want(http.StatusOK).
			wantText("The team @docs-b was created.", "Docs <b>", member.api.User.Email, admin.api.User.Email, "Delete the team"))
		member.get(one).want(http.StatusOK).wantText(admin.api.User.Email).wantNoText("Delete the team", "Remove ", "Add members")
		admin.post(path, form).want(http.StatusConflict)

		for _, bad := range []url.Values{
			{"action": {"add"}, "members": {"@docs-b"}},
			{"action": {"add"}, "members": {" "}},
			{"action": {"add"}, "members": {strings.Repeat("a@example.org ", 101)}},
			{"action": {"change"}, "name": {""}},
			{"action": {"explode"}},
		} {
			admin.post(one, bad).want(http.StatusBadRequest)
		}
		admin.post(one, url.Values{"action": {"remove"}, "user": {member.api.User.ID}}).wantLocation(one)
		admin.get(one).wantText("They are no longer in the team.").wantText("Members 1")
		admin.post(one, url.Values{"action": {"remove"}, "user": {member.api.User.ID}}).want(http.StatusNotFound)
		admin.post(one, url.Values{"action": {"add"}, "members": {member.api.User.Email}}).wantLocation(one)
		admin.post(one, url.Values{"action": {"change"}, "name": {"Writers"}, "description": {""}}).wantLocation(one)
		admin.get(path).want(http.StatusOK).wantText("Writers", "@writers").wantNoText("Docs")
		for _, form := range []url.Values{{"action": {"add"}, "members": {member.api.User.Email}}, {"action": {"change"}, "name": {"Mine"}}} {
			member.post(one, form).want(http.StatusForbidden)
		}
		member.post(one+"/delete", nil).want(http.StatusForbidden)
		stranger := w.otherOrg(access.Enterprise)
		stranger.get(one).want(http.StatusNotFound)
		stranger.post(one, url.Values{"action": {"change"}, "name": {"Mine"}}).want(http.StatusNotFound)
		stranger.post(one+"/delete", nil).want(http.StatusNotFound)
		admin.post(one+"/delete", nil).wantLocation(path)
		admin.get(one).want(http.StatusNotFound)
	})
}

// TestEntryOwners: the page of an entry says who owns it and why, and its owners change
// that and roll back, whatever their role.
func TestEntryOwners(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, viewer, other := w.as(access.AdminRole), w.as(access.Viewer), w.as(access.Member)
		entry := admin.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "x")})
		admin.push("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "y")})
		path := "/registry/" + entry
		viewer.get(path).want(http.StatusOK).wantText("This entry has no owner. Admins approve its versions.").
			wantNoText("Change the owners", "Roll back")
		admin.post("/settings/teams", url.Values{"name": {"Docs"}, "members": {viewer.api.User.Email}}).want(http.StatusSeeOther)

		viewer.post(path+"/owners", url.Values{"owners": {viewer.api.User.Email}}).want(http.StatusForbidden)
		refused := admin.post(path+"/owners", url.Values{"owners": {"@nobody <b>"}}).want(http.StatusBadRequest).wantText("no team is called @nobody")
		checkPage(t, refused)
		admin.post(path+"/owners", url.Values{"owners": {"@docs," + admin.api.User.Email}}).wantLocation(path)
		owned := viewer.get(path).want(http.StatusOK).wantText("@docs 1 member", admin.api.User.Email, "Set by hand.", "Change the owners", "Roll back")
		checkPage(t, owned)
		if !strings.Contains(owned.body, `value="`+admin.api.User.Email+`, @docs"`) {
			t.Error("the form does not have the owners")
		}
		other.get(path).wantText("@docs 1 member").wantNoText("Change the owners", "Roll back")

		// Owners roll back and give the entry away; then they may no longer.
		viewer.post(path+"/rollback", url.Values{"version": {"1.0.0"}, "reason": {"worse"}}).wantLocation(path)
		viewer.post(path+"/rollback/undo", nil).wantLocation(path)
		other.post(path+"/rollback", url.Values{"version": {"1.0.0"}, "reason": {"worse"}}).want(http.StatusForbidden)
		viewer.post(path+"/owners", url.Values{"owners": {other.api.User.Email}}).wantLocation(path)
		viewer.post(path+"/owners", url.Values{"owners": {viewer.api.User.Email}}).want(http.StatusForbidden)
		viewer.post(path+"/rollback", url.Values{"version": {"1.0.0"}, "reason": {"worse"}}).want(http.StatusForbidden)
		other.post(path+"/owners", nil).wantLocation(path)
		other.get(path).wantText("This entry has no owner.")

		// By a file, the line that applies is shown.
		service := &teams.Service{DB: w.DB, Auth: w.Auth, Registry: &registry.Service{DB: w.DB}}
		connection := admin.connection(entry)
		read := func(text string) {
			t.Helper()
			if err := service.ReadCodeowners(t.Context(), teams.Reading{
				ConnectionID: connection, OrgID: w.org.ID, EntryID: entry, Repository: "acme/skills", Commit: "0123456789abcdef", SkillPath: "pdf",
				Path: "CODEOWNERS", Text: text,
			}); err != nil {
				t.Fatal(err)
			}
		}
		read("# who\n/pdf/ @acme/docs @ghost <i>x</i>@example.org\n")
		shown := admin.get(path).want(http.StatusOK).wantText("@docs 1 member",
			"By line 2 of CODEOWNERS in acme/skills at 0123456", "/pdf/ @acme/docs @ghost <i>x</i>@example.org", "Neither a member nor a team: @ghost , <i>x</i>@example.org .")
		checkPage(t, shown)
		viewer.get(path).wantText("Change the owners")
		admin.post(path+"/owners", url.Values{"owners": {admin.api.User.Email}}).wantLocation(path)
		admin.get(path).wantText("Set by hand, instead of line 2 of CODEOWNERS")
		admin.post(path+"/owners", nil).wantLocation(path)
		read("/other/ @acme/docs\n")
		admin.get(path).wantText("This entry has no owner", "No line of CODEOWNERS in acme/skills matches this skill.")

		// Other organisations see none of it.
		public := admin.pushTo("open", "1.0.0", "public", map[string]string{"SKILL.md": skillText("open", "Reads", "x")})
		admin.post("/registry/"+public+"/owners", url.Values{"owners": {admin.api.User.Email}}).wantLocation("/registry/" + public)
		stranger := w.otherOrg(access.Enterprise)
		stranger.get("/registry/"+public).want(http.StatusOK).wantNoText("Owners", admin.api.User.Email)
		stranger.post("/registry/"+public+"/owners", url.Values{"owners": {stranger.api.User.Email}}).want(http.StatusNotFound)
	})
}

// connection makes a row of a connection, which the row of a CODEOWNERS file belongs to.
func (b *browser) connection(entry string) string {
	b.w.T.Helper()
	id := store.NewID()
	b.w.Exec(`
		INSERT INTO repohost_connections (id, org_id, entry_id, entry_name, installation_id, repo_id, repo_full_name, repo_key, default_branch,
			skill_path, auto_publish, write_back_enabled, tag_pattern, created_by, created_at, updated_at, configured_at, held_until, codeowners)
		VALUES ($1, $2, $3, 'pdf', 1, 1, 'acme/skills', 'acme/skills', 'main', 'pdf', $5, $5, '', $4, 0, 0, 0, 0, $6)`,
		id, b.w.org.ID, entry, b.api.User.ID, false, true)
	return id
}
