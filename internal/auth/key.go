package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Key is an API key as the service knows it; the raw key is kept nowhere.
type Key struct {
	ID     string
	OrgID  string
	UserID string
	Name   string
	Prefix string
	// Permissions narrows what the holder's role allows; nil leaves it as it is.
	Permissions []access.Permission
	CreatedAt   time.Time
	LastUsedAt  *time.Time
	ExpiresAt   *time.Time
	RevokedAt   *time.Time
	// CreatedByKey is the id of the key that made or approved this one; nil if it
	// was made on the server.
	CreatedByKey *string
	// Login says that it came from a device login: it is revoked together with the
	// key that approved it.
	Login bool
	// Relay says that the key passes on what others contribute, and may name them.
	Relay bool
}

// State says whether a key is active, expired or revoked.
func (k Key) State() string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && !k.ExpiresAt.After(time.Now()):
		return "expired"
	}
	return "active"
}

// checkGood refuses a key that was revoked or has expired.
func checkGood(revokedAt, expiresAt *time.Time) error {
	if revokedAt != nil {
		return fault.New(fault.Unauthorized, "This API key was revoked")
	}
	if expiresAt != nil && !expiresAt.After(time.Now()) {
		return fault.New(fault.Unauthorized, "This API key has expired")
	}
	return nil
}

// NewKey describes a key to be made.
type NewKey struct {
	OrgID       string
	UserID      string
	Name        string
	Permissions []access.Permission // nil: all that the role gives
	ExpiresAt   *time.Time
	Relay       bool

	createdByKey *string
	login        bool
}

// inherit keeps the key within the lifetime of the one that makes or approves
// it, and notes which one that is.
func (k *NewKey) inherit(parent Key) error {
	k.createdByKey = &parent.ID
	if k.ExpiresAt == nil {
		k.ExpiresAt = parent.ExpiresAt
	}
	if parent.ExpiresAt != nil && k.ExpiresAt.After(*parent.ExpiresAt) {
		return fault.Invalid("expires_at", "expires_at must not be later than %s, when the key you use expires; "+
			"leave it out, or use a key that lasts longer", parent.ExpiresAt.UTC().Format(time.RFC3339))
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

// goodKey is what a key may look like: an operator's own bootstrap key may be
// shorter or longer than ours, but not guessable.
var goodKey = regexp.MustCompile(`^st_(live|test)_[A-Za-z0-9_-]{16,200}$`)

// CheckRawKey reports whether an operator's own key is fit to be one.
func CheckRawKey(raw string) error {
	if !goodKey.MatchString(raw) {
		return fault.Invalid("bootstrap-key", "bootstrap-key must be %s or %s and 16 to 200 letters, digits, hyphens or underscores", livePrefix, testPrefix)
	}
	return nil
}

func newRawKey() string { return livePrefix + randomText(base62, keyLength) }

// randomText draws n characters of the alphabet.
func randomText(alphabet string, n int) string {
	var b strings.Builder
	for range n {
		i, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			panic(err) // the system has no randomness; nothing can go on
		}
		b.WriteByte(alphabet[i.Int64()])
	}
	return b.String()
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func shownPrefix(raw string) string { return raw[:min(len(raw), shownLength)] }

// narrow returns what a key may do: the role's permissions, and of those only
// the ones the key names or includes.
func narrow(role access.Role, permissions []access.Permission) []access.Permission {
	all := role.Permissions()
	if permissions == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(p access.Permission) bool {
		return !access.Allows(permissions, p)
	})
}

func (k NewKey) check(role access.Role) error {
	if k.Name == "" || utf8.RuneCountInString(k.Name) > maxName {
		return fault.Invalid("name", "name must have 1 to %d characters", maxName)
	}
	if k.ExpiresAt != nil && !k.ExpiresAt.After(time.Now()) {
		return fault.Invalid("expires_at", "expires_at must lie in the future")
	}
	for _, p := range k.Permissions {
		if !slices.Contains(access.Owner.Permissions(), p) {
			return fault.Invalid("permissions", "unknown permission %q; known are %s", p, joinPermissions(access.Owner.Permissions()))
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

func splitPermissions(joined string) []access.Permission {
	permissions := []access.Permission{}
	for word := range strings.FieldsSeq(joined) {
		permissions = append(permissions, access.Permission(word))
	}
	return permissions
}
