package auth_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// wantRevoked checks that a replica that has not cached the key refuses it, and so
// does this one.
func wantRevoked(t *testing.T, db *store.DB, s *auth.Service, raw string) {
	t.Helper()
	for _, replica := range []*auth.Service{s, newService(db)} {
		_, err := replica.Authenticate(t.Context(), raw)
		wantKind(t, err, fault.Unauthorized, "This API key was revoked")
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.AdminRole)
		owner, bobs := firstKey(t, s, ada), firstKey(t, s, bob)
		second := bobs.makes(t, s, "second")
		login := bobs.logsIn(t, s, "cli")
		waiting := bobs.approves(t, s, "another cli")
		_, token := signIn(t, s, bobs.raw, "")
		_, machine, err := s.CreateMachineKey(t.Context(), bobs.caller, access.Member, auth.NewKey{Name: "CI"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Belongings(t.Context(), ada.OrgID, bob.ID)
		if err != nil || len(b.Keys) != 3 || len(b.Made) != 1 || b.Made[0].Name != "CI" || b.Sessions != 1 {
			t.Errorf("belongings %+v, %v", b, err)
		}

		u, err := s.Remove(t.Context(), owner.caller, auth.Removal{UserID: bob.ID})
		if err != nil || u.RemovedAt == nil || u.Email != "bob@example.org" {
			t.Fatalf("removed %+v, %v", u, err)
		}
		for _, k := range []made{bobs, second, login} {
			wantRevoked(t, db, s, k.raw)
		}
		wantStatus(t, s, waiting.DeviceCode, auth.DeviceDenied)
		if _, _, err := s.Resume(t.Context(), token); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the session lives: %v", err)
		}
		authenticated(t, s, machine) // it belongs to the organisation
		if entries := recorded(t, db, ada.OrgID, "auth.user.remove"); len(entries) != 1 {
			t.Errorf("entries %v", entries)
		}

		// Those who were removed keep their name, and are no members.
		page := store.Page{Limit: 10}
		if all, total, err := s.Members(t.Context(), ada.OrgID, auth.MemberPage{Page: page}); err != nil || total != 2 || len(all) != 2 {
			t.Errorf("members %+v of %d, %v", all, total, err)
		}
		gone, _, err := s.Members(t.Context(), ada.OrgID, auth.MemberPage{Removed: true, Page: page})
		if err != nil || len(gone) != 1 || gone[0].Email != "bob@example.org" || gone[0].Name != "bob" || gone[0].LastSeenAt != nil {
			t.Errorf("removed %+v, %v", gone, err)
		}
		for what, err := range map[string]error{
			"removed twice": failed(s.Remove(t.Context(), owner.caller, auth.Removal{UserID: bob.ID})),
			"role":          failed(s.SetRole(t.Context(), owner.caller, bob.ID, access.Owner)),
			"transfer":      failed2(s.Transfer(t.Context(), owner.caller, bob.ID)),
			"key":           failed2(s.CreateKey(t.Context(), auth.NewKey{OrgID: bob.OrgID, UserID: bob.ID, Name: "x"})),
			"by address":    failed(s.UserByEmail(t.Context(), bob.OrgID, bob.Email)),
		} {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}

		// With the same address they are somebody new, without the old keys.
		again := colleague(t, s, ada.OrgID, "bob@example.org", access.Viewer)
		if again.ID == bob.ID {
			t.Error("the user of before is back, with what only that one may see")
		}
		wantRevoked(t, db, s, bobs.raw)
		if _, err := s.Remove(t.Context(), owner.caller, auth.Removal{UserID: again.ID}); err != nil { // a second time
			t.Fatal(err)
		}
	})
}

func failed[T any](_ T, err error) error          { return err }
func failed2[T, U any](_ T, _ U, err error) error { return err }

// TestRemoveMade: with the cascade, the keys that the member made for others end, too.
func TestRemoveMade(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.AdminRole)
		eve := colleague(t, s, ada.OrgID, "eve@example.org", access.AdminRole)
		owner, bobs, eves := firstKey(t, s, ada), firstKey(t, s, bob), firstKey(t, s, eve)
		_, machine, err := s.CreateMachineKey(t.Context(), bobs.caller, access.Member, auth.NewKey{Name: "CI"})
		if err != nil {
			t.Fatal(err)
		}
		_, own, err := s.CreateMachineKey(t.Context(), bobs.caller, access.AdminRole, auth.NewKey{Name: "ops"})
		if err != nil {
			t.Fatal(err)
		}
		// A key that bob's key made does not remove bob's keys and so itself.
		_, err = s.Remove(t.Context(), authenticated(t, s, own), auth.Removal{UserID: bob.ID, Made: true})
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("the caller's own key would end: %v", err)
		}
		if _, err := s.Remove(t.Context(), owner.caller, auth.Removal{UserID: bob.ID, Made: true}); err != nil {
			t.Fatal(err)
		}
		wantRevoked(t, db, s, machine)
		wantRevoked(t, db, s, own)
		wantGood(t, s, true, owner, eves)
	})
}

// TestRemoveRefused: who may remove whom.
func TestRemoveRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		owner := firstKey(t, s, ada)
		admin := firstKey(t, s, colleague(t, s, ada.OrgID, "admin@example.org", access.AdminRole))
		member := colleague(t, s, ada.OrgID, "member@example.org", access.Member)
		members := firstKey(t, s, member)
		narrowed := firstKey(t, s, ada, access.Read, access.Admin)
		reader := firstKey(t, s, member, access.Read)
		eve := person(t, s, "other", access.Viewer)
		for name, c := range map[string]struct {
			by   access.Caller
			id   string
			kind fault.Kind
		}{
			"an owner by an admin":             {admin.caller, ada.ID, fault.Denied},
			"a member by a member":             {members.caller, admin.UserID, fault.Denied},
			"with a narrowed key":              {narrowed.caller, admin.UserID, fault.Denied},
			"oneself":                          {admin.caller, admin.UserID, fault.Conflict},
			"another organisation's":           {owner.caller, eve.ID, fault.NotFound},
			"unknown":                          {owner.caller, store.NewID(), fault.NotFound},
			"another organisation's, by admin": {admin.caller, eve.ID, fault.NotFound},
		} {
			if _, err := s.Remove(t.Context(), c.by, auth.Removal{UserID: c.id}); !fault.Is(err, c.kind) {
				t.Errorf("%s: %v", name, err)
			}
		}
		wantIssue(t, s.Leave(t.Context(), members.caller, "ada@example.org"), "email")
		if err := s.Leave(t.Context(), reader.caller, "member@example.org"); !fault.Is(err, fault.Denied) {
			t.Errorf("left with a narrowed key: %v", err)
		}
		wantGood(t, s, true, owner, admin, members, narrowed, reader)
		if err := s.Leave(t.Context(), members.caller, "member@example.org"); err != nil {
			t.Fatal(err)
		}
		wantGood(t, s, false, members, reader)

		// The caller was removed or demoted while the request was under way.
		if _, err := s.SetRole(t.Context(), owner.caller, admin.UserID, access.Member); err != nil {
			t.Fatal(err)
		}
		victim := colleague(t, s, ada.OrgID, "victim@example.org", access.Viewer)
		if _, err := s.Remove(t.Context(), admin.caller, auth.Removal{UserID: victim.ID}); !fault.Is(err, fault.Denied) {
			t.Errorf("by a former admin: %v", err)
		}
		if _, err := s.Remove(t.Context(), owner.caller, auth.Removal{UserID: admin.UserID}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.SetRole(t.Context(), admin.caller, victim.ID, access.Member); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("by a removed admin: %v", err)
		}
	})
}

// TestKeyOfRemoved: a key that was being created while its holder was removed does not
// work, even if nothing revoked it.
func TestKeyOfRemoved(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		owner := firstKey(t, s, ada)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.Member)
		bobs := firstKey(t, s, bob)
		d := start(t, s, "cli")
		if _, err := s.Remove(t.Context(), owner.caller, auth.Removal{UserID: bob.ID}); err != nil {
			t.Fatal(err)
		}
		exec(t, db, `UPDATE api_keys SET revoked_at = NULL WHERE user_id = $1`, bob.ID)
		wantRevoked(t, db, s, bobs.raw)
		// An approval that was under way gives no key.
		if err := s.AnswerDevice(t.Context(), bobs.caller, d.UserCode, true); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Device(t.Context(), d.DeviceCode); err != nil || p.Status != auth.DeviceDenied {
			t.Errorf("the login is %+v, %v", p, err)
		}
		wantStatus(t, s, d.DeviceCode, auth.DeviceDenied)
	})
}

// TestRoleOnKeys: a new role counts at once for all keys and sessions, and a narrowed
// key never has more than the role.
func TestRoleOnKeys(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		owner := firstKey(t, s, ada)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.AdminRole)
		_, whole := newKey(t, s, bob)
		_, narrowed := newKey(t, s, bob, access.Read, access.Admin)
		_, token := signIn(t, s, whole, "")
		authenticated(t, s, whole)
		if _, err := s.SetRole(t.Context(), owner.caller, bob.ID, access.Viewer); err != nil {
			t.Fatal(err)
		}
		for _, raw := range []string{whole, narrowed} {
			if c := authenticated(t, s, raw); c.May(access.Admin) || !c.May(access.Read) || len(c.Permissions) != 1 {
				t.Errorf("the key may %v", c.Permissions)
			}
		}
		if c, _, err := s.Resume(t.Context(), token); err != nil || c.May(access.Write) {
			t.Errorf("the session may %v, %v", c.Permissions, err)
		}
	})
}
