package scim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Token lets a provider push to one organisation. It is stored with its hash, never as
// it is. It is no API key: it opens nothing but SCIM, and has no holder who could leave.
type Token struct {
	ID         string
	OrgID      string
	Name       string
	Prefix     string // what it begins with
	CreatedBy  string // a user
	CreatedAt  time.Time
	LastUsedAt *time.Time
	ExpiresAt  *time.Time
}

// The states of a token.
const (
	Active  = "active"
	Expired = "expired"
)

// State is Active or Expired.
func (t Token) State() string {
	if t.ExpiresAt != nil && !t.ExpiresAt.After(time.Now()) {
		return Expired
	}
	return Active
}

const (
	maxName   = 100 // characters of a token's name
	maxTokens = 20  // of an organisation
	// shown is how many characters of a token lists show.
	shown = len(auth.SCIMPrefix) + 4
	// touchInterval is how often the last use of a token is written.
	touchInterval = time.Minute
)

// pattern matches what CreateToken returns.
var pattern = regexp.MustCompile(`^` + auth.SCIMPrefix + `[0-9A-Za-z]{43}$`)

// hash is how a token is stored: SHA-256, which is enough for 256 random bits.
func hash(raw string) string {
	sum := sha256.Sum256([]byte(raw))
	return hex.EncodeToString(sum[:])
}

// CreateToken makes a token of the caller's organisation, and returns it as it is, for
// the only time. Only owners make them: a token manages owners, too.
func (s *Service) CreateToken(
	ctx context.Context, c access.Caller, name string, expiresAt *time.Time,
) (t Token, raw string, err error) {
	if !auth.MayGive(c, access.Owner) {
		return t, "", fault.New(fault.Denied, "Only an owner can create a SCIM token: it manages the organisation's members, owners too")
	}
	if name == "" || utf8.RuneCountInString(name) > maxName {
		return t, "", fault.Invalid("name", "name must have 1 to %d characters", maxName)
	}
	if expiresAt != nil && !expiresAt.After(time.Now()) {
		return t, "", fault.Invalid("expires_at", "expires_at must lie in the future")
	}
	raw = auth.NewSecret(auth.SCIMPrefix)
	t = Token{
		ID: store.NewID(), OrgID: c.OrgID, Name: name, Prefix: raw[:shown], CreatedBy: c.UserID, CreatedAt: store.Now(),
		ExpiresAt: expiresAt,
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		n, err := countTokens(ctx, tx, c.OrgID)
		if err != nil {
			return err
		}
		if n >= maxTokens {
			return fault.New(fault.Conflict, "The organisation has %d SCIM tokens, the maximum; delete some first", n)
		}
		if err := insertToken(ctx, tx, t, hash(raw)); err != nil {
			return err
		}
		return t.record(ctx, tx, "scim.token.create", audit.Detail{"expires_at": t.ExpiresAt})
	})
	return t, raw, err
}

// Tokens returns an organisation's tokens, newest first.
func (s *Service) Tokens(ctx context.Context, orgID string) ([]Token, error) {
	return tokensOfOrg(ctx, s.DB, orgID)
}

// DeleteToken ends a token at once. What was pushed with it stays. Members stay members: whoever
// revokes a token doesn't want to lose everybody.
func (s *Service) DeleteToken(ctx context.Context, orgID, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		t, err := deleteToken(ctx, tx, orgID, id)
		if err != nil {
			return err
		}
		return t.record(ctx, tx, "scim.token.delete", audit.Detail{})
	})
}

func (t Token) record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: t.OrgID, Action: action, Target: audit.Target{Kind: "scim_token", ID: t.ID, Name: t.Name}, Detail: d,
	})
}

// open returns the caller of a token: no user, and without any permission of the API. A
// token that is unknown or has expired is fault.Unauthorized. The audit log names the token by its
// name. Tokens aren't cached, so a revocation works at once.
func (s *Service) open(ctx context.Context, raw string) (access.Caller, error) {
	unknown := fault.New(fault.Unauthorized, "Unknown SCIM token; an owner can create one in Settings, Provisioning")
	if !pattern.MatchString(raw) { // saves a query
		return access.Caller{}, unknown
	}
	t, err := tokenByHash(ctx, s.DB, hash(raw))
	if fault.Is(err, fault.NotFound) {
		return access.Caller{}, unknown
	}
	if err != nil {
		return access.Caller{}, err
	}
	if t.State() == Expired {
		return access.Caller{}, fault.New(fault.Unauthorized, "This SCIM token has expired")
	}
	now := store.Now()
	if t.LastUsedAt == nil || now.Sub(*t.LastUsedAt) >= touchInterval {
		if err := touchToken(ctx, s.DB, t.ID, now, now.Add(-touchInterval)); err != nil {
			s.Log.Warn("the last use of a SCIM token was not written", "token", t.ID, "error", err)
		}
	}
	return access.Caller{OrgID: t.OrgID, Email: "SCIM token " + t.Name}, nil
}
