package registry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Latest is the current version of an entry, for clients that compare it with
// what they have.
type Latest struct {
	Name, VersionID, Version, Hash string
	Own                            bool // by the organisation that asks
}

// LatestVersions returns the current versions of those of the entries that the
// organisation may see, by entry id.
func (s *Service) LatestVersions(ctx context.Context, orgID string, entryIDs []string) (map[string]Latest, error) {
	return latestVersions(ctx, s.DB, orgID, entryIDs)
}

// CurrentSince returns since when the current versions of the entries have been
// current, by entry id.
func (s *Service) CurrentSince(ctx context.Context, entryIDs []string) (map[string]time.Time, error) {
	return currentSince(ctx, s.DB, entryIDs)
}

// A Content is an archive that a client has of an entry.
type Content struct{ EntryID, Hash string }

// KnownVersions names the versions that have the contents. Of several with the
// same content it is the one pushed last.
func (s *Service) KnownVersions(ctx context.Context, contents []Content) (map[Content]string, error) {
	return knownVersions(ctx, s.DB, contents)
}

// ArchiveKeys returns the keys in the bucket of versions' archives, by version
// id. Versions that were deleted have none.
func (s *Service) ArchiveKeys(ctx context.Context, versionIDs []string) (map[string]string, error) {
	return textsOfVersions(ctx, s.DB, "archive_key", versionIDs)
}

// VersionNames returns what versions are called, e.g. "1.2.0", by version id.
// Versions that were deleted have none.
func (s *Service) VersionNames(ctx context.Context, versionIDs []string) (map[string]string, error) {
	return textsOfVersions(ctx, s.DB, "version", versionIDs)
}

// Changes returns a count that grows with every change of an organisation's
// entries, for caches.
func (s *Service) Changes(ctx context.Context, orgID string) (int64, error) {
	return changesOf(ctx, s.DB, orgID)
}

// LockVisible is Entry for a transaction that adds to the entry.
func (s *Service) LockVisible(ctx context.Context, tx *store.Tx, orgID, entryID string) (Entry, error) {
	return lockVisible(ctx, tx, orgID, entryID)
}

// CountInstallation counts one more user who has installed an entry, which is
// locked.
func (s *Service) CountInstallation(ctx context.Context, tx *store.Tx, e Entry) error {
	return addInstallation(ctx, tx, e)
}
