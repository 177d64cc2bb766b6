package registry

import (
	"context"
	"io"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A version owns its objects in the bucket: the archive as pushed and, if it differs, the
// canonical archive that discovery serves. They're written before the transaction that
// inserts the version, so a version that exists has its bytes, and deleted by a job that
// commits with the deletion of the version. Objects that a crash leaves without a version
// are orphans, which the daily sweep (garbage collection) deletes.
//
// Equal archives are stored twice on purpose: sharing them would take reference counts
// and a protocol between pushes and deletions. Versions from before schema 33 still share
// objects, whose keys are their SHA-256.

const (
	objectPrefix = "registry/"
	// sharedPrefix begins the keys of objects from before schema 33, e.g.
	// "sha256/ab/ab…". New versions never use it.
	sharedPrefix = "sha256/"
)

// objectKey returns the key of a version's object, e.g. "registry/ab/ab….0198…". Backup
// and doctor verify the content by the hash in the key; its first two digits spread files
// over 256 directories.
func objectKey(versionID, hash string) string {
	return objectPrefix + hash[:2] + "/" + hash + "." + versionID
}

// putObjects stores the objects of a version, before its row is inserted.
func (s *Service) putObjects(ctx context.Context, d draft) error {
	v := d.version
	err := s.Blobs.Put(ctx, v.archiveKey, io.NewSectionReader(d.archive, 0, v.Size), v.Size)
	if err != nil || d.canonical == nil {
		return err
	}
	return s.Blobs.Put(ctx, *v.canonicalKey, d.canonical.Reader(), d.canonical.Size())
}

// deleteObjects deletes the objects of a version that wasn't inserted. Failures are only
// logged, because the sweep deletes what remains.
func (s *Service) deleteObjects(ctx context.Context, v Version) {
	// The request may be cancelled by now, which is often why the insert failed.
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

// maxKeys is the batch size of removeBlobs jobs.
const maxKeys = 500

// removeBlobs deletes objects, except those that a version refers to, which shared ones
// may have. An object without a reference never gets one again, because keys aren't
// reused; so there is no race with pushes.
func (s *Service) removeBlobs(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil // jobs from before schema 33 had no keys
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

// sweepBlobs collects the garbage under both prefixes.
func (s *Service) sweepBlobs(ctx context.Context) error {
	alive := func(ctx context.Context, keys []string) ([]string, error) { return referredKeys(ctx, s.DB, keys) }
	for _, prefix := range []string{objectPrefix, sharedPrefix} {
		if _, err := (blob.Sweep{Bucket: s.Blobs, Prefix: prefix, Alive: alive}).Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stored recounts the bytes that organisations' archives use of their quotas: every
// version counts with the size of the archive as pushed.
func Stored() quota.Count { return quota.Count{Kind: quota.Registry, SQL: archiveBytes} }

// References calls fn for every object that a version refers to. Backup copies them, and
// the doctor looks for missing ones.
func (s *Service) References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error {
	return eachKey(ctx, q, func(key string) error {
		sum, _ := blob.ContentSum(key)
		return fn(blob.Ref{Key: key, SHA256: sum})
	})
}
