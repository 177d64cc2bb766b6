package auth_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

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

// TestOwnersRace: of two owners who demote or remove each other at the same time, on
// two replicas, exactly one succeeds.
func TestOwnersRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		demote := func(s *auth.Service, c access.Caller, id string) error {
			_, err := s.SetRole(t.Context(), c, id, access.Member)
			return err
		}
		remove := func(s *auth.Service, c access.Caller, id string) error {
			_, err := s.Remove(t.Context(), c, auth.Removal{UserID: id})
			return err
		}
		for i, ways := range [][2]func(*auth.Service, access.Caller, string) error{
			{demote, demote}, {remove, remove}, {demote, remove}, {remove, demote},
		} {
			one, two := newService(db), newService(db)
			ada := person(t, one, fmt.Sprintf("acme%d", i), access.Owner)
			bob := colleague(t, one, ada.OrgID, "bob@example.org", access.Owner)
			cleo := colleague(t, one, ada.OrgID, "cleo@example.org", access.Owner) // so that not only the last owner is protected
			_, raw := newKey(t, one, ada)
			first := authenticated(t, one, raw)
			_, raw = newKey(t, one, bob)
			second := authenticated(t, two, raw)
			if i%2 == 0 {
				newKey(t, one, cleo)
			} else if err := remove(one, first, cleo.ID); err != nil {
				t.Fatal(err)
			}
			var errs [2]error
			var wg sync.WaitGroup
			wg.Go(func() { errs[0] = ways[0](one, first, bob.ID) })
			wg.Go(func() { errs[1] = ways[1](two, second, ada.ID) })
			wg.Wait()
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Errorf("case %d: %v and %v, want that one wins", i, errs[0], errs[1])
			}
			for _, err := range errs {
				if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Denied) && !fault.Is(err, fault.Unauthorized) &&
					!fault.Is(err, fault.NotFound) {
					t.Errorf("case %d: %v", i, err)
				}
			}
		}
	})
}

// TestLastOwner: the last owner stays, and so does the last owner's key.
func TestLastOwner(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		_, raw := newKey(t, s, ada)
		owner := authenticated(t, s, raw)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.Member)
		wantKind(t, s.Leave(t.Context(), owner, ada.Email), fault.Conflict, "ada@example.org is the only owner; make another person owner first")
		_, err := s.RemoveByOperator(t.Context(), ada.OrgID, auth.Removal{UserID: ada.ID})
		wantKind(t, err, fault.Conflict, "ada@example.org is the only owner; make another person owner first")

		// Bob cannot sign in: he has no key.
		_, _, err = s.Transfer(t.Context(), owner, bob.ID)
		wantKind(t, err, fault.Conflict, "No other owner has an API key to manage the organisation with; bob@example.org needs an API key first")
		if _, err := s.SetRole(t.Context(), owner, bob.ID, access.Owner); err != nil {
			t.Fatal(err)
		}
		_, err = s.SetRole(t.Context(), owner, ada.ID, access.Member)
		wantKind(t, err, fault.Conflict, "No other owner has an API key to manage the organisation with; make another person owner first")
		wantKind(t, s.Leave(t.Context(), owner, ada.Email), fault.Conflict,
			"No other owner has an API key to manage the organisation with; make another person owner first")
		newKey(t, s, bob, access.Read) // does not help
		if err := s.Leave(t.Context(), owner, ada.Email); !fault.Is(err, fault.Conflict) {
			t.Errorf("left: %v", err)
		}
		_, raw = newKey(t, s, bob)
		if err := s.Leave(t.Context(), owner, " ADA@example.org"); err != nil {
			t.Fatal(err)
		}
		if c := authenticated(t, s, raw); c.Role != access.Owner {
			t.Errorf("bob is %s", c.Role)
		}
	})
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		_, raw := newKey(t, s, ada)
		owner := authenticated(t, s, raw)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.Viewer)
		_, bobs := newKey(t, s, bob)
		_, adminRaw := newKey(t, s, colleague(t, s, ada.OrgID, "admin@example.org", access.AdminRole))
		_, _, err := s.Transfer(t.Context(), authenticated(t, s, adminRaw), bob.ID)
		wantKind(t, err, fault.Denied, "You do not have the permission registry:delete and cannot give it")
		_, _, err = s.Transfer(t.Context(), owner, ada.ID)
		wantKind(t, err, fault.Conflict, "ada@example.org is an owner already; change your own role to step down")
		_, _, err = s.Transfer(t.Context(), owner, person(t, s, "other", access.Viewer).ID)
		wantKind(t, err, fault.NotFound, "Member not found")
		if _, _, err := s.CreateMachineKey(t.Context(), owner, access.Member, auth.NewKey{Name: "CI"}); err != nil {
			t.Fatal(err)
		}
		machine, err := s.UserByEmail(t.Context(), ada.OrgID, "member@localhost")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Transfer(t.Context(), owner, machine.ID); !fault.Is(err, fault.Conflict) {
			t.Errorf("to a machine: %v", err)
		}
		if _, err := s.SetRole(t.Context(), owner, machine.ID, access.AdminRole); !fault.Is(err, fault.Conflict) {
			t.Errorf("a machine became admin: %v", err)
		}

		if _, _, err := s.Transfer(t.Context(), owner, bob.ID); err != nil {
			t.Fatal(err)
		}
		if a, b := authenticated(t, s, raw), authenticated(t, s, bobs); a.Role != access.AdminRole || b.Role != access.Owner {
			t.Errorf("ada is %s, bob %s", a.Role, b.Role)
		}
		// What the request began with does not count any more.
		_, _, err = s.Transfer(t.Context(), owner, bob.ID)
		wantKind(t, err, fault.Denied, "You do not have the permission registry:delete and cannot give it")
		if entries := recorded(t, db, ada.OrgID, "auth.user.set-role"); len(entries) != 2 {
			t.Errorf("entries %v", entries)
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
