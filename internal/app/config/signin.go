package config

import (
	"iter"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/signin"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// SignIn has the identity providers with which people sign in to the dashboard. Several
// settings share the NAME of a provider, because a flag can't have structure.
type SignIn struct {
	OIDC             map[string]string `name:"oidc" placeholder:"NAME=ISSUER" help:"OpenID provider with which people sign in to the dashboard; repeatable."`
	OIDCClientID     map[string]string `name:"oidc-client-id" placeholder:"NAME=ID" help:"Id of this installation at a provider; repeatable."`
	OIDCClientSecret Secrets           `name:"oidc-client-secret" placeholder:"NAME=SECRET" help:"Its secret; repeatable."`
	OIDCScopes       map[string]string `name:"oidc-scopes" placeholder:"NAME=SCOPES" help:"Scopes to ask a provider for, separated by spaces: openid email profile when empty; repeatable."`
	OIDCGroupsClaim  map[string]string `name:"oidc-groups-claim" placeholder:"NAME=CLAIM" help:"Claim with a person's groups: groups when empty; repeatable."`
	OIDCRole         []string          `name:"oidc-role" placeholder:"NAME=GROUP:ROLE" help:"Role of a provider's group: viewer, member, admin or owner; people without such a group are refused; repeatable."`
	OIDCDomain       []string          `name:"oidc-domain" placeholder:"NAME=DOMAIN" help:"Domain of the mail addresses that a provider may sign in; repeatable."`
	OIDCOrg          map[string]string `name:"oidc-org" placeholder:"NAME=ORG" help:"Organisation of a provider's people: default when empty; repeatable."`

	GitHub    map[string]string `name:"github" placeholder:"NAME=URL" help:"GitHub with which people sign in to the dashboard: https://github.com, or an Enterprise Server; --oidc-client-id, -client-secret, -role, -domain and -org hold for it, too; repeatable."`
	GitHubOrg []string          `name:"github-org" placeholder:"NAME=ORG" help:"Organisation at GitHub whose people may sign in, by its name or as id:NUMBER; repeatable."`

	RequireSSO bool `name:"require-sso" help:"Let people sign in to the dashboard with an identity provider only; API keys stay for programs."`
}

// defaultOrg is the organisation that is made at first start.
const defaultOrg = "default"

// providerName is a part of a path. It is in redirect URIs, which are registered at the
// provider: a new name breaks sign-ins.
var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// gitHubOrg and gitHubGroup are an organisation at GitHub, e.g. "acme" or "id:4711", and one
// or a team of it, e.g. "acme/ops".
var (
	gitHubOrg   = regexp.MustCompile(`^(?i:id:[0-9]+|[a-z0-9-]+)$`)
	gitHubGroup = regexp.MustCompile(`^(?i:id:[0-9]+|[a-z0-9-]+)(?i:/[a-z0-9._-]+)?$`)
)

// mailDomain is the part of an address after the @.
var mailDomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// Providers returns the identity providers by name. It assumes settings that checkSignIn
// accepts, and skips what that refuses.
func (c *SignIn) Providers() []signin.Provider {
	var all []signin.Provider
	for _, name := range slices.Sorted(maps.Keys(c.addresses())) {
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
		if c.GitHub[name] != "" {
			p = c.atGitHub(p)
		}
		all = append(all, p)
	}
	return all
}

// addresses are those of all providers by name.
func (c *SignIn) addresses() map[string]string {
	all := maps.Clone(c.OIDC)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, c.GitHub)
	return all
}

// atGitHub makes a provider one that speaks GitHub's protocol. GitHub compares names
// without case. Its groups are organisations and teams, e.g. "acme/ops".
func (c *SignIn) atGitHub(p signin.Provider) signin.Provider {
	p.GitHub, p.Issuer = true, strings.ToLower(strings.TrimRight(c.GitHub[p.Name], "/"))
	roles := map[string]access.Role{}
	for group, role := range p.Roles {
		roles[strings.ToLower(group)] = role
	}
	p.Roles = roles
	for _, text := range c.GitHubOrg {
		if of, org, _ := strings.Cut(text, "="); of == p.Name {
			p.GitHubOrgs = append(p.GitHubOrgs, strings.ToLower(org))
		}
	}
	return p
}

// splitRole reads NAME=GROUP:ROLE. A group may have colons, e.g. "urn:corp:admins". So the role
// is what follows the last colon.
func splitRole(text string) (name, group string, role access.Role, ok bool) {
	name, rest, _ := strings.Cut(text, "=")
	at := strings.LastIndexByte(rest, ':')
	if at < 1 {
		return name, "", "", false
	}
	role = access.Role(rest[at+1:])
	return name, rest[:at], role, role.Valid()
}

// checkSignIn reports all problems of providers at once. It asks nothing of the network.
func (c *SignIn) checkSignIn() (issues []fault.Issue) {
	bad := func(setting, format string, args ...any) {
		issues = append(issues, fault.At(setting, setting+" "+format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(c.OIDC)) {
		if !providerName.MatchString(name) {
			bad("oidc", "must be NAME=ISSUER, where NAME has 1 to 40 small letters, digits and hyphens; %q has not", name)
		}
		if !isIssuer(c.OIDC[name]) {
			bad("oidc", "must have an issuer like https://login.example.org for %s, without a query; http is for loopback only",
				name)
		}
		if c.OIDCClientID[name] == "" {
			bad("oidc-client-id", "must give %s the id that its provider has for this installation", name)
		}
	}
	all := c.addresses()
	known := func(setting, name string) {
		if _, ok := all[name]; !ok {
			bad(setting, "must name a provider of --oidc or --github; %q is none", name)
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
		if name, group, _, ok := splitRole(text); !ok {
			bad("oidc-role", "must be NAME=GROUP:ROLE, where ROLE is viewer, member, admin or owner; %q is not", text)
		} else if c.GitHub[name] != "" && !gitHubGroup.MatchString(group) {
			bad("oidc-role", "must have ORG or ORG/TEAM as the group of GitHub, like %s=acme/ops:admin; %q has not", name, text)
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
	if c.RequireSSO && len(all) == 0 {
		bad("require-sso", "needs a provider, or no one could sign in: set --oidc NAME=ISSUER or --github NAME=URL")
	}
	return append(issues, c.checkGitHub()...)
}

// checkGitHub checks what differs for GitHub: it has no discovery, scopes or claims.
func (c *SignIn) checkGitHub() (issues []fault.Issue) {
	bad := func(setting, format string, args ...any) {
		issues = append(issues, fault.At(setting, setting+" "+format, args...))
	}
	for _, p := range c.Providers() {
		if !p.GitHub {
			continue
		}
		if !providerName.MatchString(p.Name) {
			bad("github", "must be NAME=URL, where NAME has 1 to 40 small letters, digits and hyphens; %q has not", p.Name)
		}
		if !isIssuer(p.Issuer) {
			bad("github", "must have an address like https://github.com for %s; http is for loopback only", p.Name)
		}
		if c.OIDC[p.Name] != "" {
			bad("github", "must not have the name of a provider of --oidc; %s is one", p.Name)
		}
		if p.ClientID == "" || p.Secret == "" {
			bad("oidc-client-id", "and oidc-client-secret must give %s the id and the secret of the OAuth app at GitHub", p.Name)
		}
		if c.OIDCScopes[p.Name] != "" || c.OIDCGroupsClaim[p.Name] != "" {
			bad("oidc-scopes", "and oidc-groups-claim are not for GitHub; leave them out for %s", p.Name)
		}
		// Anybody can have an account there. On an Enterprise Server only the company's people
		// do.
		if p.Issuer == "https://github.com" && len(p.GitHubOrgs)+len(p.Roles)+len(p.Domains) == 0 {
			bad("github-org", "must name an organisation for %s, or everybody with an account at GitHub could sign in; "+
				"--oidc-role and --oidc-domain restrict it, too", p.Name)
		}
	}
	for _, text := range c.GitHubOrg {
		if name, org, _ := strings.Cut(text, "="); c.GitHub[name] == "" {
			bad("github-org", "must name a provider of --github; %q is none", name)
		} else if !gitHubOrg.MatchString(org) {
			bad("github-org", "must be NAME=ORG, like github=acme or github=id:4711; %q is not", text)
		}
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
