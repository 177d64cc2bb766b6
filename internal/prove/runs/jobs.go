package runs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
)

// execute is the job that makes the trials of a run.
type execute struct {
	OrgID string `json:"org_id"`
	RunID string `json:"run_id"`
}

// Kind names the job.
func (execute) Kind() string { return "evals.execute" }

// Org makes the queue schedule the job as a run of the organisation: runs have
// workers of their own, shared fairly between organisations.
func (e execute) Org() string { return e.OrgID }

const (
	// MaxStarts bounds how often the job of a run is started: every crash of a
	// process uses one attempt.
	MaxStarts = 50
	// maxTurn is for how long a job starts new trials. Then it finishes those
	// in progress and re-enqueues itself, so that no run blocks its worker forever.
	maxTurn = 10 * time.Minute
	// defaultSlice is the shorter turn of a job while a run of another
	// organisation waits for a worker.
	defaultSlice = 20 * time.Second
	// maxTrial is how much longer a job may take for the trials in progress.
	maxTrial = 2 * time.Hour
)

// Register makes the queue run the jobs of runs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args execute) error {
		return s.execute(ctx, args.OrgID, args.RunID)
	}, jobs.Timeout(maxTurn+maxTrial), jobs.NeedsRoom()) // a trial's own time limit is in sandbox.Limits
}
