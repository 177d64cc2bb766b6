package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

func parseSignIn(t *testing.T, flags ...string) config.Config {
	t.Helper()
	var all struct {
		config.Config `embed:""`
	}
	parser, err := kong.New(&all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(flags); err != nil {
		t.Fatal(err)
	}
	return all.Config
}

func TestProviders(t *testing.T) {
	c := parseSignIn(t,
		"--oidc", "corp=https://login.example.org/realms/x", "--oidc", "dev=http://127.0.0.1:5556/dex",
		"--oidc-client-id", "corp=whetstone", "--oidc-client-id", "dev=w", "--oidc-client-secret", "corp=s3=cret",
		"--oidc-scopes", "corp=openid email groups", "--oidc-groups-claim", "corp=roles",
		"--oidc-role", "corp=admins:admin", "--oidc-role", "corp=urn:x:devs:member", "--oidc-role", "dev=all:viewer",
		"--oidc-domain", "corp=Example.org", "--oidc-domain", "corp=example.com", "--oidc-org", "corp=acme", "--require-sso")
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	want := []signin.Provider{
		{
			Name: "corp", Issuer: "https://login.example.org/realms/x", ClientID: "whetstone", Secret: "s3=cret",
			Scopes: []string{"openid", "email", "groups"}, GroupsClaim: "roles", Org: "acme", Domains: []string{"example.org", "example.com"},
			Roles: map[string]access.Role{"admins": access.AdminRole, "urn:x:devs": access.Member},
		},
		{
			Name: "dev", Issuer: "http://127.0.0.1:5556/dex", ClientID: "w", Scopes: []string{}, Org: "default",
			Roles: map[string]access.Role{"all": access.Viewer},
		},
	}
	if diff := cmp.Diff(want, c.Providers()); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	if shown := fmt.Sprint(c.Settings()); strings.Contains(shown, "s3=cret") {
		t.Error("the settings show the client's secret")
	}
}

func TestGitHub(t *testing.T) {
	c := parseSignIn(t,
		"--github", "github=https://GitHub.com/", "--github", "ghes=https://github.example.org", "--oidc", "corp=https://login.example.org",
		"--oidc-client-id", "corp=whetstone", "--oidc-client-id", "github=Ov1", "--oidc-client-secret", "github=s3cret",
		"--oidc-client-id", "ghes=Ov2", "--oidc-client-secret", "ghes=s3cret", "--github-org", "github=Acme", "--github-org", "github=id:4711",
		"--oidc-role", "ghes=Acme/Ops:admin", "--oidc-role", "ghes=id:12/devs:member", "--oidc-domain", "ghes=example.org", "--oidc-org", "ghes=acme",
		"--require-sso")
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	want := []signin.Provider{
		{Name: "corp", Issuer: "https://login.example.org", ClientID: "whetstone", Scopes: []string{}, Org: "default", Roles: map[string]access.Role{}},
		{
			Name: "ghes", GitHub: true, Issuer: "https://github.example.org", ClientID: "Ov2", Secret: "s3cret", Scopes: []string{}, Org: "acme",
			Domains: []string{"example.org"}, Roles: map[string]access.Role{"acme/ops": access.AdminRole, "id:12/devs": access.Member},
		},
		{
			Name: "github", GitHub: true, Issuer: "https://github.com", ClientID: "Ov1", Secret: "s3cret", Scopes: []string{}, Org: "default",
			Roles: map[string]access.Role{}, GitHubOrgs: []string{"acme", "id:4711"},
		},
	}
	if diff := cmp.Diff(want, c.Providers()); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	if shown := fmt.Sprint(c.Settings()); strings.Contains(shown, "s3cret") {
		t.Error("the settings show the client's secret")
	}
}

func TestBadSignIn(t *testing.T) {
	right := []string{"--oidc", "corp=https://login.example.org", "--oidc-client-id", "corp=whetstone"}
	gitHub := func(address string, more ...string) []string {
		return append([]string{"--github", "g=" + address, "--oidc-client-id", "g=x", "--oidc-client-secret", "g=y"}, more...)
	}
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"require-sso needs a provider", []string{"--require-sso"}},
		{"oidc must be NAME=ISSUER", []string{"--oidc", "Corp=https://login.example.org", "--oidc-client-id", "Corp=x"}},
		{"oidc must have an issuer", []string{"--oidc", "corp=http://login.example.org", "--oidc-client-id", "corp=x"}},
		{"oidc must have an issuer", []string{"--oidc", "corp=https://login.example.org/?a=b", "--oidc-client-id", "corp=x"}},
		{"oidc must have an issuer", []string{"--oidc", "corp=https://u:p@login.example.org", "--oidc-client-id", "corp=x"}},
		{"oidc-client-id must give corp", right[:2]},
		{"oidc-client-secret must name a provider", append([]string{"--oidc-client-secret", "none=x"}, right...)},
		{"oidc-org must name a provider", append([]string{"--oidc-org", "none=x"}, right...)},
		{"oidc-role must be NAME=GROUP:ROLE", append([]string{"--oidc-role", "corp=admins:root"}, right...)},
		{"oidc-role must be NAME=GROUP:ROLE", append([]string{"--oidc-role", "corp=:admin"}, right...)},
		{"oidc-role must name a provider", append([]string{"--oidc-role", "none=admins:admin"}, right...)},
		{"github must have an address", gitHub("http://github.com", "--github-org", "g=acme")},
		{"github must have an address", gitHub("github.com", "--github-org", "g=acme")},
		{"github must be NAME=URL", []string{"--github", "G=https://github.com"}},
		{"github must not have the name", gitHub("https://github.com", "--github-org", "g=acme", "--oidc", "g=https://login.example.org")},
		{"oidc-client-id and oidc-client-secret must give g", []string{"--github", "g=https://github.com", "--oidc-client-id", "g=x"}},
		{"oidc-scopes and oidc-groups-claim are not for GitHub", gitHub("https://github.com", "--github-org", "g=acme", "--oidc-scopes", "g=openid")},
		{"github-org must name an organisation", gitHub("https://github.com")},
		{"github-org must name a provider", append([]string{"--github-org", "corp=acme"}, right...)},
		{"github-org must be NAME=ORG", gitHub("https://github.com", "--github-org", "g=acme/ops")},
		{"oidc-role must have ORG or ORG/TEAM", gitHub("https://github.com", "--oidc-role", "g=acme:ops:admin")},
		{"oidc-domain must be NAME=DOMAIN", append([]string{"--oidc-domain", "corp=@example.org"}, right...)},
	} {
		settings := parseSignIn(t, c.flags...)
		if err := settings.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.flags, err, c.want)
		}
	}
}
