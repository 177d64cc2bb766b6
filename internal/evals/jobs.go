package evals

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// execute is the job that works through a run.
type execute struct {
	OrgID string `json:"org_id"`
	RunID string `json:"run_id"`
}

// Kind names the job.
func (execute) Kind() string { return "evals.execute" }

// Org makes the job a run.
func (e execute) Org() string { return e.OrgID }

const (
	// maxStarts bounds how often a run's job is started: every crash of a
	// process uses one.
	maxStarts = 50
	// turn is for how long a job takes up work. Then it ends what it has begun
	// and comes again, so that no run keeps its worker for ever.
	turn = 10 * time.Minute
	// defaultSlice is for how long it does when another organisation's run waits
	// for a worker.
	defaultSlice = 20 * time.Second
	// longestUnit is how much longer a job may take for what it has begun.
	longestUnit = 2 * time.Hour
)

// registerRuns makes the queue run the jobs of runs.
func (s *Service) registerRuns() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args execute) error {
		return s.execute(ctx, args.OrgID, args.RunID)
	}, jobs.Timeout(turn+longestUnit), jobs.NeedsRoom())
}

// iterate is the job that makes one iteration of an improve run. The next one
// is enqueued with what came of it.
type iterate struct {
	OrgID string `json:"org_id"`
	RunID string `json:"run_id"`
	N     int    `json:"n"`
}

// Kind names the job.
func (iterate) Kind() string { return "evals.improve" }

// Org makes the job a run.
func (i iterate) Org() string { return i.OrgID }

// improveTries is how often an iteration is tried when the judge is not there:
// with the pauses between them, for about a quarter of an hour.
const improveTries = 8

// registerImproveRuns makes the queue run the jobs of improve runs.
func (s *Service) registerImproveRuns() {
	jobs.Handle(s.Jobs, s.iterate, jobs.Timeout(longestUnit), jobs.NeedsRoom())
}

func (s *Service) enqueueIteration(ctx context.Context, tx *store.Tx, orgID, runID string, n int) error {
	return s.Jobs.Enqueue(ctx, tx, iterate{OrgID: orgID, RunID: runID, N: n}, jobs.Unique(fmt.Sprintf("%s %d", runID, n)), jobs.Attempts(maxStarts))
}
