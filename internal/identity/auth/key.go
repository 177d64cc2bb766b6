package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Key is an API key as it is stored: with its hash, never the raw key. Lists show Prefix, by
// which people recognise a key.
type Key struct {
	ID     string
	OrgID  string
	UserID string
	Name   string
	Prefix string
	// Permissions narrows what the holder's role allows; nil narrows nothing.
	Permissions []access.Permission
	CreatedAt   time.Time
	LastUsedAt  *time.Time
	ExpiresAt   *time.Time
	RevokedAt   *time.Time
	// CreatedByKey is the id of the key that made or approved this one; nil if it
	// was made on the server.
	CreatedByKey *string
	// Login keys come from a device login, and are revoked together with the key
	// that approved it.
	Login bool
	// Relay keys pass on signals of other contributors, and may name them.
	Relay bool
	// EntryID is the registry entry that the key pushes versions of, and does nothing
	// else; nil for other keys.
	EntryID *string
	// AllowedIPs are the networks from which the key works; empty for all.
	AllowedIPs keyrules.AllowList
}

// The states of a key.
const (
	keyActive  = "active"
	keyExpired = "expired"
	keyRevoked = "revoked"
)

// State is "active", "expired" or "revoked". A key that was revoked after it had expired is
// "revoked".
func (k Key) State() string { return keyState(k.RevokedAt, k.ExpiresAt) }

func keyState(revokedAt, expiresAt *time.Time) string {
	switch {
	case revokedAt != nil:
		return keyRevoked
	case expiresAt != nil && !expiresAt.After(time.Now()):
		return keyExpired
	}
	return keyActive
}

// checkUsable refuses a key that is revoked or expired. Unlike for an unknown key, the message says
// why: whoever has the key may know.
func checkUsable(revokedAt, expiresAt *time.Time) error {
	switch keyState(revokedAt, expiresAt) {
	case keyRevoked:
		return fault.New(fault.Unauthorized, "This API key was revoked")
	case keyExpired:
		return fault.New(fault.Unauthorized, "This API key has expired")
	}
	return nil
}

// NewKey describes a key to create. The unexported fields are set by this package only, so that no
// caller can claim a lineage.
type NewKey struct {
	OrgID       string
	UserID      string
	Name        string
	Permissions []access.Permission // nil: all that the role allows
	ExpiresAt   *time.Time
	Relay       bool
	AllowedIPs  keyrules.AllowList // empty: those of the key with which the holder makes it, or all

	createdByKey *string
	login        bool
	deviceID     *string // of a login; nil if the client did not identify its device
	entryID      *string // see Key.EntryID
}

// inherit limits the key to the lifetime of the one that creates or approves it and,
// if both have the same holder, to its networks, and records that as its parent. A chain of keys
// therefore never gets longer-lived or more widely usable from link to link.
func (k *NewKey) inherit(parent Key) error {
	k.createdByKey = &parent.ID
	if k.ExpiresAt == nil {
		k.ExpiresAt = parent.ExpiresAt
	}
	// An expiry that was asked for is refused if it's too late, instead of being shortened
	// silently.
	if parent.ExpiresAt != nil && k.ExpiresAt.After(*parent.ExpiresAt) {
		return fault.Invalid("expires_at", "expires_at must not be later than %s, when the key you use expires; "+
			"leave it out, or use a key that lasts longer", parent.ExpiresAt.UTC().Format(time.RFC3339))
	}
	// A key for a machine is used elsewhere by its nature, so it doesn't inherit the person's
	// networks.
	if k.UserID == parent.UserID {
		if len(k.AllowedIPs) == 0 {
			k.AllowedIPs = parent.AllowedIPs
		}
		return k.AllowedIPs.CheckWithin(parent.AllowedIPs)
	}
	return nil
}

const (
	livePrefix  = "st_live_"
	testPrefix  = "st_test_"
	keyLength   = 43 // base62 characters: 256 bits
	shownLength = len(livePrefix) + 4
	maxName     = 100 // characters of a key's or a person's name
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// keyPattern matches generated keys, and the bootstrap key of an operator, which
// may have another length but must not be guessable. The minimum of 16 characters is what makes
// SHA-256 without a salt sufficient.
var keyPattern = regexp.MustCompile(`^st_(live|test)_[A-Za-z0-9_-]{16,200}$`)

// CheckRawKey refuses a bootstrap key that does not look like a key.
func CheckRawKey(raw string) error {
	if !keyPattern.MatchString(raw) {
		return fault.Invalid("bootstrap-key", "bootstrap-key must be %s or %s "+
			"and 16 to 200 letters, digits, hyphens or underscores", livePrefix, testPrefix)
	}
	return nil
}

func newRawKey() string { return NewSecret(livePrefix) }

// CatalogPrefix begins the tokens of internal/deliver/catalog, which are no keys.
const CatalogPrefix = "ct_"

// SCIMPrefix begins the tokens of package scim, which are no keys.
const SCIMPrefix = "scim_"

// NewSecret returns a prefix and 256 random bits.
func NewSecret(prefix string) string { return prefix + randomText(base62, keyLength) }

// randomText returns n characters of the alphabet, from a cryptographically
// secure generator. It draws without modulo bias.
func randomText(alphabet string, n int) string {
	var b strings.Builder
	for range n {
		i, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			panic(err) // the system's random number generator is broken
		}
		b.WriteByte(alphabet[i.Int64()])
	}
	return b.String()
}

// hash is how API keys, sessions and device codes are stored: SHA-256, which is
// enough for secrets that are random. A slow hash such as bcrypt would only be needed for passwords
// that people choose.
func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// narrow returns the permissions of a key: those of its holder's role, reduced
// to the ones that the key lists. Nil lists them all. It is computed on each request, so a lowered
// role applies to all keys at once.
func narrow(role access.Role, permissions []access.Permission) []access.Permission {
	all := role.Permissions()
	if permissions == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(p access.Permission) bool {
		return !access.Allows(permissions, p)
	})
}

// check validates what a person asks for. Unknown permissions are told from those that the role
// doesn't have, since the former are typing errors.
func (k NewKey) check(role access.Role) error {
	if k.Name == "" || utf8.RuneCountInString(k.Name) > maxName {
		return fault.Invalid("name", "name must have 1 to %d characters", maxName)
	}
	if k.ExpiresAt != nil && !k.ExpiresAt.After(time.Now()) {
		return fault.Invalid("expires_at", "expires_at must lie in the future")
	}
	for _, p := range k.Permissions {
		if !slices.Contains(access.Owner.Permissions(), p) {
			return fault.Invalid("permissions", "unknown permission %q; known are %s",
				p, joinPermissions(access.Owner.Permissions()))
		}
		if !slices.Contains(role.Permissions(), p) {
			return fault.Invalid("permissions", "the role %s does not have the permission %s", role, p)
		}
	}
	return nil
}

func joinPermissions(permissions []access.Permission) string {
	words := make([]string, len(permissions))
	for i, p := range permissions {
		words[i] = string(p)
	}
	return strings.Join(words, " ")
}

// splitPermissions keeps unknown words: a permission of a newer version must survive a downgrade.
func splitPermissions(joined string) []access.Permission {
	permissions := []access.Permission{}
	for word := range strings.FieldsSeq(joined) {
		permissions = append(permissions, access.Permission(word))
	}
	return permissions
}

// checkAddress refuses a key that does not work from the client's address.
func (s *Service) checkAddress(ctx context.Context, h holder) error {
	return s.refusals.Check(ctx, keyrules.Use{DB: s.DB, Log: s.Log, Caller: h.caller, KeyName: h.keyName, Allowed: h.allowed})
}

// checkPolicy refuses a new key that somebody asks for against the organisation's
// policy. It is called where a person asks for a key. Keys that follow from something else (logins,
// invitations) are only shortened to the policy; see insertNewKey.
func checkPolicy(ctx context.Context, tx *store.Tx, n NewKey) error {
	policy, err := keyrules.Load(ctx, tx, n.OrgID)
	if err != nil {
		return err
	}
	return policy.Check(n.ExpiresAt, n.AllowedIPs)
}

// Violations names the parts of the policy that an active key does not follow. Keys that don't work
// any more, and those of trusted publishers, which live for minutes, are left out.
func (k Key) Violations(p keyrules.Policy) []string {
	if k.State() != keyActive || k.EntryID != nil {
		return nil
	}
	return p.Violations(keyrules.Subject{CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, Allowed: k.AllowedIPs, Login: k.Login})
}
