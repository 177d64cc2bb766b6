package suggestions

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// The kinds of the jobs begin with "sources.", the capability that they were
// part of once: jobs of an earlier version may still be in the queue.

// deriveSource is the job that derives the suggestions of one source.
type deriveSource struct {
	OrgID    string `json:"org_id"`
	SourceID string `json:"source_id"`
}

// Kind names the job.
func (deriveSource) Kind() string { return "sources.suggest" }

// deriveOrg is the job that does so for an organisation with new telemetry.
type deriveOrg struct {
	OrgID string    `json:"org_id"`
	DueAt time.Time `json:"due_at"`
}

// Kind names the job.
func (deriveOrg) Kind() string { return "sources.suggest-org" }

// deriveAll is the hourly job that does so for sources that have not been derived for a
// day: a change of the evidence that nothing reported is found then.
type deriveAll struct{}

// Kind names the job.
func (deriveAll) Kind() string { return "sources.suggest-all" }

// Register makes the queue run the jobs of suggestions.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args deriveSource) error {
		return s.Derive(ctx, args.OrgID, args.SourceID)
	}, jobs.NeedsRoom())
	jobs.Handle(s.Jobs, func(ctx context.Context, args deriveOrg) error {
		// The clock of the replica that enqueued the job may be wrong, so the
		// wait is never longer than the debounce interval.
		if wait := time.Until(args.DueAt); wait > 0 && wait <= debounce {
			return jobs.Snooze(wait)
		}
		linked, err := s.Sources.Linked(ctx, args.OrgID)
		return errors.Join(err, s.suggestEach(ctx, linked))
	})
	jobs.Handle(s.Jobs, func(ctx context.Context, _ deriveAll) error {
		stale, err := s.Sources.Stale(ctx, store.Now().Add(-maxAge), maxStale)
		return errors.Join(err, s.suggestEach(ctx, stale))
	})
	s.Jobs.Every(time.Hour, deriveAll{})
}

const (
	// maxAge is how old suggestions may become without a derivation.
	maxAge = 24 * time.Hour
	// maxStale is how many sources a run of deriveAll takes. The next one continues.
	maxStale = 1000
)

// debounce is how long deriveOrg waits after a push, so that a burst of pushes
// causes one derivation.
const debounce = 2 * time.Second

// Changed enqueues a debounced derivation for the organisation's linked
// sources. It implements telemetry.OnChanged and is called in the transaction
// that stores telemetry. Organisations without a linked source, which are most, cost one query.
func (s *Service) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	linked, err := s.Sources.HasLinked(ctx, tx, orgID)
	if err != nil || !linked {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, deriveOrg{OrgID: orgID, DueAt: time.Now().Add(debounce)}, jobs.Unique(orgID), jobs.For(orgID))
}

// Suggest enqueues a derivation for a source. It is called in the transaction
// that changes the evidence.
func (s *Service) Suggest(ctx context.Context, tx *store.Tx, orgID, sourceID string) error {
	return s.Jobs.Enqueue(ctx, tx, deriveSource{OrgID: orgID, SourceID: sourceID}, jobs.Unique(sourceID), jobs.For(orgID))
}

// RunEnded implements runs.OnEnded: it enqueues a derivation for the source of a run that
// succeeded, if it has one.
func (s *Service) RunEnded(ctx context.Context, tx *store.Tx, r runs.Run) error {
	if r.Status != runs.Succeeded || r.SourceID == nil {
		return nil
	}
	return s.Suggest(ctx, tx, r.OrgID, *r.SourceID)
}

// suggestEach enqueues a derivation for each source. Jobs are unique by source, so this can't pile
// up.
func (s *Service) suggestEach(ctx context.Context, all []sources.Source) error {
	if len(all) == 0 {
		return nil
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, src := range all {
			if err := s.Suggest(ctx, tx, src.OrgID, src.ID); err != nil {
				return err
			}
		}
		return nil
	})
}
