package auth

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Session is a browser that somebody signed in with a key. It may do what
// the key may do, and ends with it.
type Session struct {
	ID        string
	OrgID     string
	UserID    string
	KeyID     string
	KeyName   string
	Browser   string // as it calls itself
	Address   string // where it signed in from
	CreatedAt time.Time
	UsedAt    time.Time // to within sessionTouch
	ExpiresAt time.Time
}

const (
	// SessionLifetime is how long a session lasts at most.
	SessionLifetime = 30 * 24 * time.Hour
	// SessionIdle is how long an unused session lasts.
	SessionIdle = 7 * 24 * time.Hour
	// sessionTouch is how often the use of a session is written.
	sessionTouch = 5 * time.Minute
	// maxBrowser bounds what a browser can call itself.
	maxBrowser = 300
)

// NewSession is a sign-in to be made.
type NewSession struct {
	RawKey  string
	Browser string
	Address string
	// Replaces is the token that the browser had, "" if none: it is worth
	// nothing afterwards, so that nobody can plant one before a sign-in.
	Replaces string
}

// SignIn makes a session for the holder of a key and returns its token, which
// is kept nowhere. A key that is not good is fault.Unauthorized, one that opens
// no page is fault.Denied.
func (s *Service) SignIn(ctx context.Context, n NewSession) (_ Session, token string, err error) {
	c, err := s.Authenticate(ctx, n.RawKey)
	if err != nil {
		return Session{}, "", err
	}
	if !slices.ContainsFunc(c.Permissions, func(p access.Permission) bool { return p != access.TelemetryWrite }) {
		return Session{}, "", fault.New(fault.Denied, "This key can only report sessions; sign in with another one")
	}
	token = randomText(base62, keyLength)
	now := store.Now()
	browser := []rune(n.Browser)
	session := Session{
		ID: store.NewID(), OrgID: c.OrgID, UserID: c.UserID, KeyID: c.KeyID,
		Browser: string(browser[:min(len(browser), maxBrowser)]), Address: n.Address,
		CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(SessionLifetime),
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if _, err := deleteSessionByHash(ctx, tx, hash(n.Replaces)); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err := insertSession(ctx, tx, session, hash(token)); err != nil {
			return err
		}
		return recordSession(access.With(ctx, c), tx, "auth.session.start", session)
	})
	return session, token, err
}

// Resume returns the caller behind a session's token, and the session's id. A
// session that is unknown, over, or whose key is no longer good is
// fault.Unauthorized.
func (s *Service) Resume(ctx context.Context, token string) (c access.Caller, sessionID string, err error) {
	now := store.Now()
	found, err := sessionByHash(ctx, s.DB, hash(token))
	if fault.Is(err, fault.NotFound) {
		return c, "", fault.New(fault.Unauthorized, "Please sign in")
	}
	if err != nil {
		return c, "", err
	}
	if !found.liveAt(now) {
		return c, "", fault.New(fault.Unauthorized, "Your session has ended; please sign in again")
	}
	if now.Sub(found.usedAt) >= sessionTouch {
		if err := touchSession(ctx, s.DB, found.id, now); err != nil {
			return c, "", err
		}
	}
	s.holders.used(found.caller.KeyID)
	return found.caller, found.id, nil
}

// heldSession is a session with everything that says who holds it.
type heldSession struct {
	holder
	id        string
	usedAt    time.Time
	sessionTo time.Time
}

func (h heldSession) liveAt(now time.Time) bool {
	keyIsGood := h.revokedAt == nil && (h.expiresAt == nil || h.expiresAt.After(now))
	return keyIsGood && h.sessionTo.After(now) && h.usedAt.After(now.Add(-SessionIdle))
}

// Sessions lists the live sessions of a person, newest first.
func (s *Service) Sessions(ctx context.Context, orgID, userID string) ([]Session, error) {
	return liveSessions(ctx, s.DB, orgID, userID, store.Now())
}

// EndSession ends a session of the caller; with a narrowed key, only one that was
// signed in with it. One that is not there is fault.NotFound.
func (s *Service) EndSession(ctx context.Context, c access.Caller, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		ended, err := deleteSession(ctx, tx, c, id)
		if err != nil {
			return err
		}
		return recordSession(ctx, tx, "auth.session.end", ended)
	})
}

// SignOut ends the session with that token. One that is over is not an error.
func (s *Service) SignOut(ctx context.Context, token string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		ended, err := deleteSessionByHash(ctx, tx, hash(token))
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return recordSession(ctx, tx, "auth.session.end", ended)
	})
}

// recordSession names the holder where the request did not: a session that is
// over can still be signed out of.
func recordSession(ctx context.Context, tx *store.Tx, action string, s Session) error {
	if access.From(ctx).UserID == "" {
		ctx = access.With(ctx, access.Caller{OrgID: s.OrgID, UserID: s.UserID, KeyID: s.KeyID})
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: s.OrgID, Action: action, Target: audit.Target{Kind: "session", ID: s.ID, Name: s.Browser},
	})
}
