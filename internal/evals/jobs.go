package evals

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/jobs"
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

// registerRuns makes the queue run the jobs of runs.
func (s *Service) registerRuns() {
	places := s.RunsAtOnce
	if places == 0 {
		places = defaultRuns
	}
	free := make(chan struct{}, places)
	jobs.Handle(s.Jobs, func(ctx context.Context, args execute) error {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			return s.execute(ctx, args.OrgID, args.RunID)
		default:
			return jobs.Snooze(busyWait) // other jobs need workers, too
		}
	}, jobs.Timeout(turn+longestUnit))
}
