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

// suggest is the job that derives the suggestions of one source.
type suggest struct {
	OrgID    string `json:"org_id"`
	SourceID string `json:"source_id"`
}

// Kind names the job.
func (suggest) Kind() string { return "sources.suggest" }

// suggestOrg is the job that does so for an organisation with new telemetry.
type suggestOrg struct {
	OrgID string    `json:"org_id"`
	DueAt time.Time `json:"due_at"`
}

// Kind names the job.
func (suggestOrg) Kind() string { return "sources.suggest-org" }

// suggestAll is the job that does so for all: telemetry also goes.
type suggestAll struct{}

// Kind names the job.
func (suggestAll) Kind() string { return "sources.suggest-all" }

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
	jobs.Handle(s.Jobs, func(ctx context.Context, args suggest) error { return s.derive(ctx, args.OrgID, args.SourceID) },
		jobs.NeedsRoom())
	jobs.Handle(s.Jobs, s.suggestSoon)
	jobs.Handle(s.Jobs, func(ctx context.Context, _ suggestAll) error { return s.suggestEach(ctx, "") })
	s.Jobs.Every(time.Hour, suggestAll{})
	jobs.Handle(s.Jobs, func(ctx context.Context, args removeBlobs) error { return s.removeBlobs(ctx, args.SourceID) })
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweep) error { return s.sweep(ctx) })
	s.Jobs.Every(24*time.Hour, sweep{})
}

// soon is how long a look at new telemetry waits, so that a burst of pushes
// causes one.
const soon = 2 * time.Second

// Changed makes the suggestions of the organisation's linked sources be
// derived anew soon. It is called in the transaction that took in telemetry.
func (s *Service) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	linked, err := hasLinked(ctx, tx, orgID)
	if err != nil || !linked {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, suggestOrg{OrgID: orgID, DueAt: time.Now().Add(soon)}, jobs.Unique(orgID))
}

// Suggest makes the suggestions of a source be derived anew. It is called in
// the transaction that changed what they are derived from.
func (s *Service) Suggest(ctx context.Context, tx *store.Tx, orgID, sourceID string) error {
	return s.Jobs.Enqueue(ctx, tx, suggest{OrgID: orgID, SourceID: sourceID}, jobs.Unique(sourceID))
}

func (s *Service) suggestLinked(ctx context.Context, tx *store.Tx, src Source) error {
	if src.SkillID == nil {
		return nil
	}
	return s.Suggest(ctx, tx, src.OrgID, src.ID)
}

// suggestSoon does not trust the clock of whoever enqueued the job with more
// than the wait that was meant.
func (s *Service) suggestSoon(ctx context.Context, args suggestOrg) error {
	if wait := time.Until(args.DueAt); wait > 0 && wait <= soon {
		return jobs.Snooze(wait)
	}
	return s.suggestEach(ctx, args.OrgID)
}

// suggestEach enqueues a derivation for every linked source of an
// organisation, or of all if orgID is "".
func (s *Service) suggestEach(ctx context.Context, orgID string) error {
	linked, err := linkedSources(ctx, s.DB, orgID)
	if err != nil || len(linked) == 0 {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, src := range linked {
			if err := s.Suggest(ctx, tx, src.OrgID, src.ID); err != nil {
				return err
			}
		}
		return nil
	})
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
