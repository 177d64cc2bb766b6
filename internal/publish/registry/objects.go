package registry

import (
	"context"
	"io"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A version owns its objects in the bucket: the archive as it was sent and,
// where that differs, the canonical archive that discovery serves. They are
// stored before the transaction that inserts the version, so a version that
// exists has its bytes, and are deleted by a job that commits with the deletion
// of the version. Objects that a crash leaves without a version are orphans:
// the daily sweep deletes them.
//
// Equal archives of two versions are stored twice, on purpose: sharing them
// takes reference counts and a protocol between pushes and deletions. Versions
// from before schema 33 still share objects, whose keys are their SHA-256.

const (
	objectPrefix = "registry/"
	// sharedPrefix begins the keys of objects from before schema 33, e.g.
	// "sha256/ab/ab…". No new version refers to one.
	sharedPrefix = "sha256/"
)

// objectKey returns the key of an object of a version, e.g.
// "registry/ab/ab….0198…": the hash lets backup and doctor check the content,
// and its first digits spread files over 256 directories.
func objectKey(versionID, hash string) string {
	return objectPrefix + hash[:2] + "/" + hash + "." + versionID
}

// putObjects stores the objects of a version.
func (s *Service) putObjects(ctx context.Context, d draft) error {
	v := d.version
	err := s.Blobs.Put(ctx, v.archiveKey, io.NewSectionReader(d.archive, 0, v.Size), v.Size)
	if err != nil || d.canonical == nil {
		return err
	}
	return s.Blobs.Put(ctx, *v.canonicalKey, d.canonical.Reader(), d.canonical.Size())
}

// deleteObjects deletes the objects of a version that was not inserted. A
// failure is only logged: the sweep finds what is left.
func (s *Service) deleteObjects(ctx context.Context, v Version) {
	ctx = context.WithoutCancel(ctx)
	for _, key := range v.objectKeys() {
		if err := s.Blobs.Delete(ctx, key); err != nil {
			s.Log.Warn("an unused archive waits for the sweep", "key", key, "error", err)
		}
	}
}

// objectKeys returns the keys of a version's objects, each once.
func (v Version) objectKeys() []string {
	keys := []string{v.archiveKey}
	if v.canonicalKey != nil && *v.canonicalKey != v.archiveKey {
		keys = append(keys, *v.canonicalKey)
	}
	return keys
}

// maxKeys is how many keys one removeBlobs job holds.
const maxKeys = 500

// removeBlobs deletes objects unless a version refers to them, as it may to
// shared ones. One without a version stays so: keys are never used again.
func (s *Service) removeBlobs(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil // from before schema 33
	}
	alive, err := referredKeys(ctx, s.DB, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if slices.Contains(alive, key) {
			continue
		}
		if err := s.Blobs.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// sweepBlobs deletes the orphans.
func (s *Service) sweepBlobs(ctx context.Context) error {
	alive := func(ctx context.Context, keys []string) ([]string, error) { return referredKeys(ctx, s.DB, keys) }
	for _, prefix := range []string{objectPrefix, sharedPrefix} {
		if _, err := (blob.Sweep{Bucket: s.Blobs, Prefix: prefix, Alive: alive}).Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stored says how the archives of organisations are counted anew for their
// quotas: those of all versions, as they were sent.
func Stored() quota.Count { return quota.Count{Kind: quota.Registry, SQL: archiveBytes} }

// References calls fn for every object that a version refers to.
func (s *Service) References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error {
	return eachKey(ctx, q, func(key string) error {
		sum, _ := blob.ContentSum(key)
		return fn(blob.Ref{Key: key, SHA256: sum})
	})
}
