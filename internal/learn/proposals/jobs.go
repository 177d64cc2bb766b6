package proposals

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// generate is the job that generates the proposals of one organisation. It waits
// until DueAt itself, since jobs.At may start it seconds late.
type generate struct {
	OrgID string    `json:"org_id"`
	DueAt time.Time `json:"due_at"`
}

// Kind names the job.
func (generate) Kind() string { return "proposals.generate" }

// reopen is the scheduled job that takes approvals of empty proposals back, which
// earlier versions of the service allowed.
type reopen struct{}

// Kind names the job.
func (reopen) Kind() string { return "proposals.reopen-empty" }

// debounce is how long the job waits after ingest, so that a burst of signals
// causes one run.
const debounce = time.Second

// Register makes the queue run the jobs of proposals.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args generate) error {
		// DueAt is by the enqueuer's clock. If that runs ahead, at most the
		// debounce is waited for.
		if wait := time.Until(args.DueAt); wait > 0 && wait <= debounce {
			return jobs.Snooze(wait)
		}
		return s.Generate(ctx, args.OrgID)
	})
	jobs.Handle(s.Jobs, func(ctx context.Context, _ reopen) error { return reopenEmpty(ctx, s.DB) })
	s.Jobs.Every(24*time.Hour, reopen{}, jobs.RunOnStart())
}

// Changed schedules the generation of proposals. It fulfils signals.OnSignals and
// is called in the transaction that stores new signals. Enqueueing in that transaction means that
// no signal is ever stored without its proposals being generated.
func (s *Service) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	return s.Jobs.Enqueue(ctx, tx, generate{OrgID: orgID, DueAt: time.Now().Add(debounce)}, jobs.Unique(orgID), jobs.For(orgID))
}
