package sources

import (
	"bytes"
	"context"
	"path"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// removeBlobs is the job that removes the bytes of a source that is gone.
type removeBlobs struct {
	SourceID string `json:"source_id"`
}

// Kind names the job.
func (removeBlobs) Kind() string { return "sources.remove-blobs" }

// sweep is the job that removes bytes whose snapshot was never committed.
type sweep struct{}

// Kind names the job.
func (sweep) Kind() string { return "sources.sweep" }

// Register makes the queue run the jobs of sources.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args removeBlobs) error { return s.removeBlobs(ctx, args.SourceID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweep) error { return s.sweep(ctx) })
	s.Jobs.Every(24*time.Hour, sweep{})
}

// The bytes of snapshots stand below their source, each under its hash: a
// source that is gone takes its own with it, and nobody else's. Ids are never
// used again, so what stands below one without a row can go at any time.

// blobPrefix begins the keys of all snapshots.
const blobPrefix = "sources/"

func blobKey(sourceID, contentHash string) string { return blobPrefix + sourceID + "/" + contentHash }

// store puts the bytes of a snapshot in their place and lets commit write what
// refers to them. If that fails because the source is gone, or was to be made,
// the bytes go by a job; those of a process that died here, by the sweep.
func (s *Service) store(ctx context.Context, p *prepared, commit func(*store.Tx) error) error {
	key := blobKey(p.snapshot.SourceID, p.snapshot.ContentHash)
	known, err := hasContent(ctx, s.DB, p.snapshot.SourceID, p.snapshot.ContentHash)
	if err != nil {
		return err
	}
	if !known {
		if err := s.Quota.Room(ctx, p.snapshot.OrgID, p.snapshot.TotalBytes); err != nil {
			return err
		}
	}
	if err := s.Blobs.Put(ctx, key, bytes.NewReader(p.archive), int64(len(p.archive))); err != nil {
		return err
	}
	if err = s.DB.InTx(ctx, commit); err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	failed := s.DB.InTx(ctx, func(tx *store.Tx) error {
		return s.Jobs.Enqueue(ctx, tx, removeBlobs{SourceID: p.snapshot.SourceID})
	})
	if failed != nil {
		s.Log.Warn("unused bytes wait for the sweep", "error", failed)
	}
	return err
}

// removeBlobs removes the bytes of a source, unless there is one.
func (s *Service) removeBlobs(ctx context.Context, sourceID string) error {
	if _, err := sourceByID(ctx, s.DB, sourceID, ""); !fault.Is(err, fault.NotFound) {
		return err
	}
	for info, err := range s.Blobs.List(ctx, blobPrefix+sourceID+"/") {
		if err != nil {
			return err
		}
		if err := s.Blobs.Delete(ctx, info.Key); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes bytes that no snapshot refers to, when they are old enough to
// belong to nobody who has not committed yet.
func (s *Service) sweep(ctx context.Context) error {
	before := time.Now().Add(-blob.OrphanAge)
	for info, err := range s.Blobs.List(ctx, blobPrefix) {
		if err != nil {
			return err
		}
		if info.Modified.After(before) {
			continue
		}
		sourceID, hash := path.Split(strings.TrimPrefix(info.Key, blobPrefix))
		used, err := hasContent(ctx, s.DB, strings.TrimSuffix(sourceID, "/"), hash)
		if err != nil || used {
			if err != nil {
				return err
			}
			continue
		}
		if err := s.removeOrphan(ctx, info.Key, before); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) removeOrphan(ctx context.Context, key string, before time.Time) error {
	info, err := s.Blobs.Stat(ctx, key)
	if fault.Is(err, fault.NotFound) || err == nil && info.Modified.After(before) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Blobs.Delete(ctx, key)
}
