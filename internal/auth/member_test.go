package auth_test

import (
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

func TestAddMember(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		owner := person(t, s, "acme", access.Owner)
		_, raw := newKey(t, s, colleague(t, s, owner.OrgID, "admin@example.org", access.AdminRole))
		admin := authenticated(t, s, raw)
		bob, raw, err := s.AddMember(t.Context(), admin, auth.NewUser{OrgID: "another's", Email: "bob@example.org", Role: access.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		if c := authenticated(t, s, raw); c.UserID != bob.ID || c.OrgID != admin.OrgID || c.Role != access.Viewer {
			t.Errorf("the first key is of %+v", c)
		}
		for email, kind := range map[string]fault.Kind{"bob@example.org": fault.Conflict, "bob": fault.Malformed} {
			if _, _, err := s.AddMember(t.Context(), admin, auth.NewUser{Email: email, Role: access.Viewer}); !fault.Is(err, kind) {
				t.Errorf("%s: %v", email, err)
			}
		}
		_, _, err = s.AddMember(t.Context(), admin, auth.NewUser{Email: "eve@example.org", Role: access.Owner})
		wantKind(t, err, fault.Denied, "You do not have the permission registry:delete and cannot give it")
		if _, err := s.UserByEmail(t.Context(), admin.OrgID, "eve@example.org"); !fault.Is(err, fault.NotFound) {
			t.Errorf("eve was added: %v", err)
		}
	})
}

func TestSetRole(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.Viewer)
		eve := person(t, s, "other", access.Owner)
		_, raw := newKey(t, s, ada)
		owner := authenticated(t, s, raw)
		_, raw = newKey(t, s, bob)
		authenticated(t, s, raw)
		if _, err := s.SetRole(t.Context(), owner, bob.ID, access.AdminRole); err != nil {
			t.Fatal(err)
		}
		admin := authenticated(t, s, raw) // at once, though it was looked up before
		if admin.Role != access.AdminRole {
			t.Errorf("bob is %s", admin.Role)
		}
		for _, c := range []struct {
			caller access.Caller
			id     string
			role   access.Role
			kind   fault.Kind
		}{
			{owner, ada.ID, access.Member, fault.Conflict}, // the only owner
			{owner, ada.ID, "king", fault.Malformed},
			{owner, eve.ID, access.Viewer, fault.NotFound},
			{admin, ada.ID, access.Viewer, fault.Denied},
			{admin, bob.ID, access.Owner, fault.Denied},
		} {
			if _, err := s.SetRole(t.Context(), c.caller, c.id, c.role); !fault.Is(err, c.kind) {
				t.Errorf("%s to %s: %v", c.id, c.role, err)
			}
		}
		if _, err := s.SetRole(t.Context(), owner, bob.ID, access.Owner); err != nil {
			t.Fatal(err)
		}
		if u, err := s.SetRole(t.Context(), owner, ada.ID, access.Member); err != nil || u.Role != access.Member {
			t.Errorf("one of two owners: %+v, %v", u, err)
		}
	})
}

// TestSetRoleRace: of two owners that make each other members, one stays.
func TestSetRoleRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.Owner)
		_, raw := newKey(t, s, ada)
		owner := authenticated(t, s, raw)
		var wg sync.WaitGroup
		for _, id := range []string{ada.ID, bob.ID} {
			wg.Go(func() { _, _ = s.SetRole(t.Context(), owner, id, access.Member) })
		}
		wg.Wait()
		users, err := s.Users(t.Context(), ada.OrgID)
		if err != nil {
			t.Fatal(err)
		}
		if users[0].Role != access.Owner && users[1].Role != access.Owner {
			t.Errorf("nobody owns the organisation: %+v", users)
		}
	})
}

func TestMachineKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		_, raw := newKey(t, s, person(t, s, "acme", access.AdminRole))
		admin := authenticated(t, s, raw)
		_, raw, err := s.CreateMachineKey(t.Context(), admin, access.Member, auth.NewKey{Name: "CI", Permissions: []access.Permission{access.Write}})
		if err != nil {
			t.Fatal(err)
		}
		if c := authenticated(t, s, raw); c.Email != "member@localhost" || c.OrgID != admin.OrgID || len(c.Permissions) != 2 || !c.May(access.Write) {
			t.Errorf("the key is of %+v", c)
		}
		_, _, err = s.CreateMachineKey(t.Context(), admin, access.Owner, auth.NewKey{Name: "CI"})
		wantKind(t, err, fault.Denied, "You do not have the permission registry:delete and cannot give it")
		_, _, err = s.CreateMachineKey(t.Context(), admin, "king", auth.NewKey{Name: "CI"})
		wantIssue(t, err, "role")
	})
}
