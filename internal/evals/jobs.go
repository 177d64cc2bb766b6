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

const (
	// maxStarts bounds how often a run's job is started: every crash of a
	// process uses one.
	maxStarts = 50
	// turn is for how long a job takes up work. Then it ends what it has begun
	// and comes again, so that no run keeps its worker for ever.
	turn = 10 * time.Minute
	// longestUnit is how much longer a job may take for what it has begun.
	longestUnit = 2 * time.Hour
	// defaultRuns is how many runs a process works on at once, of its 8 workers.
	defaultRuns = 4
	// busyWait is when a run looks again for a process that is free.
	busyWait = time.Second
)

// registerRuns makes the queue run the jobs of runs, each in one of the free
// places.
func (s *Service) registerRuns(free chan struct{}) {
	jobs.Handle(s.Jobs, func(ctx context.Context, args execute) error {
		return inPlace(free, func() error { return s.execute(ctx, args.OrgID, args.RunID) })
	}, jobs.Timeout(turn+longestUnit))
}

// inPlace does some work if there is a place for it; else it waits for its
// turn, since other jobs need workers, too.
func inPlace(free chan struct{}, work func() error) error {
	select {
	case free <- struct{}{}:
		defer func() { <-free }()
		return work()
	default:
		return jobs.Snooze(busyWait)
	}
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

// improveTries is how often an iteration is tried when the judge is not there:
// with the pauses between them, for about a quarter of an hour.
const improveTries = 8

// registerImproveRuns makes the queue run the jobs of improve runs, each in one
// of the free places.
func (s *Service) registerImproveRuns(free chan struct{}) {
	jobs.Handle(s.Jobs, func(ctx context.Context, args iterate) error {
		return inPlace(free, func() error { return s.iterate(ctx, args) })
	}, jobs.Timeout(longestUnit))
}

func (s *Service) enqueueIteration(ctx context.Context, tx *store.Tx, orgID, runID string, n int) error {
	return s.Jobs.Enqueue(ctx, tx, iterate{OrgID: orgID, RunID: runID, N: n}, jobs.Unique(fmt.Sprintf("%s %d", runID, n)), jobs.Attempts(maxStarts))
}
