package jobs

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// table keeps jobs in a table of our own: all of them on SQLite, the runs on
// PostgreSQL.
type table struct {
	q     *Queue
	time  func() time.Time // by which jobs are due
	plain *lane            // nil on PostgreSQL
	runs  *lane
}

// A lane is some workers of this process and the jobs that they claim.
type lane struct {
	workers int
	wake    chan struct{} // holds a token when there may be something to claim
	// waiting is SQL for the jobs of the lane that wait.
	waiting string
	claim   func(ctx context.Context, tx *store.Tx, kinds []string) ([]job, error)
}

func newTable(q *Queue) *table {
	t := &table{q: q, time: time.Now}
	t.plain = &lane{
		workers: q.options.Workers, wake: make(chan struct{}, 1), claim: t.claimOldest,
		waiting: `state = 'waiting' AND org_id IS NULL`,
	}
	t.runs = &lane{
		workers: q.options.RunWorkers, wake: make(chan struct{}, 1), claim: t.claimRun,
		waiting: `state = 'waiting' AND org_id IS NOT NULL`,
	}
	return t
}

// now is the machine's own time: all processes of a SQLite file share it.
func (*table) now() string { return `CAST(unixepoch('subsec') * 1000000 AS INTEGER)` }

func (t *table) clock() time.Time { return t.time() }

// tick has nothing to tell: watchClock sees what becomes of the machine's clock.
func (*table) tick(time.Time) {}

func (t *table) insert(ctx context.Context, tx *store.Tx, o order) error {
	now := t.time()
	due := now.Add(max(0, o.at.Sub(time.Now().Round(0)))) // whatever the clock of the database shows
	_, err := tx.Exec(ctx, `
		INSERT INTO jobs (kind, args, unique_key, state, attempt, max_attempts, run_at, created_at, org_id)
		VALUES ($1, $2, $3, 'waiting', 0, $4, $5, $6, $7)`,
		o.kind, string(o.args), null(o.key), o.attempts, store.Micros(due), store.Micros(now), null(o.org))
	// On SQLite the claim that this causes waits for its turn to write, which is
	// after this transaction has ended. On PostgreSQL poll finds the job.
	if o.org == "" {
		t.plain.nudge()
	} else {
		t.runs.nudge()
	}
	return err
}

// null is SQL's NULL for an empty text.
func null(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (l *lane) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (*table) hold(ctx context.Context, tx *store.Tx, kind, key string) (bool, error) {
	n, err := tx.Exec(ctx, insertKey, kind, key)
	return n == 1, err
}

// adopt finds runs among the other jobs.
func (t *table) adopt(ctx context.Context, tx *store.Tx, kinds []string) error {
	type stray struct {
		id         int64
		kind, args string
	}
	in, list := tx.Dialect().In("$1", kinds)
	rows, err := tx.Query(ctx, `SELECT id, kind, args FROM jobs WHERE `+t.plain.waiting+` AND kind`+in, list)
	strays, err := store.All(rows, err, func(row store.Row) (s stray, err error) {
		err = row.Scan(&s.id, &s.kind, &s.args)
		return s, err
	})
	if err != nil {
		return err
	}
	for _, s := range strays {
		org := t.q.orgOf(s.kind, json.RawMessage(s.args))
		if _, err := tx.Exec(ctx, `UPDATE jobs SET org_id = $2 WHERE id = $1`, s.id, org); err != nil {
			return err
		}
	}
	return nil
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
			discarded_at = CASE WHEN attempt < max_attempts THEN NULL ELSE CAST($1 AS BIGINT) END,
			run_at = CAST($1 AS BIGINT), owner = NULL, last_error = $2
		WHERE state = 'running' AND owner NOT IN (SELECT id FROM job_workers)
		RETURNING kind, state = 'discarded'`, store.Micros(t.time()), deadWorker)
	return store.All(rows, err, scanRescued) // poll finds them
}

func (t *table) tidy(ctx context.Context, tx *store.Tx) error {
	if err := t.forget(ctx, tx); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
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
			CAST($1 AS BIGINT) - COALESCE(MIN(run_at) FILTER (WHERE state = 'waiting'), $1)
		FROM jobs GROUP BY kind ORDER BY kind`, store.Micros(t.time()))
	return store.All(rows, err, scanCount)
}

// run has one goroutine for each job that may run at once, and one for each
// lane that wakes them when something has become due.
func (t *table) run(ctx context.Context) error {
	working, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	var wg sync.WaitGroup
	start := func(l *lane, kinds []string) {
		if len(kinds) == 0 {
			return
		}
		for range l.workers {
			wg.Go(func() { t.workAway(ctx, working, l, kinds) })
		}
		wg.Go(func() { t.poll(ctx, l) })
	}
	plain, runs := t.q.kinds()
	start(t.runs, runs)
	if t.plain != nil {
		start(t.plain, plain)
		wg.Go(func() { t.watchClock(ctx) })
	}
	<-ctx.Done()
	timer := time.AfterFunc(t.q.options.Drain, abandon)
	defer timer.Stop()
	wg.Wait()
	return nil
}

// poll nudges a worker when something is due that nobody announced.
func (t *table) poll(ctx context.Context, l *lane) {
	for {
		wait := t.q.options.Poll
		rows, err := t.q.db.Query(ctx, `SELECT id FROM jobs WHERE `+l.waiting+` AND run_at <= $1 LIMIT 1`, store.Micros(t.time()))
		due, err := store.All(rows, err, store.Value[int64])
		if len(due) > 0 {
			l.nudge()
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

// watchClock notices that the clock on the wall was set back; the other one in
// a Time is not.
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
func (t *table) workAway(ctx, working context.Context, l *lane, kinds []string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		for ctx.Err() == nil {
			claimed, err := t.claim(ctx, l, kinds)
			if err != nil && ctx.Err() == nil {
				t.q.log.WarnContext(ctx, "no job could be claimed", "err", err)
			}
			if len(claimed) == 0 {
				break
			}
			l.nudge() // where one was, there may be more: wake the next worker
			t.finish(ctx, claimed[0], t.q.work(working, claimed[0]))
		}
	}
}

// claim takes the lane's next job, if there is one that this binary knows. Its
// key is free from now on, as it runs.
func (t *table) claim(ctx context.Context, l *lane, kinds []string) (claimed []job, err error) {
	err = t.q.db.InGroup(ctx, func(tx *store.Tx) (err error) {
		if claimed, err = l.claim(ctx, tx, kinds); err != nil || len(claimed) == 0 || claimed[0].key == "" {
			return err
		}
		return t.q.engine.release(ctx, tx, claimed[0])
	})
	if err != nil {
		return nil, err // what was read was rolled back
	}
	return claimed, nil
}

const claimedColumns = `id, kind, args, COALESCE(unique_key, ''), attempt, max_attempts`

// claimOldest takes the job that is due for the longest time.
func (t *table) claimOldest(ctx context.Context, tx *store.Tx, kinds []string) ([]job, error) {
	in, list := tx.Dialect().In("$3", kinds)
	rows, err := tx.Query(ctx, `
		UPDATE jobs SET state = 'running', attempt = attempt + 1, owner = $1
		WHERE id = (
			SELECT id FROM jobs WHERE `+t.plain.waiting+` AND run_at <= $2 AND kind`+in+`
			ORDER BY run_at, id LIMIT 1)
		RETURNING `+claimedColumns, t.q.worker, store.Micros(t.time()), list)
	return store.All(rows, err, scanJob)
}

func (*table) release(ctx context.Context, tx *store.Tx, j job) error {
	_, err := tx.Exec(ctx, deleteKey, j.kind, j.key)
	return err
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
	now := t.time()
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
