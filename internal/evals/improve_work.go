package evals

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// iterate makes one iteration of an improve run. It may be called twice for
// one, also at the same time: what comes of it counts once.
func (s *Service) iterate(ctx context.Context, args iterate) (err error) {
	defer fault.Wrap(&err, "iteration %d of improve run %s", args.N, args.RunID)
	r, err := improveRunWithResults(ctx, s.DB, args.OrgID, args.RunID)
	if fault.Is(err, fault.NotFound) || err == nil && (r.Status.over() || len(r.Iterations) != args.N) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := startImproveRun(ctx, s.DB, r.ID, store.Now()); err != nil {
		return err
	}
	x := &improving{s: s, run: r}
	it, err := x.work(ctx)
	if errors.Is(err, errOver) {
		return nil
	}
	if err == nil {
		err = s.keepIteration(ctx, r, it)
	}
	if err != nil {
		return s.failImprove(ctx, r, err)
	}
	return nil
}

// keepIteration writes what came of an iteration together with what follows
// from it: the next one, or the end.
func (s *Service) keepIteration(ctx context.Context, r ImproveRun, it Iteration) error {
	// It is paid for, also if the worker was told to stop.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	before := r.Iterations
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		now, err := improveRunHead(ctx, tx, r.OrgID, r.ID, tx.Dialect().ForUpdate())
		if fault.Is(err, fault.NotFound) || err == nil && now.Status != Running {
			return nil
		}
		if err != nil {
			return err
		}
		isNew, err := insertIteration(ctx, tx, r.ID, it)
		if err != nil || !isNew {
			return err
		}
		now.Iterations = slices.Concat(before, []Iteration{it})
		now.Done = len(now.Iterations) * now.trials()
		if next := now.next(); next != Running {
			return s.conclude(ctx, tx, now, next)
		}
		if err := updateImproveRun(ctx, tx, now); err != nil {
			return err
		}
		return s.enqueueIteration(ctx, tx, now.OrgID, now.ID, it.N+1)
	})
}

// failImprove fails the run if trying again cannot help or was tried often
// enough; otherwise the queue tries again.
func (s *Service) failImprove(ctx context.Context, r ImproveRun, cause error) error {
	attempt, last := jobs.Attempt(ctx)
	status, shown := FailedTerminal, ""
	asked, isJudge := errors.AsType[*judge.Error](cause)
	found, isFault := errors.AsType[*fault.Error](cause)
	ours, isOurs := errors.AsType[*problem](cause)
	switch {
	case isOurs:
		shown = ours.Error()
	case isJudge && hopeless(asked):
		shown = asked.Error()
	case isFault && found.Kind == fault.NotFound:
		shown = "subject_gone: " + found.Message
	case isFault && found.Kind == fault.Malformed:
		shown = "subject_unusable: " + found.Message
	case ctx.Err() != nil:
		return cause
	case attempt < min(last, improveTries):
		if isJudge && asked.RetryAfter > 0 {
			return jobs.RetryAfter(min(asked.RetryAfter, longestPause), cause)
		}
		return cause
	case isJudge:
		status, shown = FailedTransient, asked.Error()
	default:
		status, shown = FailedTransient, "internal: the run could not go on; the log of the service says why"
		s.Log.ErrorContext(ctx, "improve run failed", "run", r.ID, "err", cause)
	}
	shown = beginning(shown)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		now, err := improveRunHead(ctx, tx, r.OrgID, r.ID, tx.Dialect().ForUpdate())
		if fault.Is(err, fault.NotFound) || err == nil && now.Status.over() {
			return nil
		}
		if err != nil {
			return err
		}
		return now.end(ctx, tx, status, &shown)
	})
}

// longestPause is the longest that a judge can ask for.
const longestPause = 5 * time.Minute

// hopeless reports whether the judge would refuse every other request, too: the
// key is wrong, or there is no such model.
func hopeless(err *judge.Error) bool { return err.Stop || err.Status == http.StatusNotFound }

// passing reports whether the judge may answer later.
func passing(err *judge.Error) bool {
	return err.Code == judge.Unavailable || err.Code == judge.Timeout
}

// improving is an improve run while a process works on an iteration.
type improving struct {
	s    *Service
	run  ImproveRun
	made atomic.Int64 // trials of this iteration
}

// work makes the next iteration. The error is errOver when somebody ended the
// run.
func (x *improving) work(ctx context.Context) (it Iteration, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { x.watch(ctx, stop) })
	it, err = x.next(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errOver) {
		err = cause
	}
	stop(nil)
	watching.Wait()
	return it, err
}

// watch tells how far the iteration has come, and stops it within a second when
// the run is cancelled.
func (x *improving) watch(ctx context.Context, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		done := len(x.run.Iterations)*x.run.trials() + int(x.made.Load())
		running, err := setImproveDone(ctx, x.s.DB, x.run.ID, done)
		if err == nil && !running {
			stop(errOver)
		}
	}
}

// next writes a description, unless it is the current one's turn, and scores
// it.
func (x *improving) next(ctx context.Context) (Iteration, error) {
	if now, then := x.s.Judge.Improving(), x.run.Judge; now.API != then.API || now.Model != then.Model || now.PromptVersion != then.PromptVersion {
		return Iteration{}, &problem{"judge_changed", fmt.Sprintf(
			"the run began with the judge %s %s, and the scores of another cannot be compared with its own: start a new run", then.API, then.Model)}
	}
	it := Iteration{N: len(x.run.Iterations), Description: &x.run.Description}
	if it.N > 0 {
		written, err := x.write(ctx)
		if asked, ok := errors.AsType[*judge.Error](err); ok && !hopeless(asked) && !passing(asked) {
			shown := beginning(asked.Error())
			it.Description, it.Problem = nil, &shown
			return it, nil
		}
		if err != nil {
			return it, err
		}
		text := plainText(written.Description)
		it.Description, it.Reason = &text, beginning(written.Reason)
	}
	return it, x.score(ctx, &it)
}

// write asks for a new description. The held-out queries stay out of it.
func (x *improving) write(ctx context.Context) (judge.Rewriting, error) {
	opening, err := x.opening(ctx)
	if err != nil {
		return judge.Rewriting{}, err
	}
	best := x.run.best()
	ask := judge.RewriteRequest{
		Skill:   judge.Skill{Name: x.run.Subject.Name, Description: *best.Description},
		Opening: opening, Distractors: x.run.Distractors,
	}
	for i, q := range x.run.queries {
		if got := best.results[i]; !q.HeldOut && got.Verdict.decided() {
			ask.Samples = append(ask.Samples, judge.Sample{
				Query: q.Text, Wanted: q.Expectation == ShouldTrigger, Right: got.Verdict == Pass, Chosen: got.Chosen,
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

// opening is the SKILL.md of the content that the run was made for.
func (x *improving) opening(ctx context.Context) (string, error) {
	skill, err := x.s.Subjects.Subject(ctx, x.run.OrgID, x.run.Subject.Pin)
	if err != nil {
		return "", err
	}
	if skill.ContentHash != x.run.Subject.ContentHash {
		return "", fault.New(fault.NotFound, "the content of %s is not the one that the run was made for", skill.Name)
	}
	l := &loaded{}
	if err := l.open(ctx, skill); err != nil {
		return "", err
	}
	return l.text, l.content.Close()
}

// score tries every query with the iteration's description.
func (x *improving) score(ctx context.Context, it *Iteration) error {
	queries := x.run.queries
	trials := make([][improveTrials]Trial, len(queries))
	group, inside := errgroup.WithContext(ctx)
	group.SetLimit(x.s.concurrency())
	for i := range queries {
		for n := range improveTrials {
			group.Go(func() (err error) {
				trials[i][n], err = x.try(inside, queries[i], *it.Description, n+1)
				x.made.Add(1)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	why := ""
	for i, q := range queries {
		got := resultOf(q, trials[i][:])
		it.results = append(it.results, got)
		if q.HeldOut {
			it.HeldOut.add(got.Verdict)
		} else {
			it.Train.add(got.Verdict)
		}
		if !got.Verdict.decided() {
			it.Errors++
			why = trials[i][0].Evidence.Summary
		}
	}
	if it.Errors > 0 {
		shown := fmt.Sprintf("%d of %d queries have no verdict; the last: %s", it.Errors, len(queries), why)
		it.Problem = &shown
	}
	return nil
}

// try routes a query once. An error of the judge that says nothing about other
// queries is a trial without a verdict.
func (x *improving) try(ctx context.Context, q Query, description string, n int) (t Trial, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	name := x.run.Subject.Name
	got, err := x.s.Judge.Route(ctx, judge.RouteRequest{
		Query: q.Text, Skill: judge.Skill{Name: name, Description: description}, Distractors: x.run.Distractors, Seed: x.run.Seed, Trial: n,
	})
	if asked, ok := errors.AsType[*judge.Error](err); ok && !hopeless(asked) && !passing(asked) {
		t.Verdict, t.Evidence.Summary = Error, beginning(asked.Error())
		return t, nil
	}
	if err != nil {
		return t, err
	}
	pass := (got.Skill == name) == (q.Expectation == ShouldTrigger)
	t.decide(pass, points(pass), "%s", got.Reason)
	t.Evidence.Chosen = &got.Skill
	return t, nil
}

// resultOf is what the trials of a query come to, by the rule of runs, with the
// choice that speaks for it.
func resultOf(q Query, trials []Trial) (r result) {
	var t tally
	for _, trial := range trials {
		t.add(trial)
	}
	r.Verdict = *t.verdict(Case{Expectation: q.Expectation})
	for _, trial := range trials {
		if trial.Verdict == r.Verdict && trial.Evidence.Chosen != nil {
			r.Chosen = *trial.Evidence.Chosen
		}
	}
	return r
}
