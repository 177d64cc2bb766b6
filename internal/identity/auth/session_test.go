package auth_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func signIn(t *testing.T, s *auth.Service, raw, replaces string) (auth.Session, string) {
	t.Helper()
	session, token, err := s.SignIn(t.Context(), auth.NewSession{RawKey: raw, Browser: "Firefox", Address: "127.0.0.1", Replaces: replaces})
	if err != nil {
		t.Fatal(err)
	}
	return session, token
}

const (
	pleaseSignIn = "Please sign in"
	hasEnded     = "Your session has ended; please sign in again"
)

// wantOver checks that a token is worth nothing.
func wantOver(t *testing.T, s *auth.Service, token, message string) {
	t.Helper()
	_, _, err := s.Resume(t.Context(), token)
	wantKind(t, err, fault.Unauthorized, message)
}

func TestSession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s, replica := newService(db), newService(db)
		u := person(t, s, "acme", access.AdminRole)
		k, raw := newKey(t, s, u, access.Read, access.Write)
		session, token := signIn(t, s, raw, "")
		if length := session.ExpiresAt.Sub(session.CreatedAt); length != 30*24*time.Hour {
			t.Errorf("the session lasts %v", length)
		}
		c, id, err := replica.Resume(t.Context(), token)
		if err != nil || id != session.ID {
			t.Fatalf("session %q, %v", id, err)
		}
		if diff := cmp.Diff(authenticated(t, s, raw), c); diff != "" {
			t.Errorf("the session may do other things than its key (-key +session):\n%s", diff)
		}
		if len(c.Permissions) != 3 || c.KeyID != k.ID {
			t.Errorf("the caller is %+v", c)
		}
		if n := count(t, db, token); n != 0 {
			t.Error("the token is kept as it is")
		}
		wantOver(t, s, "", pleaseSignIn)
		wantOver(t, s, token+"x", pleaseSignIn)
		_, _, err = s.SignIn(t.Context(), auth.NewSession{RawKey: "st_live_0123456789012345"})
		wantKind(t, err, fault.Unauthorized, "Unknown API key")
	})
}

func TestSessionIsReplaced(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		_, raw := newKey(t, s, person(t, s, "acme", access.Member))
		_, first := signIn(t, s, raw, "")
		_, other := signIn(t, s, raw, "")
		_, second := signIn(t, s, raw, first)
		if first == second {
			t.Error("the token stayed the same")
		}
		wantOver(t, s, first, pleaseSignIn)
		for _, token := range []string{second, other} {
			if _, _, err := s.Resume(t.Context(), token); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	past := func(ago time.Duration) int64 { return store.Micros(time.Now().Add(-ago)) }
	for _, c := range []struct {
		name, message string
		end           func(t *testing.T, db *store.DB, s *auth.Service, session auth.Session, token string)
	}{
		{"signed out", pleaseSignIn, func(t *testing.T, _ *store.DB, s *auth.Service, _ auth.Session, token string) {
			if err := s.SignOut(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}},
		{"ended", pleaseSignIn, func(t *testing.T, _ *store.DB, s *auth.Service, session auth.Session, _ string) {
			c := access.Caller{OrgID: session.OrgID, UserID: session.UserID}
			if err := s.EndSession(t.Context(), c, session.ID); err != nil {
				t.Fatal(err)
			}
			wantKind(t, s.EndSession(t.Context(), c, session.ID), fault.NotFound, "Session not found")
		}},
		{"key revoked", hasEnded, func(t *testing.T, _ *store.DB, s *auth.Service, session auth.Session, _ string) {
			if err := s.RevokeKey(t.Context(), session.OrgID, session.KeyID); err != nil {
				t.Fatal(err)
			}
		}},
		{"key expired", hasEnded, func(t *testing.T, db *store.DB, _ *auth.Service, _ auth.Session, _ string) {
			exec(t, db, `UPDATE api_keys SET expires_at = $1`, past(time.Second))
		}},
		{"over", hasEnded, func(t *testing.T, db *store.DB, _ *auth.Service, _ auth.Session, _ string) {
			exec(t, db, `UPDATE sessions SET expires_at = $1`, past(time.Second))
		}},
		{"unused for 7 days", hasEnded, func(t *testing.T, db *store.DB, _ *auth.Service, _ auth.Session, _ string) {
			exec(t, db, `UPDATE sessions SET used_at = $1`, past(7*24*time.Hour+time.Second))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				s := newService(db)
				u := person(t, s, "acme", access.Member)
				_, raw := newKey(t, s, u)
				session, token := signIn(t, s, raw, "")
				c.end(t, db, s, session, token)
				wantOver(t, s, token, c.message)
				live, err := s.Sessions(t.Context(), u.OrgID, u.ID)
				if err != nil || len(live) != 0 {
					t.Errorf("live sessions %+v, %v", live, err)
				}
			})
		})
	}
}

func TestSessionIsUsed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		_, raw := newKey(t, s, u)
		session, token := signIn(t, s, raw, "")
		exec(t, db, `UPDATE sessions SET used_at = $1`, store.Micros(time.Now().Add(-6*24*time.Hour)))
		if _, _, err := s.Resume(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		live, err := s.Sessions(t.Context(), u.OrgID, u.ID)
		if err != nil || len(live) != 1 || time.Since(live[0].UsedAt) > time.Minute || live[0].ID != session.ID || live[0].KeyName != "CI" {
			t.Errorf("sessions %+v, %v", live, err)
		}
	})
}

func TestSessionsOfOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.Owner)
		_, raw := newKey(t, s, ada)
		session, token := signIn(t, s, raw, "")
		c := access.Caller{OrgID: bob.OrgID, UserID: bob.ID}
		wantKind(t, s.EndSession(t.Context(), c, session.ID), fault.NotFound, "Session not found")
		if live, err := s.Sessions(t.Context(), bob.OrgID, bob.ID); err != nil || len(live) != 0 {
			t.Errorf("bob sees %+v, %v", live, err)
		}
		if _, _, err := s.Resume(t.Context(), token); err != nil {
			t.Error(err)
		}
	})
}

// TestSessionsOfNarrowedKey: a key that may do less does not sign its holder out
// elsewhere.
func TestSessionsOfNarrowedKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Owner)
		_, full := newKey(t, s, u)
		_, narrowed := newKey(t, s, u, access.Read)
		wide, token := signIn(t, s, full, "")
		narrow, _ := signIn(t, s, narrowed, "")
		c := authenticated(t, s, narrowed)
		wantKind(t, s.EndSession(t.Context(), c, wide.ID), fault.NotFound, "Session not found")
		if _, _, err := s.Resume(t.Context(), token); err != nil {
			t.Error(err)
		}
		if err := s.EndSession(t.Context(), c, narrow.ID); err != nil {
			t.Error(err)
		}
		if err := s.EndSession(t.Context(), authenticated(t, s, full), wide.ID); err != nil {
			t.Error(err)
		}
	})
}

func TestSweepRemovesSessions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		_, raw := newKey(t, s, person(t, s, "acme", access.Member))
		old, _ := signIn(t, s, raw, "")
		idle, _ := signIn(t, s, raw, "")
		_, token := signIn(t, s, raw, "")
		exec(t, db, `UPDATE sessions SET expires_at = $2 WHERE id = $1`, old.ID, store.Micros(time.Now().Add(-time.Second)))
		exec(t, db, `UPDATE sessions SET used_at = $2 WHERE id = $1`, idle.ID, store.Micros(time.Now().Add(-8*24*time.Hour)))
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, err := db.Query(t.Context(), `SELECT COUNT(*) FROM sessions`)
		if n, err := store.One(rows, err, "Count", store.Value[int]); err != nil || n != 1 {
			t.Errorf("%d sessions are left, want 1; %v", n, err)
		}
		if _, _, err := s.Resume(t.Context(), token); err != nil {
			t.Error(err)
		}
	})
}

func TestAnswerDevice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Owner)
		_, narrowed := newKey(t, s, u, access.Read, access.Write)
		_, full := newKey(t, s, u)
		d := start(t, s, "cli")
		w, err := s.PendingDevice(t.Context(), d.UserCode)
		if err != nil || w.ClientID != "cli" || w.UserCode != d.UserCode || w.ExpiresAt.Sub(w.CreatedAt) != 15*time.Minute {
			t.Errorf("waiting %+v, %v", w, err)
		}
		err = s.AnswerDevice(t.Context(), authenticated(t, s, narrowed), d.UserCode, true)
		wantKind(t, err, fault.Denied, "Your key has fewer permissions than the role owner, and the login would get all of them; sign in with a key that has them all")
		wantStatus(t, s, d.DeviceCode, auth.DevicePending)
		if err := s.AnswerDevice(t.Context(), authenticated(t, s, full), d.UserCode, true); err != nil {
			t.Fatal(err)
		}
		if r := poll(t, s, d.DeviceCode); r.Status != auth.DeviceApproved || len(authenticated(t, s, r.RawKey).Permissions) != len(access.Owner.Permissions()) {
			t.Errorf("the poll finds %+v", r)
		}
		_, err = s.PendingDevice(t.Context(), d.UserCode)
		wantKind(t, err, fault.NotFound, noLogin)
	})
}

func TestKeyState(t *testing.T) {
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for want, k := range map[string]auth.Key{
		"active": {ExpiresAt: &future}, "expired": {ExpiresAt: &past}, "revoked": {ExpiresAt: &past, RevokedAt: &past},
	} {
		if got := k.State(); got != want {
			t.Errorf("%+v is %s, want %s", k, got, want)
		}
	}
}
