package auth_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestOrgs(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		var want []auth.Organisation
		for _, name := range []string{"zoo", "Acme Inc. 2", "a"} {
			o, err := s.CreateOrg(t.Context(), name, access.Free)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, o)
		}
		got, err := s.Orgs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("oldest first (-want +got):\n%s", diff)
		}
		one, err := s.OrgByName(t.Context(), "zoo")
		if err != nil || one != want[0] {
			t.Errorf("got %v and %v, want %v", one, err, want[0])
		}
		_, err = s.CreateOrg(t.Context(), "zoo", access.Free)
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("a taken name gives %v, want a conflict", err)
		}
		_, err = s.OrgByName(t.Context(), "nobody")
		wantKind(t, err, fault.NotFound, "Organisation nobody not found")
	})
}

func TestOrgIsChecked(t *testing.T) {
	s := newService(nil)
	for _, c := range []struct{ name, plan, path string }{
		{"", "free", "name"},
		{" acme", "free", "name"},
		{"-acme", "free", "name"},
		{"ac/me", "free", "name"},
		{"ac\nme", "free", "name"},
		{strings.Repeat("a", 101), "free", "name"},
		{"acme", "", "plan"},
		{"acme", "gold", "plan"},
	} {
		_, err := s.CreateOrg(t.Context(), c.name, access.Plan(c.plan))
		wantIssue(t, err, c.path)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		ada := person(t, s, "acme", access.Owner)
		bob := colleague(t, s, ada.OrgID, "Bob@Example.ORG", access.Viewer)
		other := person(t, s, "other", access.Member)
		if bob.Email != "bob@example.org" || bob.Name != "bob" {
			t.Errorf("bob is %+v", bob)
		}
		if other.Email != ada.Email {
			t.Errorf("one address cannot be in two organisations: %+v", other)
		}
		got, err := s.Users(t.Context(), ada.OrgID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]auth.User{ada, bob}, got); diff != "" {
			t.Error(diff)
		}
		for _, spelling := range []string{"bob@example.org", " BOB@example.org "} {
			if u, err := s.UserByEmail(t.Context(), ada.OrgID, spelling); err != nil || u != bob {
				t.Errorf("%q gives %v and %v", spelling, u, err)
			}
		}
		_, err = s.UserByEmail(t.Context(), other.OrgID, "bob@example.org")
		wantKind(t, err, fault.NotFound, "User bob@example.org not found")
		_, err = s.CreateUser(t.Context(), auth.NewUser{OrgID: ada.OrgID, Email: "BOB@example.org", Role: access.Member})
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("a taken address gives %v, want a conflict", err)
		}
	})
}

func TestUserIsChecked(t *testing.T) {
	s := newService(nil)
	for _, c := range []struct{ email, role, path string }{
		{"", "member", "email"},
		{"ada", "member", "email"},
		{"Ada <ada@example.org>", "member", "email"},
		{"ada@example.org, bob@example.org", "member", "email"},
		{"ada@example.org\r\nBcc: all@example.org", "member", "email"},
		{strings.Repeat("a", 250) + "@example.org", "member", "email"},
		{"ada@example.org", "", "role"},
		{"ada@example.org", "king", "role"},
	} {
		_, err := s.CreateUser(t.Context(), auth.NewUser{Email: c.email, Role: access.Role(c.role)})
		wantIssue(t, err, c.path)
	}
}

func TestSetPlan(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newService(db)
		_, raw := newKey(t, s, person(t, s, "acme", access.Member))
		for _, plan := range []access.Plan{access.Enterprise, access.Free} {
			o, err := s.SetPlan(t.Context(), "acme", plan)
			if err != nil || o.Plan != plan {
				t.Fatalf("got %v and %v, want the plan %s", o, err, plan)
			}
			if got := authenticated(t, s, raw).Plan; got != plan {
				t.Errorf("the key is on %s, want %s at once", got, plan)
			}
		}
		_, err := s.SetPlan(t.Context(), "acme", "gold")
		wantIssue(t, err, "plan")
		_, err = s.SetPlan(t.Context(), "nobody", access.Free)
		wantKind(t, err, fault.NotFound, "Organisation nobody not found")
	})
}

func TestSecret(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		secret := func(name string) string {
			value, err := newService(db).Secret(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if len(value) != 32 {
				t.Errorf("%s has %d bytes, want 32", name, len(value))
			}
			return string(value)
		}
		first := secret("downloads")
		if secret("downloads") != first {
			t.Error("two replicas have two secrets")
		}
		if secret("webhooks") == first {
			t.Error("two names have one secret")
		}
	})
}
