package evals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/store"
)

const (
	defaultConcurrency = 8 // trials at once that wait for a judge
	watchEvery         = 500 * time.Millisecond
	flushEvery         = 100 * time.Millisecond
	flushSize          = 500
	// flushTime is what writing trials may take, also after the worker was told
	// to stop: they are paid for.
	flushTime = 10 * time.Second
)

var (
	// errOver says that the run ended while it was worked on: it was cancelled,
	// or another process has come to its end.
	errOver = errors.New("the run is over")
	// errTurn says that there is more to do in another turn.
	errTurn = errors.New("the turn is over")
)

// execute works through a run as far as it can. It may be called twice for one
// run, also at the same time: a trial counts once.
func (s *Service) execute(ctx context.Context, orgID, runID string) (err error) {
	defer fault.Wrap(&err, "run %s", runID)
	r, err := runWithCases(ctx, s.DB, orgID, runID)
	if fault.Is(err, fault.NotFound) || err == nil && r.Status.over() {
		return nil
	}
	if err != nil {
		return err
	}
	if r, err = s.begin(ctx, r); err != nil {
		return err
	}
	x, err := s.prepare(ctx, r)
	if err != nil {
		return s.giveUp(ctx, r, err)
	}
	defer x.close()
	err = x.work(ctx)
	switch {
	case errors.Is(err, errOver):
		return nil
	case errors.Is(err, errTurn):
		return jobs.Snooze(0)
	case err != nil:
		return s.giveUp(ctx, r, err)
	}
	return s.complete(ctx, r)
}

// begin makes the run a running one, unless it is already.
func (s *Service) begin(ctx context.Context, r Run) (Run, error) {
	at := store.Now()
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		started, err := startRun(ctx, tx, r.ID, at)
		if err != nil || !started {
			return err
		}
		head := r
		head.Status = Running
		return insertEvents(ctx, tx, r.ID, []event{statusEvent(head)})
	})
	r.Status = Running
	return r, err
}

// complete ends a run all of whose trials are made.
func (s *Service) complete(ctx context.Context, r Run) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		head, err := runHead(ctx, tx, r.OrgID, r.ID, tx.Dialect().ForUpdate())
		if err != nil || head.Status != Running {
			return err
		}
		if head.Done < head.Total {
			return fmt.Errorf("%d of %d trials are missing", head.Total-head.Done, head.Total)
		}
		_, err = s.finish(ctx, tx, head, Succeeded, "")
		return err
	})
}

// giveUp fails the run if trying again cannot help or was tried often enough;
// otherwise the queue tries again.
func (s *Service) giveUp(ctx context.Context, r Run, cause error) error {
	attempt, last := jobs.Attempt(ctx)
	shown := "internal: the run could not go on; the log of the service says why"
	switch f, ok := errors.AsType[*fault.Error](cause); {
	case judge.MustStop(cause):
		shown = cause.Error()
	case ok && f.Kind == fault.NotFound:
		shown = "subject_gone: " + f.Message
	case ok && f.Kind == fault.Malformed:
		shown = "subject_unusable: " + f.Message
	case ctx.Err() != nil || attempt < last:
		return cause
	}
	if !judge.MustStop(cause) {
		s.Log.ErrorContext(ctx, "eval run failed", "run", r.ID, "err", cause)
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		head, err := runHead(ctx, tx, r.OrgID, r.ID, tx.Dialect().ForUpdate())
		if err != nil || head.Status.over() {
			return err
		}
		_, err = s.finish(ctx, tx, head, Failed, shown)
		return err
	})
}

// work makes all trials that are missing. Without an error they are made; it
// is errOver when somebody ended the run.
func (x *execution) work(ctx context.Context) error {
	units := x.missing()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var watching sync.WaitGroup
	watching.Go(func() { x.watch(ctx, stop) })
	trials := make(chan Trial, flushSize)
	var recording sync.WaitGroup
	var recorded error
	recording.Go(func() {
		if recorded = x.record(ctx, trials); recorded != nil {
			stop(recorded)
		}
	})
	rest := x.makeAll(ctx, units, trials, stop)
	close(trials)
	recording.Wait()
	cause := context.Cause(ctx)
	stop(nil)
	watching.Wait()
	switch {
	case recorded != nil:
		return recorded
	case cause != nil:
		return cause
	case rest:
		return errTurn
	}
	return nil
}

// watch stops the work within a second when the run is cancelled, and ends the
// turn early when a run of another organisation waits for its worker.
func (x *execution) watch(ctx context.Context, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	sliceEnds := time.Now().Add(cmp.Or(x.s.slice, defaultSlice))
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		status, err := runStatus(ctx, x.s.DB, x.run.ID)
		if fault.Is(err, fault.NotFound) || err == nil && status != Running {
			stop(errOver)
		}
		if time.Now().After(sliceEnds) {
			if others, err := x.s.Jobs.OthersWait(ctx, x.run.OrgID); err == nil && others {
				x.yield.Store(true)
			}
		}
	}
}

// makeAll makes trials in two lanes: those that wait for a judge, and those
// that keep this machine busy. It reports whether the turn ended before them.
func (x *execution) makeAll(ctx context.Context, units []Unit, trials chan<- Trial, stop context.CancelCauseFunc) (rest bool) {
	var judged, local []Unit
	for _, u := range units {
		if x.cases[u.Case].judged() {
			judged = append(judged, u)
		} else {
			local = append(local, u)
		}
	}
	turnEnds := time.Now().Add(turn)
	var wg sync.WaitGroup
	lane := func(units []Unit, width int) *atomic.Int64 {
		var taken atomic.Int64
		for range min(width, len(units)) {
			wg.Go(func() {
				for ctx.Err() == nil && time.Now().Before(turnEnds) && !x.yield.Load() {
					i := int(taken.Add(1)) - 1
					if i >= len(units) {
						return
					}
					x.makeOne(ctx, units[i], trials, stop)
				}
			})
		}
		return &taken
	}
	first, second := lane(judged, x.s.concurrency()), lane(local, runtime.NumCPU())
	wg.Wait()
	return int(first.Load()) < len(judged) || int(second.Load()) < len(local)
}

// concurrency is how many trials wait for a judge at once.
func (s *Service) concurrency() int { return cmp.Or(s.Concurrency, defaultConcurrency) }

// makeOne makes a trial. One that was cut off by the end of the work is not a
// trial: it is made again.
func (x *execution) makeOne(ctx context.Context, u Unit, trials chan<- Trial, stop context.CancelCauseFunc) {
	t, err := x.try(ctx, u)
	if err == nil {
		trials <- t
		return
	}
	if ctx.Err() != nil {
		return
	}
	if judge.MustStop(err) {
		stop(err)
		return
	}
	trials <- x.failedTrial(ctx, t, err)
}

// record writes trials, many at once when they come quickly.
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
				continue // makers must not wait for a reader that is gone
			}
			return err
		}
		batch = batch[:0]
	}
}

// flush writes trials, the progress and what became of cases. The error is
// errOver if the run has ended meanwhile: then they do not count.
func (x *execution) flush(ctx context.Context, batch []Trial) error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	finished, due := x.story.add(batch)
	return x.s.DB.InTx(ctx, func(tx *store.Tx) error {
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
		done, err := addDone(ctx, tx, x.run.ID, n)
		if err != nil {
			return err
		}
		return insertEvents(ctx, tx, x.run.ID, x.story.events(finished, progress{done, x.run.Total}, due))
	})
}
