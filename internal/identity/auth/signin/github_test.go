package signin_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// grace is somebody at GitHub with some verified address, which is the primary one.
func grace(email string, orgs ...oidctest.Org) oidctest.Account {
	return oidctest.Account{
		ID: 31, Login: "grace", Name: "Grace", Orgs: orgs,
		Emails: []oidctest.Email{{Email: "victim@example.org"}, {Email: "old@example.org", Verified: true}, {Email: email, Primary: true, Verified: true}},
	}
}

// hub is the provider that is GitHub.
func (h *house) hub() *signin.Provider { return &h.s.Providers[2] }

// asAccount signs an account of GitHub in.
func asAccount(a oidctest.Account) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		h.github.SetAccount(a)
		return h.signIn("github")
	}
}

// serving signs in while GitHub answers otherwise at a path.
func serving(path string, handle http.HandlerFunc) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		h.github.SetHandlers(map[string]http.HandlerFunc{path: handle})
		return h.signIn("github")
	}
}

// answering serves a text.
func answering(path string, status int, body string, headers ...string) func(*house) (signin.Welcome, error) {
	return serving(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, header := range headers {
			name, value, _ := strings.Cut(header, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// atOrg signs in where only people of some organisations may.
func atOrg(orgs []string, a oidctest.Account) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		h.hub().GitHubOrgs = orgs
		return asAccount(a)(h)
	}
}

// atTeam signs in where the owner is a team.
func atTeam(team string, a oidctest.Account) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		h.hub().Roles = map[string]access.Role{team: access.Owner}
		return asAccount(a)(h)
	}
}

const (
	tokenPath = "/login/oauth/access_token"
	api       = "/api/v3/user"
)

// gitHubAttacks are those on a sign-in with GitHub.
func gitHubAttacks() []attack {
	eve := func(emails ...oidctest.Email) oidctest.Account {
		return oidctest.Account{ID: 666, Login: "eve", Emails: emails}
	}
	evil := grace("eve@example.org")
	evil.ID = 667
	in := func(orgs ...oidctest.Org) oidctest.Account { a := evil; a.Orgs = orgs; return a }
	return []attack{
		{"GitHub: a callback is replayed", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			h.github.SetHandlers(map[string]http.HandlerFunc{tokenPath: http.NotFound})
			_, _ = h.finish(c)
			h.github.SetHandlers(nil)
			return h.finish(c)
		}},
		{"GitHub: a code is used again with another state", func(h *house) (signin.Welcome, error) {
			stolen, fresh := h.start("github"), h.start("github")
			fresh.Query.Set("code", stolen.Query.Get("code"))
			return h.finish(fresh)
		}},
		{"GitHub: a code is exchanged twice", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			h.github.SetHandlers(map[string]http.HandlerFunc{api: http.NotFound}) // after the exchange
			_, _ = h.finish(c)
			h.github.SetHandlers(nil)
			h.Exec("DELETE FROM used_sign_ins")
			return h.finish(c)
		}},
		{"GitHub: no state", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			c.Query.Del("state")
			return h.finish(c)
		}},
		{"GitHub: another state", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			c.Query.Set("state", rand.Text())
			return h.finish(c)
		}},
		{"GitHub: a guessed code", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			c.Query.Set("code", rand.Text())
			return h.finish(c)
		}},
		{"GitHub: the callback of the attacker in the browser of the victim", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			c.Cookie = h.start("github").Cookie
			return h.finish(c)
		}},
		{"GitHub: another callback URL", func(h *house) (signin.Welcome, error) {
			h.s.PublicURL = "https://evil.example"
			return h.signIn("github")
		}},
		{"mix-up: the answer of an OpenID provider at GitHub's callback", func(h *house) (signin.Welcome, error) {
			c := h.start("corp")
			c.Provider = "github"
			return h.finish(c)
		}},
		{"mix-up: the answer of GitHub at an OpenID provider's callback", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			c.Provider = "corp"
			return h.finish(c)
		}},
		{"mix-up: GitHub's cookie with an OpenID provider's code", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			c.Query.Set("code", h.start("corp").Query.Get("code"))
			return h.finish(c)
		}},
		{"mix-up: an OpenID provider's cookie with GitHub's code", func(h *house) (signin.Welcome, error) {
			c := h.start("corp")
			c.Query.Set("code", h.start("github").Query.Get("code"))
			return h.finish(c)
		}},
		{"mix-up: iss names an OpenID provider", func(h *house) (signin.Welcome, error) {
			c := h.start("github")
			c.Query.Set("iss", h.corp.URL)
			return h.finish(c)
		}},
		{"GitHub: the wrong secret of the app", func(h *house) (signin.Welcome, error) {
			h.hub().Secret = "wrong"
			return h.signIn("github")
		}},
		{"GitHub: an error with status 200", answering(tokenPath, http.StatusOK, `{"error":"bad_verification_code","error_description":"<script>"}`)},
		{"GitHub: an unknown error with status 200", answering(tokenPath, http.StatusOK, `{"error":"<script>alert(1)</script>"}`)},
		{"GitHub: an error beside a token", answering(tokenPath, http.StatusOK, `{"error":"slow_down","access_token":"gho_x","token_type":"bearer"}`)},
		{"GitHub: no token", answering(tokenPath, http.StatusOK, `{"token_type":"bearer"}`)},
		{"GitHub: a token of somebody's making", answering(tokenPath, http.StatusOK, `{"access_token":"gho_x","token_type":"bearer"}`)},
		{"GitHub: a token endpoint that redirects", serving(tokenPath, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		})},
		{"GitHub: a token endpoint that sends too much", answering(tokenPath, http.StatusOK, `{"access_token":"`+strings.Repeat("x", 5<<20)+`"}`)},
		{"GitHub: an API that redirects", func(h *house) (signin.Welcome, error) {
			h.github.SetHandlers(map[string]http.HandlerFunc{
				api: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/api/v3/", http.StatusFound) },
				"/api/v3/": func(w http.ResponseWriter, _ *http.Request) {
					oidctest.Write(w, map[string]any{"id": 670, "type": "User"})
				},
			})
			return h.signIn("github")
		}},
		{"GitHub: an API that sends too much", answering(api, http.StatusOK, `{"id":1,"x":"`+strings.Repeat("x", 5<<20)+`"}`)},
		{"GitHub: the primary rate limit", answering(api, http.StatusForbidden, `{"message":"<script>"}`, "X-RateLimit-Remaining: 0")},
		{"GitHub: the secondary rate limit", answering(api+"/emails", http.StatusTooManyRequests, `{}`, "Retry-After: 60")},
		{"GitHub: the rate limit of tokens", answering(tokenPath, http.StatusTooManyRequests, `<script>`)},
		{"GitHub: an account without an id", answering(api, http.StatusOK, `{"login":"victim","type":"User"}`)},
		{"GitHub: an id that is a text", answering(api, http.StatusOK, `{"id":"31","login":"grace","type":"User"}`)},
		{"GitHub: a negative id", answering(api, http.StatusOK, `{"id":-31,"login":"grace","type":"User"}`)},
		{"GitHub: the account of a bot", asAccount(func() oidctest.Account { a := evil; a.Type = "Bot"; return a }())},
		{"GitHub: the account of an organisation", asAccount(func() oidctest.Account { a := evil; a.Type = "Organization"; return a }())},
		{"GitHub: an address that is not verified", asAccount(eve(oidctest.Email{Email: "victim@example.org", Primary: true}))},
		{"GitHub: a verified address that is not the primary one", asAccount(eve(
			oidctest.Email{Email: "victim@example.org", Verified: true}, oidctest.Email{Email: "eve@example.org", Primary: true}))},
		{"GitHub: no address but that of the profile", asAccount(eve())},
		{"GitHub: an address that GitHub made up", asAccount(eve(
			oidctest.Email{Email: "victim@users.noreply.github.com", Primary: true, Verified: true}))},
		{"GitHub: the address of a machine", asAccount(eve(oidctest.Email{Email: "admin@localhost", Primary: true, Verified: true}))},
		{"GitHub: two addresses in one", asAccount(eve(oidctest.Email{Email: "eve@evil.example,victim@example.org", Primary: true, Verified: true}))},
		{"GitHub: addresses that are not a list", answering(api+"/emails", http.StatusOK, `{"email":"victim@example.org","primary":true,"verified":true}`)},
		{"GitHub: verified is a text", answering(api+"/emails", http.StatusOK, `[{"email":"victim@example.org","primary":true,"verified":"true"}]`)},
		{"GitHub: addresses may not be read", answering(api+"/emails", http.StatusNotFound, `{"message":"Not Found"}`)},
		{"GitHub: a domain that is not allowed", func(h *house) (signin.Welcome, error) {
			h.hub().Domains = []string{"example.org"}
			return asAccount(grace("eve@evil-example.org"))(h)
		}},
		{"GitHub: the address of a member moved to another account", asAccount(eve(
			oidctest.Email{Email: "hopper@example.org", Primary: true, Verified: true}))},
		{"GitHub: the login of a member was taken over with their address", asAccount(func() oidctest.Account {
			a := grace("hopper@example.org")
			a.ID = 669
			return a
		}())},
		{"GitHub: the address of a member who only claimed it", asAccount(grace("claimed@example.org"))},
		{"GitHub: in no organisation", atOrg([]string{"acme"}, evil)},
		{"GitHub: invited to the organisation", atOrg([]string{"acme"}, in(oidctest.Org{ID: 1, Login: "acme", State: "pending"}))},
		{"GitHub: the membership of somebody else", atOrg([]string{"acme"}, in(oidctest.Org{ID: 1, Login: "acme", UserID: 31}))},
		{"GitHub: an organisation that is named almost so", atOrg([]string{"acme"}, in(
			oidctest.Org{ID: 1, Login: "acme-"}, oidctest.Org{ID: 2, Login: "acme/x"}, oidctest.Org{ID: 3, Login: "аcme"}))},
		{"GitHub: the name of the organisation was registered again", atOrg([]string{"id:4711"}, in(oidctest.Org{ID: 99, Login: "acme"}))},
		{"GitHub: an organisation that is named as an id", atOrg([]string{"id:4711"}, in(oidctest.Org{ID: 99, Login: "4711"}))},
		{"GitHub: a team of that name in another organisation", atTeam("acme/ops", in(oidctest.Org{ID: 99, Login: "evil", Teams: []string{"ops", "acme/ops"}}))},
		{"GitHub: an organisation that is named as a team", atTeam("ops", in(oidctest.Org{ID: 99, Login: "evil", Teams: []string{"ops"}}))},
		{"GitHub: a team of an organisation that invited", atTeam("acme/ops", in(oidctest.Org{ID: 1, Login: "acme", State: "pending", Teams: []string{"ops"}}))},
		{"GitHub: teams may not be read", func(h *house) (signin.Welcome, error) {
			h.hub().Roles = map[string]access.Role{"acme": access.Owner}
			h.github.SetHandlers(map[string]http.HandlerFunc{api + "/teams": http.NotFound})
			return asAccount(in(oidctest.Org{ID: 1, Login: "acme"}))(h)
		}},
		{"GitHub: teams without an end", func(h *house) (signin.Welcome, error) {
			h.hub().Roles = map[string]access.Role{"acme": access.Owner}
			h.github.SetHandlers(map[string]http.HandlerFunc{api + "/teams": func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("[" + strings.TrimSuffix(strings.Repeat(`{"slug":"x"},`, 100), ",") + "]"))
			}})
			return asAccount(in(oidctest.Org{ID: 1, Login: "acme"}))(h)
		}},
	}
}

// TestGitHub: a person is their numeric id, whatever their login and address are.
func TestGitHub(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.github.SetAccount(grace("Grace@Example.org"))
		w, err := h.signIn("github")
		first := h.caller(w, err)
		if first.Email != "grace@example.org" || first.Role != access.Member || first.OrgID != h.owner.Org.ID || w.Next != "/skills" {
			t.Errorf("signed in as %+v, next %q", first, w.Next)
		}
		if name, err := h.s.ProviderOf(t.Context(), first.OrgID, w.Session.ID); err != nil || name != "github" || h.s.LogoutURL(t.Context(), name) != "" {
			t.Errorf("the provider of the session is %q, %v", name, err)
		}
		// Another login and another address: the same person.
		moved := grace("grace@elsewhere.example")
		moved.Login = "amazing-grace"
		h.github.SetAccount(moved)
		start := h.start("github")
		h.s = h.replica()
		if c := h.caller(h.finish(start)); c.UserID != first.UserID || c.Email != "grace@example.org" {
			t.Errorf("after the change it is %+v", c)
		}
		// The old login, registered by somebody else: another person.
		taken := grace("newcomer@example.org")
		taken.ID = 32
		h.github.SetAccount(taken)
		if c := h.caller(h.signIn("github")); c.UserID == first.UserID || c.Email != "newcomer@example.org" {
			t.Errorf("the login's new holder is %+v", c)
		}
		if log := h.Logged.String(); strings.Contains(log, oidctest.ClientSecret) || strings.Contains(log, "gho_") {
			t.Error("the log has a secret")
		}
	})
}

// TestGitHubRoles are those of organisations and teams, by name without case, or by id.
func TestGitHubRoles(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.hub().Roles = map[string]access.Role{"acme": access.Viewer, "acme/ops": access.AdminRole, "id:7/devs": access.Member, "id:8": access.Owner}
		many := make([]string, 250) // more than a page
		for i := range many {
			many[i] = fmt.Sprintf("team-%d", i)
		}
		for _, step := range []struct {
			name string
			orgs []oidctest.Org
			want access.Role
		}{
			{"an organisation", []oidctest.Org{{ID: 1, Login: "ACME"}}, access.Viewer},
			{"a team", []oidctest.Org{{ID: 1, Login: "Acme", Teams: []string{"Ops"}}}, access.AdminRole},
			{"a team on the third page", []oidctest.Org{{ID: 1, Login: "acme", Teams: append(many, "ops")}}, access.AdminRole},
			{"a team by the organisation's id", []oidctest.Org{{ID: 7, Login: "renamed", Teams: []string{"devs"}}}, access.Member},
			{"an organisation by its id", []oidctest.Org{{ID: 8, Login: "renamed"}, {ID: 1, Login: "acme"}}, access.Owner},
		} {
			h.github.SetAccount(grace("grace@example.org", step.orgs...))
			if c := h.caller(h.signIn("github")); c.Role != step.want {
				t.Errorf("%s: role %s, want %s", step.name, c.Role, step.want)
			}
		}
		h.github.SetAccount(grace("grace@example.org", oidctest.Org{ID: 9, Login: "elsewhere"}))
		if _, err := h.signIn("github"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "None of your groups at GitHub has a role here") {
			t.Errorf("without a role: %v", err)
		}
		// Organisations alone restrict who signs in, and leave roles to people here.
		h.hub().Roles, h.hub().GitHubOrgs = nil, []string{"acme"}
		h.github.SetAccount(grace("grace@example.org", oidctest.Org{ID: 1, Login: "acme"}))
		if c := h.caller(h.signIn("github")); c.Role != access.Owner {
			t.Errorf("the role became %s", c.Role)
		}
		h.github.SetAccount(grace("grace@example.org"))
		if _, err := h.signIn("github"); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "You are in no organisation at GitHub") {
			t.Errorf("in no organisation: %v", err)
		}
	})
}

// TestGitHubSays: what is wrong, and for whom it is to do.
func TestGitHubSays(t *testing.T) {
	h := newHouse(t, storetest.Open(t, "sqlite"))
	h.github.SetAccount(grace("grace@example.org"))
	for _, c := range []struct {
		want string
		do   func(*house) (signin.Welcome, error)
	}{
		{"limits how often this installation may ask. Try again", answering(api, http.StatusForbidden, `{}`, "X-RateLimit-Remaining: 0")},
		{"does not let this installation read /user/emails (status 403)", answering(api+"/emails", http.StatusForbidden, `{}`)},
		{"check its client id and secret", answering(tokenPath, http.StatusOK, `{"error":"incorrect_client_credentials"}`)},
		{"has another callback URL", answering(tokenPath, http.StatusOK, `{"error":"redirect_uri_mismatch"}`)},
		{"does not accept the code of this sign-in. Start again", answering(tokenPath, http.StatusOK, `{"error":"bad_verification_code"}`)},
		{"your primary address is not verified", answering(tokenPath, http.StatusOK, `{"error":"unverified_user_email"}`)},
		{"verify it at " + h.github.URL + "/settings/emails", asAccount(oidctest.Account{ID: 5, Emails: []oidctest.Email{{Email: "a@example.org", Primary: true}}})},
	} {
		_, err := c.do(h)
		h.github.SetHandlers(nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
