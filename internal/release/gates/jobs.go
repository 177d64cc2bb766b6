package gates

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// advance is the job that takes a gate one step further. There is one per gate at a time
// (jobs.Unique).
type advance struct {
	OrgID  string `json:"org_id"`
	GateID string `json:"gate_id"`
}

// Kind names the job.
func (advance) Kind() string { return "gates.advance" }

// cancelRun is the job that stops a run of a gate that was deleted.
type cancelRun struct {
	OrgID string `json:"org_id"`
	RunID string `json:"run_id"`
}

// Kind names the job.
func (cancelRun) Kind() string { return "gates.cancel-run" }

// How soon and how seldom a gate looks at its runs: see runs.Poll.
const (
	minPoll = 250 * time.Millisecond
	maxPoll = 10 * time.Second
)

// Register makes the queue run the jobs of gates.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, args advance) error {
		return s.advanceOrGiveUp(ctx, args.OrgID, args.GateID)
	})
	jobs.Handle(s.Jobs, func(ctx context.Context, args cancelRun) error {
		return runs.CancelAll(ctx, s.Runs, args.OrgID, []trialRun{{runID: args.RunID}})
	})
}

// advanceOrGiveUp makes the gate inconclusive when its job fails for the last
// time: a candidate must not wait forever.
func (s *Service) advanceOrGiveUp(ctx context.Context, orgID, gateID string) error {
	g, err := gateByID(ctx, s.DB, orgID, gateID)
	if fault.Is(err, fault.NotFound) {
		return nil // its entry was deleted
	}
	if err != nil {
		return err
	}
	wait, err := s.advance(ctx, g)
	if err == nil && wait {
		return runs.Poll(g.StartedAt, minPoll, maxPoll)
	}
	// A shutdown is no failure: the job runs again in another process.
	if attempt, last := jobs.Attempt(ctx); err == nil || ctx.Err() != nil || attempt < last {
		return err
	}
	s.Log.ErrorContext(ctx, "a gate could not decide", "gate", g.ID, "error", err)
	return s.conclude(ctx, g, decision.Inconclusive, "something went wrong; the log of the service says what", g.Result)
}
