package signin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"regexp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service signs people in. It keeps no state in memory: an answer may arrive at another replica
// than the one that began the attempt.
type Service struct {
	DB        *store.DB
	Auth      *auth.Service
	Keys      *oidc.Keys
	HTTP      *outbound.Client
	Providers []Provider
	PublicURL string
	Secret    []byte // 32 bytes that encrypt the cookie; the same on all replicas
	Log       *slog.Logger
}

// Provider finds a provider by its name.
func (s *Service) Provider(name string) (Provider, error) {
	for _, p := range s.Providers {
		if p.Name == name {
			return p, nil
		}
	}
	return Provider{}, fault.New(fault.NotFound, "There is no identity provider with this name; choose one below")
}

func (s *Service) client(p Provider) *oidc.Client {
	return &oidc.Client{
		Keys: s.Keys, HTTP: s.HTTP, Issuer: p.Issuer, ID: p.ClientID, Secret: p.Secret, Scopes: p.scopes(),
		Redirect: s.redirect(p),
	}
}

func (s *Service) redirect(p Provider) string {
	return s.PublicURL + "/login/oidc/" + p.Name + "/callback"
}

// Start begins a sign-in. It returns where the browser goes, and the cookie that it must
// bring back within Lifetime. Next is a path of the dashboard to return to. Next comes from a link,
// so the caller checks that it is a path of this server.
func (s *Service) Start(ctx context.Context, name, next string) (location, cookie string, err error) {
	p, err := s.Provider(name)
	if err != nil {
		return "", "", err
	}
	return s.send(ctx, p, newAttempt(name, next))
}

// explain adds what to do. A provider that is away does not end sessions. The messages are for the
// person who signs in; the log has what the operator needs.
func (s *Service) explain(p Provider, err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	if e.Kind == fault.BadGateway {
		s.Log.Warn("identity provider failed", "provider", p.Name, "error", err)
		return fault.New(fault.BadGateway, "%s does not work at the moment: %s. Try again in a minute. "+
			"Open sessions and API keys are not affected; `whetstone doctor` tells the operator more", p.Title(),
			e.Message).Because(err)
	}
	if e.Kind == fault.TooLarge {
		s.Log.Warn("sign-in refused", "provider", p.Name, "error", err)
		return fault.New(fault.Denied, "You are in more groups at %s than fit into a sign-in: its ID token has "+
			"at most %d KiB. The operator must let the claim %s have fewer groups, e.g. only those assigned to this application",
			p.Title(), oidc.MaxSignInToken>>10, p.groupsClaim()).Because(err)
	}
	if e.Kind == fault.Unauthorized {
		s.Log.Warn("sign-in refused", "provider", p.Name, "error", err)
		return fault.New(fault.Denied, "The answer of %s was not accepted: %s. Start again; if that does not help, tell the operator", p.Title(), e.Message).Because(err)
	}
	return err
}

// A Callback is the request with which a browser returns from a provider. Everything in it but the
// cookie can be made up by somebody else.
type Callback struct {
	Provider string
	Query    url.Values
	Cookie   string // of Start
	Browser  auth.NewSession
	Session  string // the id of the browser's session; "" without one
}

// A Welcome is a person who is signed in, or an account that they may link.
type Welcome struct {
	Session auth.Session
	Token   string // of the session
	Next    string
	Offer   string // the cookie for Link, if the flow was started by StartLink
}

// Finish ends a sign-in: it makes a session for the member that the provider vouches
// for, who is added or linked at their first. A refusal is fault.Denied or
// fault.Conflict, and a provider that fails fault.BadGateway. A state is used up before the code is
// exchanged, so that a repeated answer never reaches the provider.
func (s *Service) Finish(ctx context.Context, c Callback) (w Welcome, err error) {
	p, err := s.Provider(c.Provider)
	if err != nil {
		return w, err
	}
	a, err := s.open(c.Cookie, p.Name, c.Query.Get("state"))
	if err != nil {
		return w, err
	}
	org, err := s.Auth.OrgByName(ctx, p.Org)
	if fault.Is(err, fault.NotFound) {
		return w, fault.New(fault.Denied, "The organisation %s of %s does not exist; the operator must create it, or set --oidc-org", p.Org, p.Title())
	}
	if err != nil {
		return w, err
	}
	fresh, err := use(ctx, s.DB, org.ID, a.Flow.State, a.ExpiresAt)
	if err != nil {
		return w, err
	}
	if !fresh {
		return w, fault.New(fault.Denied, "This sign-in was used already; start again")
	}
	// The provider's description of an error is not shown: anybody can write one into a
	// link. For the same reason the error code is limited to a few letters.
	switch code := c.Query.Get("error"); {
	case code == "access_denied":
		return w, fault.New(fault.Denied, "%s did not let you in, or you cancelled; start again, or ask its administrator for access", p.Title())
	case errorCode.MatchString(code):
		return w, fault.New(fault.Denied, "%s refused the sign-in: %s; start again, or tell the operator", p.Title(), code)
	case code != "" || c.Query.Get("code") == "" || len(c.Query.Get("code")) > maxCode:
		return w, fault.New(fault.Denied, "The answer of %s is not complete; start again", p.Title())
	}
	who, err := s.identify(ctx, p, a.Flow, oidc.Answer{Code: c.Query.Get("code"), Issuer: c.Query.Get("iss")})
	// The attempt was a link and not a sign-in: nobody is signed in by it, and a failure isn't a
	// refusal.
	if a.Session != "" {
		if err == nil {
			w.Offer, err = s.offer(p, a, who, c.Session)
		}
		return w, err
	}
	if err == nil {
		w, err = s.admit(ctx, p, org.ID, who, c.Browser)
		w.Next = a.Next
	}
	// Only somebody whom the provider has identified is written to the audit log; anything else is
	// noise that anybody can make.
	if err != nil && who.subject != "" {
		if err := s.recordRefusal(ctx, p, org.ID, who, err); err != nil {
			return Welcome{}, err
		}
	}
	return w, err
}

// errorCode is that of RFC 6749.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// maxCode is the longest code in bytes.
const maxCode = 4 << 10

// identify exchanges the code and reads what the provider says about the person, who has
// no subject if it says nothing that can be believed.
func (s *Service) identify(ctx context.Context, p Provider, f oidc.Flow, a oidc.Answer) (who person, err error) {
	if p.GitHub {
		return s.identifyAtGitHub(ctx, p, f, a)
	}
	client := s.client(p)
	token, accessToken, err := client.Exchange(ctx, f, a)
	if err != nil {
		return who, s.explain(p, err)
	}
	var c claims
	if err := token.Claims(&c); err != nil {
		return who, s.explain(p, err)
	}
	// The claims may be missing although the scopes ask for them; userinfo has what a token
	// doesn't.
	if p.incomplete(c) && accessToken != "" {
		if token, err = client.UserInfo(ctx, token, accessToken); err != nil {
			return who, s.explain(p, err)
		}
	}
	return p.read(token)
}

// admit makes a session. Two first sign-ins of a person at the same time add them once:
// the second finds them on its second try. The member's role may have changed, hence Forget.
func (s *Service) admit(ctx context.Context, p Provider, orgID string, who person, n auth.NewSession) (w Welcome, err error) {
	role, err := p.role(who.groups)
	if err != nil {
		return w, err
	}
	for range 2 {
		err = s.DB.InTx(ctx, func(tx *store.Tx) error {
			w, err = enter(ctx, tx, p, entrance{orgID: orgID, who: who, role: role, session: n})
			return err
		})
		if !store.IsDuplicate(err) {
			break
		}
	}
	s.Auth.Forget()
	return w, err
}

// An entrance is a person who may enter.
type entrance struct {
	orgID   string
	who     person
	role    access.Role // "" if the provider assigns none
	session auth.NewSession
}

// enter does the whole sign-in in one transaction: find or link the member, check that they may
// enter, assign their role, and open the session.
func enter(ctx context.Context, tx *store.Tx, p Provider, e entrance) (w Welcome, err error) {
	keyName := "sign-in with " + p.Name
	how := "known"
	i, err := identityOf(ctx, tx, e.orgID, e.who)
	if fault.Is(err, fault.NotFound) {
		if i, how, err = link(ctx, tx, e, keyName); err != nil {
			return w, err
		}
	} else if err != nil {
		return w, err
	}
	u, err := auth.LockMember(ctx, tx, e.orgID, i.userID)
	if err != nil {
		return w, err
	}
	if err := auth.RefuseInactive(ctx, tx, e.orgID, u.ID, u.Email, e.who.email); err != nil {
		return w, err
	}
	// The audit log names the member as the one who acts.
	asMember := access.With(ctx, access.Caller{OrgID: u.OrgID, UserID: u.ID, Email: u.Email})
	if e.role != "" {
		if u, err = assignRole(asMember, tx, u, e.who.issuer, e.role); err != nil {
			return w, err
		}
	}
	key, err := auth.IdentityKey(asMember, tx, u, i.keyID, keyName)
	if err != nil {
		return w, err
	}
	i.keyID, i.role = &key, e.role
	if err := upsertIdentity(ctx, tx, i, p.Name, e.who); err != nil {
		return w, err
	}
	w.Session, w.Token, err = auth.OpenSession(ctx, tx, auth.VouchedSession{
		NewSession: e.session, User: u, KeyID: key, IdentityID: i.id,
		Detail: audit.Detail{"provider": p.Name, "subject": e.who.subject, "address": e.who.email, "member": how},
	})
	return w, err
}

// link finds the member with the person's verified address who has no account at any
// provider yet, or adds one. It happens once: from then on the subject identifies them,
// whatever their address is. Linking by address is only done where the provider has verified it,
// and never a second time: an address that moves to another person must not take the member along.
func link(ctx context.Context, tx *store.Tx, e entrance, keyName string) (i identity, how string, err error) {
	former, err := deleteFormer(ctx, tx, e.orgID, e.who)
	if err != nil {
		return i, "", err
	}
	if err := auth.RefuseInactiveFormer(ctx, tx, e.orgID, former, e.who.email); err != nil {
		return i, "", err
	}
	i = identity{id: store.NewID(), orgID: e.orgID}
	u, err := auth.LinkableMember(ctx, tx, e.orgID, e.who.email)
	switch {
	case fault.Is(err, fault.NotFound):
		u, k, _, err := auth.Join(ctx, tx, auth.Joiner{
			NewUser: auth.NewUser{OrgID: e.orgID, Email: e.who.email, Name: e.who.name, Role: cmp.Or(e.role, access.DefaultRole)},
			KeyName: keyName,
		})
		if err == nil && e.role != "" {
			err = markRoleAssigned(ctx, tx, u)
		}
		i.userID, i.keyID = u.ID, &k.ID
		return i, "added", err
	case err != nil:
		return i, "", err
	}
	// Another first sign-in of theirs may have ended since this one looked.
	if found, err := identityOf(ctx, tx, e.orgID, e.who); !fault.Is(err, fault.NotFound) {
		return found, "known", err
	}
	linked, err := providersOf(ctx, tx, e.orgID, u.ID)
	if err != nil {
		return i, "", err
	}
	if _, taken := linked[e.who.issuer]; taken {
		return i, "", fault.New(fault.Conflict, "The address %s belongs to a member whom the provider knows as another person; "+
			"ask an admin to remove that member if the address is yours now, and sign in again", e.who.email)
	}
	// A second provider is linked by the member, who is signed in with the first, and not by an
	// address alone.
	for _, name := range linked {
		return i, "", fault.New(fault.Denied, "The address %s belongs to a member who signs in with %s; sign in with that, "+
			"and link this account on the page Account", e.who.email, Provider{Name: name}.Title())
	}
	i.userID = u.ID
	return i, "linked", nil
}

// recordRefusal writes to the audit log that a person for whom the provider vouches was
// refused. One who may not enter any more, e.g. because they lost the groups that gave
// their role, keeps no session with the rights of before. A failure of the provider isn't a
// refusal, so it ends no sessions.
func (s *Service) recordRefusal(ctx context.Context, p Provider, orgID string, who person, why error) error {
	e, ok := errors.AsType[*fault.Error](why)
	if !ok || e.Kind != fault.Denied && e.Kind != fault.Conflict {
		return nil
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		detail := audit.Detail{"provider": p.Name, "reason": e.Message}
		i, err := identityOf(ctx, tx, orgID, who)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		// Conflict is about the link and not about the person's rights.
		if err == nil && e.Kind == fault.Denied {
			if detail["sessions_ended"], err = auth.EndVouched(ctx, tx, orgID, i.id); err != nil {
				return err
			}
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Action: "auth.identity.refuse",
			Target: audit.Target{Kind: "identity", ID: who.subject, Name: who.email}, Detail: detail,
		})
	})
}

// ProviderOf returns the name of the provider that a session was signed in to with, or
// "" if it was a key.
func (s *Service) ProviderOf(ctx context.Context, orgID, sessionID string) (string, error) {
	name, err := providerOfSession(ctx, s.DB, orgID, sessionID)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return name, err
}

// LogoutURL is where the person ends their session at a provider, too; "" if that is not
// known. RP-initiated logout: signing out here leaves the session at the provider otherwise, and
// the next click signs in again.
func (s *Service) LogoutURL(ctx context.Context, name string) string {
	p, err := s.Provider(name)
	if err != nil || p.GitHub {
		return ""
	}
	about, err := s.Keys.Discover(ctx, p.Issuer)
	u, parseErr := url.Parse(about.EndSession)
	if err != nil || parseErr != nil || about.EndSession == "" {
		return ""
	}
	query := u.Query()
	query.Set("client_id", p.ClientID)
	query.Set("post_logout_redirect_uri", s.PublicURL+"/login")
	u.RawQuery = query.Encode()
	return u.String()
}
