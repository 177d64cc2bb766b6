package auth_test

import (
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func start(t *testing.T, s *auth.Service, clientID string) auth.DeviceLogin {
	t.Helper()
	return startOn(t, s, clientID, "")
}

func startOn(t *testing.T, s *auth.Service, clientID, deviceID string) auth.DeviceLogin {
	t.Helper()
	d, err := s.StartDevice(t.Context(), clientID, deviceID)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func decide(t *testing.T, s *auth.Service, userCode string, u auth.User, approve bool) {
	t.Helper()
	if err := s.DecideDevice(t.Context(), userCode, u, approve); err != nil {
		t.Fatal(err)
	}
}

func poll(t *testing.T, s *auth.Service, deviceCode string) auth.DeviceResult {
	t.Helper()
	r, err := s.PollDevice(t.Context(), deviceCode)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantStatus polls and expects no key.
func wantStatus(t *testing.T, s *auth.Service, deviceCode string, want auth.DeviceStatus) {
	t.Helper()
	if r := poll(t, s, deviceCode); r.Status != want || r.RawKey != "" || r.Key.ID != "" {
		t.Errorf("the poll finds %+v, want %s and no key", r, want)
	}
}

const noLogin = "No login waits for this code; start the login again"

func TestDeviceLogin(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s, replica := newService(db), newService(db)
		u := person(t, s, "acme", access.Member)
		d := start(t, s, "cli")
		if !regexp.MustCompile(`^[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}$`).MatchString(d.UserCode) {
			t.Errorf("the user code is %q", d.UserCode)
		}
		if d.ExpiresIn != 15*time.Minute || d.Interval != 5*time.Second {
			t.Errorf("it expires in %v, polled every %v", d.ExpiresIn, d.Interval)
		}
		wantStatus(t, s, d.DeviceCode, auth.DevicePending)
		decide(t, replica, " "+strings.ToLower(d.UserCode)+" ", u, true)

		r := poll(t, s, d.DeviceCode)
		if r.Status != auth.DeviceApproved || !goodKey.MatchString(r.RawKey) || r.Key.Name != "login of cli" {
			t.Fatalf("the poll finds %+v", r)
		}
		if c := authenticated(t, s, r.RawKey); c.UserID != u.ID || c.OrgID != u.OrgID || c.KeyID != r.Key.ID {
			t.Errorf("the key belongs to %+v", c)
		}
		wantStatus(t, replica, d.DeviceCode, auth.DeviceExpired)
		wantKind(t, s.DecideDevice(t.Context(), d.UserCode, u, false), fault.NotFound, noLogin)
	})
}

func TestDeviceLoginIsDenied(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		d := start(t, s, "cli")
		decide(t, s, d.UserCode, u, false)
		wantStatus(t, s, d.DeviceCode, auth.DeviceDenied)
		wantKind(t, s.DecideDevice(t.Context(), d.UserCode, u, true), fault.NotFound, noLogin)
		wantStatus(t, s, d.DeviceCode, auth.DeviceDenied)
	})
}

func TestDeviceLoginExpires(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		pending, approved := start(t, s, "cli"), start(t, s, "cli")
		decide(t, s, approved.UserCode, u, true)
		exec(t, db, `UPDATE device_codes SET expires_at = $1`, store.Micros(time.Now().Add(-time.Millisecond)))
		wantStatus(t, s, pending.DeviceCode, auth.DeviceExpired)
		wantStatus(t, s, approved.DeviceCode, auth.DeviceExpired)
		wantStatus(t, s, "never-given-out", auth.DeviceExpired)
		wantKind(t, s.DecideDevice(t.Context(), pending.UserCode, u, true), fault.NotFound, noLogin)
		wantKind(t, s.DecideDevice(t.Context(), "BBBB-BBBB", u, true), fault.NotFound, noLogin)
	})
}

func TestDeviceSweep(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		old, fresh := start(t, s, "cli"), start(t, s, "cli")
		exec(t, db, `UPDATE device_codes SET expires_at = $2 WHERE user_code = $1`, old.UserCode, store.Micros(time.Now().Add(-16*time.Minute)))
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, old.UserCode); n != 0 {
			t.Error("a login that is long over is kept")
		}
		wantStatus(t, s, fresh.DeviceCode, auth.DevicePending)
	})
}

// TestDeviceKeyIsGivenOnce polls from several places at the same time.
func TestDeviceKeyIsGivenOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		d := start(t, s, "cli")
		decide(t, s, d.UserCode, person(t, s, "acme", access.Member), true)
		var given atomic.Int64
		var wait sync.WaitGroup
		for range 6 {
			wait.Go(func() {
				r, err := newService(db).PollDevice(t.Context(), d.DeviceCode)
				if err != nil {
					t.Error(err)
				}
				if r.RawKey != "" {
					given.Add(1)
				}
			})
		}
		wait.Wait()
		if given.Load() != 1 {
			t.Errorf("the key was given %d times, want once", given.Load())
		}
	})
}

// logIn has a program of a person log in on a device, and returns the raw key.
func logIn(t *testing.T, s *auth.Service, u auth.User, clientID, deviceID string) string {
	t.Helper()
	d := startOn(t, s, clientID, deviceID)
	decide(t, s, d.UserCode, u, true)
	return poll(t, s, d.DeviceCode).RawKey
}

// TestLoginOnTwoDevices: two machines of one person log in in turn, and the key of
// neither ends that of the other.
func TestLoginOnTwoDevices(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Member)
		laptop := logIn(t, s, ada, "cli", "laptop")
		desktop := logIn(t, s, ada, "cli", "desktop")
		for raw, device := range map[string]string{laptop: "laptop", desktop: "desktop", logIn(t, s, ada, "cli", ""): ""} {
			if got := authenticated(t, s, raw).DeviceID; got != device {
				t.Errorf("the key is of the device %q, want %q", got, device)
			}
		}
	})
}

// TestLoginAgain: the new key replaces that of the same person, program and device,
// and no other.
func TestLoginAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Member)
		bob := colleague(t, s, ada.OrgID, "bob@example.org", access.Member)
		_, namesake, err := s.CreateKey(t.Context(), auth.NewKey{OrgID: ada.OrgID, UserID: ada.ID, Name: "login of cli"})
		if err != nil {
			t.Fatal(err)
		}
		first := logIn(t, s, ada, "cli", "laptop")
		others := []string{
			namesake, logIn(t, s, ada, "editor", "laptop"), logIn(t, s, bob, "cli", "laptop"),
			logIn(t, s, ada, "cli", "desktop"), logIn(t, s, ada, "cli", ""),
		}
		authenticated(t, s, first)
		second := logIn(t, s, ada, "cli", "laptop")
		for _, raw := range append(others, second) {
			authenticated(t, s, raw)
		}
		_, err = s.Authenticate(t.Context(), first)
		wantKind(t, err, fault.Unauthorized, "This API key was revoked")
	})
}

// TestLoginWithoutDevice: a client that does not identify its machine, as existing
// ones do not, revokes nothing, not even a key of its own.
func TestLoginWithoutDevice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Member)
		keys := []string{
			logIn(t, s, ada, "cli", "laptop"), logIn(t, s, ada, "cli", ""), logIn(t, s, ada, "cli", ""), logIn(t, s, ada, "cli", "desktop"),
		}
		for _, raw := range keys {
			authenticated(t, s, raw)
		}
	})
}

// TestLongClientID needs a name that is cut, between characters.
func TestLongClientID(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		d := start(t, s, strings.Repeat("é", 200))
		decide(t, s, d.UserCode, u, true)
		if r := poll(t, s, d.DeviceCode); r.Key.Name != "login of "+strings.Repeat("é", 91) {
			t.Errorf("the key's name is %q", r.Key.Name)
		}
		for _, bad := range []string{"", strings.Repeat("é", 201)} {
			_, err := s.StartDevice(t.Context(), bad, "")
			wantIssue(t, err, "client_id")
		}
		_, err := s.StartDevice(t.Context(), "cli", strings.Repeat("é", 201))
		wantIssue(t, err, "device_id")
	})
}

// TestDeviceOfDeletedOrganisation: what was approved before gives no key.
func TestDeviceOfDeletedOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		d := start(t, s, "cli")
		decide(t, s, d.UserCode, u, true)
		if _, err := db.Exec(t.Context(), `UPDATE organisations SET deleted_at = 1`); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, s, d.DeviceCode, auth.DeviceExpired)
		if p, err := s.Device(t.Context(), d.DeviceCode); err != nil || p.Status != auth.DeviceExpired {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
