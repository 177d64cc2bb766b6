package schedules

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// lookForDue is the scheduled job that looks for schedules whose time has come.
type lookForDue struct{}

// Kind names the job.
func (lookForDue) Kind() string { return "evals.schedules" }

// startDue is the job that starts the run of one schedule.
type startDue struct {
	OrgID string `json:"org_id"`
	ID    string `json:"id"`
}

// Kind names the job.
func (startDue) Kind() string { return "evals.schedule" }

const (
	// interval is how often due schedules are looked for: a run begins that much late at most.
	interval = 15 * time.Second
	// maxDue is how many a look takes up. The next one continues.
	maxDue = 1000
)

// Register makes the queue run the jobs of schedules.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ lookForDue) error { return s.LookForDue(ctx, store.Now()) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args startDue) error {
		return s.StartDue(ctx, args.OrgID, args.ID, store.Now())
	}, jobs.NeedsRoom())
	s.Jobs.Every(interval, lookForDue{}, jobs.RunOnStart())
}

// LookForDue enqueues the start of each schedule whose time has come: a job for each, so that
// organisations take turns. Enqueueing twice is harmless, the key is the schedule.
func (s *Service) LookForDue(ctx context.Context, now time.Time) error {
	due, err := schedulesDue(ctx, s.DB, now, maxDue)
	if err != nil || len(due) == 0 {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, d := range due {
			err := s.Jobs.Enqueue(ctx, tx, startDue{OrgID: d.orgID, ID: d.id}, jobs.Unique(d.id), jobs.For(d.orgID))
			if err != nil {
				return err
			}
		}
		return nil
	})
}
