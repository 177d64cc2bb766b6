package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/config"
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

func TestBadSignIn(t *testing.T) {
	right := []string{"--oidc", "corp=https://login.example.org", "--oidc-client-id", "corp=whetstone"}
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
		{"oidc-domain must be NAME=DOMAIN", append([]string{"--oidc-domain", "corp=@example.org"}, right...)},
	} {
		settings := parseSignIn(t, c.flags...)
		if err := settings.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.flags, err, c.want)
		}
	}
}
