// Package tokens keeps catalog tokens, which open the catalogs of one organisation
// and nothing else. Installers have them in addresses, and so do lock files, the
// logs of proxies and vendors' telemetry: they must be worth little, and easy to
// replace. It owns the table catalog_tokens.
package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Token is stored with its hash, never as it is.
type Token struct {
	ID         string
	OrgID      string
	Name       string
	Prefix     string // what it begins with
	CreatedBy  string // a user
	CreatedAt  time.Time
	LastUsedAt *time.Time
	ExpiresAt  *time.Time
	ReplacedAt *time.Time // when it was rotated
}

// The states of a token.
const (
	Active   = "active"
	Replaced = "replaced" // it works until it expires
	Expired  = "expired"
)

// State is Active, Replaced or Expired.
func (t Token) State() string {
	switch {
	case t.ExpiresAt != nil && !t.ExpiresAt.After(time.Now()):
		return Expired
	case t.ReplacedAt != nil:
		return Replaced
	}
	return Active
}

// Service makes, replaces and opens tokens.
type Service struct {
	DB  *store.DB
	Log *slog.Logger
}

const (
	maxName = 100 // characters
	// maxTokens is how many tokens an organisation may have.
	maxTokens = 1_000
	// shown is how many characters of a token lists show.
	shown = len(auth.CatalogPrefix) + 4
	// DefaultOverlap is how long a token works after it was rotated.
	DefaultOverlap = 7 * 24 * time.Hour
	// MaxOverlap is the longest that can be asked for.
	MaxOverlap = 90 * 24 * time.Hour
	// keptExpired is how long lists show a token that has expired.
	keptExpired = 30 * 24 * time.Hour
	// touchInterval is how often the last use of a token is written.
	touchInterval = time.Minute
)

// pattern matches what Create returns.
var pattern = regexp.MustCompile(`^` + auth.CatalogPrefix + `[0-9A-Za-z]{43}$`)

// hash is how a token is stored: SHA-256, which is enough for 256 random bits.
func hash(raw string) string {
	sum := sha256.Sum256([]byte(raw))
	return hex.EncodeToString(sum[:])
}

// Create makes a token of the caller's organisation, and returns it as it is, for
// the only time.
func (s *Service) Create(ctx context.Context, c access.Caller, name string, expiresAt *time.Time) (t Token, raw string, err error) {
	if name == "" || utf8.RuneCountInString(name) > maxName {
		return t, "", fault.Invalid("name", "name must have 1 to %d characters", maxName)
	}
	if expiresAt != nil && !expiresAt.After(time.Now()) {
		return t, "", fault.Invalid("expires_at", "expires_at must lie in the future")
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if t, raw, err = insertNew(ctx, tx, c, name, expiresAt); err != nil {
			return err
		}
		return t.record(ctx, tx, "catalog.token.create", audit.Detail{"expires_at": t.ExpiresAt})
	})
	return t, raw, err
}

func insertNew(
	ctx context.Context, tx *store.Tx, c access.Caller, name string, expiresAt *time.Time,
) (t Token, raw string, err error) {
	if err := deleteExpired(ctx, tx, c.OrgID, store.Now().Add(-keptExpired)); err != nil {
		return t, "", err
	}
	n, err := countTokens(ctx, tx, c.OrgID)
	if err != nil {
		return t, "", err
	}
	if n >= maxTokens {
		return t, "", fault.New(fault.Conflict, "The organisation has %d catalog tokens, the maximum; delete some first", n)
	}
	raw = auth.NewSecret(auth.CatalogPrefix)
	t = Token{
		ID: store.NewID(), OrgID: c.OrgID, Name: name, Prefix: raw[:shown], CreatedBy: c.UserID, CreatedAt: store.Now(),
		ExpiresAt: expiresAt,
	}
	return t, raw, insertToken(ctx, tx, t, hash(raw))
}

// List returns a page of an organisation's tokens, newest first, and how many there
// are.
func (s *Service) List(ctx context.Context, orgID string, p store.Page) ([]Token, int, error) {
	total, err := countTokens(ctx, s.DB, orgID)
	if err != nil {
		return nil, 0, err
	}
	all, err := tokensOfOrg(ctx, s.DB, orgID, p)
	return all, total, err
}

// Rotate makes a token with the name and the lifetime of another one, which ends
// after the overlap, or when it would have.
func (s *Service) Rotate(
	ctx context.Context, c access.Caller, id string, overlap time.Duration,
) (fresh Token, raw string, old Token, err error) {
	if overlap < 0 || overlap > MaxOverlap {
		return fresh, "", old, fault.Invalid("overlap_hours", "overlap_hours must be 0 to %d", int(MaxOverlap.Hours()))
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if old, err = tokenByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if old.State() != Active {
			return fault.New(fault.Conflict, "This catalog token is %s; create a new one", old.State())
		}
		now := store.Now()
		var expiresAt *time.Time
		if old.ExpiresAt != nil {
			at := now.Add(old.ExpiresAt.Sub(old.CreatedAt))
			expiresAt = &at
		}
		if fresh, raw, err = insertNew(ctx, tx, c, old.Name, expiresAt); err != nil {
			return err
		}
		end := now.Add(overlap)
		if old.ExpiresAt != nil && old.ExpiresAt.Before(end) {
			end = *old.ExpiresAt
		}
		old.ExpiresAt, old.ReplacedAt = &end, &now
		if err := replaceToken(ctx, tx, old); err != nil {
			return err
		}
		return fresh.record(ctx, tx, "catalog.token.rotate", audit.Detail{"replaces": old.ID, "works_until": end})
	})
	return fresh, raw, old, err
}

// Delete ends a token at once.
func (s *Service) Delete(ctx context.Context, orgID, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		t, err := tokenByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		if err := deleteToken(ctx, tx, t); err != nil {
			return err
		}
		return t.record(ctx, tx, "catalog.token.delete", audit.Detail{})
	})
}

func (t Token) record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: t.OrgID, Action: action, Target: audit.Target{Kind: "catalog_token", ID: t.ID, Name: t.Name}, Detail: d,
	})
}

// Open returns the name of the organisation whose catalogs a token opens. One that
// is unknown or has expired is fault.Unauthorized.
func (s *Service) Open(ctx context.Context, raw string) (orgName string, err error) {
	unknown := fault.New(fault.Unauthorized, "Unknown catalog token")
	if !pattern.MatchString(raw) { // saves a query
		return "", unknown
	}
	t, orgName, err := tokenByHash(ctx, s.DB, hash(raw))
	if fault.Is(err, fault.NotFound) {
		return "", unknown
	}
	if err != nil {
		return "", err
	}
	if t.State() == Expired {
		return "", fault.New(fault.Unauthorized, "This catalog token has expired")
	}
	now := store.Now()
	if t.LastUsedAt == nil || now.Sub(*t.LastUsedAt) >= touchInterval {
		if err := touchToken(ctx, s.DB, t.ID, now, now.Add(-touchInterval)); err != nil {
			s.Log.Warn("the last use of a catalog token was not written", "token", t.ID, "error", err)
		}
	}
	return orgName, nil
}
