package improve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/runs/watch"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// iterate makes one iteration of an improve run. It is idempotent: called twice
// for an iteration, even at the same time, it stores one result.
func (s *Service) iterate(ctx context.Context, args iterate) (err error) {
	defer fault.Wrap(&err, "iteration %d of improve run %s", args.N, args.RunID)
	r, err := runWithResults(ctx, s.DB, args.OrgID, args.RunID)
	if fault.Is(err, fault.NotFound) || err == nil && (r.Status.Over() || len(r.Iterations) != args.N) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := markRunStarted(ctx, s.DB, r.ID, store.Now()); err != nil {
		return err
	}
	x := &execution{s: s, run: r}
	var it Iteration
	err = watch.While(ctx, x.running, func(ctx context.Context, _ context.CancelCauseFunc) (err error) {
		it, err = x.next(ctx)
		return err
	})
	if errors.Is(err, watch.ErrOver) {
		return nil
	}
	if err == nil {
		err = s.storeIteration(ctx, r, it)
	}
	if err != nil {
		return s.retryOrFail(ctx, r, err)
	}
	return nil
}

// storeIteration writes the result of an iteration together with what follows
// from it: the job of the next one, or the end of the run.
func (s *Service) storeIteration(ctx context.Context, r Run, it Iteration) error {
	// It was paid for, so it is stored even if the worker was stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runs.FlushTimeout)
	defer cancel()
	before := r.Iterations
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		now, err := runByID(ctx, tx, r.OrgID, r.ID, tx.Dialect().ForUpdate())
		if fault.Is(err, fault.NotFound) || err == nil && now.Status != runs.Running {
			return nil
		}
		if err != nil {
			return err
		}
		// The primary key decides between two workers that made the same iteration:
		// the second one's result is dropped, with the job that would follow.
		isNew, err := insertIteration(ctx, tx, r.ID, it)
		if err != nil || !isNew {
			return err
		}
		now.Iterations = slices.Concat(before, []Iteration{it})
		now.Done = len(now.Iterations) * now.trialsPerIteration()
		if next := now.nextStatus(); next != runs.Running {
			return s.conclude(ctx, tx, now, next)
		}
		if err := updateRun(ctx, tx, now); err != nil {
			return err
		}
		return s.enqueueIteration(ctx, tx, now.OrgID, now.ID, it.N+1)
	})
}

// retryOrFail returns the error, so that the queue retries the job, unless the
// error is permanent or there were enough attempts: then the run fails.
func (s *Service) retryOrFail(ctx context.Context, r Run, cause error) error {
	status, message := runs.Status(""), ""
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
		s.Log.ErrorContext(ctx, "improve run failed", "run", r.ID, "err", cause)
	}
	message = runs.Truncate(message)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		now, err := runByID(ctx, tx, r.OrgID, r.ID, tx.Dialect().ForUpdate())
		if fault.Is(err, fault.NotFound) || err == nil && now.Status.Over() {
			return nil
		}
		if err != nil {
			return err
		}
		return now.finish(ctx, tx, status, &message)
	})
}

// maxRetryAfter bounds the pause that a judge can ask for.
const maxRetryAfter = 5 * time.Minute

// isHopeless reports whether the judge would refuse every other request, too:
// the key is wrong, or the model does not exist.
func isHopeless(err *judge.Error) bool { return err.Stop || err.Status == http.StatusNotFound }

// concernsOneRequest reports whether the judge failed for a reason that says
// nothing about other requests: it is neither misconfigured nor unavailable.
func concernsOneRequest(err *judge.Error) bool {
	return !isHopeless(err) && err.Code != judge.Unavailable && err.Code != judge.Timeout
}

// An execution is an improve run while a worker makes an iteration.
type execution struct {
	s    *Service
	run  Run
	done atomic.Int64 // trials of this iteration
}

// running stores the progress, and reports whether the run is still running.
func (x *execution) running(ctx context.Context) (bool, error) {
	done := len(x.run.Iterations)*x.run.trialsPerIteration() + int(x.done.Load())
	return setProgress(ctx, x.s.DB, x.run.ID, done)
}

// next scores the current description in the first iteration, and writes and
// scores a new one in every other.
func (x *execution) next(ctx context.Context) (Iteration, error) {
	now, then := x.s.Judge.Improving(), x.run.Judge
	if now.API != then.API || now.Model != then.Model || now.PromptVersion != then.PromptVersion {
		return Iteration{}, &runs.Problem{Code: "judge_changed", Message: fmt.Sprintf(
			"the run began with the judge %s %s, and the scores of another cannot be compared with its own: start a new run",
			then.API, then.Model)}
	}
	it := Iteration{N: len(x.run.Iterations), Description: &x.run.Description}
	if it.N > 0 {
		written, err := x.write(ctx)
		if e, ok := errors.AsType[*judge.Error](err); ok && concernsOneRequest(e) {
			message := runs.Truncate(e.Error())
			it.Description, it.Problem = nil, &message
			return it, nil
		}
		if err != nil {
			return it, err
		}
		description := text.Clean(written.Description)
		it.Description, it.Reason = &description, runs.Truncate(written.Reason)
	}
	return it, x.score(ctx, &it)
}

// write asks the judge for a new description. The held-out queries must stay
// out of the request.
func (x *execution) write(ctx context.Context) (judge.Rewriting, error) {
	skill, err := x.s.Runs.Subjects().FindPinned(ctx, x.run.OrgID, x.run.Subject)
	if err != nil {
		return judge.Rewriting{}, err
	}
	content, err := skill.Text(ctx)
	if err != nil {
		return judge.Rewriting{}, err
	}
	best := x.run.bestInTraining()
	ask := judge.RewriteRequest{
		Skill:   judge.Skill{Name: x.run.Subject.Name, Description: *best.Description},
		Opening: content, Distractors: x.run.Distractors,
	}
	for i, q := range x.run.queries {
		if got := best.results[i]; !q.HeldOut && got.Verdict.Decided() {
			ask.Samples = append(ask.Samples, judge.Sample{
				Query: q.Text, Wanted: q.Expectation == suites.ShouldTrigger, Right: got.Verdict == runs.Pass, Chosen: got.Chosen,
			})
		}
	}
	for _, it := range x.run.Iterations {
		if it.Description != nil {
			ask.Tried = append(ask.Tried, judge.Attempt{Description: *it.Description, Right: it.Train.Passed, Of: it.Train.Cases})
		}
	}
	return x.s.Judge.Rewrite(ctx, ask)
}

// score tries every query with the iteration's description.
func (x *execution) score(ctx context.Context, it *Iteration) error {
	queries := x.run.queries
	trials := make([][trialsPerQuery]runs.Trial, len(queries))
	// The first error ends the others: the whole iteration is retried, since a
	// score of a part of the queries cannot be compared.
	group, inside := errgroup.WithContext(ctx)
	group.SetLimit(x.s.Runs.JudgeConcurrency())
	for i := range queries {
		for n := range trialsPerQuery {
			group.Go(func() (err error) {
				trials[i][n], err = x.try(inside, queries[i], *it.Description, n+1)
				x.done.Add(1)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	lastError := ""
	for i, q := range queries {
		got := resultOf(q, trials[i][:])
		it.results = append(it.results, got)
		if q.HeldOut {
			it.HeldOut.add(got.Verdict)
		} else {
			it.Train.add(got.Verdict)
		}
		if !got.Verdict.Decided() {
			it.Errors++
			lastError = trials[i][0].Evidence.Summary
		}
	}
	if it.Errors > 0 {
		problem := fmt.Sprintf("%d of %d queries have no verdict; the last: %s", it.Errors, len(queries), lastError)
		it.Problem = &problem
	}
	return nil
}

// try routes a query once. An error of the judge that concerns only this query
// makes a trial without a verdict.
func (x *execution) try(ctx context.Context, q Query, description string, n int) (t runs.Trial, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	err = t.Route(ctx, x.s.Judge, judge.RouteRequest{
		Query: q.Text, Skill: judge.Skill{Name: x.run.Subject.Name, Description: description},
		Distractors: x.run.Distractors, Seed: x.run.Seed, Trial: n,
	}, q.Expectation)
	if e, ok := errors.AsType[*judge.Error](err); ok && concernsOneRequest(e) {
		t.Verdict, t.Evidence.Summary = runs.Error, runs.Truncate(e.Error())
		return t, nil
	}
	return t, err
}

// resultOf is the majority verdict of a query's trials, by the rule of runs,
// with the skill that one of these trials chose.
func resultOf(q Query, trials []runs.Trial) (r result) {
	r.Verdict = *runs.Majority(trials, q.Expectation)
	for _, trial := range trials {
		if trial.Verdict == r.Verdict && trial.Evidence.Chosen != nil {
			r.Chosen = *trial.Evidence.Chosen
		}
	}
	return r
}
