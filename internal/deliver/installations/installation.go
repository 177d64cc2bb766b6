// Package installations records which entries of the registry are installed on
// whose machines, and finds those that have an update. It owns the tables
// registry_installations, registry_sayings, installation_changes, installation_machines and
// installation_holdings.
package installations

import "time"

// An Installation is an entry on a user's machine, as last reported.
type Installation struct {
	ID          string
	EntryID     string
	UserID      string
	DeviceID    string
	InstallPath string
	ContentHash string // of what is there; empty when that is not known
	Client      string // that installed it, e.g. "clawhub"; empty when that is not known
	InstalledAt time.Time
	LastSeenAt  time.Time
}

// A State is an installation and the current version of its entry.
type State struct {
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
func (i State) Status() SyncStatus {
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

// New is the input of Install: what was installed where.
type New struct {
	EntryID     string
	DeviceID    string
	InstallPath string
	ContentHash string // empty: the current version; "none": nothing yet
	Client      string // e.g. "clawhub" or "whetstone/1.2.0"
}

const (
	maxPath = 1024
	// maxInstallations is how many records of an entry a user may have; the one that
	// was seen least recently is dropped.
	maxInstallations = 1_000
	// maxChanges is how many changes of an entry on a device, and on all devices of
	// a user taken together, are kept. The oldest are dropped.
	maxChanges = 200
)
