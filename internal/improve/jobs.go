package improve

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// iterate is the job that makes one iteration of an improve run. The result of
// an iteration and the job of the next one are committed together.
type iterate struct {
	OrgID string `json:"org_id"`
	RunID string `json:"run_id"`
	N     int    `json:"n"`
}

// Kind names the job.
func (iterate) Kind() string { return "evals.improve" }

// Org makes the queue schedule the job as a run of the organisation.
func (i iterate) Org() string { return i.OrgID }

const (
	// maxAttempts bounds how often an iteration is retried while the judge is
	// unavailable: with the queue's backoff, for about a quarter of an hour.
	maxAttempts = 8
	// iterationTimeout bounds one attempt.
	iterationTimeout = 2 * time.Hour
)

// Register makes the queue run the jobs of improve runs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, s.iterate, jobs.Timeout(iterationTimeout), jobs.NeedsRoom())
}

func (s *Service) enqueueIteration(ctx context.Context, tx *store.Tx, orgID, runID string, n int) error {
	return s.Jobs.Enqueue(ctx, tx, iterate{OrgID: orgID, RunID: runID, N: n},
		jobs.Unique(fmt.Sprintf("%s %d", runID, n)), jobs.Attempts(runs.MaxStarts))
}
