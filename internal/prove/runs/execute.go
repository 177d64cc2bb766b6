package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/sse"
)

const (
	defaultConcurrency = 8 // concurrent trials that wait for a judge
	// Trials are stored in batches: deterministic ones are made faster than a
	// database commits. What a crash loses is made again.
	flushEvery = 100 * time.Millisecond
	flushSize  = 500
	// FlushTimeout bounds how long writing results may take after the worker
	// was stopped: they are written nevertheless, since they were paid for.
	FlushTimeout = 10 * time.Second
)

// errTurn means that the turn of the job ended with trials left.
var errTurn = errors.New("the turn is over")

// execute makes the missing trials of a run. It is idempotent: called twice for
// a run, even at the same time, it counts each trial once.
func (s *Service) execute(ctx context.Context, orgID, runID string) (err error) {
	defer fault.Wrap(&err, "run %s", runID)
	r, err := runWithCases(ctx, s.DB, orgID, runID)
	// Nothing is left to do: the run was deleted, cancelled, or ended by another
	// worker.
	if fault.Is(err, fault.NotFound) || err == nil && r.Status.Over() {
		return nil
	}
	if err != nil {
		return err
	}
	if len(r.Terms.After) > 0 && r.Status == Queued {
		before, err := ByID(ctx, s.DB, orgID, r.Terms.After)
		if err != nil {
			return err
		}
		for _, b := range before {
			if !b.Status.Over() {
				return jobs.Snooze(pollEvery)
			}
		}
	}
	if r, err = s.begin(ctx, r); err != nil {
		return err
	}
	x, err := s.prepare(ctx, r)
	if err != nil {
		return s.retryOrFail(ctx, r, err)
	}
	defer x.close()
	err = while(ctx, x.running, x.work)
	switch {
	case errors.Is(err, errOver):
		return nil
	case errors.Is(err, errTurn):
		// Back into the queue, so that runs of other organisations get their turn.
		return jobs.Snooze(0)
	case err != nil:
		return s.retryOrFail(ctx, r, err)
	case x.budget.WasSpent():
		return s.complete(ctx, r, BudgetSpent)
	}
	return s.complete(ctx, r, Succeeded)
}

// begin makes a queued run a running one, once: the job of a run starts again
// after every turn and crash, and clients must see one such event.
func (s *Service) begin(ctx context.Context, r Run) (Run, error) {
	at := store.Now()
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		started, err := markRunStarted(ctx, tx, r.ID, at)
		if err != nil || !started {
			return err
		}
		head := r
		head.Status = Running
		return sse.Insert(ctx, tx, r.ID, []sse.Event{statusEvent(head)})
	})
	r.Status = Running
	return r, err
}

// complete ends a run all of whose trials are made, or whose budget is spent. The
// row is locked, so that of two workers one ends it, and a cancellation in between
// wins.
func (s *Service) complete(ctx context.Context, r Run, status Status) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		head, err := runByID(ctx, tx, r.OrgID, r.ID, tx.Dialect().ForUpdate())
		if err != nil || head.Status != Running {
			return err
		}
		if head.Done < head.Total && status == Succeeded {
			return fmt.Errorf("%d of %d trials are missing", head.Total-head.Done, head.Total)
		}
		head.FinishedAt = r.FinishedAt // nil, unless it was recorded
		_, err = s.finish(ctx, tx, head, status, "")
		return err
	})
}

// retryOrFail returns the error, so that the queue retries the job, unless the
// error is permanent or this was the last attempt: then the run fails.
func (s *Service) retryOrFail(ctx context.Context, r Run, cause error) error {
	message, permanent := PermanentError(cause)
	// A worker that shuts down interrupts its trials, which is no failure of the run.
	if attempt, last := jobs.Attempt(ctx); !permanent && (ctx.Err() != nil || attempt < last) {
		return cause
	}
	if !judge.MustStop(cause) {
		s.Log.ErrorContext(ctx, "eval run failed", "run", r.ID, "error", cause)
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		head, err := runByID(ctx, tx, r.OrgID, r.ID, tx.Dialect().ForUpdate())
		if err != nil || head.Status.Over() {
			return err
		}
		_, err = s.finish(ctx, tx, head, Failed, cmp.Or(message, InternalError))
		return err
	})
}

// running reports whether the run is still running. When the time slice is
// used up and a run of another organisation waits for a worker, it ends the
// turn early.
func (x *execution) running(ctx context.Context) (bool, error) {
	if time.Now().After(x.sliceEnds) {
		// If the query fails the turn just lasts longer, up to maxTurn.
		if others, err := x.s.Jobs.OthersWait(ctx, x.run.OrgID); err == nil && others {
			x.yield.Store(true)
		}
	}
	// Saved at every poll, so that a crash doesn't let the next worker spend it again.
	if err := x.budget.Save(ctx, x.s.DB); err != nil {
		return true, err
	}
	status, err := runStatus(ctx, x.s.DB, x.run.OrgID, x.run.ID)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return status == Running, err
}

// work makes all missing trials and stores them. The error is errTurn if the
// turn ended before.
func (x *execution) work(ctx context.Context, stop context.CancelCauseFunc) error {
	trials := make(chan Trial, flushSize)
	var recording sync.WaitGroup
	var recordErr error
	recording.Go(func() {
		if recordErr = x.record(ctx, trials); recordErr != nil {
			stop(recordErr)
		}
	})
	rest := x.runTrials(ctx, x.missing(), trials, stop)
	close(trials)
	recording.Wait()
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), FlushTimeout)
	defer cancel()
	if err := x.budget.Save(saving, x.s.DB); err != nil { // interrupted trials have cost something, too
		return err
	}
	if recordErr != nil {
		return recordErr
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if rest {
		return errTurn
	}
	return nil
}

// runTrials makes trials with three pools of goroutines: one for those that wait
// for a judge, one for agents, and one as wide as the machine for those that keep
// it busy. It reports whether trials are left because the turn ended.
func (x *execution) runTrials(
	ctx context.Context, keys []TrialKey, trials chan<- Trial, stop context.CancelCauseFunc,
) (rest bool) {
	var judged, agents, local []TrialKey
	for _, key := range keys {
		switch c := x.cases[key.Case]; {
		case x.run.agentOf(c) != nil:
			agents = append(agents, key)
		case x.run.isJudged(c):
			judged = append(judged, key)
		default:
			local = append(local, key)
		}
	}
	// A worker looks at the end of the turn between trials only: a trial that was
	// started is paid for, so it is finished.
	turnEnds := time.Now().Add(maxTurn)
	var wg sync.WaitGroup
	free := func(context.Context) (release func()) { return func() {} }
	pool := func(keys []TrialKey, size int, reserve func(context.Context) func()) *atomic.Int64 {
		var next atomic.Int64
		for range min(size, len(keys)) {
			wg.Go(func() {
				for ctx.Err() == nil && time.Now().Before(turnEnds) && !x.yield.Load() && !x.budget.IsSpent() {
					i := int(next.Add(1)) - 1
					if i >= len(keys) {
						return
					}
					if release := reserve(ctx); release != nil {
						x.runTrial(ctx, keys[i], trials, stop)
						release()
					}
				}
			})
		}
		return &next
	}
	pools := map[*atomic.Int64]int{
		pool(judged, x.s.JudgeConcurrency(), x.budget.Reserve): len(judged),
		pool(agents, min(8, 2*runtime.NumCPU()), free):         len(agents), // they wait for a model most of the time
		pool(local, runtime.NumCPU(), free):                    len(local),
	}
	wg.Wait()
	// next counts the trials that were taken on; if it is below all, some are left.
	for next, all := range pools {
		rest = rest || int(next.Load()) < all
	}
	return rest && !x.budget.WasSpent()
}

// JudgeConcurrency is how many trials of a run wait for the judge at once.
func (s *Service) JudgeConcurrency() int { return cmp.Or(s.Concurrency, defaultConcurrency) }

// runTrial makes a trial and sends it. One that is interrupted by the end of
// the work is dropped: the next job makes it again.
func (x *execution) runTrial(ctx context.Context, key TrialKey, trials chan<- Trial, stop context.CancelCauseFunc) {
	t, err := x.try(ctx, key)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return
	case judge.MustStop(err):
		stop(err)
		return
	default:
		t = x.errorTrial(ctx, t, err)
	}
	x.addCost(&t)
	// After the verdict: redacting earlier could remove a word that a check looks for.
	if err := x.hideEvidence(&t.Evidence); err != nil {
		stop(err)
		return
	}
	x.saveRecording(ctx, &t)
	trials <- t
}

// record stores trials in batches.
func (x *execution) record(ctx context.Context, trials <-chan Trial) error {
	timer := time.NewTimer(flushEvery)
	defer timer.Stop()
	var batch []Trial
	for {
		select {
		case t, more := <-trials:
			if !more {
				return x.flush(ctx, batch)
			}
			if batch = append(batch, t); len(batch) < flushSize {
				continue
			}
		case <-timer.C:
			timer.Reset(flushEvery)
		}
		if err := x.flush(ctx, batch); err != nil {
			for range trials {
				continue // drain the channel, or its senders would block forever
			}
			return err
		}
		batch = batch[:0]
	}
}

// flush stores trials, the progress and the events that follow from them. The
// error is errOver if the run has ended meanwhile: then they do not count.
func (x *execution) flush(ctx context.Context, batch []Trial) error {
	activity := x.activity.Take()
	if len(batch) == 0 && len(activity) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FlushTimeout)
	defer cancel()
	finished, progressDue := x.events.add(batch)
	return x.s.DB.InTx(ctx, func(tx *store.Tx) error {
		// The row lock serialises workers: a batch's trials, counts, costs and events
		// commit together, and none commit once the run is over.
		running, err := lockRun(ctx, tx, x.run.ID)
		if err != nil {
			return err
		}
		if !running {
			return errOver
		}
		n, err := insertTrials(ctx, tx, x.run.ID, batch)
		if err != nil {
			return err
		}
		if err := x.insertRecordings(ctx, tx, batch, n); err != nil {
			return err
		}
		if err := x.addCosts(ctx, tx, batch, n); err != nil {
			return err
		}
		done, err := addDone(ctx, tx, x.run.ID, n)
		if err != nil {
			return err
		}
		return sse.Insert(ctx, tx, x.run.ID,
			slices.Concat(activity, x.events.of(finished, Progress{Done: done, Total: x.run.Total}, progressDue)))
	})
}

// addCosts adds the cost of a batch, of which n trials are new, to that of the run,
// whose row is locked. If another worker stored some of them first, which is rare, the
// sum is recomputed from all stored trials, so that each counts once.
func (x *execution) addCosts(ctx context.Context, tx *store.Tx, batch []Trial, n int64) (err error) {
	var total spend.Cost
	if int(n) < len(batch) {
		if batch, err = trialsOfRun(ctx, tx, x.run.ID, nil); err != nil {
			return err
		}
		if err := spend.RemoveTrials(ctx, tx, x.run.ID); err != nil {
			return err
		}
	} else if total, err = spend.OfRun(ctx, tx, x.run.ID); err != nil {
		return err
	}
	agents := map[spend.Model]spend.Sum{}
	for _, t := range batch {
		cost, agent := t.Evidence.Cost, t.Evidence.Agent
		if cost == nil {
			continue
		}
		total.Add(*cost)
		if agent != nil && cost.Unpriced == 0 && t.Verdict.Decided() {
			m := spend.Model{Agent: agent.Name, Model: agent.Model}
			sum := agents[m]
			agents[m] = spend.Sum{Trials: sum.Trials + 1, Micros: sum.Micros + cost.Micros}
		}
	}
	if total.Requests == 0 {
		return nil
	}
	if err := spend.AddTrials(ctx, tx, x.run.OrgID, x.run.ID, agents); err != nil {
		return err
	}
	return spend.Update(ctx, tx, x.run.ID, total)
}
