// Package members lets people in and out of organisations: invitations by link, and
// the API of members and their roles. It owns the tables invitations and
// invitation_mails.
package members

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
)

// An Invitation lets one person become a member. Its token is stored as a hash.
type Invitation struct {
	ID         string
	OrgID      string
	Role       access.Role
	Email      *string // nil: whoever accepts says it
	CreatedBy  *string // a user; nil: made on the server
	KeyID      *string // with which it was made
	CreatedAt  time.Time
	ExpiresAt  time.Time
	AcceptedAt *time.Time
	AcceptedBy *string // the user that it made
	RevokedAt  *time.Time
	Mail       *delivery.Progress // with the link; nil if none is sent
}

// The states of an invitation.
const (
	Pending  = "pending"
	Accepted = "accepted"
	Expired  = "expired"
	Revoked  = "revoked" // deleted, or the inviter was removed
)

// State is Pending, Accepted, Expired or Revoked. Whether it was accepted counts first: an accepted
// invitation doesn't expire.
func (i Invitation) State() string {
	switch {
	case i.AcceptedAt != nil:
		return Accepted
	case i.RevokedAt != nil:
		return Revoked
	case !i.ExpiresAt.After(time.Now()):
		return Expired
	}
	return Pending
}

// refusal is why an invitation that is not pending cannot be used. The messages say what happened,
// as only somebody with the link sees them.
func (i Invitation) refusal() error {
	switch i.State() {
	case Accepted:
		return fault.New(fault.Conflict, "This invitation was used already: a link works once; ask for a new one")
	case Expired:
		return fault.New(fault.Conflict, "This invitation expired on %s; ask for a new one",
			i.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC"))
	case Revoked:
		return fault.New(fault.Conflict, "This invitation was withdrawn; ask for a new one")
	}
	return nil
}

func (i Invitation) target() audit.Target {
	t := audit.Target{Kind: "invitation", ID: i.ID, Name: "for a " + string(i.Role)}
	if i.Email != nil {
		t.Name = "of " + *i.Email
	}
	return t
}

// NewInvitation describes an invitation to make.
type NewInvitation struct {
	Role      access.Role
	Email     string     // "": whoever accepts says it
	ExpiresAt *time.Time // nil: after DefaultLifetime, or with the key that makes it
}

const (
	prefix      = "inv_"
	tokenLength = 43 // characters after the prefix
	// DefaultLifetime is how long an invitation lasts unless it says otherwise.
	DefaultLifetime = 7 * 24 * time.Hour
	// MaxLifetime is the longest that can be asked for.
	MaxLifetime = 30 * 24 * time.Hour
	// kept is how long an invitation is listed after it has expired, and its link says
	// what became of it.
	kept = 30 * 24 * time.Hour
	// maxPending is how many invitations of an organisation may be pending.
	maxPending = 1_000
	maxName    = 100 // characters of a person's name
)

// pattern matches tokens.
var pattern = regexp.MustCompile(`^` + prefix + `[0-9A-Za-z]{43}$`)

func newToken() string { return auth.NewSecret(prefix) }

// hash is how a token is stored: SHA-256, which is enough for 256 random bits. The database never
// has what could be used.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
