package signin

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// An Account is a member's account at a provider.
type Account struct {
	ID         string
	Provider   string // its title
	Email      string // at the last sign-in
	CreatedAt  time.Time
	LastUsedAt time.Time
	Issuer     string
}

// Linkable returns the providers at which the caller can link an account: those of their
// organisation at which they have none. A session that was opened with a key links
// nothing: it would leave a way in behind that revoking the key does not end.
func (s *Service) Linkable(ctx context.Context, c access.Caller, sessionID string, have []Account) ([]Provider, error) {
	by, err := s.ProviderOf(ctx, c.OrgID, sessionID)
	if err != nil || by == "" {
		return nil, err
	}
	linked := map[string]bool{}
	for _, a := range have {
		linked[a.Issuer] = true
	}
	var all []Provider
	for _, p := range s.Providers {
		if p.Org == c.OrgName && !linked[p.Issuer] {
			all = append(all, p)
		}
	}
	return all, nil
}

// StartLink is Start for a person who is signed in and links another account. Nothing is
// linked before they confirm it in the same session with Link. The session's id is in the encrypted
// cookie, so that an answer can't be used in another session.
func (s *Service) StartLink(ctx context.Context, c access.Caller, sessionID, name string) (location, cookie string, err error) {
	p, err := s.Provider(name)
	if err != nil {
		return "", "", err
	}
	by, err := s.ProviderOf(ctx, c.OrgID, sessionID)
	switch {
	case err != nil:
		return "", "", err
	case by == "":
		return "", "", fault.New(fault.Denied, "You are signed in with a key; sign in with an identity "+
			"provider to link another account")
	case p.Org != c.OrgName:
		return "", "", fault.New(fault.Denied, "%s is for another organisation", p.Title())
	}
	a := newAttempt(name, "")
	a.Session = sessionID
	return s.send(ctx, p, a)
}

// An Offer is an account at a provider that its owner may link. It is kept in a cookie,
// encrypted, until they confirm. Nothing is stored on the server until then, and it expires with
// the attempt.
type Offer struct {
	Provider, Issuer, Subject, Email string
	Session                          string // that asked for it
	ExpiresAt                        time.Time
}

// Title is the name of the provider.
func (o Offer) Title() string { return Provider{Name: o.Provider}.Title() }

// offer checks that the person could sign in with the account, and seals it. Checking the role now
// tells the person before they confirm.
func (s *Service) offer(p Provider, a attempt, who person, sessionID string) (string, error) {
	if a.Session != sessionID {
		return "", errNotAsked()
	}
	if _, err := p.role(who.groups); err != nil {
		return "", err
	}
	return s.sealAs(offerLabel, Offer{
		Provider: p.Name, Issuer: who.issuer, Subject: who.subject, Email: who.email, Session: sessionID,
		ExpiresAt: time.Now().Add(Lifetime),
	})
}

// errNotAsked is one message for all mismatches: which one it was is of use to an attacker only.
func errNotAsked() error {
	return fault.New(fault.Denied, "This account was not asked for in this session; start again on the page Account")
}

// Offered returns the account that a session may link, from the cookie.
func (s *Service) Offered(sessionID, cookie string) (o Offer, err error) {
	if !s.openAs(offerLabel, cookie, &o) || o.Session != sessionID || !o.ExpiresAt.After(time.Now()) {
		return Offer{}, errNotAsked()
	}
	return o, nil
}

// Link links the offered account to the caller: from then on they sign in with it, too.
// An account of another member, and a second one at a provider, is fault.Conflict. The same checks
// as for a first sign-in apply, in particular those for people who were deactivated.
func (s *Service) Link(ctx context.Context, c access.Caller, sessionID, cookie string) (o Offer, err error) {
	if o, err = s.Offered(sessionID, cookie); err != nil {
		return o, err
	}
	who := person{issuer: o.Issuer, subject: o.Subject, email: o.Email}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		u, err := auth.LockMember(ctx, tx, c.OrgID, c.UserID)
		if err != nil {
			return err
		}
		// The identity may belong to a member who was removed, e.g. the same person under another
		// address.
		former, err := deleteFormer(ctx, tx, u.OrgID, who)
		if err != nil {
			return err
		}
		if err := auth.RefuseInactiveFormer(ctx, tx, u.OrgID, former, who.email); err != nil {
			return err
		}
		if err := auth.RefuseInactive(ctx, tx, u.OrgID, u.ID, u.Email, who.email); err != nil {
			return err
		}
		found, err := identityOf(ctx, tx, u.OrgID, who)
		switch {
		case err == nil && found.userID == u.ID:
			return nil // a second click
		case err == nil:
			return fault.New(fault.Conflict, "This account of %s belongs to another member", o.Title())
		case !fault.Is(err, fault.NotFound):
			return err
		}
		linked, err := providersOf(ctx, tx, u.OrgID, u.ID)
		if err != nil {
			return err
		}
		if _, taken := linked[who.issuer]; taken {
			return fault.New(fault.Conflict, "You have another account of %s; unlink that one first", o.Title())
		}
		key, err := auth.IdentityKey(ctx, tx, u, nil, "sign-in with "+o.Provider)
		if err != nil {
			return err
		}
		if err := upsertIdentity(ctx, tx, identity{id: store.NewID(), orgID: u.OrgID, userID: u.ID, keyID: &key},
			o.Provider, who); err != nil {
			return err
		}
		return recordIdentity(ctx, tx, "auth.identity.link", u.OrgID, o.Provider, who)
	})
	if store.IsDuplicate(err) {
		err = fault.New(fault.Conflict, "This account of %s was linked a moment ago", o.Title())
	}
	return o, err
}

// recordIdentity names the person by what the provider calls them.
func recordIdentity(ctx context.Context, tx *store.Tx, action, orgID, provider string, who person) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: orgID, Action: action, Target: audit.Target{Kind: "identity", ID: who.subject, Name: who.email},
		Detail: audit.Detail{"provider": provider},
	})
}

// Unlink ends that an account at a provider signs the caller in: its sessions end, and so
// do the logins that they approved. The last way in stays (fault.Conflict). A narrowed key can't do
// it, as it ends sessions of others of the holder's keys.
func (s *Service) Unlink(ctx context.Context, c access.Caller, id string) error {
	if c.Narrowed() {
		return fault.New(fault.Denied, "Your key has fewer permissions than the role %s; use one that has them all", c.Role)
	}
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		i, who, provider, err := identityByID(ctx, tx, c, id)
		if err != nil {
			return err
		}
		// Keys are locked before people, as everywhere.
		if err := auth.EndIdentityKey(ctx, tx, c.OrgID, *i.keyID); err != nil {
			return err
		}
		if _, err := auth.LockMember(ctx, tx, c.OrgID, c.UserID); err != nil {
			return err
		}
		if _, err := auth.EndVouched(ctx, tx, c.OrgID, i.id); err != nil {
			return err
		}
		if err := deleteIdentity(ctx, tx, i); err != nil {
			return err
		}
		// After the deletion, and undone with the transaction if none is left.
		if err := s.checkWayLeft(ctx, tx, c); err != nil {
			return err
		}
		return recordIdentity(ctx, tx, "auth.identity.unlink", c.OrgID, provider, who)
	})
	s.Auth.Forget()
	return err
}

// checkWayLeft refuses to leave a member without a way to sign in: another account at a
// provider that is configured, or a key. An account at a provider that is no longer configured
// doesn't count.
func (s *Service) checkWayLeft(ctx context.Context, tx *store.Tx, c access.Caller) error {
	linked, err := providersOf(ctx, tx, c.OrgID, c.UserID)
	if err != nil {
		return err
	}
	for _, p := range s.Providers {
		if _, ok := linked[p.Issuer]; ok {
			return nil
		}
	}
	const advice = "This is your only way to sign in; link another account first"
	if s.Auth.RequireSSO {
		return fault.New(fault.Conflict, advice)
	}
	keys, err := countKeys(ctx, tx, c.OrgID, c.UserID)
	if err == nil && keys == 0 {
		return fault.New(fault.Conflict, advice+", or create an API key")
	}
	return err
}

// send returns the provider's address with state, nonce and challenge, and the sealed attempt for
// the browser.
// send begins an attempt at a provider.
func (s *Service) send(ctx context.Context, p Provider, a attempt) (location, cookie string, err error) {
	if p.GitHub {
		location = s.github(p).AuthURL(a.Flow)
	} else if location, err = s.client(p).AuthURL(ctx, a.Flow); err != nil {
		return "", "", s.explain(p, err)
	}
	cookie, err = s.sealAs(cookieLabel, a)
	return location, cookie, err
}

// assignRole gives a member, who is locked, the role that their groups have at a provider.
// It lowers a role only as far as neither a person nor another provider gave more, and the
// last owner stays one. Who gave what is stored separately, users.given_role for people and
// identities.role for providers, so that one of them can take back only what it gave.
func assignRole(ctx context.Context, tx *store.Tx, u auth.User, issuer string, role access.Role) (auth.User, error) {
	if !role.Includes(u.Role) {
		given, err := rolesBeside(ctx, tx, u, issuer)
		if err != nil {
			return u, err
		}
		for _, g := range given {
			if !role.Includes(g) {
				role = g
			}
		}
		// If lowering isn't possible, the role stays exactly as it is.
		if last, err := isLastOwner(ctx, tx, u); err != nil || last || role.Includes(u.Role) {
			return u, err // what was given is no reason to raise it
		}
	}
	if u.Role == role {
		return u, nil
	}
	before := u.Role
	u.Role = role
	if err := updateRole(ctx, tx, u); err != nil {
		return u, err
	}
	return u, audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "auth.user.set-role", Target: audit.Target{Kind: "user", ID: u.ID, Name: u.Email},
		Detail: audit.Detail{"from": before, "to": role},
	})
}
