package signin

import (
	"context"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc/githuboauth"
)

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
