package approvals_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// TestApproval takes a candidate through the approvals of two people.
func TestApproval(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 2})
		w.push(w.dan, "1.1.0")
		w.want("1.1.0", "candidate", "1.0.0")
		wantReview(w.dan.Get(w.path("1.1.0")), "candidate", 0, 2, "it has 0 of 2 approvals")
		wantReview(w.answer(w.ben, "1.1.0", "approve"), "candidate", 1, 2, "it has 1 of 2 approvals")
		wantReview(w.answer(w.ben, "1.1.0", "approve"), "candidate", 1, 2, "it has 1 of 2 approvals") // the same person
		w.want("1.1.0", "candidate", "1.0.0")
		done := w.cyd.Post(w.path("1.1.0"), object{"decision": "approve", "comment": " fine \n"})
		wantReview(done, "published", 2, 2, nil)
		w.want("1.1.0", "published", "1.1.0")
		first := done.List("approvals")[0]
		apptest.WantKeys(t, first, "user_id", "name", "decision", "comment", "counts", "created_at", "review")
		if first["user_id"] != w.ben.User.ID || first["counts"] != true || first["comment"] != nil {
			t.Errorf("first approval: %v", first)
		}
		if said := done.List("conversation"); len(said) != 1 || said[0]["comment"] != "fine" {
			t.Errorf("conversation: %v", said)
		}
		w.answer(w.ada, "1.1.0", "approve").WantErrorWith(http.StatusConflict, "Version 1.1.0 is published, not a candidate")
		w.answer(w.ada, "1.0.0", "reject").WantErrorWith(http.StatusConflict, "not a candidate")
		for action, want := range map[string]int{"approvals.version.approve": 2, "registry.version.promote": 1, "registry.version.hold": 1} {
			if n := w.Count("audit_entries WHERE action = $1", action); n != want {
				t.Errorf("%d entries of %s in the audit log, want %d", n, action, want)
			}
		}
	})
}

// TestRejection keeps a candidate back until the person thinks again, or somebody
// overrides it.
func TestRejection(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 1})
		w.push(w.dan, "1.1.0")
		wantReview(w.answer(w.ben, "1.1.0", "reject"), "candidate", 0, 1, "1 person rejected it")
		wantReview(w.answer(w.cyd, "1.1.0", "approve"), "candidate", 1, 1, "1 person rejected it")
		w.ada.Post(registrytest.VersionPath(w.entry, "1.1.0")+"/promote", object{"reason": "now"}).
			WantErrorWith(http.StatusConflict, "1 person rejected it")
		w.want("1.1.0", "candidate", "1.0.0")
		wantReview(w.answer(w.ben, "1.1.0", "approve"), "published", 2, 1, nil)
		w.want("1.1.0", "published", "1.1.0")

		w.push(w.dan, "1.2.0")
		w.answer(w.ben, "1.2.0", "reject").Want(http.StatusOK)
		override := w.path("1.2.0") + "/override"
		w.dan.Post(override, object{"reason": "now"}).WantErrorWith(http.StatusForbidden, "registry:rollback")
		w.cyd.Post(override, object{"reason": " "}).WantIssueWith("reason", "required")
		wantReview(w.cyd.Post(override, object{"reason": "it leaks"}), "published", 0, 1, nil)
		w.want("1.2.0", "published", "1.2.0")
		w.cyd.Post(override, object{"reason": "again"}).WantErrorWith(http.StatusConflict, "not a candidate")
		if n := w.Count("audit_entries WHERE action = 'approvals.version.override' AND detail LIKE '%it leaks%'"); n != 1 {
			t.Errorf("%d overrides in the audit log", n)
		}
	})
}

// TestWhoMayApprove asks every kind of caller.
func TestWhoMayApprove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 1})
		w.push(w.ben, "1.1.0")
		org := w.ada.Org
		machine, _, _, err := w.Auth.IssueKey(t.Context(), auth.Holder{Role: access.AdminRole}, auth.NewKey{OrgID: org.ID, Name: "CI"})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			caller *registrytest.Client
			status int
			text   string
		}{
			{"a viewer", w.Member(org, access.Viewer), http.StatusForbidden, "permission write"},
			{"a member", w.dan, http.StatusForbidden, "You may not approve versions of pdf"},
			{"who published it", w.ben, http.StatusForbidden, "You published version 1.1.0"},
			{"a narrowed key", w.WithKey(org, w.cyd.User, access.Read, access.Write), http.StatusForbidden, "Only people approve"},
			{"the key of a relay", &registrytest.Client{Caller: w.World.World.WithKey(org, w.cyd.User, auth.NewKey{Relay: true})}, http.StatusForbidden, ""},
			{"the key of an entry", w.entryKey(), http.StatusForbidden, "pushes versions of one registry entry, and does nothing else"},
			{"a machine", w.WithKey(org, machine), http.StatusForbidden, "Only people approve"},
			{"another organisation", w.Org("eve", access.Pro), http.StatusNotFound, "not found"},
			{"nobody", w.Anonymous(), http.StatusUnauthorized, ""},
		} {
			for _, decision := range []string{"approve", "reject"} {
				if c.name == "who published it" && decision == "reject" {
					continue
				}
				w.answer(c.caller, "1.1.0", decision).WantErrorWith(c.status, c.text)
			}
			if c.status == http.StatusNotFound {
				c.caller.Get(w.path("1.1.0")).WantErrorWith(c.status, c.text)
				c.caller.Post(w.path("1.1.0")+"/override", object{"reason": "mine"}).WantErrorWith(c.status, c.text)
				c.caller.Post(strings.TrimSuffix(w.path("1.1.0"), "approvals")+"comments", object{"comment": "mine"}).WantErrorWith(c.status, c.text)
			}
		}
		w.WithKey(org, w.cyd.User, access.Read, access.RegistryRollback).Post(w.path("1.1.0")+"/override", object{"reason": "I may"}).
			WantErrorWith(http.StatusForbidden, "Only people override")
		if n := w.Count("version_approvals"); n != 0 {
			t.Errorf("%d answers were stored", n)
		}
		w.want("1.1.0", "candidate", "1.0.0")
		w.policy(object{"approvals": 1, "self_approval": true})
		w.answer(w.ben, "1.1.0", "approve").WantErrorWith(http.StatusForbidden, "another person") // what waits goes on waiting
		w.push(w.ben, "1.2.0")
		wantReview(w.answer(w.ben, "1.2.0", "approve"), "published", 1, 1, nil)
	})
}

// TestAnswerInput refuses bad answers, and stores none of them.
func TestAnswerInput(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 1})
		w.push(w.dan, "1.1.0")
		for _, c := range []struct {
			body        any
			field, text string
		}{
			{object{}, "decision", ""},
			{object{"decision": "comment"}, "decision", ""},
			{object{"decision": "maybe"}, "decision", ""},
			{object{"decision": 1}, "decision", ""},
			{object{"decision": "approve", "comment": strings.Repeat("ä", 4001)}, "comment", "at most 4000 characters"},
		} {
			w.ben.Post(w.path("1.1.0"), c.body).WantIssueWith(c.field, c.text)
		}
		comments := strings.TrimSuffix(w.path("1.1.0"), "approvals") + "comments"
		w.dan.Post(comments, object{"comment": " \n"}).WantIssueWith("comment", "required")
		w.ben.Post(w.path("9.9.9"), object{"decision": "approve"}).WantErrorWith(http.StatusNotFound, "Version 9.9.9 not found")
		w.ben.Get(w.path("9.9.9")).WantErrorWith(http.StatusNotFound, "Version 9.9.9 not found")
		policy := registrytest.EntryPath(w.entry) + "/gate-policy"
		for _, n := range []int{-1, 21} {
			w.ada.Do(http.MethodPut, policy, object{"mode": "off", "approvals": n}).WantIssueWith("approvals", "0 to 20")
		}
		got := w.ada.Get(policy).Field("policy")
		if got["approvals"] != 1.0 || got["self_approval"] != false {
			t.Errorf("policy %v", got)
		}
		if n := w.Count("version_approvals"); n != 0 {
			t.Errorf("%d answers were stored", n)
		}
	})
}

// TestEveryRoad tries to make a version current around the people.
func TestEveryRoad(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 1})
		w.push(w.dan, "1.1.0")
		post := func(version, action string) apptest.Response {
			return w.ada.Post(registrytest.VersionPath(w.entry, version)+"/"+action, object{"reason": "now"})
		}
		rollBack := func(to string, forward bool) apptest.Response {
			return w.ada.Post(registrytest.EntryPath(w.entry)+"/rollback", object{"target_version": to, "roll_forward": forward})
		}
		post("1.1.0", "promote").WantErrorWith(http.StatusConflict, "cannot be promoted: it has 0 of 1 approvals")
		rollBack("1.1.0", false).WantErrorWith(http.StatusConflict, "candidate")
		rollBack("1.1.0", true).WantErrorWith(http.StatusConflict, "candidate")
		post("1.1.0", "withdraw").Want(http.StatusOK)
		w.answer(w.ben, "1.1.0", "approve").WantErrorWith(http.StatusConflict, "withdrawn")
		post("1.1.0", "restore").Want(http.StatusOK)
		w.want("1.1.0", "candidate", "1.0.0")

		publish := func(version string) registry.Version {
			t.Helper()
			archive := registrytest.Skill(t, "from a repository "+version)
			pkg, err := skillpkg.Open(t.Context(), strings.NewReader(string(archive)), int64(len(archive)), skillpkg.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			defer pkg.Close()
			v, _, err := w.Registry.PublishRepo(t.Context(), registry.RepoPublication{
				OrgID: w.ada.Org.ID, UserID: w.ada.User.ID, EntryID: w.entry, Version: version, Source: registry.FromRepohost,
				SourceRef: "refs/tags/v" + version, SourceRepo: "acme/skills", Package: pkg, Latest: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if v := publish("1.2.0"); v.State != registry.Candidate {
			t.Errorf("the code host published version %s", v.Version)
		}
		// A version below the current one waits, too.
		if v := publish("0.1.0"); v.State != registry.Candidate {
			t.Errorf("version %s is %s", v.Version, v.State)
		}
		rollBack("0.1.0", false).WantErrorWith(http.StatusConflict, "is candidate")
		rollBack("0.1.0", true).WantErrorWith(http.StatusConflict, "is candidate")
		w.want("1.2.0", "candidate", "1.0.0")

		// A version that was current is not asked about again.
		w.answer(w.ben, "1.2.0", "approve").Want(http.StatusOK)
		w.want("1.2.0", "published", "1.2.0")
		rollBack("1.0.0", false).Want(http.StatusOK)
		w.want("1.0.0", "published", "1.0.0")
		rollBack("1.2.0", true).Want(http.StatusOK)
		if got := w.ada.Current(w.entry); got != "1.2.1" {
			t.Errorf("version %s is current", got)
		}

		// The first version of an entry waits as well, if the default of the organisation says so.
		w.ada.Do(http.MethodPut, "/api/v1/settings/gate-policy", object{"mode": "off", "approvals": 1}).Want(http.StatusOK)
		fresh := w.dan.Create("csv", "1.0.0", registrytest.Skill(t, "csv")).Want(http.StatusAccepted).Text("entry", "id")
		at := registrytest.VersionPath(fresh, "1.0.0")
		w.ada.Post(at+"/promote", object{"reason": "now"}).WantErrorWith(http.StatusConflict, "0 of 1")
		wantReview(w.ben.Post(at+"/approvals", object{"decision": "approve"}), "published", 1, 1, nil)
		if got := w.ada.Current(fresh); got != "1.0.0" {
			t.Errorf("version %s is current", got)
		}
	})
}

// TestWhatCounts changes people and policy while a candidate waits.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 2})
		w.push(w.dan, "1.1.0")
		w.answer(w.ben, "1.1.0", "approve").Want(http.StatusOK)
		eli := w.Member(w.ada.Org, access.AdminRole)
		w.answer(eli, "1.1.0", "reject").Want(http.StatusOK)

		owner, err := w.Auth.Authenticate(t.Context(), w.ada.Key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Auth.Remove(t.Context(), owner, auth.Removal{UserID: w.ben.User.ID}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Auth.SetRole(t.Context(), owner, eli.User.ID, access.Member); err != nil {
			t.Fatal(err)
		}
		review := w.ada.Get(w.path("1.1.0"))
		wantReview(review, "candidate", 0, 2, "it has 0 of 2 approvals")
		var counts []any
		for _, a := range review.List("approvals") {
			counts = append(counts, a["decision"], a["counts"])
		}
		if diff := cmp.Diff([]any{"approve", false, "reject", false}, counts); diff != "" {
			t.Error(diff)
		}
		wantReview(w.answer(w.cyd, "1.1.0", "approve"), "candidate", 1, 2, "it has 1 of 2 approvals")
		w.policy(object{"approvals": 1})
		wantReview(w.ada.Get(w.path("1.1.0")), "candidate", 1, 2, "it has 1 of 2 approvals")
		wantReview(w.answer(w.cyd, "1.1.0", "approve"), "candidate", 1, 2, "it has 1 of 2 approvals") // what waits goes on waiting
	})
}

// TestOvertaken approves a candidate after a later one became current.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 1})
		w.push(w.dan, "1.1.0")
		w.push(w.dan, "1.2.0")
		w.answer(w.ben, "1.2.0", "approve").Want(http.StatusOK)
		wantReview(w.answer(w.ben, "1.1.0", "approve"), "candidate", 1, 1, "version 1.2.0 was pushed later and is current")
		w.want("1.1.0", "candidate", "1.2.0")
		w.ada.Post(registrytest.VersionPath(w.entry, "1.1.0")+"/promote", object{"reason": "now"}).Want(http.StatusOK)
		w.want("1.1.0", "published", "1.1.0")
	})
}

// TestTogether approves on two replicas at the same time.
func TestTogether(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 2})
		other := wire(w.Replica())
		for n := range 5 {
			version := fmt.Sprintf("1.1.%d", n)
			w.push(w.dan, version)
			for _, r := range registrytest.Together(
				func() apptest.Response { return w.answer(w.ben, version, "approve") },
				func() apptest.Response { return w.answer(w.cyd.At(other.World), version, "approve") },
				func() apptest.Response { return w.answer(w.ben.At(other.World), version, "approve") },
			) {
				if r.Status != http.StatusOK && r.Status != http.StatusConflict {
					t.Errorf("%s: %d %s", r.What, r.Status, r.Body)
				}
			}
			w.want(version, "published", version)
			if n := w.Count("audit_entries WHERE action = 'registry.version.promote' AND detail LIKE $1", "%"+version+"%"); n != 1 {
				t.Errorf("version %s was released %d times", version, n)
			}
		}
	})
}

// TestConversation keeps what people said, within bounds.
func TestConversation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 2})
		w.push(w.dan, "1.1.0")
		comments := strings.TrimSuffix(w.path("1.1.0"), "approvals") + "comments"
		w.ben.Post(w.path("1.1.0"), object{"decision": "reject", "comment": "why?"}).Want(http.StatusOK)
		w.dan.Post(comments, object{"comment": "because"}).Want(http.StatusOK)
		w.Member(w.ada.Org, access.Viewer).Post(comments, object{"comment": "me too"}).WantErrorWith(http.StatusForbidden, "write")
		said := w.ben.Post(w.path("1.1.0"), object{"decision": "approve", "comment": "I see"}).Want(http.StatusOK)
		var texts []any
		for _, a := range said.List("conversation") {
			texts = append(texts, a["decision"], a["comment"])
		}
		if diff := cmp.Diff([]any{"reject", "why?", "comment", "because", "approve", "I see"}, texts); diff != "" {
			t.Error(diff)
		}
		if all := said.List("approvals"); len(all) != 1 {
			t.Errorf("approvals %v", all)
		}
		for n := range 60 {
			w.ben.Post(w.path("1.1.0"), object{"decision": []string{"approve", "reject"}[n%2]}).Want(http.StatusOK)
		}
		if n := w.Count("version_approvals"); n > 30 {
			t.Errorf("%d rows after 60 changes of mind", n)
		}
		w.Exec(`INSERT INTO version_approvals (id, org_id, entry_id, version_id, user_id, decision, comment, created_at)
			WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
			SELECT 'x' || n.i, a.org_id, a.entry_id, a.version_id, a.user_id, 'comment', 'noise', a.created_at
			FROM n, (SELECT * FROM version_approvals WHERE decision = 'comment' LIMIT 1) a`)
		w.dan.Post(comments, object{"comment": "one more"}).WantErrorWith(http.StatusConflict, "the maximum")
		w.answer(w.ben, "1.1.0", "approve").Want(http.StatusOK) // decisions always fit
	})
}

// TestWaiting lists what waits for each person.
func TestWaiting(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 2})
		waiting := func(c *registrytest.Client) (all []string) {
			t.Helper()
			for _, row := range c.Get("/api/v1/approvals").Want(http.StatusOK).List("waiting") {
				all = append(all, fmt.Sprintf("%v %v after %v: %v of %v", row["name"], row["version"], row["current"], row["given"], row["needed"]))
			}
			return all
		}
		want := func(c *registrytest.Client, rows ...string) {
			t.Helper()
			if diff := cmp.Diff(rows, waiting(c)); diff != "" {
				t.Error(diff)
			}
		}
		want(w.ben)
		w.push(w.ben, "1.1.0")
		w.push(w.dan, "1.2.0")
		want(w.ben, "pdf 1.2.0 after 1.0.0: 0 of 2")
		want(w.cyd, "pdf 1.2.0 after 1.0.0: 0 of 2", "pdf 1.1.0 after 1.0.0: 0 of 2")
		want(w.dan)
		want(w.Org("eve", access.Pro))
		w.answer(w.cyd, "1.1.0", "approve").Want(http.StatusOK)
		want(w.cyd, "pdf 1.2.0 after 1.0.0: 0 of 2")
		want(w.ada, "pdf 1.2.0 after 1.0.0: 0 of 2", "pdf 1.1.0 after 1.0.0: 1 of 2")
		w.answer(w.ben, "1.2.0", "approve").Want(http.StatusOK)
		w.answer(w.cyd, "1.2.0", "approve").Want(http.StatusOK)
		want(w.ada) // a later push overtook 1.1.0
	})
}

// TestPolicyLowered: what waits goes on waiting for what was asked of it, and an admin
// promotes it. What is pushed later meets the new policy.
func TestPolicyLowered(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 2})
		other := w.dan.Made("csv", "1.0.0", registrytest.Skill(t, "one"))
		w.push(w.dan, "1.1.0")
		w.answer(w.ben, "1.1.0", "approve").Want(http.StatusOK)
		w.Work()
		w.policy(object{"approvals": 1, "self_approval": true})
		w.Settle()
		w.want("1.1.0", "candidate", "1.0.0")
		wantReview(w.ben.Get(w.path("1.1.0")), "candidate", 1, 2, "it has 1 of 2 approvals")
		w.answer(w.ben, "1.1.0", "approve").Want(http.StatusOK) // again
		w.want("1.1.0", "candidate", "1.0.0")
		if waiting := w.cyd.Get("/api/v1/approvals").Want(http.StatusOK).List("waiting"); len(waiting) != 1 || waiting[0]["needed"] != 2.0 {
			t.Errorf("what waits for another admin: %v", waiting)
		}
		w.policy(object{"approvals": 0})
		w.want("1.1.0", "candidate", "1.0.0")
		// A promotion goes by the current policy.
		w.ada.Post(registrytest.VersionPath(w.entry, "1.1.0")+"/promote", object{"reason": "one is enough"}).Want(http.StatusOK)
		w.want("1.1.0", "published", "1.1.0")
		w.dan.Push(w.entry, "1.2.0", registrytest.Skill(t, "three")).Want(http.StatusCreated)

		// The default of the organisation is lowered in the same sense.
		standard := func(approvals int) {
			t.Helper()
			w.ada.Do(http.MethodPut, "/api/v1/settings/gate-policy", object{"policy": object{"mode": "off", "approvals": approvals}}).Want(http.StatusOK)
		}
		standard(2)
		w.dan.Push(other, "1.1.0", registrytest.Skill(t, "two")).Want(http.StatusAccepted)
		w.ben.Post(registrytest.VersionPath(other, "1.1.0")+"/approvals", object{"decision": "approve"}).Want(http.StatusOK)
		standard(1)
		w.Settle()
		if current := w.ada.Current(other); current != "1.0.0" {
			t.Errorf("version %s is current", current)
		}
		w.cyd.Post(registrytest.VersionPath(other, "1.1.0")+"/approvals", object{"decision": "approve"}).Want(http.StatusOK)
		if current := w.ada.Current(other); current != "1.1.0" {
			t.Errorf("version %s is current after two approvals", current)
		}
	})
}

// TestApart: a version from a branch, or a tag below the current version, waits for
// approvals as every other one, and does not become current by them.
func TestApart(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 1})
		for _, version := range []string{"0.0.0-repohost.5bb8228", "0.5.0"} {
			archive := registrytest.Skill(t, version)
			pkg, err := skillpkg.Open(t.Context(), bytes.NewReader(archive), int64(len(archive)), skillpkg.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			_, made, err := w.Registry.PublishRepo(t.Context(), registry.RepoPublication{
				OrgID: w.ada.Org.ID, UserID: w.dan.User.ID, EntryID: w.entry, Version: version, Source: registry.FromRepohost,
				SourceRef: "x", SourceRepo: "acme/skills", SourceCommit: "5bb8228", SourcePath: ".", Package: pkg, Latest: true,
			})
			if err != nil || !made {
				t.Fatalf("version %s: made %v, %v", version, made, err)
			}
			w.want(version, "candidate", "1.0.0")
			w.ada.Post(registrytest.EntryPath(w.entry)+"/rollback", object{"target_version": version}).Want(http.StatusConflict)
			w.answer(w.ben, version, "approve").Want(http.StatusOK)
			w.want(version, "published", "1.0.0")
		}
	})
}
