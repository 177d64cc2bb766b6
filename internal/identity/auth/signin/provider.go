// Package signin lets people sign in to the dashboard with an identity provider: the
// authorization code flow of OpenID Connect with PKCE, state and nonce, or that of GitHub.
// It decides who a person is (by issuer and subject, never by the mail address alone),
// whether they may enter, and with which role. It owns the tables identities and
// used_sign_ins.
package signin

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/githuboauth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// A Provider is an identity provider that the operator configured.
type Provider struct {
	Name        string // in paths
	Issuer      string // the address of GitHub, if it is one
	GitHub      bool   // it speaks GitHub's OAuth instead of OpenID Connect
	ClientID    string
	Secret      string
	Scopes      []string               // openid email profile when empty
	GroupsClaim string                 // groups when empty
	Roles       map[string]access.Role // by group; empty: everybody is a member
	Domains     []string               // of mail addresses, in lower case; empty: all
	Org         string                 // the name of the organisation
	GitHubOrgs  []string               // of which a person must be in one, in lower case; empty: all people
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

// scopes always has openid, without which there is no ID token. OpenID Connect Core, section
// 3.1.2.1.
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
	return fault.New(fault.Denied, "Addresses of %s may not sign in with %s; sign in with an address of %s", domain, p.Title(),
		strings.Join(p.Domains, " or "))
}

// asksGroups reports whether anything depends on a person's groups. Without that, GitHub isn't
// asked for the permission to read them.
func (p Provider) asksGroups() bool { return len(p.Roles) > 0 || len(p.GitHubOrgs) > 0 }

// checkOrgs refuses people who are in none of the organisations at GitHub.
func (p Provider) checkOrgs(groups []string) error {
	if len(p.GitHubOrgs) == 0 || slices.ContainsFunc(p.GitHubOrgs,
		func(org string) bool { return slices.Contains(groups, org) }) {
		return nil
	}
	return fault.New(fault.Denied, "You are in no organisation at %s that may sign in here: %s. If you are, let it approve the app "+
		"at %s/settings/connections/applications/%s, and sign in again",
		p.Title(), strings.Join(p.GitHubOrgs, ", "), p.Issuer, p.ClientID)
}

// role is the highest of the groups' roles, or "" if the provider assigns none. A person
// without such a group is fault.Denied. "" leaves the role of a member as it is.
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

// github makes a client for the provider's settings. It has no state of its own.
func (s *Service) github(p Provider) *githuboauth.Client {
	return &githuboauth.Client{
		HTTP: s.HTTP, URL: p.Issuer, ID: p.ClientID, Secret: p.Secret, Redirect: s.redirect(p), Groups: p.asksGroups(),
	}
}

// identifyAtGitHub is identify for GitHub. The access token is not kept.
func (s *Service) identifyAtGitHub(ctx context.Context, p Provider, f oidc.Flow, a oidc.Answer) (who person, err error) {
	client := s.github(p)
	access, err := client.Exchange(ctx, f, a)
	if err != nil {
		return who, s.explain(p, err)
	}
	got, err := client.Person(ctx, access)
	if err != nil {
		return who, s.explain(p, err)
	}
	return p.readGitHub(got)
}

// noReply is in the addresses that GitHub makes up for accounts: no mail reaches them,
// and the older ones move on with the login. With such an address, one person's account could be
// linked to another's membership later.
const noReply = "@users.noreply."

// readGitHub is read for GitHub. The login, which another account can take over, says
// nothing about who somebody is.
func (p Provider) readGitHub(got githuboauth.Person) (person, error) {
	who := person{
		issuer: p.Issuer, subject: strconv.FormatInt(got.ID, 10),
		name:  text.TruncateRunes(text.PlainLine(got.Name), maxName),
		email: strings.ToLower(text.TruncateRunes(text.PlainLine(got.Email), 254)),
	}
	switch {
	case who.email == "" || strings.Contains(who.email, noReply):
		return who, fault.New(fault.Denied, "%s does not tell your mail address; set a primary address at %s/settings/emails",
			p.Title(), p.Issuer)
	case !got.Verified:
		return who, fault.New(fault.Denied, "%s has not verified your address %s; verify it at %s/settings/emails, and sign in again",
			p.Title(), who.email, p.Issuer)
	}
	who, err := p.checkAddress(who, got.Email)
	if err != nil {
		return who, err
	}
	who.groups = got.Groups
	return who, p.checkOrgs(got.Groups)
}
