package teams_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

type object = apptest.Object

const path = "/api/v1/teams"

// world serves the registry, members and teams.
type world struct {
	*registrytest.World
	teams *teams.Service
}

func newWorld(t *testing.T, db *store.DB) world {
	t.Helper()
	w := world{World: registrytest.New(t, db)}
	w.teams = &teams.Service{DB: db, Auth: w.Auth, Registry: w.Registry}
	w.teams.Mount(w.API)
	w.Owns, w.Registry.Owners = w.teams.MayAsOwner, teams.Ownership{DB: db}.Shown
	(&members.Service{DB: db, Auth: w.Auth, PublicURL: apptest.PublicURL}).Mount(w.API)
	(&audit.Service{DB: db}).Mount(w.API)
	return w
}

// person makes a member with an address and a key.
func (w world) person(o auth.Organisation, email string, role access.Role, permissions ...access.Permission) *registrytest.Client {
	w.T.Helper()
	u, k, raw, err := w.Auth.IssueKey(w.T.Context(), auth.Holder{Email: email, Role: role},
		auth.NewKey{OrgID: o.ID, Name: "key", Permissions: permissions})
	if err != nil {
		w.T.Fatal(err)
	}
	return &registrytest.Client{Caller: &apptest.Caller{T: w.T, World: w.World.World, Org: o, User: u, KeyID: k.ID, Key: raw}}
}

// make makes a team and returns its id.
func makeTeam(c *registrytest.Client, name string, users ...string) string {
	c.T.Helper()
	id := c.Post(path, object{"name": name}).Want(http.StatusCreated).Text("team", "id")
	if len(users) > 0 {
		c.Do(http.MethodPut, path+"/"+id+"/members", object{"users": users}).Want(http.StatusOK)
	}
	return id
}

func ownersPath(entry string) string { return registrytest.EntryPath(entry) + "/owners" }

// owners says who owns an entry: the source, addresses, teams, and unknown ones.
func owners(c *registrytest.Client, entry string) string {
	c.T.Helper()
	return shown(c.Get(ownersPath(entry)).Want(http.StatusOK))
}

func shown(r apptest.Response) string {
	var out struct {
		Owners struct {
			Source  string
			Users   []struct{ Email string }
			Teams   []struct{ Slug string }
			Unknown []string
		}
	}
	r.Into(&out)
	all := []string{out.Owners.Source}
	for _, u := range out.Owners.Users {
		all = append(all, u.Email)
	}
	for _, t := range out.Owners.Teams {
		all = append(all, "@"+t.Slug)
	}
	for _, name := range out.Owners.Unknown {
		all = append(all, "?"+name)
	}
	return strings.Join(all, " ")
}

func TestTeam(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Team)
		bob := w.person(ada.Org, "bob@example.org", access.Member)
		made := ada.Post(path, object{"name": " Data  Platform! ", "description": "pipes"}).Want(http.StatusCreated)
		apptest.WantKeys(t, made.Object(), "team")
		apptest.WantKeys(t, made.Field("team"), "id", "name", "slug", "description", "member_count", "created_at", "updated_at")
		id := made.Text("team", "id")
		if made.Text("team", "slug") != "data-platform" || made.Text("team", "name") != "Data Platform!" || made.Text("team", "description") != "pipes" {
			t.Errorf("made %s", made.Body)
		}
		one := path + "/" + id
		set := ada.Do(http.MethodPut, one+"/members", object{"users": []string{bob.User.ID, ada.User.ID, bob.User.ID}}).Want(http.StatusOK)
		apptest.WantKeys(t, set.Object(), "team", "members")
		apptest.WantKeys(t, set.List("members")[0], "user_id", "name", "email")
		if n := set.Field("team")["member_count"]; n != 2.0 || len(set.List("members")) != 2 {
			t.Errorf("%v members: %s", n, set.Body)
		}
		got := bob.Get(one).Want(http.StatusOK)
		if len(got.List("members")) != 2 || got.Field("team")["member_count"] != 2.0 {
			t.Errorf("got %s", got.Body)
		}
		ada.Do(http.MethodDelete, one+"/members/"+ada.User.ID, nil).Want(http.StatusNoContent)
		ada.Do(http.MethodDelete, one+"/members/"+ada.User.ID, nil).WantError(http.StatusNotFound, "Member not found")
		ada.Do(http.MethodPut, one+"/members/"+ada.User.ID, nil).Want(http.StatusOK)
		ada.Do(http.MethodPut, one+"/members/"+ada.User.ID, nil).Want(http.StatusOK) // again changes nothing

		changed := ada.Do(http.MethodPatch, one, object{"name": "Data"}).Want(http.StatusOK)
		if changed.Text("team", "slug") != "data" || changed.Text("team", "description") != "pipes" || changed.Field("team")["member_count"] != 2.0 {
			t.Errorf("changed %s", changed.Body)
		}
		makeTeam(ada, "Another")
		listed := bob.Get(path + "?per_page=1&page=2").Want(http.StatusOK)
		apptest.WantKeys(t, listed.Object(), "teams", "pagination")
		if all := listed.List("teams"); len(all) != 1 || all[0]["slug"] != "data" || listed.Field("pagination")["total"] != 2.0 {
			t.Errorf("listed %s", listed.Body)
		}

		ada.Post(path, object{"name": "DATA"}).WantError(http.StatusConflict, "There is a team data already; choose another name")
		ada.Do(http.MethodPatch, one, object{"name": "another"}).
			WantError(http.StatusConflict, "There is a team another already; choose another name")
		ada.Do(http.MethodDelete, one, nil).Want(http.StatusNoContent)
		ada.Get(one).WantError(http.StatusNotFound, "Team not found")
		ada.Do(http.MethodDelete, one, nil).WantError(http.StatusNotFound, "Team not found")

		want := []string{
			"teams.team.create Data Platform!", "teams.team.members Data Platform!", "teams.team.members Data Platform!",
			"teams.team.members Data Platform!", "teams.team.change Data", "teams.team.create Another", "teams.team.delete Data",
		}
		if diff := cmp.Diff(want, recorded(ada)); diff != "" {
			t.Errorf("audit log: %s", diff)
		}
	})
}

// recorded lists what the audit log says of teams and owners, oldest first.
func recorded(c *registrytest.Client) (all []string) {
	c.T.Helper()
	list := c.Get("/api/v1/audit?action=teams.&limit=200").Want(http.StatusOK).List("entries")
	for i := range list {
		e := list[len(list)-1-i]
		all = append(all, fmt.Sprint(e["action"], " ", apptest.Text(e, "target", "name")))
	}
	return all
}

func TestTeamRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.Org("acme", access.Team), w.Org("other", access.Team)
		theirs := makeTeam(eve, "Theirs", eve.User.ID)
		id := makeTeam(ada, "Ours")
		one := path + "/" + id
		const line = "name must be one line of 1 to 100 characters"
		ada.Post(path, object{"name": "  "}).WantIssues("name", line)
		ada.Post(path, object{"name": "a\nb"}).WantIssues("name", line)
		ada.Post(path, object{"name": "a\u202eb"}).WantIssues("name", line)
		ada.Post(path, object{"name": "!!!"}).WantIssues("name", "name must have a letter or a digit")
		ada.Post(path, object{}).WantIssueWith("name", "")
		ada.Post(path, object{"name": strings.Repeat("x", 101)}).WantIssueWith("name", "100")
		ada.Post(path, object{"name": "x", "description": strings.Repeat("x", 501)}).WantIssueWith("description", "500")
		ada.Do(http.MethodPatch, one, object{"name": ""}).WantIssueWith("name", "")

		machine := w.person(ada.Org, "", access.Viewer).User
		for name, user := range map[string]string{
			"another organisation's": eve.User.ID, "nobody's": uuid.NewString(), "no id": "x", "empty": "", "a machine's": machine.ID,
		} {
			t.Run(name, func(t *testing.T) {
				message := fmt.Sprintf("users must be ids of members of the organisation who are people; %q is not", user)
				ada.In(t).Do(http.MethodPut, one+"/members", object{"users": []string{ada.User.ID, user}}).WantIssues("users.1", message)
			})
		}
		ada.Do(http.MethodPut, one+"/members/"+eve.User.ID, nil).WantIssueWith("users.0", "is not")
		ada.Do(http.MethodPut, one+"/members", object{"users": make([]string, 501)}).WantIssueWith("users", "500")
		if n := len(ada.Get(one).List("members")); n != 0 {
			t.Errorf("%d members after refused changes", n)
		}

		for _, other := range []string{theirs, uuid.NewString()} {
			ada.Get(path+"/"+other).WantError(http.StatusNotFound, "Team not found")
			ada.Do(http.MethodPatch, path+"/"+other, object{"name": "mine"}).WantError(http.StatusNotFound, "Team not found")
			ada.Do(http.MethodDelete, path+"/"+other, nil).WantError(http.StatusNotFound, "Team not found")
			ada.Do(http.MethodPut, path+"/"+other+"/members", object{"users": []string{}}).WantError(http.StatusNotFound, "Team not found")
			ada.Do(http.MethodPut, path+"/"+other+"/members/"+ada.User.ID, nil).WantError(http.StatusNotFound, "Team not found")
			ada.Do(http.MethodDelete, path+"/"+other+"/members/"+eve.User.ID, nil).WantError(http.StatusNotFound, "Team not found")
		}
		bob := w.person(ada.Org, "bob@example.org", access.Member)
		bob.Post(path, object{"name": "Mine"}).WantErrorWith(http.StatusForbidden, "admin")
		bob.Do(http.MethodPut, one+"/members/"+bob.User.ID, nil).WantErrorWith(http.StatusForbidden, "admin")
	})
}

func TestOwners(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.Org("acme", access.Team), w.Org("other", access.Team)
		bob, cleo := w.person(ada.Org, "bob@example.org", access.Member), w.person(ada.Org, "cleo@example.org", access.Viewer)
		docs := makeTeam(ada, "Docs", cleo.User.ID)
		entry := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "PDF."), object{"visibility": "public"})
		at := ownersPath(entry)
		if got := owners(bob, entry); got != "none" {
			t.Errorf("at first: %s", got)
		}
		set := ada.Do(http.MethodPut, at, object{"users": []string{bob.User.ID}, "teams": []string{docs, docs}}).Want(http.StatusOK)
		apptest.WantKeys(t, set.Field("owners"), "source", "users", "teams", "unknown", "codeowners")
		if got := shown(set); got != "manual bob@example.org @docs" || owners(cleo, entry) != got {
			t.Errorf("owners %s", got)
		}
		detail := cleo.Get(registrytest.EntryPath(entry)).Want(http.StatusOK)
		if diff := cmp.Diff(set.Field("owners"), detail.Field("owners")); diff != "" {
			t.Errorf("owners in the detail of the entry (-want +got):\n%s", diff)
		}
		for user, want := range map[string]bool{bob.User.ID: true, cleo.User.ID: true, ada.User.ID: false, eve.User.ID: false, "": false} {
			if got, err := (teams.Ownership{DB: db}).Owns(t.Context(), ada.Org.ID, entry, user); err != nil || got != want {
				t.Errorf("%s owns it: %v, %v, want %v", user, got, err, want)
			}
		}
		if owns, err := (teams.Ownership{DB: db}).Owns(t.Context(), eve.Org.ID, entry, bob.User.ID); owns || err != nil {
			t.Errorf("in another organisation: %v, %v", owns, err)
		}

		// Owners may change the owners, others may not.
		bob.Do(http.MethodPut, at, object{"users": []string{bob.User.ID, cleo.User.ID}}).Want(http.StatusOK)
		cleo.Do(http.MethodPut, at, object{"users": []string{cleo.User.ID}}).Want(http.StatusOK)
		bob.Do(http.MethodPut, at, object{"users": []string{bob.User.ID}}).WantErrorWith(http.StatusForbidden, "admin")
		if got := owners(ada, entry); got != "manual cleo@example.org" {
			t.Errorf("owners %s", got)
		}

		// A public entry shows its owners to its organisation only.
		if foreign := eve.Get(registrytest.EntryPath(entry)).Want(http.StatusOK).Object(); foreign["owners"] != nil {
			t.Errorf("another organisation sees the owners %v", foreign["owners"])
		}
		eve.Get(at).Want(http.StatusNotFound)
		eve.Do(http.MethodPut, at, object{"users": []string{eve.User.ID}}).Want(http.StatusNotFound)
		theirs := makeTeam(eve, "Theirs", eve.User.ID)
		refused := ada.Do(http.MethodPut, at, object{
			"users": []string{eve.User.ID}, "teams": []string{docs, theirs, "x"},
		})
		refused.WantIssues(
			"users.0", fmt.Sprintf("users must be ids of members of the organisation who are people; %q is not", eve.User.ID),
			"teams.1", fmt.Sprintf("teams must be ids of teams of the organisation; %q is not", theirs),
			"teams.2", `teams must be ids of teams of the organisation; "x" is not`)
		ada.Do(http.MethodPut, at, object{"users": make([]string, 51)}).WantIssueWith("users", "50")
		ada.Do(http.MethodPut, ownersPath(uuid.NewString()), object{}).Want(http.StatusNotFound)
		if got := owners(ada, entry); got != "manual cleo@example.org" {
			t.Errorf("owners after refused changes: %s", got)
		}

		// A removed member owns nothing any more, and has left the teams.
		ada.Do(http.MethodPut, at, object{"users": []string{bob.User.ID}, "teams": []string{docs}}).Want(http.StatusOK)
		ada.Do(http.MethodDelete, "/api/v1/members/"+cleo.User.ID, nil).Want(http.StatusNoContent)
		ada.Do(http.MethodDelete, "/api/v1/members/"+bob.User.ID, nil).Want(http.StatusNoContent)
		if got := owners(ada, entry); got != "manual @docs" {
			t.Errorf("owners after removals: %s", got)
		}
		if team := ada.Get(path + "/" + docs); len(team.List("members")) != 0 || team.Field("team")["member_count"] != 0.0 {
			t.Errorf("team after removals: %s", team.Body)
		}
		if people, err := (teams.Ownership{DB: db}).People(t.Context(), ada.Org.ID, entry); err != nil || len(people) != 0 {
			t.Errorf("people %v, %v", people, err)
		}
		ada.Do(http.MethodDelete, path+"/"+docs, nil).Want(http.StatusNoContent)
		if got := owners(ada, entry); got != "none" {
			t.Errorf("owners without the team: %s", got)
		}
		ada.Do(http.MethodPut, at, object{"users": []string{ada.User.ID}}).Want(http.StatusOK)
		ada.Do(http.MethodDelete, registrytest.EntryPath(entry), nil).Want(http.StatusNoContent)
		if n := w.Count("entry_owners"); n != 0 {
			t.Errorf("%d rows are left of a deleted entry", n)
		}
	})
}

// TestOwnerMay: owners roll back, withdraw and promote what their role alone does not let
// them, and with a narrowed key they do not.
func TestOwnerMay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Team)
		bob := w.person(ada.Org, "bob@example.org", access.Viewer)
		cleo := w.person(ada.Org, "cleo@example.org", access.Member)
		narrow := w.WithKey(ada.Org, cleo.User, access.Read, access.Write)
		entry, other := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "PDF.")), ada.Made("csv", "1.0.0", registrytest.Skill(t, "CSV."))
		for _, id := range []string{entry, other} {
			ada.Push(id, "1.1.0", registrytest.Skill(t, "Better.")).Want(http.StatusCreated)
		}
		rollback := registrytest.EntryPath(entry) + "/rollback"
		denied := "This needs the permission registry:rollback"
		cleo.Post(rollback, object{}).WantError(http.StatusForbidden, denied)
		ada.Do(http.MethodPut, ownersPath(entry), object{"users": []string{bob.User.ID}, "teams": []string{makeTeam(ada, "Docs", cleo.User.ID)}}).
			Want(http.StatusOK)
		narrow.Post(rollback, object{}).WantError(http.StatusForbidden, denied)
		cleo.Post(rollback, object{}).Want(http.StatusOK)
		bob.Post(rollback+"/undo", object{}).Want(http.StatusOK)
		version := registrytest.VersionPath(entry, "1.1.0")
		bob.Post(version+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
		bob.Post(version+"/restore", object{"reason": "good"}).Want(http.StatusOK)
		bob.Post(version+"/promote", object{"reason": "good"}).Want(http.StatusConflict) // is no candidate

		bob.Post(registrytest.EntryPath(other)+"/rollback", object{}).WantError(http.StatusForbidden, denied)
		bob.Post(registrytest.EntryPath(uuid.NewString())+"/rollback", object{}).WantError(http.StatusForbidden, denied)
		bob.Push(entry, "2.0.0", registrytest.Skill(t, "Mine.")).Want(http.StatusForbidden) // a viewer does not publish
		bob.Do(http.MethodDelete, registrytest.EntryPath(entry), nil).Want(http.StatusForbidden)
	})
}

// TestMayApprove: owners approve, in person or in a team; admins, while an entry has no
// owners. Members of other organisations never do.
func TestMayApprove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.Org("acme", access.Team), w.Org("other", access.Team)
		bob, cleo := w.person(ada.Org, "bob@example.org", access.Member), w.person(ada.Org, "cleo@example.org", access.Member)
		entry := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "PDF."))
		want := func(may ...*registrytest.Client) {
			t.Helper()
			for _, c := range []*registrytest.Client{ada, bob, cleo, eve} {
				who := access.Caller{OrgID: c.Org.ID, UserID: c.User.ID, Role: c.User.Role}
				got, err := w.teams.MayApprove(t.Context(), db, entry, who)
				if ours := c != eve; ours && (err != nil || got != slices.Contains(may, c)) {
					t.Errorf("%s may approve: %v, %v", c.User.Email, got, err)
				}
			}
		}
		want(ada)
		set := func(body object) { ada.Do(http.MethodPut, ownersPath(entry), body).Want(http.StatusOK) }
		set(object{"users": []string{bob.User.ID}})
		want(bob)
		set(object{"teams": []string{makeTeam(ada, "Docs", cleo.User.ID)}})
		want(cleo)
		set(object{"teams": []string{makeTeam(ada, "Empty")}})
		want(ada)
	})
}

// TestCodeowners stores what files say, and resolves it when it is read.
func TestCodeowners(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.Org("acme", access.Team), w.Org("other", access.Team)
		w.person(ada.Org, "bob@example.org", access.Member)
		makeTeam(eve, "Design") // is another organisation's
		w.person(eve.Org, "spy@example.org", access.Owner)
		entry := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "PDF."))
		reading := teams.Reading{
			ConnectionID: w.connection(ada, entry), OrgID: ada.Org.ID, EntryID: entry, Repository: "acme/skills", Commit: strings.Repeat("a", 40),
			SkillPath: "skills/pdf", Path: ".github/CODEOWNERS",
			Text: "* @acme/everybody\n/skills/ Bob@Example.org @acme/design spy@example.org @ada member@localhost\n",
		}
		read := func(text string) string {
			t.Helper()
			reading.Text = text
			if err := w.teams.ReadCodeowners(t.Context(), reading); err != nil {
				t.Fatal(err)
			}
			return owners(ada, entry)
		}
		w.person(ada.Org, "", access.Member) // makes the holder of machines' keys
		users := w.Count("users")
		if got, want := read(reading.Text), "codeowners bob@example.org ?@acme/design ?spy@example.org ?@ada ?member@localhost"; got != want {
			t.Errorf("owners %q, want %q", got, want)
		}
		if n := w.Count("users") + w.Count("invitations"); n != users {
			t.Error("somebody was invited")
		}
		file := ada.Get(ownersPath(entry)).Field("owners")["codeowners"].(map[string]any)
		apptest.WantKeys(t, file, "repository", "commit", "path", "line", "pattern", "owners", "read_at")
		if file["line"] != 2.0 || file["pattern"] != "/skills/" || file["path"] != ".github/CODEOWNERS" || file["repository"] != "acme/skills" {
			t.Errorf("file %v", file)
		}
		makeTeam(ada, "Design") // counts from now on
		if got, want := owners(ada, entry), "codeowners bob@example.org @design ?spy@example.org ?@ada ?member@localhost"; got != want {
			t.Errorf("owners %q, want %q", got, want)
		}

		// Those that are set by hand win, until there are none.
		ada.Do(http.MethodPut, ownersPath(entry), object{"users": []string{ada.User.ID}}).Want(http.StatusOK)
		if got := owners(ada, entry); got != "manual "+ada.User.Email {
			t.Errorf("owners %q", got)
		}
		back := ada.Do(http.MethodPut, ownersPath(entry), object{"users": []string{}, "teams": []string{}}).Want(http.StatusOK)
		if got := shown(back); !strings.HasPrefix(got, "codeowners bob@example.org") {
			t.Errorf("owners %q", got)
		}

		if got := read("* @acme/design\n/skills/pdf/\n"); got != "none" {
			t.Errorf("a line without owners: %q", got)
		}
		if got := read("/docs/ @acme/design\n"); got != "none" {
			t.Errorf("no line for the skill: %q", got)
		}
		reading.SkillPath = "."
		if got := read("/SKILL.md @acme/design\n"); got != "codeowners @design" {
			t.Errorf("a skill at the root: %q", got)
		}
		reading.Path = ""
		if got := read(""); got != "none" || w.Count("entry_codeowners") != 0 {
			t.Errorf("the file is gone: %q", got)
		}
		want := []string{"teams.team.create Design", "teams.owners.set pdf", "teams.owners.set pdf"}
		all := recorded(ada)
		var set, changed []string
		for _, line := range all {
			if strings.HasPrefix(line, "teams.owners.read") {
				changed = append(changed, line)
			} else {
				set = append(set, line)
			}
		}
		if diff := cmp.Diff(want, set); diff != "" || len(changed) != 4 {
			t.Errorf("audit log %q", all)
		}
	})
}

// connection makes a row of a connection, which the file's row belongs to.
func (w world) connection(c *registrytest.Client, entry string) string {
	w.T.Helper()
	id := store.NewID()
	w.Exec(`
		INSERT INTO repohost_connections (id, org_id, entry_id, entry_name, installation_id, repo_id, repo_full_name, repo_key, default_branch,
			skill_path, auto_publish, write_back_enabled, tag_pattern, created_by, created_at, updated_at, configured_at, held_until, codeowners)
		VALUES ($1, $2, $3, 'pdf', 1, 1, 'acme/skills', 'acme/skills', 'main', 'skills/pdf', $5, $5, '', $4, 0, 0, 0, 0, $6)`,
		id, c.Org.ID, entry, c.User.ID, false, true)
	return id
}
