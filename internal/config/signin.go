package config

import (
	"iter"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// SignIn has the identity providers with which people sign in to the dashboard.
type SignIn struct {
	OIDC             map[string]string `name:"oidc" placeholder:"NAME=ISSUER" help:"OpenID provider with which people sign in to the dashboard; repeatable."`
	OIDCClientID     map[string]string `name:"oidc-client-id" placeholder:"NAME=ID" help:"Id of this installation at a provider; repeatable."`
	OIDCClientSecret Secrets           `name:"oidc-client-secret" placeholder:"NAME=SECRET" help:"Its secret; repeatable."`
	OIDCScopes       map[string]string `name:"oidc-scopes" placeholder:"NAME=SCOPES" help:"Scopes to ask a provider for, separated by spaces: openid email profile when empty; repeatable."`
	OIDCGroupsClaim  map[string]string `name:"oidc-groups-claim" placeholder:"NAME=CLAIM" help:"Claim with a person's groups: groups when empty; repeatable."`
	OIDCRole         []string          `name:"oidc-role" placeholder:"NAME=GROUP:ROLE" help:"Role of a provider's group: viewer, member, admin or owner; people without such a group are refused; repeatable."`
	OIDCDomain       []string          `name:"oidc-domain" placeholder:"NAME=DOMAIN" help:"Domain of the mail addresses that a provider may sign in; repeatable."`
	OIDCOrg          map[string]string `name:"oidc-org" placeholder:"NAME=ORG" help:"Organisation of a provider's people: default when empty; repeatable."`

	RequireSSO bool `name:"require-sso" help:"Let people sign in to the dashboard with an identity provider only; API keys stay for programs."`
}

// defaultOrg is the organisation that is made at first start.
const defaultOrg = "default"

// providerName is a part of a path.
var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// mailDomain is the part of an address after the @.
var mailDomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// Providers returns the identity providers by name.
func (c *SignIn) Providers() []signin.Provider {
	var all []signin.Provider
	for _, name := range slices.Sorted(maps.Keys(c.OIDC)) {
		p := signin.Provider{
			Name: name, Issuer: c.OIDC[name], ClientID: c.OIDCClientID[name], Secret: string(c.OIDCClientSecret[name]),
			Scopes:      strings.FieldsFunc(c.OIDCScopes[name], func(r rune) bool { return r == ' ' || r == ',' }),
			GroupsClaim: c.OIDCGroupsClaim[name], Org: c.OIDCOrg[name], Roles: map[string]access.Role{},
		}
		if p.Org == "" {
			p.Org = defaultOrg
		}
		for _, text := range c.OIDCRole {
			if of, group, role, ok := splitRole(text); ok && of == name {
				p.Roles[group] = role
			}
		}
		for _, text := range c.OIDCDomain {
			if of, domain, _ := strings.Cut(text, "="); of == name {
				p.Domains = append(p.Domains, strings.ToLower(domain))
			}
		}
		all = append(all, p)
	}
	return all
}

// splitRole reads NAME=GROUP:ROLE. A group may have colons, e.g. "urn:corp:admins".
func splitRole(text string) (name, group string, role access.Role, ok bool) {
	name, rest, _ := strings.Cut(text, "=")
	at := strings.LastIndexByte(rest, ':')
	if at < 1 {
		return name, "", "", false
	}
	role = access.Role(rest[at+1:])
	return name, rest[:at], role, role.Valid()
}

func (c *SignIn) checkSignIn() (issues []fault.Issue) {
	bad := func(setting, format string, args ...any) {
		issues = append(issues, fault.At(setting, setting+" "+format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(c.OIDC)) {
		if !providerName.MatchString(name) {
			bad("oidc", "must be NAME=ISSUER, where NAME has 1 to 40 small letters, digits and hyphens; %q has not", name)
		}
		if !isIssuer(c.OIDC[name]) {
			bad("oidc", "must have an issuer like https://login.example.org for %s, without a query; http is for loopback only", name)
		}
		if c.OIDCClientID[name] == "" {
			bad("oidc-client-id", "must give %s the id that its provider has for this installation", name)
		}
	}
	known := func(setting, name string) {
		if _, ok := c.OIDC[name]; !ok {
			bad(setting, "must name a provider of --oidc; %q is none", name)
		}
	}
	for _, s := range []struct {
		setting string
		names   iter.Seq[string]
	}{
		{"oidc-client-id", maps.Keys(c.OIDCClientID)},
		{"oidc-client-secret", maps.Keys(c.OIDCClientSecret)},
		{"oidc-scopes", maps.Keys(c.OIDCScopes)},
		{"oidc-groups-claim", maps.Keys(c.OIDCGroupsClaim)},
		{"oidc-org", maps.Keys(c.OIDCOrg)},
	} {
		for _, name := range slices.Sorted(s.names) {
			known(s.setting, name)
		}
	}
	for _, text := range c.OIDCRole {
		if name, _, _, ok := splitRole(text); !ok {
			bad("oidc-role", "must be NAME=GROUP:ROLE, where ROLE is viewer, member, admin or owner; %q is not", text)
		} else {
			known("oidc-role", name)
		}
	}
	for _, text := range c.OIDCDomain {
		if name, domain, _ := strings.Cut(text, "="); !mailDomain.MatchString(strings.ToLower(domain)) {
			bad("oidc-domain", "must be NAME=DOMAIN, like corp=example.org; %q is not", text)
		} else {
			known("oidc-domain", name)
		}
	}
	if c.RequireSSO && len(c.OIDC) == 0 {
		bad("require-sso", "needs a provider, or nobody could sign in: set --oidc NAME=ISSUER")
	}
	return issues
}

// isIssuer accepts https, and http on this machine: whoever could change what a provider
// says could sign in as everybody.
func isIssuer(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}
