package auth

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// A Session is a browser that a person signed in to with a key. It has the key's
// permissions, and ends when the key is revoked or expires.
type Session struct {
	ID        string
	OrgID     string
	UserID    string
	KeyID     string
	KeyName   string
	Browser   string // its User-Agent
	Address   string // from which it signed in
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
// permission for any page is fault.Denied.
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
	session := Session{
		ID: store.NewID(), OrgID: c.OrgID, UserID: c.UserID, KeyID: c.KeyID,
		Browser: text.TruncateRunes(n.Browser, maxBrowser), Address: n.Address,
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

// Resume returns the caller of a session by its token, and the session's id. A
// session that is unknown or expired, or whose key is no longer usable, is
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
	// The key decides too: revoking it ends its sessions at once.
	live := keyState(found.revokedAt, found.expiresAt) == keyActive &&
		found.sessionEndAt.After(now) && found.usedAt.After(now.Add(-SessionIdle))
	if !live {
		return c, "", fault.New(fault.Unauthorized, "Your session has ended; please sign in again")
	}
	if now.Sub(found.usedAt) >= sessionTouch {
		if err := touchSession(ctx, s.DB, found.id, now); err != nil {
			return c, "", err
		}
	}
	s.keys.used(found.caller.KeyID)
	return found.caller, found.id, nil
}

// heldSession is a session joined with its key and holder.
type heldSession struct {
	holder
	id           string
	usedAt       time.Time
	sessionEndAt time.Time
}

// Sessions lists the live sessions of a person, newest first.
func (s *Service) Sessions(ctx context.Context, orgID, userID string) ([]Session, error) {
	return liveSessions(ctx, s.DB, orgID, userID, store.Now())
}

// EndSession ends a session of the caller; with a narrowed key, only one that was
// signed in with that key. An unknown session is fault.NotFound.
func (s *Service) EndSession(ctx context.Context, c access.Caller, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		ended, err := deleteSession(ctx, tx, c, id)
		if err != nil {
			return err
		}
		return recordSession(ctx, tx, "auth.session.end", ended)
	})
}

// SignOut ends the session with that token. An unknown token is not an error.
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

// recordSession writes to the audit log. Signing out of an expired session has no
// caller, so that the session's holder is named.
func recordSession(ctx context.Context, tx *store.Tx, action string, s Session) error {
	if access.From(ctx).UserID == "" {
		ctx = access.With(ctx, access.Caller{OrgID: s.OrgID, UserID: s.UserID, KeyID: s.KeyID})
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: s.OrgID, Action: action, Target: audit.Target{Kind: "session", ID: s.ID, Name: s.Browser},
	})
}
