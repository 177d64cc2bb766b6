package registry

import (
	"context"
	"time"
)

// Latest is the current version of an entry, for clients that check for updates.
type Latest struct {
	Name, VersionID, Version, Hash string
	Own                            bool // the caller's organisation owns the entry
}

// LatestVersions returns current versions by entry id. Entries that the organisation may
// not see, and those without a current version, are left out.
func (s *Service) LatestVersions(ctx context.Context, orgID string, entryIDs []string) (map[string]Latest, error) {
	return latestVersions(ctx, s.DB, orgID, entryIDs)
}

// CurrentSince returns by entry id since when its current version has been current.
func (s *Service) CurrentSince(ctx context.Context, entryIDs []string) (map[string]time.Time, error) {
	return currentSince(ctx, s.DB, entryIDs)
}

// A Content is an archive that a client has installed, by the entry and the archive's
// hash.
type Content struct{ EntryID, Hash string }

// KnownVersions names the versions whose archives clients have. If several versions of an
// entry have the same archive, the newest wins.
func (s *Service) KnownVersions(ctx context.Context, contents []Content) (map[Content]string, error) {
	return knownVersions(ctx, s.DB, contents)
}

// ArchiveKeys returns the bucket keys of archives, by version id. Deleted versions are
// left out.
func (s *Service) ArchiveKeys(ctx context.Context, versionIDs []string) (map[string]string, error) {
	return textsOfVersions(ctx, s.DB, "archive_key", versionIDs)
}

// VersionNames returns the names of versions, e.g. "1.2.0", by version id. Deleted
// versions are left out.
func (s *Service) VersionNames(ctx context.Context, versionIDs []string) (map[string]string, error) {
	return textsOfVersions(ctx, s.DB, "version", versionIDs)
}
