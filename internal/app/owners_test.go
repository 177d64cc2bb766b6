package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// A taker is a member who wants to own an entry, and the people around.
type taker struct {
	*house
	admin, ben, mallory *apptest.Caller
	malloryID           string
	entry, path         string // its id, and its path
	work                *hosttest.Work
}

const repohostAPI = "/api/v1/repohost"

func newTaker(t *testing.T, flags ...string) *taker {
	t.Helper()
	w := &taker{house: &house{t: t, repos: hosttest.NewRepos(t)}}
	w.work = w.repos.Create("acme/deploy")
	owned := map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships."), "CODEOWNERS": "* mallory@example.org\n"}
	w.work.Push("first", owned)
	w.work.Git("checkout", "--quiet", "-b", "mine")
	w.work.Commit("mine", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Ships it to Mallory.")})
	w.work.Git("push", "--quiet", "origin", "mine")
	w.repos.Create("mallory/own").Push("own", owned)
	w.service = start(t, settings(t, append(flags, "--repohost-url", w.repos.Dir)...))
	w.admin = w.as(w.FirstKey)
	id, key := w.join("mallory@example.org", "member")
	w.malloryID, w.mallory = id, w.as(key)
	_, key = w.join("ben@example.org", "admin")
	w.ben = w.as(key)
	w.entry = w.publish("/api/v1/registry", w.FirstKey, "1.0.0").Want(http.StatusCreated).Text("entry", "id")
	w.path = "/api/v1/registry/" + w.entry
	w.bind(w.admin, 1, "acme")
	w.bind(w.mallory, 2, "mallory") // by itself it gives no access to an entry
	return w
}

func (w *taker) bind(by *apptest.Caller, id int, account string) {
	w.t.Helper()
	by.Post(repohostAPI+"/installations", object{"installation_id": id, "account_login": account, "account_type": "User"}).Want(http.StatusCreated)
}

func (w *taker) policy(p object) {
	w.t.Helper()
	w.admin.Do(http.MethodPut, w.path+"/gate-policy", p).Want(http.StatusOK)
}

func (w *taker) connect(by *apptest.Caller, fields object) apptest.Response {
	w.t.Helper()
	return by.Post(repohostAPI+"/connections", apptest.With(object{"entry_id": w.entry, "installation_id": 1, "repo_full_name": "acme/deploy"}, fields))
}

func (w *taker) patch(by *apptest.Caller, id string, body object) apptest.Response {
	w.t.Helper()
	return by.Do(http.MethodPatch, repohostAPI+"/connections/"+id, body)
}

func (w *taker) sync(id string) string {
	w.t.Helper()
	a := w.mallory.Post(repohostAPI+"/connections/"+id+"/sync", nil).Want(http.StatusOK)
	return a.Text("version")
}

func (w *taker) current() string {
	w.t.Helper()
	for _, v := range w.admin.Get(w.path).Want(http.StatusOK).List("versions") {
		if v["is_current"] == true {
			return v["version"].(string)
		}
	}
	return ""
}

// owner is the source of the owners, and the first person.
func (w *taker) owner() string {
	w.t.Helper()
	o := w.admin.Get(w.path + "/owners").Want(http.StatusOK).Field("owners")
	got := o["source"].(string)
	for _, person := range o["users"].([]any) {
		got += " " + person.(map[string]any)["email"].(string)
	}
	return got
}

func (w *taker) wantOwner(want string) {
	w.t.Helper()
	if got := w.owner(); got != want {
		w.t.Errorf("owners: %s, want %s", got, want)
	}
}

// onDatabases runs a test on both databases.
func onDatabases(t *testing.T, test func(t *testing.T, flags ...string)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { test(t) })
	t.Run("postgres", func(t *testing.T) { test(t, "--database-url", storetest.URL(t, "postgres")) })
}

// TestOwnershipIsNotTaken: a member cannot become the owner of an entry by a repository, a
// branch, a path or tags that they choose.
func TestOwnershipIsNotTaken(t *testing.T) {
	onDatabases(t, func(t *testing.T, flags ...string) {
		w := newTaker(t, flags...)
		own := object{"installation_id": 2, "repo_full_name": "mallory/own"}

		// An entry without owners or a gate may be connected, but the file does not count.
		w.connect(w.mallory, apptest.With(own, object{"codeowners": true})).WantErrorWith(http.StatusForbidden, "permission admin")
		free := w.connect(w.mallory, own).Want(http.StatusCreated)
		if free.Object()["codeowners"] != false || free.Text("chosen_by") != w.malloryID {
			t.Errorf("connection: %s", free.Body)
		}
		id := free.Text("id")
		w.sync(id)
		w.wantOwner("none")
		w.patch(w.mallory, id, object{"codeowners": true}).WantErrorWith(http.StatusForbidden, "Only owners of the entry")
		w.patch(w.mallory, id, object{"codeowners": false, "tag_pattern": "r*"}).Want(http.StatusOK)
		w.patch(w.admin, id, object{"codeowners": true}).Want(http.StatusOK)
		w.wantOwner("none") // what was read before the tags changed
		w.sync(id)
		w.wantOwner("codeowners mallory@example.org")
		w.patch(w.admin, id, object{"skill_path": "x"}).Want(http.StatusOK)
		w.wantOwner("none")
		w.patch(w.admin, id, object{"skill_path": ".", "codeowners": true}).Want(http.StatusOK)
		w.mallory.Do(http.MethodDelete, repohostAPI+"/connections/"+id, nil).WantErrorWith(http.StatusForbidden, "Only owners of the entry")
		w.admin.Do(http.MethodDelete, repohostAPI+"/connections/"+id, nil).Want(http.StatusNoContent)

		// Each kind of guard keeps members from choosing what is published.
		admins := w.admin.Get("/api/v1/me").Text("user", "id")
		for _, guard := range []struct {
			name string
			set  func(on bool)
		}{
			{"default", func(on bool) { // while the entry has no policy of its own
				w.admin.Do(http.MethodPut, "/api/v1/settings/gate-policy", object{"mode": "off", "approvals": map[bool]int{true: 1}[on]}).Want(http.StatusOK)
			}},
			{"approvals", func(on bool) { w.policy(object{"mode": "off", "approvals": map[bool]int{true: 1}[on]}) }},
			{"gate", func(on bool) { w.policy(object{"mode": map[bool]string{true: "enforce", false: "off"}[on]}) }},
			{"owners", func(on bool) {
				users := map[bool][]string{true: {admins}, false: {}}[on]
				w.admin.Do(http.MethodPut, w.path+"/owners", object{"users": users}).Want(http.StatusOK)
			}},
		} {
			t.Run(guard.name, func(t *testing.T) {
				guard.set(true)
				denied := "only its owners, and people with the permission admin"
				w.connect(w.mallory, own).WantErrorWith(http.StatusForbidden, denied)
				made := w.connect(w.admin, nil).Want(http.StatusCreated).Text("id")
				for _, body := range []object{{"default_branch": "mine"}, {"skill_path": "x"}, {"tag_pattern": "*"}, {"codeowners": true}} {
					w.patch(w.mallory, made, body).Want(http.StatusForbidden)
				}
				w.patch(w.mallory, made, object{"write_back_enabled": true, "default_branch": "main", "auto_publish": false}).Want(http.StatusOK)
				narrow := w.admin.Post("/api/v1/keys", object{"name": "narrow", "permissions": []string{"read", "registry:push"}}).Want(http.StatusCreated)
				w.patch(w.as(narrow.Text("api_key")), made, object{"default_branch": "mine"}).Want(http.StatusForbidden)
				w.admin.Do(http.MethodDelete, repohostAPI+"/connections/"+made, nil).Want(http.StatusNoContent)
				guard.set(false)
			})
		}
	})
}

// TestWhoChoseTheBranchPublished: who changes what a connection publishes cannot approve
// its versions as another person, also after the connection is gone.
func TestWhoChoseTheBranchPublished(t *testing.T) {
	onDatabases(t, func(t *testing.T, flags ...string) {
		w := newTaker(t, flags...)
		w.policy(object{"mode": "off", "approvals": 1})
		id := w.connect(w.admin, object{"auto_publish": false}).Want(http.StatusCreated).Text("id")
		ben := w.ben.Get("/api/v1/me").Text("user", "id")
		w.admin.Do(http.MethodPut, w.path+"/owners", object{"users": []string{w.malloryID, ben}}).Want(http.StatusOK)
		w.patch(w.mallory, id, object{"default_branch": "mine"}).Want(http.StatusOK)
		w.repos.Git("acme/deploy", "tag", "v3.0.0", "mine")
		w.sync(id)
		approvals := w.path + "/versions/3.0.0/approvals"
		published := "You published version 3.0.0"
		w.mallory.Post(approvals, object{"decision": "approve"}).WantErrorWith(http.StatusForbidden, published)
		w.patch(w.ben, id, object{"default_branch": "main"}).Want(http.StatusOK)
		w.mallory.Post(approvals, object{"decision": "approve"}).WantErrorWith(http.StatusForbidden, published)
		w.mallory.Do(http.MethodDelete, repohostAPI+"/connections/"+id, nil).Want(http.StatusNoContent)
		w.mallory.Post(approvals, object{"decision": "approve"}).WantErrorWith(http.StatusForbidden, published)
		if waiting := w.mallory.Get("/api/v1/approvals").Want(http.StatusOK).Body; strings.Contains(string(waiting), "3.0.0") {
			t.Errorf("it waits for them: %s", waiting)
		}
		w.ben.Post(approvals, object{"decision": "approve"}).Want(http.StatusOK)
		if got := w.current(); got != "3.0.0" {
			t.Errorf("version %s is current", got)
		}
	})
}

// TestOwnersAndTheGate: an owner who is no admin cannot make current what the gate blocked,
// by no road, and cannot overtake a gate that has yet to decide.
func TestOwnersAndTheGate(t *testing.T) {
	onDatabases(t, func(t *testing.T, flags ...string) {
		w := newTaker(t, flags...)
		w.policy(object{"mode": "enforce", "floors": object{"skill_md_tokens": 100}})
		w.admin.Do(http.MethodPut, w.path+"/owners", object{"users": []string{w.malloryID}}).Want(http.StatusOK)
		long := apptest.Part{Name: "archive", File: "skill.tar.gz", Content: w.archive(strings.Repeat("Many words. ", 400))}
		push := w.form(w.path+"/versions", w.FirstKey, map[string]string{"metadata": `{"version":"1.1.0"}`}, long).Want(http.StatusAccepted)
		gate := "/api/v1/gates/" + push.Text("gate", "id")
		apptest.Eventually(t, "the verdict", func() bool { return w.admin.Get(gate).Field("gate")["verdict"] != nil })
		if got := w.admin.Get(gate).Text("gate", "verdict"); got != "block" {
			t.Fatalf("the verdict is %s", got)
		}
		version := w.path + "/versions/1.1.0/"
		because := object{"reason": "it is mine"}
		refuse := func(a apptest.Response) {
			t.Helper()
			a.WantErrorWith(http.StatusForbidden, "registry:rollback")
		}
		refuse(w.mallory.Post(version+"promote", because))
		refuse(w.mallory.Post(gate+"/override", because))
		refuse(w.mallory.Post(version+"approvals/override", because))
		w.mallory.Post(gate+"/rerun", nil).Want(http.StatusAccepted)
		refuse(w.mallory.Post(version+"promote", because))
		// A push that supersedes the gate of another version before its verdict is no proof of that one.
		w.form(w.path+"/versions", w.FirstKey, map[string]string{"metadata": `{"version":"1.1.1"}`}, long).Want(http.StatusAccepted)
		w.form(w.path+"/versions", w.FirstKey, map[string]string{"metadata": `{"version":"1.1.2"}`}, long).Want(http.StatusAccepted)
		refuse(w.mallory.Post(w.path+"/versions/1.1.1/promote", because))
		w.mallory.Post(w.path+"/rollback", object{"target_version": "1.1.0"}).Want(http.StatusConflict) // a candidate
		w.mallory.Post(version+"withdraw", because).Want(http.StatusOK)
		if got := w.mallory.Post(version+"restore", because).Want(http.StatusOK).Text("version", "state"); got != "candidate" {
			t.Errorf("restored as %s", got)
		}
		refuse(w.mallory.Post(version+"promote", because))

		// Neither does an owner profit from a policy that was lowered while a version waited.
		w.policy(object{"mode": "off", "approvals": 2})
		w.form(w.path+"/versions", w.FirstKey, map[string]string{"metadata": `{"version":"1.1.3"}`}, long).Want(http.StatusAccepted)
		w.policy(object{"mode": "off"})
		w.mallory.Post(w.path+"/versions/1.1.3/promote", because).WantErrorWith(http.StatusConflict, "0 of 2 approvals")
		w.policy(object{"mode": "enforce", "floors": object{"skill_md_tokens": 100}})

		// Once an admin has decided, owners still do not bring it back.
		w.admin.Post(version+"promote", because).Want(http.StatusOK)
		w.mallory.Post(w.path+"/rollback", object{}).Want(http.StatusOK)
		refuse(w.mallory.Post(w.path+"/rollback/undo", object{}))
		refuse(w.mallory.Post(w.path+"/rollback", object{"target_version": "1.1.0"}))
		refuse(w.mallory.Post(w.path+"/rollback", object{"target_version": "1.1.0", "roll_forward": true}))
		w.mallory.Post(version+"withdraw", because).Want(http.StatusOK)
		if got := w.mallory.Post(version+"restore", because).Want(http.StatusOK).Text("version", "state"); got != "candidate" {
			t.Errorf("restored as %s", got)
		}
		if got := w.current(); got != "1.0.0" {
			t.Errorf("version %s is current", got)
		}
	})
}
