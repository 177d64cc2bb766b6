package signin_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// An attack tries to get a session that its author may not have.
type attack struct {
	name string
	do   func(*house) (signin.Welcome, error)
}

// altered signs in with an ID token that differs in some claims.
func altered(c oidctest.Claims) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		h.corp.SetIDToken(func(right oidctest.Claims) string { return h.corp.Sign(h.t, right.With(c)) })
		return h.signIn("corp")
	}
}

// forged signs in with an ID token that somebody else made.
func forged(sign func(h *house, right oidctest.Claims) string) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		h.corp.SetIDToken(func(right oidctest.Claims) string { return sign(h, right) })
		return h.signIn("corp")
	}
}

// answered changes what the browser brings back.
func answered(change func(h *house, c *signin.Callback)) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		c := h.start("corp")
		change(h, &c)
		return h.finish(c)
	}
}

// person signs somebody in whom the provider should not vouch for.
func person(c oidctest.Claims) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		h.corp.SetPerson(ada(c))
		return h.signIn("corp")
	}
}

// discovered lets the provider describe itself otherwise.
func discovered(c map[string]any) func(*house) (signin.Welcome, error) {
	return func(h *house) (signin.Welcome, error) {
		h.corp.SetDiscovery(func(w http.ResponseWriter, _ *http.Request) {
			d := h.corp.Discovery()
			for name, value := range c {
				d[name] = value
			}
			oidctest.Write(w, d)
		})
		location, cookie, err := h.s.Start(h.t.Context(), "corp", "/")
		if err != nil {
			return signin.Welcome{}, err
		}
		return h.finish(signin.Callback{Provider: "corp", Cookie: cookie, Query: h.visit(location)})
	}
}

func unsigned(right oidctest.Claims) string {
	payload, _ := json.Marshal(right)
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(payload) + "."
}

// attacks on the flow of sign-in. Each must be refused, and leave nothing behind.
func attacks() []attack {
	victim := oidctest.Claims{"email": "victim@example.org"}
	return []attack{
		{"a callback is replayed", func(h *house) (signin.Welcome, error) {
			c := h.start("corp")
			h.corp.SetToken(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
			_, _ = h.finish(c)
			h.corp.SetToken(nil)
			return h.finish(c)
		}},
		{"a callback is replayed on another replica", func(h *house) (signin.Welcome, error) {
			c := h.start("corp")
			h.corp.SetToken(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
			_, _ = h.finish(c)
			h.corp.SetToken(nil)
			h.s = h.replica()
			return h.finish(c)
		}},
		{"a code is used again with another state", func(h *house) (signin.Welcome, error) {
			spent, fresh := h.start("corp"), h.start("corp")
			verifier := spent.Query.Get("code")
			fresh.Query.Set("code", verifier)
			return h.finish(fresh) // PKCE: the code belongs to the other verifier
		}},
		{"a guessed code", answered(func(_ *house, c *signin.Callback) { c.Query.Set("code", rand.Text()) })},
		{"no code", answered(func(_ *house, c *signin.Callback) { c.Query.Del("code") })},
		{"a huge code", answered(func(_ *house, c *signin.Callback) { c.Query.Set("code", strings.Repeat("x", 1<<20)) })},
		{"no state", answered(func(_ *house, c *signin.Callback) { c.Query.Del("state") })},
		{"another state", answered(func(_ *house, c *signin.Callback) { c.Query.Set("state", rand.Text()) })},
		{"the callback of the attacker in the browser of the victim", answered(func(_ *house, c *signin.Callback) { c.Cookie = "" })},
		{"the callback of the attacker beside a sign-in of the victim", answered(func(h *house, c *signin.Callback) { c.Cookie = h.start("corp").Cookie })},
		{"a cookie that was changed", answered(func(_ *house, c *signin.Callback) { c.Cookie = c.Cookie[:len(c.Cookie)-4] + "AAAA" })},
		{"a cookie that was made up", answered(func(_ *house, c *signin.Callback) {
			c.Cookie = base64.RawURLEncoding.EncodeToString([]byte(`{"Provider":"corp","ExpiresAt":"2999-01-01T00:00:00Z"}`))
			c.Query.Set("state", "")
		})},
		{"a cookie of an installation with another secret", answered(func(h *house, c *signin.Callback) {
			h.s.Secret = []byte(strings.Repeat("x", 32))
		})},
		{"mix-up: the answer of the other provider at this one's callback", func(h *house) (signin.Welcome, error) {
			c := h.start("other")
			c.Provider = "corp"
			return h.finish(c)
		}},
		{"mix-up: this provider's cookie with the other's code", func(h *house) (signin.Welcome, error) {
			c := h.start("corp")
			c.Query.Set("code", h.start("other").Query.Get("code"))
			return h.finish(c)
		}},
		{"mix-up: iss names the other provider", answered(func(h *house, c *signin.Callback) { c.Query.Set("iss", h.other.URL) })},
		{"mix-up: iss is left out", answered(func(_ *house, c *signin.Callback) { c.Query.Del("iss") })},
		{"an unknown provider", answered(func(_ *house, c *signin.Callback) { c.Provider = "none" })},
		{"another nonce", altered(oidctest.Claims{"nonce": "another"})},
		{"no nonce", altered(oidctest.Claims{"nonce": nil})},
		{"the ID token of an earlier sign-in", func(h *house) (signin.Welcome, error) {
			var old string
			h.corp.SetIDToken(func(right oidctest.Claims) string {
				if old == "" {
					old = h.corp.Sign(h.t, right)
					return "" // the attacker keeps it
				}
				return old
			})
			_, _ = h.signIn("corp")
			return h.signIn("corp")
		}},
		{"an expired ID token", altered(oidctest.Claims{"exp": time.Now().Add(-time.Hour).Unix()})},
		{"an ID token without an end", altered(oidctest.Claims{"exp": nil})},
		{"an ID token for years", altered(oidctest.Claims{"exp": time.Now().AddDate(10, 0, 0).Unix()})},
		{"another audience", altered(oidctest.Claims{"aud": "another-application"})},
		{"several audiences without azp", altered(oidctest.Claims{"aud": []string{oidctest.ClientID, "another-application"}})},
		{"azp is another application", altered(oidctest.Claims{"aud": []string{oidctest.ClientID, "evil"}, "azp": "evil"})},
		{"another issuer", altered(oidctest.Claims{"iss": "https://accounts.evil.example"})},
		{"no subject", altered(oidctest.Claims{"sub": ""})},
		{"a huge subject", altered(oidctest.Claims{"sub": strings.Repeat("1", 256)})},
		{"swapped keys: signed by the other provider", forged(func(h *house, right oidctest.Claims) string { return h.other.Sign(h.t, right) })},
		{"signed by the attacker with the provider's key id", forged(func(h *house, right oidctest.Claims) string {
			return oidctest.Sign(h.t, oidctest.NewKey(h.t, h.corp.Key().KeyID), jose.RS256, right)
		})},
		{"alg none", forged(func(_ *house, right oidctest.Claims) string { return unsigned(right) })},
		{"HS256 with the public key", forged(func(h *house, right oidctest.Claims) string {
			der := x509.MarshalPKCS1PublicKey(h.corp.Public().(*rsa.PublicKey))
			secret := pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: der})
			return oidctest.Sign(h.t, secret, jose.HS256, right)
		})},
		{"HS256 with the client's secret", forged(func(h *house, right oidctest.Claims) string {
			return oidctest.Sign(h.t, []byte(strings.Repeat(oidctest.ClientSecret, 3)), jose.HS256, right)
		})},
		{"no ID token", forged(func(*house, oidctest.Claims) string { return "" })},
		{"an ID token of a megabyte", altered(oidctest.Claims{"x": strings.Repeat("x", 200<<10)})},
		{"an address that is not verified", person(victim.With(oidctest.Claims{"email_verified": false}))},
		{"an address of which nothing is said", person(victim.With(oidctest.Claims{"email_verified": nil}))},
		{"verified is no truth value", person(victim.With(oidctest.Claims{"email_verified": "false"}))},
		{"Microsoft's claim from somebody else", person(victim.With(oidctest.Claims{"email_verified": nil, "xms_edov": true}))},
		{"the verified address of another account in userinfo", func(h *house) (signin.Welcome, error) {
			h.corp.SetUserInfo(oidctest.Claims{"email_verified": true})
			return person(victim.With(oidctest.Claims{"email_verified": nil}))(h)
		}},
		{"userinfo about somebody else", func(h *house) (signin.Welcome, error) {
			h.corp.SetUserInfo(oidctest.Claims{"sub": "2", "email": "victim@example.org", "email_verified": true})
			return person(oidctest.Claims{"email": nil, "email_verified": nil})(h)
		}},
		{"the address of a machine", person(oidctest.Claims{"email": "admin@localhost"})},
		{"two addresses in one", person(oidctest.Claims{"email": "eve@evil.example,victim@example.org"})},
		{"an address with a name", person(oidctest.Claims{"email": "Victim <victim@example.org>"})},
		{"a domain that is not allowed", func(h *house) (signin.Welcome, error) {
			h.s.Providers[0].Domains = []string{"example.org"}
			return person(oidctest.Claims{"email": "eve@evil.example"})(h)
		}},
		{"a domain that ends as an allowed one", func(h *house) (signin.Welcome, error) {
			h.s.Providers[0].Domains = []string{"example.org"}
			return person(oidctest.Claims{"email": "eve@evil-example.org"})(h)
		}},
		{"a subdomain of an allowed one", func(h *house) (signin.Welcome, error) {
			h.s.Providers[0].Domains = []string{"example.org"}
			return person(oidctest.Claims{"email": "eve@evil.example.org"})(h)
		}},
		{"the address of a member whom the provider knows as somebody else", person(oidctest.Claims{"sub": "666", "email": "linked@example.org"})},
		{"the address of a member who only claimed it", person(oidctest.Claims{"sub": "667", "email": "claimed@example.org"})},
		{"groups in another claim", func(h *house) (signin.Welcome, error) {
			h.s.Providers[0].Roles = map[string]access.Role{"admins": access.Owner}
			return person(oidctest.Claims{"sub": "668", "email": "eve@example.org", "roles": []string{"admins"}, "Groups": []string{"admins"}})(h)
		}},
		{"a name that looks like a group", func(h *house) (signin.Welcome, error) {
			h.s.Providers[0].Roles = map[string]access.Role{"admins": access.Owner}
			return person(oidctest.Claims{"sub": "669", "email": "eve@example.org", "groups": []string{"admins\x00", "ADMINS", "/admins", " admins"}})(h)
		}},
		{"an organisation that does not exist", func(h *house) (signin.Welcome, error) {
			h.s.Providers[0].Org = "none"
			return h.signIn("corp")
		}},
		{"the provider says no", answered(func(_ *house, c *signin.Callback) { c.Query.Set("error", "access_denied") })},
		{"a discovery document of another issuer", discovered(map[string]any{"issuer": "https://accounts.evil.example"})},
		{"a huge discovery document", discovered(map[string]any{"x": strings.Repeat("x", 1<<20)})},
		{"a discovery document without endpoints", discovered(map[string]any{"authorization_endpoint": ""})},
		{"an endpoint that is a script", discovered(map[string]any{"authorization_endpoint": "javascript:alert(1)"})},
		{"a logout that is a script", discovered(map[string]any{"end_session_endpoint": "javascript:alert(1)"})},
		{"a token endpoint that redirects", func(h *house) (signin.Welcome, error) {
			h.corp.SetToken(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, h.other.URL+"/token", http.StatusTemporaryRedirect)
			})
			return h.signIn("corp")
		}},
		{"a token endpoint that sends too much", func(h *house) (signin.Welcome, error) {
			h.corp.SetToken(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"access_token":"` + strings.Repeat("x", 2<<20) + `"}`))
			})
			return h.signIn("corp")
		}},
	}
}

// TestAttacks: none succeeds, none adds a member or an identity, none changes a role, and
// none shows what the provider wrote.
func TestAttacks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		h.user("victim@example.org", access.Owner)
		h.corp.SetPerson(ada(oidctest.Claims{"sub": "9", "email": "linked@example.org"}))
		h.caller(h.signIn("corp"))
		h.claimed("claimed@example.org")
		state := func() string {
			return h.dump("users", "id || role || email") + h.dump("identities", "id || user_id || email") + h.dump("sessions", "id") + h.dump("api_keys", "id")
		}
		hopper := grace("hopper@example.org")
		hopper.ID = 30
		h.github.SetAccount(hopper)
		h.caller(h.signIn("github"))
		corp, other, all := h.corp, h.other, append(attacks(), gitHubAttacks()...)
		if len(all) < 30 {
			t.Errorf("%d attacks, want 30", len(all))
		}
		for _, a := range all {
			t.Run(a.name, func(t *testing.T) {
				h.t, h.corp, h.other = t, corp, other
				h.s = h.replica()
				corp.SetPerson(ada(nil))
				h.github.SetAccount(grace("grace@example.org"))
				before := state()
				w, err := a.do(h)
				corp.SetIDToken(nil)
				corp.SetDiscovery(nil)
				corp.SetUserInfo(nil)
				corp.SetToken(nil)
				h.github.SetHandlers(nil)
				switch fault.Of(err) {
				case fault.Denied, fault.Conflict, fault.BadGateway, fault.NotFound:
				default:
					t.Errorf("the error is %v", err)
				}
				if err != nil && strings.Contains(err.Error(), "<script>") {
					t.Errorf("the message has what the provider wrote: %v", err)
				}
				if w.Token != "" {
					t.Error("there is a session")
				}
				if after := state(); after != before {
					t.Errorf("something was changed:\n%s\n%s", before, after)
				}
			})
		}
		h.t = t
		h.s = h.replica()
		h.caller(h.signIn("corp")) // the right one works
		h.caller(h.signIn("github"))
		t.Logf("%d attacks", len(all))
	})
}

// claimed makes a member who accepted an open invitation and said that the address is
// theirs.
func (h *house) claimed(email string) {
	h.t.Helper()
	_, token, err := h.members.InviteByOperator(h.t.Context(), h.owner.Org.ID, members.NewInvitation{Role: access.Member})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.members.Accept(h.t.Context(), members.Acceptance{Token: token, Email: email, KeyName: "first"}); err != nil {
		h.t.Fatal(err)
	}
}

// dump lists a table.
func (h *house) dump(table, columns string) string {
	h.t.Helper()
	rows, err := h.DB.Query(h.t.Context(), "SELECT "+columns+" FROM "+table+" ORDER BY 1")
	all, err := store.All(rows, err, store.Value[string])
	if err != nil {
		h.t.Fatal(err)
	}
	return table + ": " + strings.Join(all, " ") + "\n"
}

// TestSessionFixation: the token that the browser had is worth nothing after a sign-in.
func TestSessionFixation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		_, planted, err := h.Auth.SignIn(t.Context(), auth.NewSession{RawKey: h.owner.Key})
		if err != nil {
			t.Fatal(err)
		}
		c := h.start("corp")
		c.Browser.Replaces = planted
		w, err := h.finish(c)
		h.caller(w, err)
		if _, _, err := h.Auth.Resume(t.Context(), planted); !fault.Is(err, fault.Unauthorized) || w.Token == planted {
			t.Errorf("the planted session lives on: %v", err)
		}
	})
}

// TestRefusalsAreRecorded: those of people for whom the provider vouches.
func TestRefusalsAreRecorded(t *testing.T) {
	h := newHouse(t, storetest.Open(t, "sqlite"))
	h.s.Providers[0].Domains = []string{"example.org"}
	h.corp.SetPerson(ada(oidctest.Claims{"email": "eve@evil.example"}))
	if _, err := h.signIn("corp"); !fault.Is(err, fault.Denied) {
		t.Fatal(err)
	}
	list := h.dump("audit_entries", "action || ' ' || target_name || ' ' || detail")
	if !strings.Contains(list, "auth.identity.refuse eve@evil.example") || !strings.Contains(list, "may not sign in") {
		t.Errorf("the audit log has %s", list)
	}
	if log := h.Logged.String(); strings.Contains(log, oidctest.ClientSecret) {
		t.Error("the log has the client's secret")
	}
}

// TestEntra: Microsoft says in a claim of its own that an address is verified.
func TestEntra(t *testing.T) {
	p := signin.Provider{Name: "entra", Issuer: "https://login.microsoftonline.com/4711/v2.0"}
	for claim, want := range map[string]bool{`{"xms_edov":true}`: true, `{"xms_edov":"1"}`: true, `{"xms_edov":false}`: false, `{}`: false, `{"email_verified":false,"xms_edov":true}`: false} {
		if got := signin.Verified(p, claim); got != want {
			t.Errorf("%s: %t, want %t", claim, got, want)
		}
	}
}
