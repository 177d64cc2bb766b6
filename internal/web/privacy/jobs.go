package privacy

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// attempts is how often an export or a deletion is tried.
const attempts = 10

// makeArchive is the job that makes the archive of an organisation.
type makeArchive struct {
	OrgID    string `json:"org_id"`
	ExportID string `json:"export_id"`
}

// Kind names the job.
func (makeArchive) Kind() string { return "privacy.export" }

// purge is the job that deletes an organisation.
type purge struct {
	OrgID string `json:"org_id"`
}

// Kind names the job.
func (purge) Kind() string { return "privacy.purge" }

// sweep is the job that deletes archives that have expired, and what was written of
// organisations after their end.
type sweep struct{}

// Kind names the job.
func (sweep) Kind() string { return "privacy.sweep" }

// Register makes the queue run the jobs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args makeArchive) error {
		return s.giveUp(ctx, args, s.make(ctx, args.OrgID, args.ExportID))
	},
		jobs.Timeout(6*time.Hour), jobs.NeedsRoom())
	// Six hours is far above what the largest organisations take.
	jobs.Handle(s.Jobs, func(ctx context.Context, args purge) error { return s.Purge(ctx, args.OrgID) },
		jobs.Timeout(6*time.Hour))
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweep) error { return errors.Join(s.sweep(ctx), s.purgeLate(ctx)) },
		jobs.Timeout(6*time.Hour))
	s.Jobs.Every(time.Hour, sweep{})
}
