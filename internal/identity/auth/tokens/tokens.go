// Package tokens keeps tokens that open one thing of one organisation, and are no API
// keys: catalog tokens open its catalogs, and SCIM tokens let an identity provider push
// members. Installers have catalog tokens in addresses, and so do lock files, the logs of
// proxies and vendors' telemetry: they must be worth little, and easy to replace. It owns
// the tables catalog_tokens and scim_tokens, of which docs/ARCHITECTURE.md says why they are two.
package tokens

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Kind of token says what it is called, and where it is stored.
type Kind struct {
	Name      string // in messages, e.g. "catalog token"
	Table     string
	Prefix    string // what tokens begin with
	Target    string // in the audit log
	CreatedAs string // action of the audit log
	DeletedAs string
	// RotatedAs is empty if tokens of the kind can't be rotated: their table has no replaced_at.
	RotatedAs string
	Max       int           // that an organisation may have
	Kept      time.Duration // how long lists show a token that has expired; 0: until somebody deletes it
	Hint      string        // follows the message that a token is unknown
	Binds     bool          // whether tokens can be bound to sets: the table has the column
}

// Catalog tokens open the catalogs of an organisation.
var Catalog = Kind{
	Name: "catalog token", Table: "catalog_tokens", Prefix: auth.CatalogPrefix, Target: "catalog_token",
	CreatedAs: "catalog.token.create", DeletedAs: "catalog.token.delete", RotatedAs: "catalog.token.rotate",
	Max: 1_000, Kept: 30 * 24 * time.Hour, Binds: true,
}

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
	// Sets are the ids of the sets that it is bound to, sorted: it opens what these have and
	// nothing else, nothing at all once they are deleted. None: it opens everything.
	Sets []string
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

// Service makes, replaces and opens tokens of one kind.
type Service struct {
	Kind Kind
	DB   *store.DB
	Log  *slog.Logger
	Sets Sets // of a kind that binds
}

// Sets says which ids are sets of an organisation. Sets lie above this package.
type Sets interface {
	Known(ctx context.Context, orgID string, ids []string) ([]string, error)
}

// MaxSets is how many sets a token can be bound to.
const MaxSets = 20

const (
	maxName = 100 // characters
	// random is how many characters a token has after its prefix, and shown how many of
	// them are in lists.
	random = 43
	shown  = 4
	// DefaultOverlap is how long a token works after it was rotated.
	DefaultOverlap = 7 * 24 * time.Hour
	// MaxOverlap is the longest that can be asked for.
	MaxOverlap = 90 * 24 * time.Hour
	// touchInterval is how often the last use of a token is written.
	touchInterval = time.Minute
)

// hash is how a token is stored: SHA-256, which is enough for 256 random bits. That of a bound
// token is of another text, so that a binary that does not know about sets finds no token, and
// doesn't take it for one that opens everything.
func hash(raw string, bound bool) string {
	if bound {
		raw = "sets\n" + raw
	}
	sum := sha256.Sum256([]byte(raw))
	return hex.EncodeToString(sum[:])
}

// Create makes a token of the caller's organisation, and returns it as it is, for
// the only time. With sets it opens only what these have.
func (s *Service) Create(ctx context.Context, c access.Caller, name string, expiresAt *time.Time, sets ...string) (t Token,
	raw string, err error,
) {
	if name == "" || utf8.RuneCountInString(name) > maxName {
		return t, "", fault.Invalid("name", "name must have 1 to %d characters", maxName)
	}
	if expiresAt != nil && !expiresAt.After(time.Now()) {
		return t, "", fault.Invalid("expires_at", "expires_at must lie in the future")
	}
	if len(sets) > 0 {
		if sets, err = s.checkSets(ctx, c.OrgID, sets); err != nil {
			return t, "", err
		}
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if t, raw, err = s.insertNew(ctx, tx, c, Token{Name: name, ExpiresAt: expiresAt, Sets: sets}); err != nil {
			return err
		}
		d := audit.Detail{"expires_at": t.ExpiresAt}
		if len(sets) > 0 {
			d["sets"] = sets
		}
		return s.record(ctx, tx, t, s.Kind.CreatedAs, d)
	})
	return t, raw, err
}

// checkSets returns the ids of sets in their order, each once.
func (s *Service) checkSets(ctx context.Context, orgID string, sets []string) ([]string, error) {
	if !s.Kind.Binds || len(sets) > MaxSets {
		return nil, fault.Invalid("sets", "sets must be the ids of at most %d sets", MaxSets)
	}
	known, err := s.Sets.Known(ctx, orgID, sets)
	if err != nil {
		return nil, err
	}
	for i, id := range sets {
		if !slices.Contains(known, id) {
			return nil, fault.Invalid(fmt.Sprintf("sets.%d", i), "sets must be ids of sets of the organisation")
		}
	}
	return known, nil
}

// insertNew makes a token with the name, end and sets of a wanted one.
func (s *Service) insertNew(ctx context.Context, tx *store.Tx, c access.Caller, wanted Token) (t Token, raw string, err error) {
	k := s.Kind
	if k.Kept > 0 {
		if err := k.deleteExpired(ctx, tx, c.OrgID, store.Now().Add(-k.Kept)); err != nil {
			return t, "", err
		}
	}
	n, err := k.count(ctx, tx, c.OrgID)
	if err != nil {
		return t, "", err
	}
	if n >= k.Max {
		return t, "", fault.New(fault.Conflict, "The organisation has %d %ss, the maximum; delete some first", n, k.Name)
	}
	raw = auth.NewSecret(k.Prefix)
	t = Token{
		ID: store.NewID(), OrgID: c.OrgID, Name: wanted.Name, Prefix: raw[:len(k.Prefix)+shown], CreatedBy: c.UserID,
		CreatedAt: store.Now(), ExpiresAt: wanted.ExpiresAt, Sets: wanted.Sets,
	}
	return t, raw, k.insert(ctx, tx, t, hash(raw, len(t.Sets) > 0))
}

// List returns a page of an organisation's tokens, newest first, and how many there
// are.
func (s *Service) List(ctx context.Context, orgID string, p store.Page) ([]Token, int, error) {
	total, err := s.Kind.count(ctx, s.DB, orgID)
	if err != nil {
		return nil, 0, err
	}
	all, err := s.Kind.ofOrg(ctx, s.DB, orgID, p)
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
		if old, err = s.Kind.lock(ctx, tx, c.OrgID, id); err != nil {
			return err
		}
		if old.State() != Active {
			return fault.New(fault.Conflict, "This %s is %s; create a new one", s.Kind.Name, old.State())
		}
		now := store.Now()
		var expiresAt *time.Time
		if old.ExpiresAt != nil {
			at := now.Add(old.ExpiresAt.Sub(old.CreatedAt))
			expiresAt = &at
		}
		wanted := Token{Name: old.Name, ExpiresAt: expiresAt, Sets: old.Sets}
		if fresh, raw, err = s.insertNew(ctx, tx, c, wanted); err != nil {
			return err
		}
		end := now.Add(overlap)
		if old.ExpiresAt != nil && old.ExpiresAt.Before(end) {
			end = *old.ExpiresAt
		}
		old.ExpiresAt, old.ReplacedAt = &end, &now
		if err := s.Kind.replace(ctx, tx, old); err != nil {
			return err
		}
		return s.record(ctx, tx, fresh, s.Kind.RotatedAs, audit.Detail{"replaces": old.ID, "works_until": end})
	})
	return fresh, raw, old, err
}

func (s *Service) record(ctx context.Context, tx *store.Tx, t Token, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: t.OrgID, Action: action, Target: audit.Target{Kind: s.Kind.Target, ID: t.ID, Name: t.Name}, Detail: d,
	})
}

// Open returns a token and the name of its organisation. One that is unknown or has
// expired is fault.Unauthorized. Tokens aren't cached, so a revocation works at once.
func (s *Service) Open(ctx context.Context, raw string) (t Token, orgName string, err error) {
	k := s.Kind
	unknown := fault.New(fault.Unauthorized, "Unknown %s%s", k.Name, k.Hint)
	if !strings.HasPrefix(raw, k.Prefix) || len(raw) != len(k.Prefix)+random { // saves a query
		return t, "", unknown
	}
	if t, orgName, err = k.byHash(ctx, s.DB, hash(raw, false), hash(raw, true)); fault.Is(err, fault.NotFound) {
		return t, "", unknown
	}
	if err != nil {
		return t, "", err
	}
	if t.State() == Expired {
		return t, "", fault.New(fault.Unauthorized, "This %s has expired", k.Name)
	}
	now := store.Now()
	if t.LastUsedAt == nil || now.Sub(*t.LastUsedAt) >= touchInterval {
		if err := k.touch(ctx, s.DB, t.ID, now, now.Add(-touchInterval)); err != nil {
			s.Log.Warn("the last use of a token was not written", "kind", k.Name, "token", t.ID, "error", err)
		}
	}
	return t, orgName, nil
}
