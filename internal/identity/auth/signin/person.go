package signin

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
)

// A person is what a provider says about whoever signed in. Only issuer and subject identify them;
// the rest may change from one sign-in to the next.
type person struct {
	issuer, subject string
	email           string // verified, in lower case
	name            string // "" if it is not known
	groups          []string
}

const (
	maxName   = 100 // characters of a person's name
	maxGroups = 10_000
)

// claims are those of an ID token, and what the provider tells besides. They are kept undecoded:
// providers send texts where the standard has booleans.
type claims map[string]json.RawMessage

func (c claims) text(name string) string {
	var s string
	_ = json.Unmarshal(c[name], &s)
	return s
}

// has reports whether a claim is there and not null.
func (c claims) has(name string) bool { return len(c[name]) > 0 && string(c[name]) != "null" }

// isTrue also accepts a text and 1, which some providers send.
func (c claims) isTrue(name string) bool {
	switch strings.Trim(string(c[name]), `"`) {
	case "true", "1":
		return true
	}
	return false
}

// incomplete reports whether claims are missing that the provider may tell on request. Asking costs
// a request, so it is only done then.
func (p Provider) incomplete(c claims) bool {
	_, groups := c.find(p.groupsClaim())
	return !c.has("email") || !c.has("email_verified") || len(p.Roles) > 0 && !groups
}

// find returns a claim by its name, or by the path to it, e.g. "realm_access.roles". A claim whose
// name has dots in it, as Auth0's namespaced ones, wins over a path.
func (c claims) find(name string) (json.RawMessage, bool) {
	if c.has(name) {
		return c[name], true
	}
	first, rest, nested := strings.Cut(name, ".")
	var inner claims
	if !nested || json.Unmarshal(c[first], &inner) != nil {
		return nil, false
	}
	return inner.find(rest)
}

// groupsOf reads a list of texts, or one text, which is one group. Microsoft leaves the groups out
// if there are more than 200, and says so in _claim_names.
func (p Provider) groupsOf(c claims) ([]string, error) {
	raw, ok := c.find(p.groupsClaim())
	if !ok || len(p.Roles) == 0 {
		if len(p.Roles) > 0 && c.has("_claim_names") {
			return nil, fault.New(fault.Denied, "You have more groups than %s sends; the operator must let it send fewer, or roles of the application", p.Title())
		}
		return nil, nil
	}
	var all []string
	var one string
	switch {
	case json.Unmarshal(raw, &one) == nil:
		return []string{one}, nil
	case json.Unmarshal(raw, &all) != nil || len(all) > maxGroups:
		return nil, fault.New(fault.Denied, "The claim %s of %s is not a list of groups; the operator must check --oidc-groups-claim", p.groupsClaim(), p.Title())
	}
	return all, nil
}

// read returns the person of a verified token. What cannot be trusted is fault.Denied;
// the person is then as the provider describes them, for the audit log.
func (p Provider) read(t oidc.Token) (person, error) {
	who := person{issuer: t.Issuer, subject: text.Clean(t.Subject)}
	var c claims
	if err := t.Claims(&c); err != nil {
		return who, err
	}
	who.name = text.TruncateRunes(text.PlainLine(c.text("name")), maxName)
	who.email = strings.ToLower(text.TruncateRunes(text.PlainLine(c.text("email")), 254))
	if who.email == "" {
		return who, fault.New(fault.Denied, "%s does not tell your mail address; the operator must let it send the claim email, "+
			"and you may have to set an address there", p.Title())
	}
	if !p.verified(c) {
		return who, fault.New(fault.Denied, "%s has not verified your address %s; verify it there, and sign in again",
			p.Title(), who.email)
	}
	who, err := p.checkAddress(who, c.text("email"))
	if err != nil {
		return who, err
	}
	who.groups, err = p.groupsOf(c)
	return who, err
}

// checkAddress gives a person the verified address that the provider tells, if it can be
// used and its domain is allowed.
func (p Provider) checkAddress(who person, told string) (person, error) {
	email, err := auth.NormaliseEmail(told)
	if err != nil || strings.HasSuffix(email, "@localhost") { // that of machines
		return who, fault.New(fault.Denied, "%s tells an address that cannot be used: %s", p.Title(), who.email)
	}
	who.email = email
	return who, p.checkDomain(email)
}

// verified reports whether the provider vouches for the address. Microsoft says so in a
// claim of its own: that the domain of the address belongs to the tenant.
func (p Provider) verified(c claims) bool {
	if c.has("email_verified") {
		return c.isTrue("email_verified")
	}
	u, err := url.Parse(p.Issuer)
	return err == nil && u.Hostname() == "login.microsoftonline.com" && c.isTrue("xms_edov")
}
