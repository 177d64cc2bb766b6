package signin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// house is an organisation whose people sign in with two OpenID providers, and GitHub.
type house struct {
	*apptest.World
	t       *testing.T
	s       *signin.Service
	owner   *apptest.Caller
	corp    *oidctest.Provider
	other   *oidctest.Provider
	github  *oidctest.GitHub
	members *members.Service
}

func newHouse(t *testing.T, db *store.DB) *house {
	t.Helper()
	w := apptest.NewWorld(t, db, apptest.Options{})
	h := &house{World: w, t: t, owner: w.Org("acme"), corp: oidctest.New(t), other: oidctest.New(t), github: oidctest.NewGitHub(t)}
	h.members = &members.Service{DB: db, Auth: w.Auth, PublicURL: apptest.PublicURL}
	h.s = h.replica()
	h.corp.SetRedirect(apptest.PublicURL + "/login/oidc/corp/callback")
	h.github.SetRedirect(apptest.PublicURL + "/login/oidc/github/callback")
	return h
}

// replica is the service on another machine.
func (h *house) replica() *signin.Service {
	h.t.Helper()
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		h.t.Fatal(err)
	}
	provider := func(name string, p *oidctest.Provider) signin.Provider {
		return signin.Provider{Name: name, Issuer: p.URL, ClientID: oidctest.ClientID, Secret: oidctest.ClientSecret, Org: "acme"}
	}
	return &signin.Service{
		DB: h.DB, Auth: h.Auth, Keys: oidc.NewKeys(client), HTTP: client, PublicURL: apptest.PublicURL,
		Providers: []signin.Provider{provider("corp", h.corp), provider("other", h.other), {
			Name: "github", GitHub: true, Issuer: h.github.URL, ClientID: oidctest.ClientID, Secret: oidctest.ClientSecret, Org: "acme",
		}},
		Secret: []byte(strings.Repeat("k", 32)), Log: h.Log,
	}
}

// start begins a sign-in and goes to the provider, as a browser does. It returns what the
// browser brings back.
func (h *house) start(name string) signin.Callback {
	h.t.Helper()
	location, cookie, err := h.s.Start(h.t.Context(), name, "/skills")
	if err != nil {
		h.t.Fatal(err)
	}
	return signin.Callback{Provider: name, Cookie: cookie, Query: h.visit(location)}
}

// visit goes to the provider and returns the parameters of its answer.
func (h *house) visit(location string) url.Values {
	h.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(must(http.NewRequestWithContext(h.t.Context(), http.MethodGet, location, nil)))
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		h.t.Fatalf("the provider answers %s: %v", resp.Status, err)
	}
	return back.Query()
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func (h *house) finish(c signin.Callback) (signin.Welcome, error) {
	return h.s.Finish(audit.By(h.t.Context(), audit.Web), c)
}

// signIn signs the provider's person in.
func (h *house) signIn(name string) (signin.Welcome, error) {
	h.t.Helper()
	return h.finish(h.start(name))
}

// caller is who the session of a welcome is.
func (h *house) caller(w signin.Welcome, err error) access.Caller {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	c, _, err := h.Auth.Resume(h.t.Context(), w.Token)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// count is how many rows a table has.
func (h *house) count(table string) int {
	h.t.Helper()
	rows, err := h.DB.Query(h.t.Context(), "SELECT COUNT(*) FROM "+table)
	n, err := store.One(rows, err, table, store.Value[int])
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func ada(with oidctest.Claims) oidctest.Claims {
	return oidctest.Claims{"sub": "1", "email": "Ada@Example.org", "email_verified": true, "name": "Ada"}.With(with)
}

// TestFirstSignIn adds a member, who is the same at the next sign-in on any replica.
func TestFirstSignIn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.corp.SetPerson(ada(nil))
		w, err := h.signIn("corp")
		first := h.caller(w, err)
		if first.Email != "ada@example.org" || first.Role != access.Member || first.OrgID != h.owner.Org.ID || w.Next != "/skills" {
			t.Errorf("signed in as %+v, next %q", first, w.Next)
		}
		start := h.start("corp")
		h.s = h.replica()
		again := h.caller(h.finish(start))
		if again.UserID != first.UserID || again.KeyID != first.KeyID {
			t.Errorf("the second time it is %+v, want %+v", again, first)
		}
		if n := h.count("identities"); n != 1 {
			t.Errorf("%d identities, want 1", n)
		}
		entries, _, err := (&audit.Service{DB: db}).List(t.Context(), first.OrgID, audit.Filter{Action: "auth.session.start", Limit: 9})
		if err != nil || len(entries) != 2 || entries[0].ActorName != "ada@example.org" || entries[0].Detail["provider"] != "corp" {
			t.Errorf("the audit log has %+v, %v", entries, err)
		}
	})
}

// TestLinking: an address finds a member once; then the subject does.
func TestLinking(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		u := h.user("ada@example.org", access.AdminRole)
		h.corp.SetPerson(ada(nil))
		if c := h.caller(h.signIn("corp")); c.UserID != u.ID || c.Role != access.AdminRole {
			t.Errorf("linked to %+v, want %s as an admin", c, u.ID)
		}
		// A changed address does not move anybody, not even to a member who has it.
		h.user("bob@example.org", access.Owner)
		h.corp.SetPerson(ada(oidctest.Claims{"email": "bob@example.org"}))
		if c := h.caller(h.signIn("corp")); c.UserID != u.ID || c.Email != "ada@example.org" {
			t.Errorf("with another address it is %+v", c)
		}
		// A second provider that vouches for the same address proves nothing.
		h.other.SetPerson(ada(oidctest.Claims{"sub": "77"}))
		if _, err := h.signIn("other"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "signs in with corp; sign in with that, and link") {
			t.Errorf("at the other provider: %v", err)
		}
	})
}

func (h *house) user(email string, role access.Role) auth.User {
	h.t.Helper()
	u, err := h.Auth.CreateUser(h.t.Context(), auth.NewUser{OrgID: h.owner.Org.ID, Email: email, Role: role})
	if err != nil {
		h.t.Fatal(err)
	}
	return u
}

// TestRoles: the highest role of the groups, at each sign-in.
func TestRoles(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.s.Providers[0].Roles = map[string]access.Role{"devs": access.Member, "ops": access.AdminRole, "bosses": access.Owner, "urn:x": access.Viewer}
		for _, step := range []struct {
			name   string
			groups any
			want   access.Role
		}{
			{"the highest", []string{"all", "devs", "ops"}, access.AdminRole},
			{"lower", []string{"devs"}, access.Member},
			{"one text", "bosses", access.Owner},
			{"with a colon", []string{"urn:x"}, access.Viewer},
		} {
			h.corp.SetPerson(ada(oidctest.Claims{"groups": step.groups}))
			if c := h.caller(h.signIn("corp")); c.Role != step.want {
				t.Errorf("%s: role %s, want %s", step.name, c.Role, step.want)
			}
		}
		for _, groups := range []any{nil, []string{}, []string{"Devs", "dev", "devs "}, 7, []any{"devs", 7}, map[string]any{"devs": true}, "devs,ops"} {
			h.corp.SetPerson(ada(oidctest.Claims{"sub": "2", "email": "eve@example.org", "groups": groups}))
			if _, err := h.signIn("corp"); !fault.Is(err, fault.Denied) {
				t.Errorf("groups %v: %v", groups, err)
			}
		}
		// Groups that only the userinfo endpoint tells, in a nested claim.
		h.s.Providers[0].GroupsClaim = "realm_access.roles"
		h.corp.SetPerson(ada(nil))
		h.corp.SetUserInfo(oidctest.Claims{"realm_access": map[string]any{"roles": []string{"ops"}}})
		if c := h.caller(h.signIn("corp")); c.Role != access.AdminRole {
			t.Errorf("by userinfo the role is %s", c.Role)
		}
	})
}

// TestLastOwner stays one, whatever their groups are.
func TestLastOwner(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.s.Providers[0].Roles = map[string]access.Role{"devs": access.Member}
		h.corp.SetPerson(ada(oidctest.Claims{"email": h.owner.User.Email, "groups": []string{"devs"}}))
		if c := h.caller(h.signIn("corp")); c.UserID != h.owner.User.ID || c.Role != access.Owner {
			t.Errorf("the last owner is %+v", c)
		}
		// With another owner, too: a person made them owner.
		h.user("bob@example.org", access.Owner)
		if c := h.caller(h.signIn("corp")); c.Role != access.Owner {
			t.Errorf("one of two owners is %s now", c.Role)
		}
		// The groups take what the groups gave.
		h.s.Providers[0].Roles["bosses"] = access.Owner
		h.corp.SetPerson(ada(oidctest.Claims{"sub": "3", "email": "eve@example.org", "groups": []string{"bosses"}}))
		if c := h.caller(h.signIn("corp")); c.Role != access.Owner {
			t.Errorf("by the groups it is %s", c.Role)
		}
		h.corp.SetPerson(ada(oidctest.Claims{"sub": "3", "email": "eve@example.org", "groups": []string{"devs"}}))
		if c := h.caller(h.signIn("corp")); c.Role != access.Member {
			t.Errorf("without the group it is %s", c.Role)
		}
	})
}

// TestRemoved: a removed member loses the session at once, and is somebody new if the
// provider still vouches for them.
func TestRemoved(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.corp.SetPerson(ada(nil))
		w, err := h.signIn("corp")
		before := h.caller(w, err)
		if _, err := h.Auth.RemoveByOperator(t.Context(), before.OrgID, auth.Removal{UserID: before.UserID}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Auth.Resume(t.Context(), w.Token); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the session of a removed member: %v", err)
		}
		if c := h.caller(h.signIn("corp")); c.UserID == before.UserID || c.Role != access.Member {
			t.Errorf("signed in again as %+v", c)
		}
	})
}

// TestRevokedKey: the key of an identity can be revoked, which ends its sessions; the
// next sign-in makes another.
func TestRevokedKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.corp.SetPerson(ada(nil))
		w, err := h.signIn("corp")
		c := h.caller(w, err)
		h.Exec("UPDATE api_keys SET revoked_at = 1 WHERE id = '" + c.KeyID + "'")
		if _, _, err := h.Auth.Resume(t.Context(), w.Token); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the session of a revoked key: %v", err)
		}
		if again := h.caller(h.signIn("corp")); again.KeyID == c.KeyID || again.UserID != c.UserID {
			t.Errorf("signed in again as %+v", again)
		}
	})
}

// TestConcurrentFirst: two browsers of a new person add one member.
func TestConcurrentFirst(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.corp.SetPerson(ada(nil))
		starts := []signin.Callback{h.start("corp"), h.start("corp"), h.start("corp")}
		done := make(chan error)
		for _, c := range starts {
			go func() {
				_, err := h.s.Finish(context.WithoutCancel(t.Context()), c)
				done <- err
			}()
		}
		for range starts {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := h.count("identities"); n != 1 {
			t.Errorf("%d identities, want 1", n)
		}
		if n := h.count("sessions"); n != len(starts) {
			t.Errorf("%d sessions, want %d", n, len(starts))
		}
	})
}

// TestRequired: keys do not open the dashboard, nor do sessions of before.
func TestRequired(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		_, token, err := h.Auth.SignIn(t.Context(), auth.NewSession{RawKey: h.owner.Key})
		if err != nil {
			t.Fatal(err)
		}
		h.Auth.RequireSSO = true
		if _, _, err := h.Auth.Resume(t.Context(), token); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("a session by key: %v", err)
		}
		if _, _, err := h.Auth.SignIn(t.Context(), auth.NewSession{RawKey: h.owner.Key}); !fault.Is(err, fault.Denied) {
			t.Errorf("a sign-in by key: %v", err)
		}
		if _, err := h.Auth.Authenticate(t.Context(), h.owner.Key); err != nil {
			t.Errorf("the key of a program: %v", err)
		}
		h.corp.SetPerson(ada(nil))
		h.caller(h.signIn("corp"))
	})
}

// TestProviderAway: the message says what works, and the sign-in does as soon as the
// provider is back.
func TestProviderAway(t *testing.T) {
	h := newHouse(t, storetest.Open(t, "sqlite"))
	h.corp.SetPerson(ada(nil))
	w, err := h.signIn("corp")
	h.caller(w, err)
	h.s = h.replica()
	h.corp.SetDiscovery(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	_, _, err = h.s.Start(t.Context(), "corp", "/")
	if !fault.Is(err, fault.BadGateway) || !strings.Contains(err.Error(), "corp does not work at the moment") || !strings.Contains(err.Error(), "503") {
		t.Errorf("a provider that is away: %v", err)
	}
	h.caller(w, nil)
	h.corp.SetDiscovery(nil)
	h.s = h.replica()
	h.caller(h.signIn("corp"))
}

// TestLogoutURL is the provider's end_session_endpoint, if it has one.
func TestLogoutURL(t *testing.T) {
	h := newHouse(t, storetest.Open(t, "sqlite"))
	h.corp.SetPerson(ada(nil))
	w, err := h.signIn("corp")
	c := h.caller(w, err)
	name, err := h.s.ProviderOf(t.Context(), c.OrgID, w.Session.ID)
	if err != nil || name != "corp" {
		t.Fatalf("the provider of the session is %q, %v", name, err)
	}
	want := h.corp.URL + "/logout?client_id=whetstone&post_logout_redirect_uri=" + url.QueryEscape(apptest.PublicURL+"/login")
	if got := h.s.LogoutURL(t.Context(), name); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := h.s.LogoutURL(t.Context(), "none"); got != "" {
		t.Errorf("an unknown provider leads to %s", got)
	}
}

// TestSweep forgets what was used once it has expired.
func TestSweep(t *testing.T) {
	h := newHouse(t, storetest.Open(t, "sqlite"))
	h.caller(h.signIn("corp"))
	if err := h.s.Sweep(t.Context()); err != nil || h.count("used_sign_ins") != 1 {
		t.Errorf("%v; a state that can still be replayed was forgotten", err)
	}
	h.Exec("UPDATE used_sign_ins SET expires_at = 1")
	if err := h.s.Sweep(t.Context()); err != nil || h.count("used_sign_ins") != 0 {
		t.Errorf("%v; an expired state is kept", err)
	}
}

// TestGroupsLost: a person who has lost the groups that gave their role keeps no session
// with its rights, in no browser. Sessions of others stay.
func TestGroupsLost(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.s.Providers[0].Roles = map[string]access.Role{"ops": access.AdminRole}
		enter := func(claims oidctest.Claims) (signin.Welcome, error) {
			h.corp.SetPerson(ada(claims))
			return h.s.Finish(t.Context(), h.start("corp"))
		}
		alive := func(w signin.Welcome) bool {
			t.Helper()
			c, _, err := h.Auth.Resume(t.Context(), w.Token)
			if err != nil && !fault.Is(err, fault.Unauthorized) {
				t.Fatal(err)
			}
			return err == nil && c.Role == access.AdminRole
		}
		here, err := enter(oidctest.Claims{"groups": []string{"ops"}})
		if err != nil {
			t.Fatal(err)
		}
		there := must(enter(oidctest.Claims{"groups": []string{"ops"}}))
		eve := must(enter(oidctest.Claims{"sub": "2", "email": "eve@example.org", "groups": []string{"ops"}}))
		if !alive(here) || !alive(there) || !alive(eve) {
			t.Fatal("they are not signed in")
		}
		if _, err := enter(oidctest.Claims{"groups": []string{"guests"}}); !fault.Is(err, fault.Denied) {
			t.Errorf("without a group: %v", err)
		}
		if alive(here) || alive(there) || !alive(eve) {
			t.Errorf("alive: %v and %v, want neither; of another person: %v", alive(here), alive(there), alive(eve))
		}
		if n := h.Count(`audit_entries WHERE action = 'auth.identity.refuse' AND detail LIKE '%"sessions_ended":2%'`); n != 1 {
			t.Errorf("%d entries of the audit log say that two sessions ended", n)
		}
		again := must(enter(oidctest.Claims{"groups": []string{"ops"}}))
		if !alive(again) {
			t.Error("with the group they are not let in again")
		}
	})
}

// TestDeletedOrganisation: nobody signs in to it, not even who began before.
func TestDeletedOrganisation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.corp.SetPerson(ada(nil))
		w, err := h.signIn("corp")
		h.caller(w, err)
		begun := h.start("corp")
		h.CloseOrg(h.owner.Org.ID)
		if _, _, err := h.Auth.Resume(t.Context(), w.Token); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("the session goes on: %v", err)
		}
		sessions := h.count("sessions")
		if _, err := h.finish(begun); !fault.Is(err, fault.Denied) || h.count("sessions") != sessions {
			t.Errorf("signed in: %v", err)
		}
	})
}

// TestLargeTokens: a person in thousands of groups signs in, up to the limit; beyond it,
// the page names the claim. The cookie does not grow with the groups.
func TestLargeTokens(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.s.Providers[0].GroupsClaim = "memberships"
		h.s.Providers[0].Roles = map[string]access.Role{"ops": access.AdminRole}
		size := 0
		h.corp.SetIDToken(func(c oidctest.Claims) string {
			raw := h.corp.Sign(t, c)
			size = len(raw)
			return raw
		})
		groups := func(n int) []string {
			all := []string{"ops"}
			for i := range n {
				all = append(all, fmt.Sprintf("%08d-0000-4000-8000-000000000000", i))
			}
			return all
		}
		for _, n := range []int{400, 1_000, 2_500} {
			h.corp.SetPerson(ada(oidctest.Claims{"memberships": groups(n)}))
			c := h.start("corp")
			if w := h.caller(h.finish(c)); w.Role != access.AdminRole || len(c.Cookie) > 1_000 {
				t.Errorf("%d groups (%d bytes): role %s, a cookie of %d bytes", n, size, w.Role, len(c.Cookie))
			}
		}
		if size < 100<<10 || size > oidc.MaxSignInToken {
			t.Errorf("the largest token that signed in has %d bytes", size)
		}
		for _, n := range []int{3_000, 8_000, 50_000} {
			h.corp.SetPerson(ada(oidctest.Claims{"memberships": groups(n)}))
			_, err := h.signIn("corp")
			if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "more groups at corp") || !strings.Contains(err.Error(), "claim memberships") {
				t.Errorf("%d groups (%d bytes): %v", n, size, err)
			}
		}
		// The same, where only the userinfo endpoint tells them.
		h.corp.SetPerson(ada(nil))
		h.corp.SetUserInfo(oidctest.Claims{"memberships": groups(20_000)})
		if _, err := h.signIn("corp"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "claim memberships") {
			t.Errorf("20,000 groups by userinfo: %v", err)
		}
	})
}
