package auth_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var goodKey = regexp.MustCompile(`^st_live_[0-9A-Za-z]{43}$`)

func TestKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		k, raw := newKey(t, s, u)
		if !goodKey.MatchString(raw) {
			t.Errorf("the key is %q", raw)
		}
		if !strings.HasPrefix(raw, k.Prefix) || len(k.Prefix) != len("st_live_")+4 {
			t.Errorf("the prefix of %s is %s", raw, k.Prefix)
		}
		if _, second := newKey(t, s, u); second == raw {
			t.Error("two keys are the same")
		}
		want := access.Caller{
			OrgID: u.OrgID, OrgName: "acme", UserID: u.ID, Email: "ada@example.org", Name: "ada", KeyID: k.ID,
			Plan: access.Team, Role: access.Member, Permissions: access.Member.Permissions(),
		}
		for range 2 { // from the database, then from memory
			if diff := cmp.Diff(want, authenticated(t, s, raw)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// TestRawKeyIsKeptNowhere looks into every column of every table.
func TestRawKeyIsKeptNowhere(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		log := &apptest.Buffer{}
		s := newService(db)
		s.Log = slog.New(slog.NewTextHandler(log, nil))
		u := person(t, s, "acme", access.Member)
		k, raw := newKey(t, s, u)
		authenticated(t, s, raw)
		login := start(t, s, "cli")
		decide(t, s, login.UserCode, u, true)
		linked := poll(t, s, login.DeviceCode)

		if n := count(t, db, k.Prefix); n == 0 {
			t.Error("the search does not even find the prefix")
		}
		for _, secret := range []string{raw, linked.RawKey, login.DeviceCode} {
			for _, part := range []string{secret, strings.TrimPrefix(secret, "st_live_"), secret[len(secret)/2:]} {
				if n := count(t, db, part); n > 0 || strings.Contains(log.String(), part) {
					t.Errorf("%q is kept", part)
				}
			}
		}
	})
}

// count counts the cells of the database that hold the text.
func count(t *testing.T, db *store.DB, text string) int {
	t.Helper()
	columns := map[string]string{
		"sqlite": `SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'`,
		"postgres": `SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'
		AND table_name NOT IN (SELECT relname FROM pg_class WHERE relispartition)`,
	}
	rows, err := db.Query(t.Context(), columns[db.Dialect().Name()])
	names, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, name := range names {
		table, column, _ := strings.Cut(name, ".")
		rows, err := db.Query(t.Context(), fmt.Sprintf(`SELECT COUNT(*) FROM %q WHERE CAST(%q AS TEXT) LIKE $1`, table, column), "%"+text+"%")
		n, err := store.One(rows, err, "Count", store.Value[int])
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		_, raw := newKey(t, s, person(t, s, "acme", access.Member))
		for _, bad := range []string{
			"", "st_live_", strings.ToLower(raw), raw[:len(raw)-1], raw + "x", " " + raw, raw + "\n",
			strings.Replace(raw, "st_live_", "st_test_", 1), "sk_live_" + strings.Repeat("a", 43), "st_live_" + strings.Repeat("a", 43),
			"st_live_" + strings.Repeat("a", 10_000), "st_live_\x00" + strings.Repeat("a", 42),
		} {
			_, err := s.Authenticate(t.Context(), bad)
			wantKind(t, err, fault.Unauthorized, "Unknown API key")
		}
	})
}

func TestKeyExpires(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		at := time.Now().Add(time.Hour)
		k, raw, err := s.CreateKey(t.Context(), auth.NewKey{OrgID: u.OrgID, UserID: u.ID, Name: "brief", ExpiresAt: &at})
		if err != nil {
			t.Fatal(err)
		}
		authenticated(t, s, raw)
		exec(t, db, `UPDATE api_keys SET expires_at = $2 WHERE id = $1`, k.ID, store.Micros(time.Now().Add(-time.Millisecond)))
		_, err = newService(db).Authenticate(t.Context(), raw)
		wantKind(t, err, fault.Unauthorized, "This API key has expired")
	})
}

func TestKeyIsRevoked(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		here, replica := newService(db), newService(db)
		u := person(t, here, "acme", access.Member)
		k, raw := newKey(t, here, u)
		authenticated(t, here, raw)
		authenticated(t, replica, raw)
		if err := here.RevokeKey(t.Context(), u.OrgID, k.ID); err != nil {
			t.Fatal(err)
		}
		revoked := time.Now()
		_, err := here.Authenticate(t.Context(), raw)
		wantKind(t, err, fault.Unauthorized, "This API key was revoked")
		for err = nil; err == nil; time.Sleep(20 * time.Millisecond) {
			late := time.Since(revoked) > 5*time.Second
			if _, err = replica.Authenticate(t.Context(), raw); err == nil && late {
				t.Fatal("a replica takes the key 5 s later")
			}
		}
		wantKind(t, err, fault.Unauthorized, "This API key was revoked")

		first, _, err := here.Keys(t.Context(), u.OrgID, store.Page{Limit: 1})
		if err != nil || first[0].RevokedAt == nil {
			t.Fatalf("the list says %+v and %v", first, err)
		}
		if err := here.RevokeKey(t.Context(), u.OrgID, k.ID); err != nil {
			t.Errorf("a second revocation: %v", err)
		}
		again, _, err := here.Keys(t.Context(), u.OrgID, store.Page{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("a second revocation changes the first:\n%s", diff)
		}
	})
}

// TestRevocationWinsTheRace revokes while others use the key: whoever asks
// after the revocation is refused, even if a look-up from before comes late.
func TestRevocationWinsTheRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		for range 20 {
			k, raw := newKey(t, s, u)
			var wait sync.WaitGroup
			for range 4 {
				wait.Go(func() { _, _ = s.Authenticate(t.Context(), raw) })
			}
			if err := s.RevokeKey(t.Context(), u.OrgID, k.ID); err != nil {
				t.Error(err)
			}
			wait.Wait()
			if _, err := s.Authenticate(t.Context(), raw); err == nil {
				t.Error("a revoked key is taken")
			}
		}
	})
}

func TestRevokeUnknownKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		k, raw := newKey(t, s, person(t, s, "acme", access.Member))
		other := person(t, s, "other", access.Owner)
		for _, id := range []string{k.ID, "0197a3b2-0000-7000-8000-000000000000"} {
			wantKind(t, s.RevokeKey(t.Context(), other.OrgID, id), fault.NotFound, "Key not found")
		}
		authenticated(t, s, raw)
	})
}

func TestRolesAndPermissions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		org := person(t, s, "acme", access.Owner).OrgID
		for _, role := range access.Roles() {
			u := colleague(t, s, org, string(role)+"@example.org", role)
			_, raw := newKey(t, s, u)
			if diff := cmp.Diff(role.Permissions(), authenticated(t, s, raw).Permissions); diff != "" {
				t.Errorf("%s: %s", role, diff)
			}
			_, narrow := newKey(t, s, u, access.Read)
			if diff := cmp.Diff([]access.Permission{access.Read}, authenticated(t, s, narrow).Permissions); diff != "" {
				t.Errorf("%s, narrowed: %s", role, diff)
			}
		}
	})
}

func TestKeyIsChecked(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		past := time.Now().Add(-time.Second)
		for _, c := range []struct {
			name string
			key  auth.NewKey
			path string
		}{
			{"no name", auth.NewKey{}, "name"},
			{"long name", auth.NewKey{Name: strings.Repeat("é", 101)}, "name"},
			{"past", auth.NewKey{Name: "CI", ExpiresAt: &past}, "expires_at"},
			{"unknown permission", auth.NewKey{Name: "CI", Permissions: []access.Permission{"fly"}}, "permissions"},
			{"permission beyond the role", auth.NewKey{Name: "CI", Permissions: []access.Permission{access.Admin}}, "permissions"},
		} {
			t.Run(c.name, func(t *testing.T) {
				c.key.OrgID, c.key.UserID = u.OrgID, u.ID
				_, _, err := s.CreateKey(t.Context(), c.key)
				wantIssue(t, err, c.path)
			})
		}
		t.Run("long name at the limit", func(t *testing.T) {
			name := strings.Repeat("é", 100)
			if k, _, err := s.CreateKey(t.Context(), auth.NewKey{OrgID: u.OrgID, UserID: u.ID, Name: name}); err != nil || k.Name != name {
				t.Errorf("got %q and %v", k.Name, err)
			}
		})
		t.Run("user of another organisation", func(t *testing.T) {
			other := person(t, s, "other", access.Member)
			_, _, err := s.CreateKey(t.Context(), auth.NewKey{OrgID: other.OrgID, UserID: u.ID, Name: "CI"})
			wantKind(t, err, fault.NotFound, "User not found")
		})
	})
}

// TestNarrowKeyStaysNarrow tries to get more out of a narrowed key by making
// another with it.
func TestNarrowKeyStaysNarrow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		_, raw := newKey(t, s, person(t, s, "acme", access.Owner), access.Admin, access.Read)
		narrow := authenticated(t, s, raw)

		_, heir, err := s.CreateKeyFor(t.Context(), narrow, auth.NewKey{Name: "heir"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]access.Permission{access.Read, access.Admin}, authenticated(t, s, heir).Permissions); diff != "" {
			t.Error(diff)
		}
		_, _, err = s.CreateKeyFor(t.Context(), narrow, auth.NewKey{Name: "wider", Permissions: []access.Permission{access.Read, access.Write}})
		wantKind(t, err, fault.Denied, "Your key does not have the permission write and cannot give it")

		_, narrower, err := s.CreateKeyFor(t.Context(), narrow, auth.NewKey{Name: "narrower", Permissions: []access.Permission{access.Read}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]access.Permission{access.Read}, authenticated(t, s, narrower).Permissions); diff != "" {
			t.Error(diff)
		}
		_, nothing, err := s.CreateKeyFor(t.Context(), narrow, auth.NewKey{Name: "nothing", Permissions: []access.Permission{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := authenticated(t, s, nothing).Permissions; len(got) > 0 {
			t.Errorf("a key that names no permission has %v", got)
		}
	})
}

func TestLastUseIsWritten(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		newKey(t, s, u)
		_, raw := newKey(t, s, u)
		before := time.Now().Truncate(time.Microsecond)
		authenticated(t, s, raw)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		keys, _, err := s.Keys(t.Context(), u.OrgID, store.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if used := keys[0].LastUsedAt; used == nil || used.Before(before) || used.After(time.Now()) {
			t.Errorf("last used at %v, want now", used)
		}
		if keys[1].LastUsedAt != nil {
			t.Errorf("a key nobody used was last used at %v", keys[1].LastUsedAt)
		}
	})
}

func TestKeysArePaged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		u := person(t, s, "acme", access.Member)
		newKey(t, s, person(t, s, "other", access.Member))
		var want []auth.Key
		for range 5 {
			k, _ := newKey(t, s, u, access.Read)
			want = append([]auth.Key{k}, want...)
		}
		for offset := 0; offset <= 6; offset += 2 {
			got, total, err := s.Keys(t.Context(), u.OrgID, store.Page{Limit: 2, Offset: offset})
			if err != nil || total != 5 {
				t.Fatalf("total %d, want 5; %v", total, err)
			}
			if diff := cmp.Diff(want[min(offset, 5):min(offset+2, 5)], got); diff != "" {
				t.Errorf("from %d: %s", offset, diff)
			}
		}
	})
}
