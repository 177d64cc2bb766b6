package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

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

	latestKey string // of the archive in the bucket; with an update only
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
	asked := question{orgID: c.OrgID, sum: sumOf(items)}
	compared, err := s.compare(ctx, asked, items)
	if err != nil {
		return nil, err
	}
	if results, err = s.withLinks(ctx, compared); err != nil {
		return nil, err
	}
	if refresh {
		return results, s.refresh(ctx, saying{userID: c.UserID, sum: asked.sum, at: store.Now()}, items)
	}
	return results, nil
}

// A question is the items of an organisation's client. Clients ask the same
// again and again, and mostly nothing has changed since.
type question struct{ orgID, sum string }

// An answer holds for as long as the organisation's entries do not change.
type answer struct {
	changes int64
	results []SyncResult // without links
}

// compare finds the current version of each item's entry. It remembers answers
// that are about the organisation's own entries alone: the database says
// whether one of those has changed.
func (s *Service) compare(ctx context.Context, asked question, items []SyncItem) ([]SyncResult, error) {
	changes, err := changesOf(ctx, s.DB, asked.orgID)
	if err != nil {
		return nil, err
	}
	answers := s.remembered().answers
	if a, ok := answers.Get(asked); ok && a.changes == changes {
		return a.results, nil
	}
	latest, err := latestVersions(ctx, s.DB, asked.orgID, entryIDs(items))
	if err != nil {
		return nil, err
	}
	old := outdated(items, latest)
	known, err := knownVersions(ctx, s.DB, old)
	if err != nil {
		return nil, err
	}
	if err := addArchiveKeys(ctx, s.DB, old, latest); err != nil {
		return nil, err
	}
	results, allOwn := []SyncResult{}, true
	for _, item := range items {
		l, visible := latest[item.EntryID]
		allOwn = allOwn && l.own
		if visible {
			results = append(results, item.result(l, known))
		}
	}
	if allOwn {
		answers.Put(asked, answer{changes, results}, int64(len(results)))
	}
	return results, nil
}

func entryIDs(items []SyncItem) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.EntryID
	}
	return ids
}

// SyncInstalled is Sync for what the caller has on record.
func (s *Service) SyncInstalled(ctx context.Context, c access.Caller) ([]SyncResult, error) {
	states, err := installationsOfUser(ctx, s.DB, c)
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

func (i SyncItem) result(l latestVersion, known map[SyncItem]string) SyncResult {
	r := SyncResult{EntryID: i.EntryID, Name: l.name, Latest: l.version, LatestHash: l.hash}
	if i.Hash == l.hash {
		r.Current = &l.version
		return r
	}
	r.HasUpdate, r.latestKey = true, l.archiveKey
	if version, ok := known[SyncItem{EntryID: i.EntryID, Hash: i.Hash}]; ok {
		r.Current = &version
	}
	return r
}

// withLinks returns a copy of the results in which every update has its link.
func (s *Service) withLinks(ctx context.Context, compared []SyncResult) ([]SyncResult, error) {
	results := slices.Clone(compared)
	expires := store.Now().Add(downloadLife)
	for i := range results {
		r := &results[i]
		if !r.HasUpdate {
			continue
		}
		link, err := s.Blobs.SignedURL(ctx, r.latestKey, blob.SignOptions{
			Expires: downloadLife, Filename: archiveName(r.Name, r.Latest), ContentType: "application/gzip",
		})
		if err != nil {
			return nil, err
		}
		r.DownloadURL, r.ExpiresAt = link, &expires
	}
	return results, nil
}

func archiveName(name, version string) string { return name + "-" + version + ".tar.gz" }

// refresh writes what the items say into the caller's installation records:
// only where it is news, or was last heard a while ago. Clients ask the same
// again and again, so what they said last is remembered, and the records need
// not even be read.
func (s *Service) refresh(ctx context.Context, said saying, items []SyncItem) error {
	if known, err := heard(ctx, s.DB, said); err != nil || known {
		return err
	}
	records, err := recordsOfUser(ctx, s.DB, said.userID)
	if err != nil {
		return err
	}
	changed := changedInstallations(records, items)
	return s.DB.InGroup(ctx, func(tx *store.Tx) error {
		if len(changed) > 0 {
			if err := updateInstallations(ctx, tx, changed); err != nil {
				return err
			}
			if err := forgetSayings(ctx, tx, said.userID); err != nil {
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
	const usual = 128 // bytes of an item
	said := make([]byte, 0, usual*len(items))
	for _, i := range items {
		for _, text := range [...]string{i.EntryID, i.Hash, i.DeviceID, i.InstallPath} {
			said = append(append(said, text...), 0)
		}
	}
	sum := sha256.Sum256(said)
	return hex.EncodeToString(sum[:])
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
