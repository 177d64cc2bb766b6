package jobs

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A lane is a pool of workers of this process with the jobs they claim.
type lane struct {
	name    string
	workers int
	waiting string        // SQL condition for the lane's waiting jobs
	wake    chan struct{} // holds a token when there may be a job to claim
	claim   func(ctx context.Context, tx *store.Tx, kinds []string) ([]job, error)

	// claiming has the claims of this process follow each other on PostgreSQL, too:
	// two at once would not see each other's turn, and exceed an organisation's share.
	claiming sync.Mutex

	mu         sync.Mutex
	announcing bool      // other processes will be told soon
	announced  time.Time // when they were told last
}

func newLane(name string, workers int, waiting string) *lane {
	return &lane{name: name, workers: workers, waiting: "state = 'waiting' AND " + waiting, wake: make(chan struct{}, 1)}
}

// notify wakes a worker of the lane.
func (l *lane) notify() {
	select {
	case l.wake <- struct{}{}:
	default: // one is about to wake up
	}
}

// insert writes a job whose unique key, if any, is acquired.
func (q *Queue) insert(ctx context.Context, tx *store.Tx, s spec) error {
	now := tx.Dialect().Now()
	_, err := tx.Exec(ctx, `
		INSERT INTO jobs (kind, args, unique_key, state, attempt, max_attempts, run_at, created_at, org_id, for_org, trace)
		VALUES ($1, $2, $3, 'waiting', 0, $4, `+now+`, `+now+`, $5, $6, $7)`,
		s.kind, string(s.args), nullable(s.key), s.maxAttempts, nullable(s.org), s.forOrg, s.trace)
	l := q.plain
	if s.org != "" {
		l = q.runs
	}
	tx.AfterCommit(func() {
		l.notify()
		q.announce(l)
	})
	return err
}

// nullable is NULL for an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// announcements is the channel of PostgreSQL on which processes tell each other of
// new jobs, by the name of a lane.
const announcements = "whetstone_jobs"

// quiet is the least time between two announcements of a process. PostgreSQL lets
// only one transaction commit at a time that announces something.
const quiet = 10 * time.Millisecond

// announce tells other processes of a job that was committed. If it is lost, they find
// the job when they poll.
func (q *Queue) announce(l *lane) {
	if q.db.Dialect().OneWriter() || q.db.Pooled() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.announcing {
		return // that one comes after this job's commit
	}
	l.announcing = true
	time.AfterFunc(quiet-min(quiet, time.Since(l.announced)), func() {
		l.mu.Lock()
		l.announcing, l.announced = false, time.Now()
		l.mu.Unlock()
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if _, err := q.db.Exec(ctx, `SELECT pg_notify($1, $2)`, announcements, l.name); err != nil {
			q.log.DebugContext(ctx, "other processes were not told of a job", "error", err)
		}
	})
}

// listen wakes workers when other processes announce jobs, until the context ends.
func (q *Queue) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := q.db.Listen(ctx, announcements, func(name string) {
			for _, l := range []*lane{q.plain, q.runs} {
				if l.name == name {
					l.notify()
				}
			}
		})
		if ctx.Err() == nil {
			q.log.WarnContext(ctx, "jobs of other processes are found by polling only, for now", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// runLanes works until the context ends, and drains.
func (q *Queue) runLanes(ctx context.Context) {
	jobsCtx, cancelJobs := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelJobs()
	var wg sync.WaitGroup
	plain, runs := q.kinds()
	for l, kinds := range map[*lane][]string{q.plain: plain, q.runs: runs} {
		if len(kinds) == 0 {
			continue
		}
		for range l.workers {
			wg.Go(func() { q.work(ctx, jobsCtx, l, kinds) })
		}
		wg.Go(func() { q.poll(ctx, l) })
	}
	switch {
	case q.db.Dialect().OneWriter(): // whose clock is this machine's
		wg.Go(func() { q.watchClock(ctx) })
	case !q.db.Pooled():
		wg.Go(func() { q.listen(ctx) })
	}
	<-ctx.Done()
	timer := time.AfterFunc(q.options.Drain, cancelJobs)
	defer timer.Stop()
	wg.Wait()
}

// kinds are the kinds that this process handles.
func (q *Queue) kinds() (plain, runs []string) {
	for kind, h := range q.handlers {
		if h.org == nil {
			plain = append(plain, kind)
		} else {
			runs = append(runs, kind)
		}
	}
	return plain, runs
}

// poll wakes a worker when a job is due that the lane was not notified of.
func (q *Queue) poll(ctx context.Context, l *lane) {
	for {
		wait := q.options.Poll
		rows, err := q.db.Query(ctx, `SELECT id FROM jobs WHERE `+l.waiting+` AND run_at <= `+due(q.db.Dialect())+` LIMIT 1`)
		found, err := store.All(rows, err, store.Value[int64])
		if len(found) > 0 {
			l.notify()
		}
		if err != nil && ctx.Err() == nil {
			q.log.WarnContext(ctx, "the job queue could not be read", "error", err)
			wait = max(wait, 5*time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// due is SQL for the latest run_at of a job that is due. PostgreSQL would not look for
// it in an index if it had to ask its clock for each row.
func due(d store.Dialect) string { return `(SELECT ` + d.Now() + `)` }

// work claims and runs one job after the other until ctx ends. The jobs run
// under jobsCtx, which ends later: see Options.Drain.
func (q *Queue) work(ctx, jobsCtx context.Context, l *lane, kinds []string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		for ctx.Err() == nil {
			claimed, err := q.claim(ctx, l, kinds)
			if err != nil && ctx.Err() == nil {
				q.log.WarnContext(ctx, "no job could be claimed", "error", err)
			}
			if len(claimed) == 0 {
				break
			}
			if err != nil {
				q.giveBack(ctx, claimed[0])
				break
			}
			l.notify() // there may be more: wake the next worker
			if err := q.release(ctx, claimed[0]); err != nil {
				q.log.WarnContext(ctx, "a job could not start", "kind", claimed[0].kind, "job", claimed[0].id, "error", err)
				q.giveBack(ctx, claimed[0])
				break
			}
			q.complete(ctx, claimed[0], q.attempt(jobsCtx, claimed[0]))
		}
	}
}

// claim takes the lane's next job of those kinds, if there is one. With an error, it may
// have been claimed all the same. The end of ctx does not interrupt it: PostgreSQL may
// commit a claim after its connection is closed.
func (q *Queue) claim(ctx context.Context, l *lane, kinds []string) (claimed []job, err error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if !q.db.Dialect().OneWriter() {
		l.claiming.Lock()
		defer l.claiming.Unlock()
	}
	err = q.db.InGroup(ctx, func(tx *store.Tx) (err error) {
		claimed, err = l.claim(ctx, tx, kinds)
		if err != nil || len(claimed) == 0 || claimed[0].key == "" || !tx.Dialect().OneWriter() {
			return err
		}
		return releaseKey(ctx, tx, claimed[0].kind, claimed[0].key)
	})
	return claimed, err
}

// release frees the unique key of a job that was claimed. On PostgreSQL it waits for other
// transactions, so it is not part of the claim: other jobs' claims would wait, too.
func (q *Queue) release(ctx context.Context, j job) error {
	if j.key == "" || q.db.Dialect().OneWriter() {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	return q.db.InTx(ctx, func(tx *store.Tx) error { return releaseKey(ctx, tx, j.kind, j.key) })
}

// giveBack is for a claim that failed. Perhaps it was committed and only the answer was
// lost: then the job belongs to this process, which does not run it, for ever. It has its
// unique key still, so to acquire it again would find it taken and drop the job.
func (q *Queue) giveBack(ctx context.Context, j job) {
	j.key = ""
	q.complete(ctx, j, result{outcome: interrupted})
}

const claimedColumns = `id, kind, args, COALESCE(unique_key, ''), attempt, max_attempts, trace`

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
func (q *Queue) complete(ctx context.Context, j job, r result) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := q.record(context.WithoutCancel(ctx), j, r)
		if err == nil {
			return
		}
		q.log.WarnContext(ctx, "the outcome of a job could not be stored", "kind", j.kind, "job", j.id, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// record does nothing if the job has been reclaimed from this worker.
func (q *Queue) record(ctx context.Context, j job, r result) error {
	return q.db.InGroup(ctx, func(tx *store.Tx) error {
		const claimed = ` WHERE id = $1 AND attempt = $2 AND owner = $3 AND state = 'running'`
		now := tx.Dialect().Now()
		switch {
		case r.outcome == discarded:
			_, err := tx.Exec(ctx, `
				UPDATE jobs SET state = 'discarded', discarded_at = `+now+`, owner = NULL, last_error = $4`+claimed,
				j.id, j.attempt, q.worker, r.err)
			return err
		case !r.outcome.runsAgain():
			_, err := tx.Exec(ctx, `DELETE FROM jobs`+claimed, j.id, j.attempt, q.worker)
			return err
		}
		used := j.attempt
		if r.outcome == snoozed || r.outcome == interrupted {
			used-- // the job did not fail
		}
		n, err := tx.Exec(ctx, `
			UPDATE jobs SET state = 'waiting', attempt = $4, run_at = `+now+` + $5, owner = NULL, last_error = $6`+claimed,
			j.id, j.attempt, q.worker, used, r.wait.Microseconds(), r.err)
		if err != nil || n == 0 || j.key == "" {
			return err
		}
		// Another job may have been enqueued under its key meanwhile: the two are
		// interchangeable, so this one is not needed any more.
		if n, err := tx.Exec(ctx, insertKey, j.kind, j.key); err != nil || n == 1 {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM jobs WHERE id = $1`, j.id)
		return err
	})
}
