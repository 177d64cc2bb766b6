package scim_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func values(ids ...string) []object {
	all := make([]object, len(ids))
	for i, id := range ids {
		all[i] = object{"value": id}
	}
	return all
}

// wantMembers compares the members of a group.
func wantMembers(t *testing.T, p *apptest.Caller, group string, want ...string) {
	t.Helper()
	r := p.Get(groups + "/" + group).Want(http.StatusOK)
	var got []string
	if r.Object()["members"] != nil {
		for _, m := range r.List("members") {
			apptest.WantKeys(t, m, "value", "$ref", "display")
			got = append(got, apptest.Text(m, "value"))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the group has %v, want %v", got, want)
	}
}

func TestGroupRoles(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p := w.provider(ada)
		bob, eve := create(p, "bob@acme.example"), create(p, "eve@acme.example")
		group := func(name string, members ...string) string {
			return p.Post(groups, object{"displayName": name, "members": values(members...)}).Want(http.StatusCreated).Text("id")
		}
		give := func(id string, role any) {
			t.Helper()
			ada.Do(http.MethodPut, roles+"/"+id, object{"role": role}).Want(http.StatusOK)
		}
		want := func(email string, role access.Role) {
			t.Helper()
			if got := w.roleOf(ada.Org, email+"@acme.example"); got != role {
				t.Errorf("%s is %q, want %q", email, got, role)
			}
		}
		admins, readers, all := group("Admins", bob), group("Readers", eve), group("All", bob, eve)
		want("bob", access.Member)
		give(admins, "admin")
		want("bob", access.AdminRole)
		give(readers, "viewer")
		want("eve", access.Viewer)
		give(all, "member") // the highest wins
		want("bob", access.AdminRole)
		want("eve", access.Member)
		patch(p, groups+"/"+admins, object{"op": "add", "path": "members", "value": values(eve)}).Want(http.StatusNoContent)
		want("eve", access.AdminRole)
		patch(p, groups+"/"+admins, object{"op": "remove", "path": `members[value eq "` + eve + `"]`}).Want(http.StatusNoContent)
		want("eve", access.Member)
		give(all, nil)
		want("eve", access.Viewer)
		want("bob", access.AdminRole)
		// Whoever leaves the last group with a role is a member, unless they had less.
		p.Do(http.MethodDelete, groups+"/"+readers, nil).Want(http.StatusNoContent)
		want("eve", access.Viewer)
		p.Do(http.MethodPut, groups+"/"+admins, object{"displayName": "Admins"}).Want(http.StatusOK)
		want("bob", access.Member)

		// The role comes back with the person.
		give(all, "admin")
		want("bob", access.AdminRole)
		patch(p, users+"/"+bob, object{"op": "replace", "path": "active", "value": false}).Want(http.StatusOK)
		want("bob", "")
		give(all, "owner")
		patch(p, users+"/"+bob, object{"op": "replace", "path": "active", "value": true}).Want(http.StatusOK)
		want("bob", access.Owner)
		wantMembers(t, p, all, bob, eve)
		p.Do(http.MethodDelete, users+"/"+bob, nil).Want(http.StatusNoContent)
		wantMembers(t, p, all, eve)

		listed := ada.Get(roles).Want(http.StatusOK)
		for _, g := range listed.List("scim_groups") {
			apptest.WantKeys(t, g, "id", "display_name", "external_id", "role", "members", "created_at", "updated_at")
			if g["id"] == all && (g["role"] != "owner" || g["members"] != 1.0) {
				t.Errorf("listed %v", g)
			}
		}
		w.Member(ada.Org, access.AdminRole).Do(http.MethodPut, roles+"/"+all, object{"role": "admin"}).WantErrorWith(http.StatusForbidden, "role owner")
		ada.Do(http.MethodPut, roles+"/"+all, object{"role": "king"}).Want(http.StatusBadRequest)
		ada.Do(http.MethodPut, roles+"/"+all, object{}).Want(http.StatusBadRequest).WantIssueWith("role", "role is required")
		ada.Do(http.MethodPut, roles+"/"+store.NewID(), object{"role": "admin"}).WantError(http.StatusNotFound, "Group not found")
	})
}

func TestGroupsRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		p := w.provider(w.Org("acme"))
		bob := create(p, "bob@acme.example")
		group := p.Post(groups, object{"displayName": "Eng", "externalId": "g1", "members": values(bob)}).Want(http.StatusCreated).Text("id")
		other := p.Post(groups, object{"displayName": "Other"}).Want(http.StatusCreated).Text("id")
		for name, c := range map[string]struct {
			body         any
			word, detail string
		}{
			"no name":       {object{}, "invalidValue", "displayName is required"},
			"same name":     {object{"displayName": "ENG"}, "uniqueness", "exists"},
			"same id":       {object{"displayName": "x", "externalId": "g1"}, "uniqueness", "exists"},
			"unknown":       {object{"displayName": "x", "members": values("nobody")}, "invalidValue", "no user has the id nobody"},
			"empty member":  {object{"displayName": "x", "members": values("")}, "invalidValue", "members.value is required"},
			"group":         {object{"displayName": "x", "members": []object{{"value": other, "type": "Group"}}}, "invalidValue", "groups in groups"},
			"group's id":    {object{"displayName": "x", "members": values(other)}, "invalidValue", "no user has the id"},
			"control":       {object{"displayName": "a\nb"}, "invalidValue", "control characters"},
			"members text":  {`{"displayName":"x","members":"y"}`, "invalidValue", "members: unexpected string"},
			"long":          {object{"displayName": strings.Repeat("x", 255)}, "invalidValue", "at most 254"},
			"NUL in member": {`{"displayName":"x","members":[{"value":"\u0000"}]}`, "invalidValue", "members.value must not have control"},
		} {
			t.Run(name, func(t *testing.T) {
				status := http.StatusBadRequest
				if c.word == "uniqueness" {
					status = http.StatusConflict
				}
				wantProblem(t, p.In(t).Post(groups, c.body), status, c.word, c.detail)
			})
		}
		many := make([]string, 10_001)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		wantProblem(t, patch(p, groups+"/"+group, object{"op": "add", "path": "members", "value": values(many...)}), http.StatusBadRequest, "invalidValue", "at most 10000")
		for _, o := range []object{
			{"op": "add", "path": `members[value eq "x"]`, "value": object{}}, {"op": "remove", "path": `members[type eq "User"]`},
		} {
			wantProblem(t, patch(p, groups+"/"+group, o), http.StatusBadRequest, "invalidPath", "A path to members")
		}
		wantProblem(t, patch(p, groups+"/"+group, object{"op": "replace", "path": "displayName", "value": "other"}), http.StatusConflict, "uniqueness", "exists")
		// What is not a member can be removed, and what is one added.
		patch(p, groups+"/"+group, object{"op": "remove", "path": `members[value eq "x"]`}, object{"op": "add", "path": "members", "value": values(bob)}).Want(http.StatusNoContent)
		wantMembers(t, p, group, bob)
	})
}

// TestGroupRace: of many changes of two groups at the same time, the members have the role
// of the groups that they are in.
func TestGroupRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p := w.provider(ada)
		people := []string{create(p, "bob@acme.example"), create(p, "eve@acme.example"), create(p, "dan@acme.example")}
		made := func(name, role string) string {
			id := p.Post(groups, object{"displayName": name}).Want(http.StatusCreated).Text("id")
			ada.Do(http.MethodPut, roles+"/"+id, object{"role": role}).Want(http.StatusOK)
			return id
		}
		one, other := made("Owners", "owner"), made("Admins", "admin")
		var wg sync.WaitGroup
		for i := range 4 {
			for _, group := range []string{one, other} {
				wg.Go(func() {
					ids := slices.Clone(people)
					if i%2 == 1 {
						slices.Reverse(ids)
					}
					patch(p, groups+"/"+group, object{"op": "add", "path": "members", "value": values(ids...)}).Want(http.StatusNoContent)
					if group == other {
						patch(p, groups+"/"+group, object{"op": "remove", "path": "members"}).Want(http.StatusNoContent)
					}
				})
			}
		}
		wg.Go(func() {
			patch(p, users+"/"+people[0], object{"op": "replace", "path": "active", "value": false}).Want(http.StatusOK)
			patch(p, users+"/"+people[0], object{"op": "replace", "path": "active", "value": true}).Want(http.StatusOK)
		})
		wg.Wait()
		for _, name := range []string{"bob", "eve", "dan"} {
			if role := w.roleOf(ada.Org, name+"@acme.example"); role != access.Owner {
				t.Errorf("%s is %q", name, role)
			}
		}
	})
}

// TestOpenSessionLosesRole: an open session has the role of now, not that of its sign-in.
func TestOpenSessionLosesRole(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		p := w.provider(ada)
		bob := create(p, "bob@acme.example")
		admins := p.Post(groups, object{"displayName": "Admins", "members": values(bob)}).Want(http.StatusCreated).Text("id")
		ada.Do(http.MethodPut, roles+"/"+admins, object{"role": "admin"}).Want(http.StatusOK)
		_, _, raw, err := w.Auth.IssueKey(t.Context(), auth.Holder{Email: "bob@acme.example"}, auth.NewKey{OrgID: ada.Org.ID, Name: "laptop"})
		if err != nil {
			t.Fatal(err)
		}
		_, token, err := w.Auth.SignIn(t.Context(), auth.NewSession{RawKey: raw})
		if err != nil {
			t.Fatal(err)
		}
		want := func(role access.Role) {
			t.Helper()
			session, _, err := w.Auth.Resume(t.Context(), token)
			if err != nil || session.Role != role || session.May(access.Admin) != role.Includes(access.AdminRole) {
				t.Errorf("the session is %+v, %v, want %s", session, err, role)
			}
			if key, err := w.Auth.Authenticate(t.Context(), raw); err != nil || key.Role != role {
				t.Errorf("the key is %+v, %v, want %s", key, err, role)
			}
		}
		want(access.AdminRole)
		p.Do(http.MethodDelete, groups+"/"+admins, nil).Want(http.StatusNoContent)
		want(access.Member)
	})
}
