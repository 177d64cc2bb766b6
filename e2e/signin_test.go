package e2e_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/internal/identity/oidc/oidctest"
)

// signingInWithProvider walks through the real flow: the first sign-in of a person, the
// role of their groups, and keys that no longer open the dashboard.
func signingInWithProvider(t *testing.T, c *chromium, database string) {
	t.Helper()
	provider := oidctest.New(t)
	provider.SetPerson(oidctest.Claims{
		"sub": "1", "email": "ada@example.org", "email_verified": true, "name": "Ada", "groups": []string{"staff", "ops"},
	})
	hub := oidctest.NewGitHub(t)
	p := startProcess(t, database, "--require-sso", "--oidc", "keycloak="+provider.URL, "--oidc-client-id", "keycloak="+oidctest.ClientID,
		"--oidc-client-secret", "keycloak="+oidctest.ClientSecret, "--oidc-role", "keycloak=staff:viewer", "--oidc-role", "keycloak=ops:admin",
		"--github", "github="+hub.URL, "--oidc-client-id", "github="+oidctest.ClientID, "--oidc-client-secret", "github="+oidctest.ClientSecret,
		"--oidc-role", "github=acme/ops:admin")
	b := c.tab(t, p.url)
	b.also = provider.URL
	b.visit("/settings/members")
	b.wantText("main", "Sign in with Keycloak", "requires single sign-on")
	b.checkLooks("login-sso")
	b.do(chromedp.Click(`.providers a[href^="/login/oidc/keycloak"]`))
	b.await("h1", "Members")
	b.wantText("main", "ada@example.org", "admin")

	// The key of the first start is for programs.
	if me := b.api(p.key, "GET", "/api/v1/me", nil); me["email"] == "" {
		t.Errorf("the key is %v", me)
	}
	// Without a group that has a role the provider lets nobody in.
	provider.SetPerson(oidctest.Claims{"sub": "2", "email": "eve@example.org", "email_verified": true, "groups": []string{"guests"}})
	other := c.tab(t, p.url)
	other.also, other.expected = provider.URL, "status of 403"
	other.visit("/login/oidc/keycloak")
	other.await(".problems", "None of your groups at Keycloak has a role here")
	// GitHub beside it, in its own protocol.
	hub.SetAccount(oidctest.Account{
		ID: 31, Login: "grace", Name: "Grace", Emails: []oidctest.Email{{Email: "grace@example.org", Primary: true, Verified: true}},
		Orgs: []oidctest.Org{{ID: 7, Login: "acme", Teams: []string{"ops"}}},
	})
	third := c.tab(t, p.url)
	third.also = hub.URL
	third.visit("/login?next=/settings/members")
	third.do(chromedp.Click(`.providers a[href^="/login/oidc/github"]`))
	third.await("h1", "Members")
	third.wantText("main", "grace@example.org")
}
