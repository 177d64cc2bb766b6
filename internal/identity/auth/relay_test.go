package auth_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestRelayKey: a caller is a relay if its key was made for one, and a key
// that it makes is not unless it is asked for.
func TestRelayKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		_, _, raw := s.member(t, "acme", access.AdminRole)
		issue := func(key, body string, relay bool) string {
			t.Helper()
			secret := apptest.Text(s.call(t, key, "POST /api/v1/keys", body).Want(201).Object(), "api_key")
			caller, err := s.Auth.Authenticate(t.Context(), secret)
			if err != nil || caller.Relay != relay {
				t.Errorf("%s makes a caller with Relay %t, %v", body, caller.Relay, err)
			}
			return secret
		}
		relay := issue(raw, `{"name":"relay","relay":true}`, true)
		issue(relay, `{"name":"other"}`, false)
		_, _, member := s.member(t, "acme2", access.Member)
		s.call(t, member, "POST /api/v1/keys", `{"name":"relay","relay":true}`).WantError(403, "This needs the permission admin")
	})
}
