package auth_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// A made is a key with its raw form and the caller who uses it.
type made struct {
	auth.Key
	raw    string
	caller access.Caller
}

func use(t *testing.T, s *auth.Service, k auth.Key, raw string) made {
	t.Helper()
	return made{k, raw, authenticated(t, s, raw)}
}

// firstKey is a key that was made on the server.
func firstKey(t *testing.T, s *auth.Service, u auth.User, permissions ...access.Permission) made {
	t.Helper()
	k, raw := newKey(t, s, u, permissions...)
	return use(t, s, k, raw)
}

// expiringKey is a key that was made on the server and lasts an hour.
func expiringKey(t *testing.T, s *auth.Service, u auth.User) made {
	t.Helper()
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	k, raw, err := s.CreateKey(t.Context(), auth.NewKey{OrgID: u.OrgID, UserID: u.ID, Name: "brief", ExpiresAt: &at})
	if err != nil {
		t.Fatal(err)
	}
	return use(t, s, k, raw)
}

// makes makes a key with another one.
func (m made) makes(t *testing.T, s *auth.Service, name string) made {
	t.Helper()
	k, raw, err := s.CreateKeyFor(t.Context(), m.caller, auth.NewKey{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return use(t, s, k, raw)
}

// approves approves a login of a program that is on one device only, which has not
// got its key yet.
func (m made) approves(t *testing.T, s *auth.Service, clientID string) auth.DeviceLogin {
	t.Helper()
	d := startOn(t, s, clientID, clientID)
	if err := s.AnswerDevice(t.Context(), m.caller, d.UserCode, true); err != nil {
		t.Fatal(err)
	}
	return d
}

// logsIn approves a device login and gets its key.
func (m made) logsIn(t *testing.T, s *auth.Service, clientID string) made {
	t.Helper()
	r := poll(t, s, m.approves(t, s, clientID).DeviceCode)
	return use(t, s, r.Key, r.RawKey)
}

// wantGood checks which keys work.
func wantGood(t *testing.T, s *auth.Service, want bool, keys ...made) {
	t.Helper()
	for _, k := range keys {
		if _, err := s.Authenticate(t.Context(), k.raw); (err == nil) != want {
			t.Errorf("the key %s: %v, want it good: %t", k.Name, err, want)
		}
	}
}

func revokeFor(t *testing.T, s *auth.Service, c access.Caller, id string, cascade bool) {
	t.Helper()
	if err := s.RevokeKeyFor(t.Context(), c, id, cascade); err != nil {
		t.Fatal(err)
	}
}

// TestApprovalDiesWithItsKey: a login that a key approved gets no key once that
// one is revoked, expired or narrower than the role.
func TestApprovalDiesWithItsKey(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *store.DB, *auth.Service, auth.Key){
		"revoked": func(t *testing.T, _ *store.DB, s *auth.Service, k auth.Key) {
			t.Helper()
			if err := s.RevokeKey(t.Context(), k.OrgID, k.ID); err != nil {
				t.Fatal(err)
			}
		},
		"expired": func(t *testing.T, db *store.DB, _ *auth.Service, k auth.Key) {
			t.Helper()
			exec(t, db, `UPDATE api_keys SET expires_at = $2 WHERE id = $1`, k.ID, store.Micros(time.Now().Add(-time.Second)))
		},
		"narrowed": func(t *testing.T, db *store.DB, _ *auth.Service, k auth.Key) {
			t.Helper()
			exec(t, db, `UPDATE api_keys SET permissions = 'read' WHERE id = $1`, k.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				s := newService(db)
				stolen := firstKey(t, s, person(t, s, "acme", access.Owner))
				d := stolen.approves(t, s, "thief")
				spoil(t, db, s, stolen.Key)
				wantStatus(t, s, d.DeviceCode, auth.DeviceDenied)
				if name != "revoked" { // it was denied for good
					exec(t, db, `UPDATE api_keys SET permissions = NULL, expires_at = NULL`)
				}
				wantStatus(t, s, d.DeviceCode, auth.DeviceDenied)
				if n := countKeys(t, s, stolen.OrgID); n != 1 {
					t.Errorf("%d keys, want the one that approved", n)
				}
			})
		})
	}
}

func countKeys(t *testing.T, s *auth.Service, orgID string) int {
	t.Helper()
	_, n, err := s.Keys(t.Context(), orgID, store.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestApprovalOnTheServer needs no key of anybody.
func TestApprovalOnTheServer(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Owner)
		d := start(t, s, "cli")
		decide(t, s, d.UserCode, u, true)
		r := poll(t, s, d.DeviceCode)
		if r.Status != auth.DeviceApproved || r.Key.CreatedByKey != nil || !r.Key.Login || r.Key.ExpiresAt != nil {
			t.Errorf("the poll finds %+v", r)
		}
	})
}

// TestRevokeLineage revokes a key that made others and approved logins, which did
// the same in turn.
func TestRevokeLineage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		safe, stolen := firstKey(t, s, ada), firstKey(t, s, ada)
		login := stolen.logsIn(t, s, "cli")
		deeper := login.logsIn(t, s, "editor")
		ci := stolen.makes(t, s, "ci")
		deploy := login.makes(t, s, "deploy")
		_, token := signIn(t, s, login.raw, "")
		pending := login.approves(t, s, "pending")
		made, err := s.MadeKeys(t.Context(), ada.OrgID)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, k := range made[stolen.ID] {
			names = append(names, k.Name)
		}
		if diff := cmp.Diff([]string{"login of cli", "login of editor", "ci", "deploy"}, names); diff != "" {
			t.Errorf("made with the stolen key (-want +got):\n%s", diff)
		}
		if len(made[safe.ID]) != 0 || len(made[login.ID]) != 2 {
			t.Errorf("made with others: %v", made)
		}

		revokeFor(t, s, safe.caller, stolen.ID, false)
		wantGood(t, s, false, stolen, login, deeper)
		wantGood(t, s, true, safe, ci, deploy)
		wantStatus(t, s, pending.DeviceCode, auth.DeviceDenied)
		wantOver(t, s, token, "Your session has ended; please sign in again")

		// Somebody notices afterwards that the key was stolen.
		revokeFor(t, s, safe.caller, stolen.ID, true)
		wantGood(t, s, false, ci, deploy)
		wantGood(t, s, true, safe)
		if got := len(recorded(t, db, ada.OrgID, "auth.key.revoke")); got != 5 {
			t.Errorf("%d revocations are recorded, want 5", got)
		}
	})
}

// TestRevokeByOperator ends the lineage as well, and is refused nothing.
func TestRevokeByOperator(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		only := firstKey(t, s, person(t, s, "acme", access.Owner))
		login, ci := only.logsIn(t, s, "cli"), only.makes(t, s, "ci")
		if err := s.RevokeKey(t.Context(), only.OrgID, only.ID); err != nil {
			t.Fatal(err)
		}
		wantGood(t, s, false, only, login)
		wantGood(t, s, true, ci)
		if err := s.RevokeKeyAndMade(t.Context(), only.OrgID, only.ID); err != nil {
			t.Fatal(err)
		}
		wantGood(t, s, false, ci)
	})
}

// TestRelinkKeepsApprovals: a login that replaces an earlier one of the same
// device does not end what that one approved.
func TestRelinkKeepsApprovals(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		first := firstKey(t, s, person(t, s, "acme", access.Owner))
		browser := first.logsIn(t, s, "browser")
		laptop := browser.logsIn(t, s, "laptop")
		again := first.logsIn(t, s, "browser")
		wantGood(t, s, false, browser)
		wantGood(t, s, true, laptop, again)
		spare := first.makes(t, s, "spare")
		revokeFor(t, s, spare.caller, first.ID, false) // across the one that was replaced
		wantGood(t, s, false, laptop, again)
		wantGood(t, s, true, spare)
	})
}

// TestRevokeAboveOneself: the keys of an owner are the owners' matter.
func TestRevokeAboveOneself(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		owner := person(t, s, "acme", access.Owner)
		own := firstKey(t, s, owner)
		second := firstKey(t, s, owner)
		admin := firstKey(t, s, colleague(t, s, owner.OrgID, "admin@example.org", access.AdminRole))
		peer := firstKey(t, s, colleague(t, s, owner.OrgID, "peer@example.org", access.AdminRole))
		member := firstKey(t, s, colleague(t, s, owner.OrgID, "member@example.org", access.Member))
		for _, cascade := range []bool{false, true} {
			err := s.RevokeKeyFor(t.Context(), admin.caller, second.ID, cascade)
			wantKind(t, err, fault.Denied, "The key CI is held by ada@example.org, who is owner; only an owner can revoke it")
		}
		wantGood(t, s, true, own, second)
		revokeFor(t, s, admin.caller, member.ID, false)
		revokeFor(t, s, admin.caller, peer.ID, false)
		revokeFor(t, s, own.caller, second.ID, false)
		revokeFor(t, s, own.caller, admin.ID, false)
		wantGood(t, s, false, second, admin, peer, member)
	})
}

// TestRevokeWhatOneUses: a key may be revoked with itself, but not by way of
// another one that it came from.
func TestRevokeWhatOneUses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		first := firstKey(t, s, person(t, s, "acme", access.Owner))
		login := first.logsIn(t, s, "cli")
		err := s.RevokeKeyFor(t.Context(), login.caller, first.ID, false)
		wantKind(t, err, fault.Conflict, "The key that you use was made with this one and would be revoked, too; use another one")
		revokeFor(t, s, login.caller, login.ID, false)
		wantGood(t, s, true, first)
		wantGood(t, s, false, login)
	})
}

// TestLastOwnerKey: an organisation keeps a key by which an owner can manage it.
func TestLastOwnerKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		owner := person(t, s, "acme", access.Owner)
		last := firstKey(t, s, owner)
		firstKey(t, s, owner, access.Read)
		over := expiringKey(t, s, owner)
		exec(t, db, `UPDATE api_keys SET expires_at = 1 WHERE id = $1`, over.ID)
		wantLast := func(k made, cascade bool) {
			t.Helper()
			err := s.RevokeKeyFor(t.Context(), k.caller, k.ID, cascade)
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "whetstone key revoke") {
				t.Errorf("the last key of the owner: %v", err)
			}
		}
		wantLast(last, false)
		ci := last.makes(t, s, "ci")
		wantLast(last, true) // the other one comes from it
		wantGood(t, s, true, last, ci)
		revokeFor(t, s, last.caller, last.ID, false)
		wantLast(ci, false)

		// Where nobody owns the organisation, keys can still be revoked.
		exec(t, db, `UPDATE users SET role = 'admin'`)
		admin := authenticated(t, newService(db), ci.raw)
		revokeFor(t, s, admin, ci.ID, false)
	})
}

// TestLastOwnerKeyRace: of two owners who revoke each other's keys, one stays.
func TestLastOwnerKeyRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		for _, org := range []string{"a", "b", "c", "d"} {
			ada := person(t, s, org, access.Owner)
			first := firstKey(t, s, ada)
			second := firstKey(t, s, colleague(t, s, ada.OrgID, "bob@example.org", access.Owner))
			var wg sync.WaitGroup
			for _, pair := range [][2]made{{first, second}, {second, first}} {
				wg.Go(func() { _ = s.RevokeKeyFor(t.Context(), pair[0].caller, pair[1].ID, false) })
			}
			wg.Wait()
			_, one := s.Authenticate(t.Context(), first.raw)
			_, two := s.Authenticate(t.Context(), second.raw)
			if (one == nil) == (two == nil) {
				t.Errorf("the keys after both were revoked: %v, %v; want one left", one, two)
			}
		}
	})
}

// TestRevocationWinsAgainstTheKeysWork: whatever a key makes or approves while it
// is revoked with its lineage is revoked as well, or never comes to be.
func TestRevocationWinsAgainstTheKeysWork(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		owner := person(t, s, "acme", access.Owner)
		safe := firstKey(t, s, owner)
		for range 20 {
			stolen := firstKey(t, s, owner)
			child := stolen.makes(t, s, "child")
			approved := child.approves(t, s, "thief")
			raws := make(chan string, 12)
			var wg sync.WaitGroup
			for range 3 {
				for _, k := range []made{stolen, child} {
					wg.Go(func() {
						if _, raw, err := s.CreateKeyFor(t.Context(), k.caller, auth.NewKey{Name: "heir"}); err == nil {
							raws <- raw
						}
					})
				}
				wg.Go(func() {
					if r, err := s.PollDevice(t.Context(), approved.DeviceCode); err == nil && r.RawKey != "" {
						raws <- r.RawKey
					}
				})
			}
			wg.Go(func() {
				if err := s.RevokeKeyFor(t.Context(), safe.caller, stolen.ID, true); err != nil {
					t.Error(err)
				}
			})
			wg.Wait()
			close(raws)
			for raw := range raws {
				if _, err := newService(db).Authenticate(t.Context(), raw); err == nil {
					t.Error("a key outlives the stolen one that made it")
				}
			}
		}
	})
}

// TestNothingOutlivesItsKey: what an expiring key makes or approves expires with
// it, however it is made.
func TestNothingOutlivesItsKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		brief := expiringKey(t, s, person(t, s, "acme", access.Owner))
		c := brief.caller
		var first auth.Key
		err := db.InTx(t.Context(), func(tx *store.Tx) (err error) {
			_, first, _, err = auth.Join(t.Context(), tx, auth.Joiner{
				NewUser: auth.NewUser{OrgID: c.OrgID, Email: "bob@example.org", Role: access.Member}, KeyName: "first key", ByKey: &c.KeyID,
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		machine, _, err := s.CreateMachineKey(t.Context(), c, access.Member, auth.NewKey{Name: "ci"})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []auth.Key{brief.makes(t, s, "heir").Key, brief.logsIn(t, s, "cli").Key, first, machine} {
			if k.ExpiresAt == nil || !k.ExpiresAt.Equal(*brief.ExpiresAt) || k.CreatedByKey == nil || *k.CreatedByKey != brief.ID {
				t.Errorf("the key %s expires at %v, made by %v", k.Name, k.ExpiresAt, k.CreatedByKey)
			}
		}

		later, sooner := brief.ExpiresAt.Add(time.Second), brief.ExpiresAt.Add(-time.Second)
		_, _, err = s.CreateKeyFor(t.Context(), c, auth.NewKey{Name: "later", ExpiresAt: &later})
		wantIssue(t, err, "expires_at")
		_, _, err = s.CreateMachineKey(t.Context(), c, access.Member, auth.NewKey{Name: "later", ExpiresAt: &later})
		wantIssue(t, err, "expires_at")
		if k, _, err := s.CreateKeyFor(t.Context(), c, auth.NewKey{Name: "sooner", ExpiresAt: &sooner}); err != nil || !k.ExpiresAt.Equal(sooner) {
			t.Errorf("a key that expires sooner: %v, %v", k.ExpiresAt, err)
		}
	})
}

// TestListStaysAList: a key that names all of its role's permissions does not get
// more by way of one that it makes or approves, when the role does.
func TestListStaysAList(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		listed := firstKey(t, s, u, access.Member.Permissions()...)
		heir, login := listed.makes(t, s, "heir"), listed.logsIn(t, s, "cli")
		exec(t, db, `UPDATE users SET role = 'owner'`)
		for _, k := range []made{listed, heir, login} {
			if diff := cmp.Diff(access.Member.Permissions(), authenticated(t, newService(db), k.raw).Permissions); diff != "" {
				t.Errorf("%s: %s", k.Name, diff)
			}
		}
	})
}

// TestRevokedKeyMakesNothing: a request that began before the revocation comes
// too late.
func TestRevokedKeyMakesNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		k := firstKey(t, s, person(t, s, "acme", access.Owner))
		if err := s.RevokeKey(t.Context(), k.OrgID, k.ID); err != nil {
			t.Fatal(err)
		}
		const revoked = "This API key was revoked"
		_, _, err := s.CreateKeyFor(t.Context(), k.caller, auth.NewKey{Name: "heir"})
		wantKind(t, err, fault.Unauthorized, revoked)
		_, _, err = s.CreateMachineKey(t.Context(), k.caller, access.Member, auth.NewKey{Name: "ci"})
		wantKind(t, err, fault.Unauthorized, revoked)
		if users, err := s.Users(t.Context(), k.OrgID); err != nil || len(users) != 1 {
			t.Errorf("users %v, %v", users, err)
		}
	})
}

// TestReportingKey can do one thing, whatever role its holder has; and keys that
// may write can do it, too.
func TestReportingKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Owner)
		reports := firstKey(t, s, u, access.TelemetryWrite)
		if diff := cmp.Diff([]access.Permission{access.TelemetryWrite}, reports.caller.Permissions); diff != "" {
			t.Error(diff)
		}
		_, _, err := s.SignIn(t.Context(), auth.NewSession{RawKey: reports.raw})
		wantKind(t, err, fault.Denied, "This key can only report sessions; sign in with another one")
		err = s.AnswerDevice(t.Context(), reports.caller, start(t, s, "cli").UserCode, true)
		if !fault.Is(err, fault.Denied) {
			t.Errorf("it approves a login: %v", err)
		}
		if writes := firstKey(t, s, u, access.Read, access.Write); !writes.caller.May(access.TelemetryWrite) {
			t.Error("a key that may write cannot report")
		}
		viewer := colleague(t, s, u.OrgID, "eve@example.org", access.Viewer)
		_, _, err = s.CreateKey(t.Context(), auth.NewKey{
			OrgID: u.OrgID, UserID: viewer.ID, Name: "ci", Permissions: []access.Permission{access.TelemetryWrite},
		})
		wantIssue(t, err, "permissions")
	})
}

// TestDeviceChangesNothing: looking after a login is not getting its key.
func TestDeviceChangesNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		k := firstKey(t, s, person(t, s, "acme", access.Owner))
		want := func(d auth.DeviceLogin, want auth.DeviceProgress) {
			t.Helper()
			for range 2 {
				if got, err := s.Device(t.Context(), d.DeviceCode); err != nil || got != want {
					t.Errorf("the login is %+v, %v; want %+v", got, err, want)
				}
			}
		}
		pending := start(t, s, "cli")
		want(pending, auth.DeviceProgress{Status: auth.DevicePending, UserCode: pending.UserCode})
		want(auth.DeviceLogin{DeviceCode: "never-given-out"}, auth.DeviceProgress{Status: auth.DeviceExpired})
		d := k.approves(t, s, "cli")
		want(d, auth.DeviceProgress{Status: auth.DeviceApproved, UserCode: d.UserCode, Approver: "ada@example.org"})
		if r := poll(t, s, d.DeviceCode); r.RawKey == "" {
			t.Errorf("the poll finds %+v", r)
		}
	})
}
