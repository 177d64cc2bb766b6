package auth

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Session is a browser that a person signed in to, with a key or with an identity
// provider. It has the permissions of its key, and ends when that is revoked or expires. Only a
// hash of its token is stored, as with keys.
type Session struct {
	ID         string
	OrgID      string
	UserID     string
	KeyID      string
	KeyName    string
	IdentityID *string // nil if it was signed in to with a key
	Browser    string  // its User-Agent
	Address    string  // from which it signed in
	CreatedAt  time.Time
	UsedAt     time.Time // to within sessionTouch
	ExpiresAt  time.Time
}

const (
	// SessionLifetime is how long a session lasts at most. It is the absolute limit; SessionIdle
	// ends most sessions before.
	SessionLifetime = 30 * 24 * time.Hour
	// VouchedLifetime is the same for a session that was signed in to with an identity
	// provider, which is asked again then.
	VouchedLifetime = 7 * 24 * time.Hour
	// SessionIdle is how long an unused session lasts.
	SessionIdle = 7 * 24 * time.Hour
	// sessionTouch is how often the use of a session is written.
	sessionTouch = 5 * time.Minute
	// maxBrowser is how many characters of the User-Agent are stored.
	maxBrowser = 300
)

// NewSession describes a sign-in.
type NewSession struct {
	RawKey  string
	Browser string
	Address string
	// Replaces is the token that the browser had before, or "". Its session ends,
	// which prevents session fixation.
	Replaces string
}

// SignIn creates a session for the holder of a key and returns its token, of which
// only the hash is stored. An unusable key is fault.Unauthorized, one without the
// permission for any page is fault.Denied, and so is every key if an identity provider
// is required.
// All refusals come before the session is written, each with what to do instead.
func (s *Service) SignIn(ctx context.Context, n NewSession) (_ Session, token string, err error) {
	if err := s.CheckKeySignIn(); err != nil {
		return Session{}, "", err
	}
	c, err := s.Authenticate(ctx, n.RawKey)
	if err != nil {
		return Session{}, "", err
	}
	if c.ServiceAccount {
		return Session{}, "", fault.New(fault.Denied,
			"This key belongs to a service account, which cannot sign in; use a key of your own")
	}
	// Reporting sessions alone shows no page.
	if !slices.ContainsFunc(c.Permissions, func(p access.Permission) bool { return p != access.TelemetryWrite }) {
		return Session{}, "", fault.New(fault.Denied, "This key can only report sessions; sign in with another one")
	}
	session := n.session(Session{OrgID: c.OrgID, UserID: c.UserID, KeyID: c.KeyID}, store.Now())
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if token, err = replaceSession(ctx, tx, session, n.Replaces); err != nil {
			return err
		}
		return recordSession(access.With(ctx, c), tx, "auth.session.start", session, nil)
	})
	return session, token, err
}

// CheckKeySignIn refuses sign-ins with a key, or with what was approved with one, if an
// identity provider is required. It is also checked when a session is resumed, so switching the
// setting on ends sessions that were signed in with keys.
func (s *Service) CheckKeySignIn() error {
	if s.RequireSSO {
		return fault.New(fault.Denied, "This installation requires single sign-on: sign in with an identity provider. "+
			"API keys are for programs and the command line")
	}
	return nil
}

// session fills in what all sessions have.
func (n NewSession) session(s Session, now time.Time) Session {
	s.ID, s.Browser, s.Address = store.NewID(), text.TruncateRunes(n.Browser, maxBrowser), n.Address
	s.CreatedAt, s.UsedAt, s.ExpiresAt = now, now, now.Add(SessionLifetime)
	return s
}

// Resume returns the caller of a session by its token, and the session's id. A
// session that is unknown or expired, or whose key is no longer usable, is
// fault.Unauthorized. Unlike keys, sessions aren't cached: a browser makes few requests, and
// signing out must work at once on all replicas.
func (s *Service) Resume(ctx context.Context, token string) (c access.Caller, sessionID string, err error) {
	now := store.Now()
	found, err := sessionByHash(ctx, s.DB, hash(token))
	if fault.Is(err, fault.NotFound) {
		return c, "", fault.New(fault.Unauthorized, "Please sign in")
	}
	if err != nil {
		return c, "", err
	}
	// The key decides too: revoking it ends its sessions at once.
	live := keyState(found.revokedAt, found.expiresAt) == keyActive &&
		found.sessionEndAt.After(now) && found.usedAt.After(now.Add(-SessionIdle))
	if !live || s.RequireSSO && found.identityID == nil {
		return c, "", fault.New(fault.Unauthorized, "Your session has ended; please sign in again")
	}
	// For a session this isn't Denied: signing in again, with another key, is what helps.
	if err := s.checkAddress(ctx, found.holder); fault.Is(err, fault.Denied) {
		return c, "", fault.New(fault.Unauthorized, "%s; please sign in with another one", err.Error())
	}
	if now.Sub(found.usedAt) >= sessionTouch {
		if err := touchSession(ctx, s.DB, found.id, now); err != nil {
			return c, "", err
		}
	}
	s.keys.Used(found.caller.KeyID)
	return found.caller, found.id, nil
}

// heldSession is a session joined with its key and holder.
type heldSession struct {
	holder
	id           string
	identityID   *string
	usedAt       time.Time
	sessionEndAt time.Time
}

// Sessions lists the live sessions of a person, newest first.
func (s *Service) Sessions(ctx context.Context, orgID, userID string) ([]Session, error) {
	return liveSessions(ctx, s.DB, orgID, userID, store.Now())
}

// SignOut ends the session with that token. An unknown token is not an error. A browser may send a
// token that was ended elsewhere.
func (s *Service) SignOut(ctx context.Context, token string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		ended, err := deleteSessionByHash(ctx, tx, hash(token))
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return recordSession(ctx, tx, "auth.session.end", ended, nil)
	})
}

// recordSession writes to the audit log. Signing out of an expired session has no
// caller, so that the session's holder is named.
func recordSession(ctx context.Context, tx *store.Tx, action string, s Session, detail audit.Detail) error {
	if access.From(ctx).UserID == "" {
		ctx = access.With(ctx, access.Caller{OrgID: s.OrgID, UserID: s.UserID, KeyID: s.KeyID})
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: s.OrgID, Action: action, Target: audit.Target{Kind: "session", ID: s.ID, Name: s.Browser}, Detail: detail,
	})
}
