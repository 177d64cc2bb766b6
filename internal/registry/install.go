package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// An Installation is an entry on somebody's machine, as last heard of.
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

// InstallationState is an installation beside what the registry has now.
type InstallationState struct {
	Installation
	EntryName     string
	Version       *string // the version that is installed, nil for none of ours
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
	Modified SyncStatus = "modified" // its hash is that of no version
	Unknown  SyncStatus = "unknown"  // the client did not say what it has
)

// Status compares the installation with the current version.
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

// noHash is how a client says that it has nothing yet.
const noHash = "none"

// recorded is a client's hash as installations keep it.
func recorded(hash string) string {
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

const maxPath = 1024

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
		n.ContentHash = recorded(cmp.Or(n.ContentHash, e.CurrentHash))
		id, err := upsertInstallation(ctx, tx, c, n)
		if err != nil {
			return err
		}
		if err := forgetSayings(ctx, tx, c.UserID); err != nil {
			return err
		}
		state, err = installationByID(ctx, tx, id)
		return err
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
	return installationsOfUser(ctx, s.DB, c.UserID)
}

// A SyncItem is what a client has of an entry.
type SyncItem struct {
	EntryID string
	Hash    string // empty or "none": nothing yet
	// DeviceID and InstallPath tell installations of one entry apart.
	DeviceID, InstallPath string
}

// A SyncResult says whether an entry has an update for the client.
type SyncResult struct {
	EntryID     string
	Name        string
	HasUpdate   bool
	Current     *string // the version that the client has, nil for none of ours
	Latest      string
	LatestHash  string
	DownloadURL string // with an update only
	ExpiresAt   *time.Time
}

const (
	// MaxSync is how many items one sync may ask about.
	MaxSync = 1000
	maxHash = 64
	// downloadLife is how long a download URL holds.
	downloadLife = 15 * time.Minute
	// seenEvery spares the database a write when a client asks again soon.
	seenEvery = 10 * time.Minute
)

// Sync tells which of the items have updates. Entries that the caller may not
// see are left out. With refresh, the caller's installation records learn
// what the items say.
func (s *Service) Sync(ctx context.Context, c access.Caller, items []SyncItem, refresh bool) (results []SyncResult, err error) {
	defer fault.Wrap(&err, "sync")
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.EntryID
	}
	latest, err := latestVersions(ctx, s.DB, c.OrgID, ids)
	if err != nil {
		return nil, err
	}
	known, err := knownVersions(ctx, s.DB, outdated(items, latest))
	if err != nil {
		return nil, err
	}
	results = []SyncResult{}
	for _, item := range items {
		l, visible := latest[item.EntryID]
		if !visible {
			continue
		}
		r, err := s.compare(ctx, item, l, known)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	if refresh {
		return results, s.refresh(ctx, c, items)
	}
	return results, nil
}

// SyncInstalled is Sync for what the caller has on record.
func (s *Service) SyncInstalled(ctx context.Context, c access.Caller) ([]SyncResult, error) {
	states, err := installationsOfUser(ctx, s.DB, c.UserID)
	if err != nil {
		return nil, err
	}
	items := make([]SyncItem, len(states))
	for i, state := range states {
		items[i] = SyncItem{EntryID: state.EntryID, Hash: state.ContentHash}
	}
	return s.Sync(ctx, c, items, false)
}

func outdated(items []SyncItem, latest map[string]latestVersion) []SyncItem {
	var old []SyncItem
	for _, item := range items {
		if l, ok := latest[item.EntryID]; ok && l.hash != item.Hash {
			old = append(old, item)
		}
	}
	return old
}

func (s *Service) compare(ctx context.Context, item SyncItem, l latestVersion, known map[SyncItem]string) (SyncResult, error) {
	r := SyncResult{EntryID: item.EntryID, Name: l.name, Latest: l.version, LatestHash: l.hash}
	if item.Hash == l.hash {
		r.Current = &l.version
		return r, nil
	}
	if version, ok := known[SyncItem{EntryID: item.EntryID, Hash: item.Hash}]; ok {
		r.Current = &version
	}
	expires := store.Now().Add(downloadLife)
	link, err := s.Blobs.SignedURL(ctx, blob.ContentKey(l.hash), blob.SignOptions{
		Expires: downloadLife, Filename: archiveName(l.name, l.version), ContentType: "application/gzip",
	})
	r.HasUpdate, r.DownloadURL, r.ExpiresAt = true, link, &expires
	return r, err
}

func archiveName(name, version string) string { return name + "-" + version + ".tar.gz" }

// refresh writes what the items say into the caller's installation records:
// only where it is news, or was last heard a while ago. Clients ask the same
// again and again, so what they said last is remembered, and the records need
// not even be read.
func (s *Service) refresh(ctx context.Context, c access.Caller, items []SyncItem) error {
	said := saying{userID: c.UserID, sum: sumOf(items), at: store.Now()}
	if known, err := heard(ctx, s.DB, said); err != nil || known {
		return err
	}
	records, err := recordsOfUser(ctx, s.DB, c.UserID)
	if err != nil {
		return err
	}
	changed := changedInstallations(records, items)
	return s.DB.InGroup(ctx, func(tx *store.Tx) error {
		if len(changed) > 0 {
			if err := updateInstallations(ctx, tx, changed); err != nil {
				return err
			}
			if err := forgetSayings(ctx, tx, c.UserID); err != nil {
				return err
			}
		}
		return remember(ctx, tx, said)
	})
}

// A saying is all that a client once said about its installations.
type saying struct {
	userID, sum string
	at          time.Time
}

func sumOf(items []SyncItem) string {
	h := sha256.New()
	for _, i := range items {
		h.Write(fmt.Appendf(nil, "%s\n%s\n%s\n%s\n", i.EntryID, i.Hash, i.DeviceID, i.InstallPath))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func changedInstallations(records []Installation, items []SyncItem) []Installation {
	byEntry := map[string][]SyncItem{}
	for _, item := range items {
		byEntry[item.EntryID] = append(byEntry[item.EntryID], item)
	}
	count := map[string]int{}
	for _, i := range records {
		count[i.EntryID]++
	}
	at := store.Now()
	var changed []Installation
	for _, i := range records {
		item, ok := sameInstallation(i, byEntry[i.EntryID], count[i.EntryID])
		hash := recorded(item.Hash)
		if !ok || hash == i.ContentHash && at.Sub(i.LastSeenAt) < seenEvery {
			continue
		}
		i.ContentHash, i.LastSeenAt = hash, at
		changed = append(changed, i)
	}
	return changed
}

// sameInstallation finds the item that speaks of this installation, best one
// that names its place. Where a user has an entry in several places and the
// item does not say which, only one with the same content is meant.
func sameInstallation(i Installation, items []SyncItem, places int) (found SyncItem, ok bool) {
	for _, item := range items {
		named := item.DeviceID != "" || item.InstallPath != ""
		if named && item.DeviceID == i.DeviceID && item.InstallPath == i.InstallPath {
			return item, true
		}
		if !ok && !named && (places == 1 || recorded(item.Hash) == i.ContentHash) {
			found, ok = item, true
		}
	}
	return found, ok
}
