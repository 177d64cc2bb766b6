package auth_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestBootstrap(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		raw, err := s.Bootstrap(t.Context(), access.Pro, "")
		if err != nil {
			t.Fatal(err)
		}
		if !goodKey.MatchString(raw) {
			t.Errorf("the key is %q", raw)
		}
		c := authenticated(t, s, raw)
		if c.OrgName != "default" || c.Plan != access.Pro || c.Role != access.Owner || !c.May(access.RegistryDelete) {
			t.Errorf("the caller is %+v", c)
		}
		for _, own := range []string{"", "st_live_" + strings.Repeat("k", 43)} {
			if again, err := s.Bootstrap(t.Context(), access.Pro, own); err != nil || again != "" {
				t.Errorf("a second start gives %q and %v", again, err)
			}
		}
	})
}

func TestBootstrapWithOwnKey(t *testing.T) {
	for _, own := range []string{"st_live_" + strings.Repeat("k", 43), "st_test_" + strings.Repeat("7", 43)} {
		storetest.Each(t, func(t *testing.T, db *store.DB) {
			s := newService(db)
			raw, err := s.Bootstrap(t.Context(), access.Team, own)
			if err != nil || raw != own {
				t.Fatalf("got %q and %v, want %q", raw, err, own)
			}
			authenticated(t, s, own)
		})
	}
}

func TestBootstrapRefuses(t *testing.T) {
	s := newService(nil)
	for _, bad := range []string{"hunter2", "st_live_short", "sk_live_" + strings.Repeat("k", 43), "st_live_" + strings.Repeat("k", 42) + " "} {
		_, err := s.Bootstrap(t.Context(), access.Team, bad)
		wantIssue(t, err, "bootstrap-key")
		if err != nil && strings.Contains(err.Error(), bad) {
			t.Errorf("the error shows the key: %v", err)
		}
		wantIssue(t, auth.CheckRawKey(bad), "bootstrap-key")
	}
	_, err := s.Bootstrap(t.Context(), "gold", "")
	wantIssue(t, err, "plan")
}

// TestBootstrapRace starts four replicas on one empty database.
func TestBootstrapRace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		keys := make([]string, 4)
		var wait sync.WaitGroup
		for i := range keys {
			wait.Go(func() {
				var err error
				if keys[i], err = newService(db).Bootstrap(t.Context(), access.Team, ""); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		made := strings.Join(keys, "")
		if !goodKey.MatchString(made) {
			t.Errorf("the keys are %q, want one", keys)
		}
		authenticated(t, newService(db), made)
		orgs, err := newService(db).Orgs(t.Context())
		if err != nil || len(orgs) != 1 {
			t.Errorf("the organisations are %v and %v, want one", orgs, err)
		}
	})
}
