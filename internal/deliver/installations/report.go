package installations

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// report writes the items to the user's installation records where they differ
// or were last written a while ago. A report that is repeated within
// reportEvery is deduplicated by its digest, without reading the records
// (p50 2.4 instead of 6.0 ms for 1,000 items, bench sync).
func (s *Service) report(ctx context.Context, c access.Caller, r lastReport, items []SyncItem) error {
	// Clients report at every start of an agent, nearly always the same.
	if known, err := reportedRecently(ctx, s.DB, r); err != nil || known {
		return err
	}
	records, err := recordsOfUser(ctx, s.DB, c.UserID)
	if err != nil {
		return err
	}
	m := newMatching(records, items)
	if err := m.readVersions(ctx, s.Registry, c.OrgID); err != nil {
		return err
	}
	changed := m.run(r.at)
	return s.DB.InGroup(ctx, func(tx *store.Tx) error {
		if len(changed) > 0 {
			if err := lockRecords(ctx, tx, c.UserID, m.moved); err != nil {
				return err
			}
			if err := updateInstallations(ctx, tx, changed); err != nil {
				return err
			}
			if err := recordChanges(ctx, tx, c.UserID, m.moved); err != nil {
				return err
			}
			var devices []string
			for _, r := range changed {
				if slices.Contains(m.moved, r.EntryID) {
					devices = append(devices, r.DeviceID)
				}
			}
			if err := recount(ctx, tx, c.OrgID, c.UserID, devices); err != nil {
				return err
			}
			if err := deleteReports(ctx, tx, c.UserID); err != nil {
				return err
			}
		}
		if len(m.ambiguous) > 0 {
			return nil // the same report of another machine is news
		}
		return upsertReport(ctx, tx, r)
	})
}

// A matching finds which of a user's records the items of a report are about.
//
// An item that names a device or a path is about that record. Many clients send
// neither, not even from several machines of one person. Their items are about
// records by the hash that those are at:
//
//   - "none" is about no record: it comes from a machine without the skill, and
//     must not wipe the record of another.
//   - The hash of the current version is about a record that was reported at an
//     older one since the update is there: that machine has been offered the
//     update, and now has it.
//   - Any other hash is about a record that is at it, or else about the only
//     record. If there are several, and it is a version's, one of them is now at
//     that version.
//
// Of several records that qualify, the one that was seen least recently is meant,
// so that reports of two machines are about two records. A guess that is wrong is
// corrected by the next report of the machine whose record was taken.
type matching struct {
	records map[string][]*Installation // by entry
	items   map[string][]SyncItem
	// ambiguous are the entries with several records and an item that names none.
	ambiguous []string
	// moved are the entries with a record whose hash changes.
	moved []string

	// What follows is known of ambiguous entries only.
	latest map[string]registry.Latest
	since  map[string]time.Time // when the latest version became current
	known  map[registry.Content]string
}

// newMatching groups records and items by entry. Records are pointers, so that run
// can change them in place.
func newMatching(records []Installation, items []SyncItem) *matching {
	m := &matching{records: map[string][]*Installation{}, items: map[string][]SyncItem{}}
	for i := range records {
		r := &records[i]
		m.records[r.EntryID] = append(m.records[r.EntryID], r)
	}
	for _, item := range items {
		if !item.placed() && recordedHash(item.Hash) == "" {
			continue // about no record
		}
		m.items[item.EntryID] = append(m.items[item.EntryID], item)
		if !item.placed() && len(m.records[item.EntryID]) > 1 && !slices.Contains(m.ambiguous, item.EntryID) {
			m.ambiguous = append(m.ambiguous, item.EntryID)
		}
	}
	return m
}

// placed reports whether the item names its record.
func (i SyncItem) placed() bool { return i.DeviceID != "" || i.InstallPath != "" }

// readVersions reads what decides about ambiguous entries.
func (m *matching) readVersions(ctx context.Context, r *registry.Service, orgID string) (err error) {
	if len(m.ambiguous) == 0 {
		return nil
	}
	var contents []registry.Content
	for _, entryID := range m.ambiguous {
		for _, item := range m.items[entryID] {
			contents = append(contents, item.content())
		}
	}
	if m.latest, err = r.LatestVersions(ctx, orgID, m.ambiguous); err != nil {
		return err
	}
	if m.since, err = r.CurrentSince(ctx, m.ambiguous); err != nil {
		return err
	}
	m.known, err = r.KnownVersions(ctx, contents)
	return err
}

// run returns the records that change.
func (m *matching) run(now time.Time) (changed []Installation) {
	for entryID, records := range m.records {
		items := m.items[entryID]
		slices.SortStableFunc(items, func(a, b SyncItem) int { return cmp.Compare(m.rank(a), m.rank(b)) })
		for _, item := range items {
			r := m.match(records, item)
			if r == nil {
				continue
			}
			records = slices.DeleteFunc(records, func(other *Installation) bool { return other == r })
			hash := recordedHash(item.Hash)
			if hash == r.ContentHash && now.Sub(r.LastSeenAt) < reportEvery && !m.becomesOffered(r) {
				continue
			}
			if hash != r.ContentHash && !slices.Contains(m.moved, entryID) {
				m.moved = append(m.moved, entryID)
			}
			r.ContentHash, r.LastSeenAt = hash, now
			changed = append(changed, *r)
		}
	}
	return changed
}

// rank orders the items of an entry by how sure it is which record they are
// about. Each takes its record away from those after it.
func (m *matching) rank(i SyncItem) int {
	switch {
	case i.placed():
		return 0
	case i.Hash != m.latest[i.EntryID].Hash:
		return 1
	}
	return 2
}

// match finds the record that an item is about, or nil.
func (m *matching) match(records []*Installation, item SyncItem) *Installation {
	if item.placed() {
		return pick(records, func(r *Installation) bool {
			return r.DeviceID == item.DeviceID && r.InstallPath == item.InstallPath
		})
	}
	if item.Hash == m.latest[item.EntryID].Hash {
		if r := pick(records, m.offered); r != nil {
			return r
		}
	}
	if r := pick(records, func(r *Installation) bool { return r.ContentHash == item.Hash }); r != nil {
		return r
	}
	if _, version := m.known[item.content()]; !version && slices.Contains(m.ambiguous, item.EntryID) {
		return nil // a copy that was edited: which one, nothing says
	}
	return pick(records, func(*Installation) bool { return true })
}

// pick returns the least recently seen of the records that qualify, or nil.
func pick(records []*Installation, qualifies func(*Installation) bool) (found *Installation) {
	for _, r := range records {
		if qualifies(r) && (found == nil || r.LastSeenAt.Before(found.LastSeenAt)) {
			found = r
		}
	}
	return found
}

// offered reports whether the record's hash was reported since it was installed
// and since another version is current: the answer had the link to that version.
func (m *matching) offered(r *Installation) bool {
	since, ambiguous := m.since[r.EntryID]
	return ambiguous && r.ContentHash != m.latest[r.EntryID].Hash &&
		r.LastSeenAt.After(since) && r.LastSeenAt.After(r.InstalledAt)
}

// becomesOffered reports whether a report of the record's hash, now, would make
// it offered. That must be written, however recently the record was.
func (m *matching) becomesOffered(r *Installation) bool {
	_, ambiguous := m.since[r.EntryID]
	return ambiguous && r.ContentHash != m.latest[r.EntryID].Hash && !m.offered(r)
}
