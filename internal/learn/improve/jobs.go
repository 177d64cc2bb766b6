package improve

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
)

// advance is the job that takes an improve run one step further, until it is over.
type advance struct {
	OrgID string `json:"org_id"`
	RunID string `json:"run_id"`
}

// Kind names the job.
func (advance) Kind() string { return "evals.improve" }

// Org makes the queue schedule the job as a run of the organisation. A run of one organisation must
// not keep those of others waiting.
func (a advance) Org() string { return a.OrgID }

const (
	// maxAttempts bounds how often a step is retried while the writer is
	// unavailable: with the queue's backoff, for about a quarter of an hour.
	maxAttempts = 8
	// stepTimeout bounds one attempt: an answer of the writer.
	stepTimeout = time.Hour
	// maxRetryAfter bounds the pause that a judge can ask for.
	maxRetryAfter = 5 * time.Minute

	// How soon and how seldom a run looks at its eval runs: see runs.Poll.
	minPoll = 100 * time.Millisecond
	maxPoll = 2 * time.Second // a run that is cancelled ends its eval runs within that time
)

// Register makes the queue run the jobs of improve runs. NeedsRoom: an improve run stores sources,
// so it waits while the disk is nearly full.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, s.step, jobs.Timeout(stepTimeout), jobs.NeedsRoom())
}

// step takes a run one step further, or cleans up after it. A run that is over is cleaned up by the
// same job, so there is nothing to forget after a crash.
func (s *Service) step(ctx context.Context, args advance) error {
	r, err := runWithResults(ctx, s.DB, args.OrgID, args.RunID)
	if fault.Is(err, fault.NotFound) || err == nil && r.Status.Over() {
		return s.clean(ctx, args.OrgID, args.RunID)
	}
	if err != nil {
		return err
	}
	wait, err := s.advance(ctx, r)
	switch {
	case err != nil:
		return s.retryOrFail(ctx, r, err)
	case wait:
		return runs.Poll(r.StartedAt, minPoll, maxPoll)
	}
	return jobs.Snooze(0)
}

// clean stops the eval runs of a run that is over or deleted, and deletes the files
// of its candidates. Each deletion is idempotent, and a row of improve_sources is deleted after its
// source, so an interrupted clean-up finds what is left.
func (s *Service) clean(ctx context.Context, orgID, runID string) error {
	trials, err := trialsOf(ctx, s.DB, runID)
	if err != nil {
		return err
	}
	if err := runs.CancelAll(ctx, s.Runs, orgID, trials); err != nil {
		return err
	}
	held, err := sourcesOf(ctx, s.DB, orgID, runID)
	if err != nil {
		return err
	}
	for _, id := range held {
		if err := s.Sources.Delete(ctx, access.Caller{OrgID: orgID}, id); err != nil && !gone(err) {
			return err
		}
		if err := deleteSource(ctx, s.DB, orgID, id); err != nil {
			return err
		}
	}
	return nil
}

func gone(err error) bool { return fault.Is(err, fault.NotFound) }

// retryOrFail returns the error, so that the queue retries the job, unless the
// error is permanent or there were enough attempts: then the run fails. The order of the cases
// matters: what can never succeed fails at once, a worker that is being stopped returns the job,
// and only the rest uses up attempts.
func (s *Service) retryOrFail(ctx context.Context, r Run, cause error) error {
	var status runs.Status
	var message string
	judgeErr, isJudge := errors.AsType[*judge.Error](cause)
	problem, isProblem := errors.AsType[*runs.Problem](cause)
	permanent, isPermanent := runs.PermanentError(cause)
	attempt, last := jobs.Attempt(ctx)
	switch {
	case isProblem:
		status, message = FailedTerminal, problem.Error()
	case isJudge && isHopeless(judgeErr):
		status, message = FailedTerminal, judgeErr.Error()
	case isPermanent:
		status, message = FailedTerminal, permanent
	case ctx.Err() != nil:
		return cause
	case attempt < min(last, maxAttempts):
		if isJudge && judgeErr.RetryAfter > 0 {
			return jobs.RetryAfter(min(judgeErr.RetryAfter, maxRetryAfter), cause)
		}
		return cause
	case isJudge:
		status, message = FailedTransient, judgeErr.Error()
	default:
		status, message = FailedTransient, runs.InternalError
		s.Log.ErrorContext(ctx, "improve run failed", "run", r.ID, "error", cause)
	}
	if err := s.end(ctx, r, status, message); err != nil {
		return err
	}
	return jobs.Snooze(0) // to clean up
}
