// Package signin lets people sign in to the dashboard with an identity provider: the
// authorization code flow of OpenID Connect with PKCE, state and nonce. It decides who a
// person is (by issuer and subject, never by the mail address alone), whether they may
// enter, and with which role. It owns the tables identities and used_sign_ins.
package signin

import (
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Provider is an identity provider that the operator configured.
type Provider struct {
	Name        string // in paths
	Issuer      string
	ClientID    string
	Secret      string
	Scopes      []string               // openid email profile when empty
	GroupsClaim string                 // groups when empty
	Roles       map[string]access.Role // by group; empty: everybody is a member
	Domains     []string               // of mail addresses, in lower case; empty: all
	Org         string                 // the name of the organisation
}

// titles are the names of providers as they write them.
var titles = map[string]string{
	"entra": "Microsoft Entra ID", "microsoft": "Microsoft", "google": "Google", "gitlab": "GitLab", "github": "GitHub",
	"okta": "Okta", "keycloak": "Keycloak", "auth0": "Auth0",
}

// Title is the name on the button.
func (p Provider) Title() string {
	if title, ok := titles[p.Name]; ok {
		return title
	}
	return p.Name
}

// scopes always has openid, without which there is no ID token.
func (p Provider) scopes() []string {
	if len(p.Scopes) == 0 {
		return []string{"openid", "email", "profile"}
	}
	if slices.Contains(p.Scopes, "openid") {
		return p.Scopes
	}
	return append([]string{"openid"}, p.Scopes...)
}

func (p Provider) groupsClaim() string {
	if p.GroupsClaim == "" {
		return "groups"
	}
	return p.GroupsClaim
}

// checkDomain refuses addresses of other domains. A subdomain is another one.
func (p Provider) checkDomain(email string) error {
	domain := email[strings.LastIndexByte(email, '@')+1:]
	if len(p.Domains) == 0 || slices.Contains(p.Domains, domain) {
		return nil
	}
	return fault.New(fault.Denied, "Addresses of %s may not sign in with %s; sign in with an address of %s", domain, p.Title(), strings.Join(p.Domains, " or "))
}

// role is the highest of the groups' roles, or "" if the provider assigns none. A person
// without such a group is fault.Denied.
func (p Provider) role(groups []string) (highest access.Role, err error) {
	if len(p.Roles) == 0 {
		return "", nil
	}
	for _, g := range groups {
		if role, ok := p.Roles[g]; ok && (highest == "" || role.Includes(highest)) {
			highest = role
		}
	}
	if highest == "" {
		return "", fault.New(fault.Denied, "None of your groups at %s has a role here; ask your administrator to add you to one, and sign in again", p.Title())
	}
	return highest, nil
}
