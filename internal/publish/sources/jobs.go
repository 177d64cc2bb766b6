package sources

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// removeBlobs deletes the blobs of a deleted source.
type removeBlobs struct {
	SourceID string `json:"source_id"`
}

// Kind names the job.
func (removeBlobs) Kind() string { return "sources.remove-blobs" }

// sweep is the garbage collection of blobs whose snapshot was never committed.
type sweep struct{}

// Kind names the job.
func (sweep) Kind() string { return "sources.sweep" }

// Register registers the jobs of sources.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args removeBlobs) error { return s.removeBlobs(ctx, args.SourceID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweep) error { return s.sweep(ctx) })
	s.Jobs.Every(24*time.Hour, sweep{})
}

// Every source has its own blobs, even if their content is the same: sources/<source
// id>/<content hash>. So deleting a source needs no reference counts, and since ids are
// never reused, the blobs of an id without a row can be deleted at any time.

// blobPrefix begins the keys of all snapshots' blobs.
const blobPrefix = "sources/"

func blobKey(sourceID, contentHash string) string { return blobPrefix + sourceID + "/" + contentHash }

// storeSnapshot writes the blob of a snapshot, then calls commit to insert the rows that
// refer to it, and closes the archive. If commit fails, a job deletes the blob unless the
// source exists; if the process dies in between, the sweep does.
func (s *Service) storeSnapshot(ctx context.Context, p *prepared, commit func(*store.Tx) error) error {
	defer p.archive.Close()
	key := blobKey(p.snapshot.SourceID, p.snapshot.ContentHash)
	known, err := hasContent(ctx, s.DB, p.snapshot)
	if err != nil {
		return err
	}
	if !known { // otherwise nothing new is stored, and commit enforces the quota
		if err := s.Quota.Room(ctx, p.snapshot.OrgID, p.snapshot.TotalBytes); err != nil {
			return err
		}
	}
	if err := s.Blobs.Put(ctx, key, p.archive.Reader(), p.archive.Size()); err != nil {
		return err
	}
	if err = s.DB.InTx(ctx, commit); err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the request may have been cancelled
	failed := s.DB.InTx(ctx, func(tx *store.Tx) error {
		return s.Jobs.Enqueue(ctx, tx, removeBlobs{SourceID: p.snapshot.SourceID}, jobs.For(p.snapshot.OrgID))
	})
	if failed != nil {
		s.Log.Warn("unreferenced blobs wait for the sweep", "error", failed)
	}
	return err
}

// removeBlobs deletes the blobs of a source, unless the source exists: the failed commit
// may have been of a later snapshot.
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

// sweep deletes blobs without a snapshot. It spares those younger than blob.OrphanAge,
// whose transaction may still commit.
func (s *Service) sweep(ctx context.Context) error {
	_, err := blob.Sweep{
		Bucket: s.Blobs, Prefix: blobPrefix,
		Alive: func(ctx context.Context, keys []string) ([]string, error) {
			var sources []string
			for _, key := range keys {
				sourceID, _ := path.Split(strings.TrimPrefix(key, blobPrefix))
				sources = append(sources, strings.TrimSuffix(sourceID, "/"))
			}
			return snapshotKeys(ctx, s.DB, slices.Compact(sources))
		},
	}.Run(ctx)
	return err
}
