package proposals

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// generate is the job that looks at the signals of one organisation. It waits
// for its time itself: jobs.At may start it seconds late.
type generate struct {
	OrgID string    `json:"org_id"`
	DueAt time.Time `json:"due_at"`
}

// Kind names the job.
func (generate) Kind() string { return "proposals.generate" }

// soon is how long the look waits after ingest, so that a burst of signals
// causes one.
const soon = time.Second

// Register makes the queue run the jobs of proposals.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args generate) error {
		if wait := time.Until(args.DueAt); wait > 0 && wait <= soon {
			return jobs.Snooze(wait)
		}
		return s.Generate(ctx, args.OrgID)
	})
}

// Changed makes the service look for proposals soon. It is called in the
// transaction that stores new signals.
func (s *Service) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	return s.Jobs.Enqueue(ctx, tx, generate{OrgID: orgID, DueAt: time.Now().Add(soon)}, jobs.Unique(orgID))
}
