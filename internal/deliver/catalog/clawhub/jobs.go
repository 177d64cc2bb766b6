package clawhub

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// Register makes the queue run the jobs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweepUploads) error { return s.sweepUploads(ctx) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ backfill) error { return s.backfill(ctx) }, jobs.Timeout(time.Hour))
	s.Jobs.Every(time.Hour, sweepUploads{})
	s.Jobs.Every(24*time.Hour, backfill{}, jobs.RunOnStart())
}

// sweepUploads is the job that deletes files that did not become a version.
type sweepUploads struct{}

// Kind names the job.
func (sweepUploads) Kind() string { return "clawhub.sweep-uploads" }

func (s *Service) sweepUploads(ctx context.Context) error {
	if err := expireUploads(ctx, s.DB, store.Now().Add(-uploadTTL)); err != nil {
		return err
	}
	// Twice the time, so that a publish that has just begun finds its files.
	_, err := blob.Sweep{Bucket: s.Blobs, Prefix: uploadPrefix, MinAge: 2 * uploadTTL}.Run(ctx)
	return err
}

// backfill is the job that gives versions from before migration 65 their tree
// hashes.
type backfill struct{}

// Kind names the job.
func (backfill) Kind() string { return "clawhub.backfill" }

// backfillChunk is how many versions one transaction of the backfill handles.
const backfillChunk = 20

// backfill walks through the versions in chunks, and may be interrupted: the table
// registry_tree_backfill has its cursor.
func (s *Service) backfill(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "backfill")
	for {
		versions, err := treehash.NextLacking(ctx, s.DB, backfillChunk)
		if err != nil {
			return err
		}
		if len(versions) == 0 {
			return treehash.SetDone(ctx, s.DB)
		}
		hashes := make([][]treehash.Hash, len(versions))
		for i, v := range versions {
			if hashes[i], err = s.hashesOf(ctx, v); err != nil {
				return err
			}
		}
		err = s.DB.InTx(ctx, func(tx *store.Tx) error {
			for i, v := range versions {
				if err := treehash.Insert(ctx, tx, v.EntryID, v.VersionID, hashes[i]); err != nil {
					return err
				}
			}
			return treehash.SetSeen(ctx, tx, versions[len(versions)-1].VersionID)
		})
		if err != nil {
			return err
		}
	}
}

// hashesOf reads the archive of a version. One that was deleted meanwhile, that is
// no skill for installers or that cannot be read has none.
func (s *Service) hashesOf(ctx context.Context, l treehash.Lacking) ([]treehash.Hash, error) {
	ver, err := s.Registry.VersionByID(ctx, s.DB, registry.Entry{OrgID: l.OrgID, ID: l.EntryID}, l.VersionID)
	if fault.Is(err, fault.NotFound) || err == nil && ver.CanonicalHash == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pkg, err := s.Registry.Open(ctx, ver)
	if err != nil {
		s.Log.Warn("a version has no tree hashes: its archive cannot be read", "version", l.VersionID, "error", err)
		return nil, ctx.Err()
	}
	defer pkg.Close()
	return treehash.Of(pkg, l.Name)
}
