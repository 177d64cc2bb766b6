package jobs

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// table is the queue in our own table jobs: for all jobs on SQLite, for the
// runs on PostgreSQL. All its times are the database's.
type table struct {
	q     *Queue
	plain *lane // used on SQLite only
	runs  *lane
	// served is the organisation whose job was claimed last. Only claims on SQLite
	// use it, of which one runs at a time.
	served string
}

// A lane is a pool of workers of this process with the jobs they claim.
type lane struct {
	workers int
	waiting string        // SQL condition for the lane's waiting jobs
	wake    chan struct{} // holds a token when there may be a job to claim
	claim   func(ctx context.Context, tx *store.Tx, kinds []string) ([]job, error)
}

func newTable(q *Queue) *table {
	t := &table{q: q}
	t.plain = &lane{
		workers: q.options.Workers, wake: make(chan struct{}, 1), claim: t.claimNext,
		waiting: `state = 'waiting' AND org_id IS NULL`,
	}
	t.runs = &lane{
		workers: q.options.RunWorkers, wake: make(chan struct{}, 1), claim: t.claimRun,
		waiting: `state = 'waiting' AND org_id IS NOT NULL`,
	}
	return t
}

// notify wakes a worker of the lane.
func (l *lane) notify() {
	select {
	case l.wake <- struct{}{}:
	default: // one is about to wake up
	}
}

func (t *table) insert(ctx context.Context, tx *store.Tx, s spec) error {
	now := tx.Dialect().Now()
	_, err := tx.Exec(ctx, `
		INSERT INTO jobs (kind, args, unique_key, state, attempt, max_attempts, run_at, created_at, org_id, for_org, trace)
		VALUES ($1, $2, $3, 'waiting', 0, $4, `+now+`, `+now+`, $5, $6, $7)`,
		s.kind, string(s.args), nullable(s.key), s.maxAttempts, nullable(s.org), s.forOrg, s.trace)
	// The transaction has not committed yet. On SQLite the claim waits for that,
	// since there is one writer at a time; on PostgreSQL poll finds the job.
	if s.org == "" {
		t.plain.notify()
	} else {
		t.runs.notify()
	}
	return err
}

// nullable is NULL for an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// reclaim gives the running jobs of deleted workers back, or discards them if
// they have no attempt left. poll finds them.
func (t *table) reclaim(ctx context.Context, tx *store.Tx) ([]reclaimed, error) {
	now := tx.Dialect().Now()
	rows, err := tx.Query(ctx, `
		UPDATE jobs SET
			state = CASE WHEN attempt < max_attempts THEN 'waiting' ELSE 'discarded' END,
			discarded_at = CASE WHEN attempt < max_attempts THEN NULL ELSE `+now+` END,
			run_at = `+now+`, owner = NULL, last_error = $1
		WHERE state = 'running' AND owner NOT IN (SELECT id FROM job_workers)
		RETURNING kind, state = 'discarded'`, deadWorker)
	return store.All(rows, err, scanReclaimed)
}

// run works until the context ends, and drains.
func (t *table) run(ctx context.Context) error {
	jobsCtx, cancelJobs := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelJobs()
	var wg sync.WaitGroup
	start := func(l *lane, kinds []string) {
		if len(kinds) == 0 {
			return
		}
		for range l.workers {
			wg.Go(func() { t.work(ctx, jobsCtx, l, kinds) })
		}
		wg.Go(func() { t.poll(ctx, l) })
	}
	plain, runs := t.q.kinds()
	start(t.runs, runs)
	if t.q.river == nil {
		start(t.plain, plain)
		wg.Go(func() { t.watchClock(ctx) })
	}
	<-ctx.Done()
	timer := time.AfterFunc(t.q.options.Drain, cancelJobs)
	defer timer.Stop()
	wg.Wait()
	return nil
}

// poll wakes a worker when a job is due that the lane was not notified of.
func (t *table) poll(ctx context.Context, l *lane) {
	for {
		wait := t.q.options.Poll
		rows, err := t.q.db.Query(ctx, `
			SELECT id FROM jobs WHERE `+l.waiting+` AND run_at <= `+t.q.db.Dialect().Now()+` LIMIT 1`)
		due, err := store.All(rows, err, store.Value[int64])
		if len(due) > 0 {
			l.notify()
		}
		if err != nil && ctx.Err() == nil {
			t.q.log.WarnContext(ctx, "the job queue could not be read", "error", err)
			wait = max(wait, 5*time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// watchClock notices that the machine's clock is set back, by comparing wall
// time with monotonic time, of which a time.Time has both.
func (t *table) watchClock(ctx context.Context) {
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(t.q.options.Poll):
		}
		now := time.Now()
		if back := now.Sub(last) - now.Round(0).Sub(last.Round(0)); back > time.Second {
			t.setBack(ctx, back)
		}
		last = now
	}
}

// setBack moves what is due in the future by as much as the clock was set
// back: it was planned by the clock as it was before, and would be late.
func (t *table) setBack(ctx context.Context, by time.Duration) {
	err := t.q.db.InTx(ctx, func(tx *store.Tx) error {
		now := tx.Dialect().Now()
		_, err := tx.Exec(ctx, `
			UPDATE jobs SET run_at = run_at - $1 WHERE state = 'waiting' AND run_at > `+now, by.Microseconds())
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE job_schedules SET next_at = next_at - $1 WHERE next_at > `+now, by.Microseconds())
		return err
	})
	t.q.log.WarnContext(ctx, "the clock was set back", "by", by, "error", err)
}

// work claims and runs one job after the other until ctx ends. The jobs run
// under jobsCtx, which ends later: see Options.Drain.
func (t *table) work(ctx, jobsCtx context.Context, l *lane, kinds []string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		for ctx.Err() == nil {
			claimed, err := t.claim(ctx, l, kinds)
			if err != nil && ctx.Err() == nil {
				t.q.log.WarnContext(ctx, "no job could be claimed", "error", err)
			}
			if len(claimed) == 0 {
				break
			}
			l.notify() // there may be more: wake the next worker
			t.complete(ctx, claimed[0], t.q.attempt(jobsCtx, claimed[0]))
		}
	}
}

// claim takes the lane's next job of those kinds, if there is one, and releases
// its unique key.
func (t *table) claim(ctx context.Context, l *lane, kinds []string) (claimed []job, err error) {
	err = t.q.db.InGroup(ctx, func(tx *store.Tx) (err error) {
		if claimed, err = l.claim(ctx, tx, kinds); err != nil || len(claimed) == 0 || claimed[0].key == "" {
			return err
		}
		return releaseKey(ctx, tx, claimed[0].kind, claimed[0].key)
	})
	if err != nil {
		return nil, err // the claim was rolled back
	}
	return claimed, nil
}

const claimedColumns = `id, kind, args, COALESCE(unique_key, ''), attempt, max_attempts, trace`

func scanJob(row store.Row) (j job, err error) { return scanClaimed(row) }

// scanClaimed scans claimedColumns, and what follows them.
func scanClaimed(row store.Row, more ...any) (j job, err error) {
	var args string
	err = row.Scan(append([]any{&j.id, &j.kind, &args, &j.key, &j.attempt, &j.maxAttempts, &j.trace}, more...)...)
	j.args = json.RawMessage(args)
	return j, err
}

// complete records the outcome of an attempt. It retries while the database
// refuses, because the job belongs to this worker and would run for ever. When
// the process ends, the job is reclaimed by others.
func (t *table) complete(ctx context.Context, j job, r result) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := t.record(context.WithoutCancel(ctx), j, r)
		if err == nil {
			return
		}
		t.q.log.WarnContext(ctx, "the outcome of a job could not be stored", "kind", j.kind, "job", j.id, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// record does nothing if the job has been reclaimed from this worker.
func (t *table) record(ctx context.Context, j job, r result) error {
	return t.q.db.InGroup(ctx, func(tx *store.Tx) error {
		const claimed = ` WHERE id = $1 AND attempt = $2 AND owner = $3 AND state = 'running'`
		now := tx.Dialect().Now()
		switch {
		case r.outcome == discarded:
			_, err := tx.Exec(ctx, `
				UPDATE jobs SET state = 'discarded', discarded_at = `+now+`, owner = NULL, last_error = $4`+claimed,
				j.id, j.attempt, t.q.worker, r.err)
			return err
		case !r.outcome.runsAgain():
			_, err := tx.Exec(ctx, `DELETE FROM jobs`+claimed, j.id, j.attempt, t.q.worker)
			return err
		}
		used := j.attempt
		if r.outcome == snoozed || r.outcome == interrupted {
			used-- // the job did not fail
		}
		n, err := tx.Exec(ctx, `
			UPDATE jobs SET state = 'waiting', attempt = $4, run_at = `+now+` + $5, owner = NULL, last_error = $6`+claimed,
			j.id, j.attempt, t.q.worker, used, r.wait.Microseconds(), r.err)
		if err != nil || n == 0 || j.key == "" {
			return err
		}
		if free, err := reacquireKey(ctx, tx, j.kind, j.key); err != nil || free {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM jobs WHERE id = $1`, j.id)
		return err
	})
}
