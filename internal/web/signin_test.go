package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// ssoFlags let people sign in with a provider.
func ssoFlags(p *oidctest.Provider, more ...string) []string {
	return append([]string{
		"--oidc", "corp=" + p.URL, "--oidc-client-id", "corp=" + oidctest.ClientID, "--oidc-client-secret", "corp=" + oidctest.ClientSecret,
	}, more...)
}

// follow goes through the flow, as a browser does, and returns the answer to the callback.
func (b *browser) follow(path string) *page {
	b.w.T.Helper()
	start := b.get(path).want(http.StatusSeeOther)
	resp, err := b.client.Get(start.Header.Get("Location"))
	if err != nil {
		b.w.T.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		b.w.T.Fatalf("the provider answers %s", resp.Status)
	}
	return b.get(back.RequestURI())
}

func TestSSO(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			p := oidctest.New(t)
			w := newWorld(t, database, ssoFlags(p, "--require-sso", "--oidc-role", "corp=ops:admin")...)
			p.SetPerson(oidctest.Claims{"sub": "1", "email": "ada@example.org", "email_verified": true, "groups": []string{"ops"}})
			b := w.browser()
			b.get("/login?next=/skills").want(http.StatusOK).wantText("Sign in with corp").wantText("requires single sign-on").wantNoText("API key\n")
			key := w.Member(w.org, access.Member).Key
			b.post("/login", url.Values{"api_key": {key}}).want(http.StatusForbidden).wantText("requires single sign-on").wantText("Sign in with corp")
			b.post("/login/device", nil).want(http.StatusForbidden)
			done := b.follow("/login/oidc/corp?next=/skills").wantLocation("/skills")
			wanted := regexp.MustCompile(`^whetstone_session=[0-9A-Za-z]{43}; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax$`)
			if got := done.Header.Values("Set-Cookie"); !slices.ContainsFunc(got, wanted.MatchString) {
				t.Errorf("the cookies are %q", got)
			}
			b.get("/settings/keys").want(http.StatusOK).wantText("sign-in with corp") // for admins
			b.post("/logout", nil).wantLocation("/login?left=corp")
			b.get("/login?left=corp").wantText("You are still signed in at corp")
			b.get("/skills").wantLocation("/login?next=%2Fskills")
		})
	}
}

// TestSSOWithGitHub: the same way, in GitHub's protocol.
func TestSSOWithGitHub(t *testing.T) {
	t.Parallel()
	hub := oidctest.NewGitHub(t)
	w := newWorld(t, "sqlite", "--github", "github="+hub.URL, "--oidc-client-id", "github="+oidctest.ClientID,
		"--oidc-client-secret", "github="+oidctest.ClientSecret, "--oidc-role", "github=acme/ops:admin", "--require-sso")
	hub.SetAccount(oidctest.Account{
		ID: 1, Login: "ada", Emails: []oidctest.Email{{Email: "ada@example.org", Primary: true, Verified: true}},
		Orgs: []oidctest.Org{{ID: 7, Login: "Acme", Teams: []string{"ops"}}},
	})
	b := w.browser()
	b.get("/login").want(http.StatusOK).wantText("Sign in with GitHub")
	b.follow("/login/oidc/github?next=/skills").wantLocation("/skills")
	b.get("/settings/keys").want(http.StatusOK).wantText("sign-in with github") // for admins
	b.post("/logout", nil).wantLocation("/login?left=github")
	b.get("/login?left=github").want(http.StatusOK).wantNoText("You are still signed in")
}

// TestSSORefused: the login page says what is wrong, and where to go from there.
func TestSSORefused(t *testing.T) {
	t.Parallel()
	p := oidctest.New(t)
	w := newWorld(t, "sqlite", ssoFlags(p, "--oidc-domain", "corp=example.org")...)
	p.SetPerson(oidctest.Claims{"sub": "1", "email": "eve@evil.example", "email_verified": true})
	b := w.browser()
	b.follow("/login/oidc/corp").want(http.StatusForbidden).wantText("Addresses of evil.example may not sign in").wantText("Sign in with corp")
	b.get("/login/oidc/none").want(http.StatusNotFound).wantText("Sign in with corp")
	b.get("/login/oidc/corp/callback?code=x&state=y").want(http.StatusForbidden).wantText("not started in this browser")
	for _, next := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"} {
		p.SetPerson(oidctest.Claims{"sub": "2", "email": "ada@example.org", "email_verified": true})
		w.browser().follow("/login/oidc/corp?next=" + url.QueryEscape(next)).wantLocation("/")
	}
}

// TestSSOAway: the service starts although its provider is away; keys work.
func TestSSOAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite", "--oidc", "corp=http://127.0.0.1:1/", "--oidc-client-id", "corp=x")
	b := w.browser()
	p := b.get("/login/oidc/corp").want(http.StatusBadGateway).wantText("corp does not work at the moment").wantText("API keys are not affected")
	if strings.Contains(p.Header.Get("Set-Cookie"), "sign_in") {
		t.Error("a sign-in that did not start left a cookie")
	}
	b.post("/login", url.Values{"api_key": {w.Member(w.org, access.Member).Key}}).wantLocation("/")
}
