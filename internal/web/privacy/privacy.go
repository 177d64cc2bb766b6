// Package privacy lets organisations and people take what is theirs with them: an
// archive of all that an organisation has, its deletion, and a file of all that a
// person has. It owns the tables organisation_exports and organisation_deletions.
package privacy

import (
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service exports and deletes organisations.
type Service struct {
	DB    *store.DB
	Blobs blob.Bucket
	Jobs  *jobs.Queue
	Auth  *auth.Service
	Log   *slog.Logger
	// Settle is how long after the end of an organisation its rows are deleted: until
	// then requests that began before may write. 0 means 5 s.
	Settle time.Duration
}

// An Export is an archive of an organisation, or one that is being made.
type Export struct {
	ID         string
	OrgID      string
	CreatedBy  string // a user
	State      State
	Rows       int64 // that are in the archive so far
	Blobs      int64
	Size       int64  // of the archive in bytes; 0 until it is done
	SHA256     string // of the archive; "" until it is done
	CreatedAt  time.Time
	FinishedAt *time.Time
	ExpiresAt  *time.Time // when the archive is deleted
	Error      *string    // why it failed; safe to show
}

// A State is what became of an export.
type State string

// The states.
const (
	Queued  State = "queued"
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Expired State = "expired"
)

const (
	// Lifetime is how long an archive can be downloaded.
	Lifetime = 24 * time.Hour
	// linkLifetime is how long a link to it works.
	linkLifetime = 15 * time.Minute
	// stale is the age at which an export that is not done has failed: the attempts of
	// its job are used up by then.
	stale = 24 * time.Hour
	// kept is how long an export is listed.
	kept = 30 * 24 * time.Hour

	prefix = "exports/"
	// deleted is the action of the audit entry that the operator keeps.
	deleted = "privacy.organisation.delete"
)

func (e Export) key() string { return prefix + e.OrgID + "/" + e.ID + ".zip" }

// over reports whether the export has come to its end.
func (e Export) over() bool { return e.State != Queued && e.State != Running }

// checkWhole refuses keys that do not have all permissions of their holder: the archive
// has what every one of them protects.
func checkWhole(c access.Caller) error {
	if c.Role != access.Owner || c.Narrowed() {
		return fault.New(fault.Denied, "Only an owner, with a key that has all permissions, can do this")
	}
	return nil
}

// CheckOwn refuses narrowed keys, which do not see all that their holder does.
func CheckOwn(c access.Caller) error {
	if c.Narrowed() {
		return fault.New(fault.Denied, "Your key has fewer permissions than the role %s; use one that has them all", c.Role)
	}
	return nil
}
