package auth_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// recorded lists what the audit log says, oldest first, and who did it.
func recorded(t *testing.T, db *store.DB, orgID, prefix string) []string {
	t.Helper()
	entries, _, err := (&audit.Service{DB: db}).List(t.Context(), orgID, audit.Filter{Action: prefix, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]string, len(entries))
	for i, e := range entries {
		all[len(all)-1-i] = e.Action + " " + string(e.Actor) + " " + e.ActorName
	}
	return all
}

// TestDeviceIsRecorded: the key that a login gets, and the one it replaces, are
// the doing of who approved it.
func TestDeviceIsRecorded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Member)
		ctx := audit.By(access.With(t.Context(), access.Caller{OrgID: ada.OrgID, UserID: ada.ID, Email: ada.Email, KeyID: "k"}), audit.Web)
		var want []string
		for n := range 2 {
			login, err := s.StartDevice(t.Context(), "cli", "laptop")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.DecideDevice(ctx, login.UserCode, ada, true); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second poll gets nothing
				if _, err := s.PollDevice(t.Context(), login.DeviceCode); err != nil {
					t.Fatal(err)
				}
			}
			want = append(want, "auth.device.approve user ada@example.org")
			if n > 0 {
				want = append(want, "auth.key.revoke user ada@example.org")
			}
			want = append(want, "auth.key.create user ada@example.org")
		}
		got := append(recorded(t, db, ada.OrgID, "auth.device."), recorded(t, db, ada.OrgID, "auth.key.")...)
		all := recorded(t, db, ada.OrgID, "auth.")
		if diff := cmp.Diff(want, all[2:]); diff != "" || len(got) != len(want) {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	})
}

// TestRepeatedRevocationIsNotRecorded: what changes nothing leaves nothing.
func TestRepeatedRevocationIsNotRecorded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		k, raw := newKey(t, s, person(t, s, "acme", access.Member))
		_, token, err := s.SignIn(t.Context(), auth.NewSession{RawKey: raw, Browser: "b"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.SignOut(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			if err := s.RevokeKey(t.Context(), k.OrgID, k.ID); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"auth.session.start key ada@example.org", "auth.session.end key "}
		if diff := cmp.Diff(want, recorded(t, db, k.OrgID, "auth.session.")); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
		if got := recorded(t, db, k.OrgID, "auth.key.revoke"); len(got) != 1 {
			t.Errorf("revocations %v, want one", got)
		}
	})
}
