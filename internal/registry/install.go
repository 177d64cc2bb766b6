package registry

import (
	"cmp"
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// An Installation is an entry on a user's machine, as last reported.
type Installation struct {
	ID          string
	EntryID     string
	UserID      string
	DeviceID    string
	InstallPath string
	ContentHash string // of what is there; empty when that is not known
	InstalledAt time.Time
	LastSeenAt  time.Time
}

// InstallationState is an installation and the current version of its entry.
type InstallationState struct {
	Installation
	EntryName     string
	Version       *string // the version that is installed, nil if the hash is no version's
	LatestVersion string
	LatestHash    string
	UserName      string
	UserEmail     string
}

// A SyncStatus says how an installation relates to the current version.
type SyncStatus string

// The sync statuses.
const (
	UpToDate SyncStatus = "up_to_date"
	Behind   SyncStatus = "behind"
	Modified SyncStatus = "modified" // drift: its hash is no version's
	Unknown  SyncStatus = "unknown"  // the client did not report a hash
)

// Status compares the installation with the current version, to detect drift.
func (i InstallationState) Status() SyncStatus {
	switch {
	case i.ContentHash == "":
		return Unknown
	case i.ContentHash == i.LatestHash:
		return UpToDate
	case i.Version != nil:
		return Behind
	}
	return Modified
}

// noHash is what a client reports when nothing is installed yet.
const noHash = "none"

// recordedHash is a client's hash as installation records have it.
func recordedHash(hash string) string {
	if hash == noHash {
		return ""
	}
	return hash
}

// NewInstallation says what was installed where.
type NewInstallation struct {
	EntryID     string
	DeviceID    string
	InstallPath string
	ContentHash string // empty: the current version; "none": nothing yet
}

const (
	maxPath = 1024
	// maxInstallations is how many records of an entry a user may have; the one
	// that was seen least recently is dropped.
	maxInstallations = 1_000
)

// Install records that the caller installed an entry. A second record of the
// same user, device and path replaces the first.
func (s *Service) Install(ctx context.Context, c access.Caller, n NewInstallation) (state InstallationState, err error) {
	defer fault.Wrap(&err, "install entry %s", n.EntryID)
	var issues []fault.Issue
	issues = append(issues, checkText("install_path", n.InstallPath, maxPath)...)
	issues = append(issues, checkText("device_id", n.DeviceID, maxPath)...)
	issues = append(issues, checkText("content_hash", n.ContentHash, 64)...)
	if len(issues) > 0 {
		return state, fault.Issues(issues...)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := lockVisible(ctx, tx, c.OrgID, n.EntryID)
		if err != nil {
			return err
		}
		n := n
		n.ContentHash = recordedHash(cmp.Or(n.ContentHash, e.CurrentHash))
		id, err := upsertInstallation(ctx, tx, c, n)
		if err != nil {
			return err
		}
		if err := deleteReports(ctx, tx, c.UserID); err != nil {
			return err
		}
		if state, err = installationByID(ctx, tx, id); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "registry.installation.record", Target: audit.Target{Kind: "entry", ID: e.ID, Name: e.Name},
			Detail: audit.Detail{"device": n.DeviceID},
		})
	})
	return state, err
}

// Installations lists who of the caller's organisation installed an entry.
func (s *Service) Installations(ctx context.Context, orgID, entryID string) ([]InstallationState, error) {
	if _, err := visibleEntry(ctx, s.DB, orgID, entryID); err != nil {
		return nil, err
	}
	return installationsOfEntry(ctx, s.DB, orgID, entryID)
}

// Installed lists what the caller installed.
func (s *Service) Installed(ctx context.Context, c access.Caller) ([]InstallationState, error) {
	return installationsOfUser(ctx, s.DB, c)
}
