package jobs

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// table is the queue on SQLite: a table, and the workers of this process.
type table struct {
	q    *Queue
	wake chan struct{} // holds a token when there may be something to claim
}

// now is the machine's own time: all processes of a SQLite file share it.
func (*table) now() string { return `CAST(unixepoch('subsec') * 1000000 AS INTEGER)` }

// tick has nothing to tell: poll sees what becomes of the machine's clock.
func (*table) tick(time.Time) {}

func (t *table) insert(ctx context.Context, tx *store.Tx, o order) error {
	now := store.Micros(time.Now())
	due := max(now, store.Micros(o.at))
	var key *string
	if o.key != "" {
		key = &o.key
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO jobs (kind, args, unique_key, state, attempt, max_attempts, run_at, created_at)
		VALUES ($1, $2, $3, 'waiting', 0, $4, $5, $6)`, o.kind, string(o.args), key, o.attempts, due, now)
	// The claim that this causes waits for its turn to write, which is after
	// this transaction has ended.
	t.nudge()
	return err
}

func (t *table) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (*table) hold(ctx context.Context, tx *store.Tx, kind, key string) (bool, error) {
	n, err := tx.Exec(ctx, insertKey, kind, key)
	return n == 1, err
}

func (*table) remove(ctx context.Context, tx *store.Tx, kind, key string) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM jobs WHERE kind = $1 AND unique_key = $2 AND state = 'waiting'`, kind, key)
}

func (*table) live(ctx context.Context, tx *store.Tx, kind, key string) (bool, error) {
	rows, err := tx.Query(ctx, `
		SELECT id FROM jobs WHERE kind = $1 AND unique_key = $2 AND state <> 'discarded' LIMIT 1`, kind, key)
	all, err := store.All(rows, err, store.Value[int64])
	return len(all) > 0, err
}

func (t *table) rescue(ctx context.Context, tx *store.Tx) ([]rescued, error) {
	rows, err := tx.Query(ctx, `
		UPDATE jobs SET
			state = CASE WHEN attempt < max_attempts THEN 'waiting' ELSE 'discarded' END,
			discarded_at = CASE WHEN attempt < max_attempts THEN NULL ELSE $1 END,
			run_at = $1, owner = NULL, last_error = $2
		WHERE state = 'running' AND owner NOT IN (SELECT id FROM job_workers)
		RETURNING kind, state = 'discarded'`, store.Micros(time.Now()), deadWorker)
	all, err := store.All(rows, err, scanRescued)
	if len(all) > 0 {
		t.nudge()
	}
	return all, err
}

func (*table) tidy(ctx context.Context, tx *store.Tx) error {
	_, err := tx.Exec(ctx, `DELETE FROM jobs WHERE state = 'discarded' AND discarded_at < $1`,
		store.Micros(time.Now().Add(-keepDiscarded)))
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		DELETE FROM job_keys WHERE NOT EXISTS (
			SELECT 1 FROM jobs j
			WHERE j.kind = job_keys.kind AND j.unique_key = job_keys.unique_key AND j.state <> 'discarded')`)
	return err
}

func (t *table) counts(ctx context.Context) ([]Count, error) {
	rows, err := t.q.db.Query(ctx, `
		SELECT kind,
			COUNT(*) FILTER (WHERE state = 'waiting' AND attempt = 0),
			COUNT(*) FILTER (WHERE state = 'running'),
			COUNT(*) FILTER (WHERE state = 'waiting' AND attempt > 0),
			COUNT(*) FILTER (WHERE state = 'discarded'),
			$1 - COALESCE(MIN(run_at) FILTER (WHERE state = 'waiting'), $1)
		FROM jobs GROUP BY kind ORDER BY kind`, store.Micros(time.Now()))
	return store.All(rows, err, scanCount)
}

// run has one goroutine for each job that may run at once, and one that wakes
// them when something has become due.
func (t *table) run(ctx context.Context) error {
	kinds, err := json.Marshal(slices.Collect(maps.Keys(t.q.handlers)))
	if err != nil {
		return err
	}
	working, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var wg sync.WaitGroup
	for range t.q.options.Workers {
		wg.Go(func() { t.workAway(ctx, working, string(kinds)) })
	}
	wg.Go(func() { t.poll(ctx) })
	<-ctx.Done()
	timer := time.AfterFunc(t.q.options.Drain, abandon)
	defer timer.Stop()
	wg.Wait()
	return nil
}

// poll nudges a worker when something is due that nobody announced.
func (t *table) poll(ctx context.Context) {
	last := time.Now()
	for {
		wait := t.q.options.Poll
		now := time.Now()
		// The clock on the wall may be set back; the other one in a Time is not.
		if back := now.Sub(last) - now.Round(0).Sub(last.Round(0)); back > time.Second {
			t.setBack(ctx, back)
		}
		last = now
		rows, err := t.q.db.Query(ctx, `SELECT id FROM jobs WHERE state = 'waiting' AND run_at <= $1 LIMIT 1`,
			store.Micros(time.Now()))
		due, err := store.All(rows, err, store.Value[int64])
		if len(due) > 0 {
			t.nudge()
		}
		if err != nil && ctx.Err() == nil {
			t.q.log.WarnContext(ctx, "the job queue could not be read", "err", err)
			wait = max(wait, 5*time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// setBack plans anew what was planned by a clock that was fast: it would come
// late by as much as the clock was set back.
func (t *table) setBack(ctx context.Context, by time.Duration) {
	err := t.q.db.InTx(ctx, func(tx *store.Tx) error {
		now := store.Micros(time.Now())
		_, err := tx.Exec(ctx, `UPDATE jobs SET run_at = run_at - $1 WHERE state = 'waiting' AND run_at > $2`, by.Microseconds(), now)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE job_schedules SET next_at = next_at - $1 WHERE next_at > $2`, by.Microseconds(), now)
		return err
	})
	t.q.log.WarnContext(ctx, "the clock was set back", "by", by, "err", err)
}

// workAway runs one job after the other until ctx ends. The jobs have the
// context working, which ends later.
func (t *table) workAway(ctx, working context.Context, kinds string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		for ctx.Err() == nil {
			claimed, err := t.claim(ctx, kinds)
			if err != nil && ctx.Err() == nil {
				t.q.log.WarnContext(ctx, "no job could be claimed", "err", err)
			}
			if len(claimed) == 0 {
				break
			}
			t.nudge() // where one was, there may be more: wake the next worker
			t.finish(ctx, claimed[0], t.q.work(working, claimed[0]))
		}
	}
}

// claim takes the job that is due for the longest time, if there is one that
// this binary knows. Its key is free from now on, as it runs.
func (t *table) claim(ctx context.Context, kinds string) (claimed []job, err error) {
	err = t.q.db.InGroup(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(ctx, `
			UPDATE jobs SET state = 'running', attempt = attempt + 1, owner = $1
			WHERE id = (
				SELECT id FROM jobs
				WHERE state = 'waiting' AND run_at <= $2 AND kind IN (SELECT value FROM json_each($3))
				ORDER BY run_at, id LIMIT 1)
			RETURNING id, kind, args, COALESCE(unique_key, ''), attempt, max_attempts`,
			t.q.worker, store.Micros(time.Now()), kinds)
		claimed, err = store.All(rows, err, scanJob)
		if err != nil || len(claimed) == 0 || claimed[0].key == "" {
			return err
		}
		_, err = tx.Exec(ctx, deleteKey, claimed[0].kind, claimed[0].key)
		return err
	})
	if err != nil {
		return nil, err // what was read was rolled back
	}
	return claimed, nil
}

func scanJob(row store.Row) (j job, err error) {
	var args string
	err = row.Scan(&j.id, &j.kind, &args, &j.key, &j.attempt, &j.attempts)
	j.args = json.RawMessage(args)
	return j, err
}

// finish writes down how a run went. While the database refuses, the job
// belongs to this worker and nobody else would; so it insists, unless the
// process ends: then others take the job.
func (t *table) finish(ctx context.Context, j job, r result) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := t.record(context.WithoutCancel(ctx), j, r)
		if err == nil {
			return
		}
		t.q.log.WarnContext(ctx, "a job's end could not be written down", "kind", j.kind, "job", j.id, "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// record does nothing if the job was taken from this worker meanwhile.
func (t *table) record(ctx context.Context, j job, r result) error {
	now := time.Now()
	return t.q.db.InGroup(ctx, func(tx *store.Tx) error {
		const own = ` WHERE id = $1 AND attempt = $2 AND owner = $3 AND state = 'running'`
		switch {
		case r.outcome == discarded:
			_, err := tx.Exec(ctx, `
				UPDATE jobs SET state = 'discarded', discarded_at = $4, owner = NULL, last_error = $5`+own,
				j.id, j.attempt, t.q.worker, store.Micros(now), r.err)
			return err
		case !r.outcome.again():
			_, err := tx.Exec(ctx, `DELETE FROM jobs`+own, j.id, j.attempt, t.q.worker)
			return err
		}
		n, err := tx.Exec(ctx, `
			UPDATE jobs SET state = 'waiting', attempt = $4, run_at = $5, owner = NULL, last_error = $6`+own,
			j.id, j.attempt, t.q.worker, r.outcome.used(j.attempt), store.Micros(now.Add(r.wait)), r.err)
		if err != nil || n == 0 || j.key == "" {
			return err
		}
		held, err := t.hold(ctx, tx, j.kind, j.key)
		if err != nil || held {
			return err
		}
		// Another job of this key waits already and is as good.
		_, err = tx.Exec(ctx, `DELETE FROM jobs WHERE id = $1`, j.id)
		return err
	})
}
