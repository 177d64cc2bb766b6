package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Every process that runs jobs has a row in job_workers and writes a heartbeat
// to it every Lease/3. A worker whose lease runs out is reaped: its row is
// deleted, and then its running jobs are reclaimed for others.

// heartbeat renews this worker's lease.
func (q *Queue) heartbeat(ctx context.Context) error {
	_, err := q.db.Exec(ctx, `
		INSERT INTO job_workers (id, seen_at, schema_version) VALUES ($1, `+q.db.Dialect().Now()+`, $2)
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`, q.worker, store.Newest())
	return err
}

// deregister ends this worker's lease when it runs nothing any more. If it
// fails, the lease runs out.
func (q *Queue) deregister(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	err := q.db.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM job_workers WHERE id = $1`, q.worker); err != nil {
			return err
		}
		return q.disown(ctx, tx)
	})
	if err != nil {
		q.log.WarnContext(ctx, "job worker could not be deregistered", "error", err)
	}
}

// sweepEvery is how often old rows are deleted.
const sweepEvery = time.Hour

// maintain writes heartbeats, reaps dead workers and sweeps old rows until the
// context ends.
func (q *Queue) maintain(ctx context.Context) {
	if err := q.reapLocalWorkers(ctx); err != nil && ctx.Err() == nil {
		q.log.WarnContext(ctx, "dead job workers of this machine keep their lease until it runs out", "error", err)
	}
	var swept time.Time
	reaper := reaper{lease: q.options.Lease}
	ticker := time.NewTicker(q.options.Lease / 3)
	defer ticker.Stop()
	for {
		err := q.heartbeat(ctx)
		if err == nil && reaper.mayReap(time.Now()) {
			err = errors.Join(q.reap(ctx), q.adopt(ctx))
		}
		if err == nil && time.Since(swept) > sweepEvery {
			swept = time.Now()
			err = q.sweep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			q.log.WarnContext(ctx, "job queue maintenance failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// A reaper decides whether other workers may be reaped.
type reaper struct {
	lease         time.Duration
	lastHeartbeat time.Time
	graceUntil    time.Time // no worker is reaped before
}

// mayReap notes a heartbeat of this worker and reports whether missing
// heartbeats of others mean that they are dead. If this worker's own heartbeat
// was late, they do not: the database was unreachable for all, or the machine
// slept. Others then get a grace period of one lease.
func (r *reaper) mayReap(now time.Time) bool {
	if !r.lastHeartbeat.IsZero() && now.Sub(r.lastHeartbeat) > r.lease/2 {
		r.graceUntil = now.Add(r.lease)
	}
	r.lastHeartbeat = now
	return !now.Before(r.graceUntil)
}

// reclaimed is a job that was taken from a dead worker.
type reclaimed struct {
	kind      string
	discarded bool // it had no attempt left
}

// deadWorker is the error that a reclaimed job gets.
const deadWorker = "the process that ran it ended"

// reap deletes workers whose lease has expired and reclaims the jobs of deleted
// workers: it gives them back, or discards them if they have no attempt left. poll
// finds them.
func (q *Queue) reap(ctx context.Context) error {
	var all []reclaimed
	err := q.db.InTx(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM job_workers WHERE seen_at < `+tx.Dialect().Now()+` - $1`,
			q.options.Lease.Microseconds())
		if err != nil {
			return err
		}
		now := tx.Dialect().Now()
		rows, err := tx.Query(ctx, `
			UPDATE jobs SET
				state = CASE WHEN attempt < max_attempts THEN 'waiting' ELSE 'discarded' END,
				discarded_at = CASE WHEN attempt < max_attempts THEN NULL ELSE `+now+` END,
				run_at = `+now+`, owner = NULL, last_error = $1
			WHERE state = 'running' AND owner NOT IN (SELECT id FROM job_workers)
			RETURNING kind, state = 'discarded'`, deadWorker)
		all, err = store.All(rows, err, func(row store.Row) (r reclaimed, err error) {
			err = row.Scan(&r.kind, &r.discarded)
			return r, err
		})
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range all {
		q.metrics.runs.WithLabelValues(r.kind, "rescued").Inc()
		q.log.WarnContext(ctx, "job reclaimed from a dead process", "kind", r.kind, "discarded", r.discarded)
	}
	return nil
}

// sweep deletes old discarded jobs and turns, and keys without a job, e.g. because it
// was deleted by hand.
func (q *Queue) sweep(ctx context.Context) error {
	return q.db.InTx(ctx, func(tx *store.Tx) error {
		now := tx.Dialect().Now()
		if _, err := tx.Exec(ctx, `DELETE FROM jobs WHERE state = 'discarded' AND discarded_at < `+now+` - $1`,
			keepDiscarded.Microseconds()); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM job_turns WHERE claimed_at < `+now+` - $1`, keepTurns.Microseconds()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			DELETE FROM job_keys WHERE NOT EXISTS (
				SELECT 1 FROM jobs
				WHERE jobs.kind = job_keys.kind AND jobs.unique_key = job_keys.unique_key AND jobs.state <> 'discarded')`)
		return err
	})
}

// newWorkerID returns an id that says which process it is: host, process id, a
// random suffix of the process (process ids are reused, in a container at
// every start) and one of the queue, e.g. "web-1/4711/K3XQ7ZPL/M2AVT5WE".
func newWorkerID() string {
	host, _ := os.Hostname() // without a name only the lease counts
	host = strings.ReplaceAll(host[:min(len(host), 48)], "/", "-")
	return fmt.Sprintf("%s/%d/%s/%s", host, os.Getpid(), processSuffix, rand.Text()[:8])
}

var processSuffix = rand.Text()[:8]

// reapLocalWorkers deletes the workers of this machine whose process has
// exited, so that a restart need not wait for their lease to run out. It does
// so on SQLite only, which is on one machine: with PostgreSQL another machine
// may have the same host name.
func (q *Queue) reapLocalWorkers(ctx context.Context) error {
	if !q.db.Dialect().OneWriter() {
		return nil
	}
	rows, err := q.db.Query(ctx, `SELECT id FROM job_workers`)
	ids, err := store.All(rows, err, store.Value[string])
	for _, id := range ids {
		if err == nil && hasExited(id, q.worker) {
			_, err = q.db.Exec(ctx, `DELETE FROM job_workers WHERE id = $1`, id)
		}
	}
	return err
}

// hasExited reports whether the process of a worker is certainly gone; own is
// the id of a worker of this process.
func hasExited(id, own string) bool {
	theirs, ours := strings.Split(id, "/"), strings.Split(own, "/")
	if len(theirs) != len(ours) || theirs[0] != ours[0] || theirs[0] == "" {
		return false // of another machine, or perhaps of one
	}
	if theirs[1] == ours[1] {
		return theirs[2] != ours[2] // an earlier process had this process id
	}
	var pid int
	if _, err := fmt.Sscan(theirs[1], &pid); err != nil {
		return false
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	defer func() { _ = process.Release() }()
	return errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// Run runs jobs until the context ends. Then it drains: it claims no more,
// gives running jobs the time of Options.Drain, cancels their context, waits
// for them and returns nil. It is called at most once.
func (q *Queue) Run(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "run jobs")
	if len(q.handlers) == 0 {
		return errors.New("no handlers are registered")
	}
	// The worker must be registered before it claims its first job and until it
	// has completed its last one: others would reclaim its jobs.
	if err := q.heartbeat(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	defer q.deregister(ctx)
	if err := q.planSchedules(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	// Take over jobs that an earlier version left.
	if err := q.adopt(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	if err := q.assignOrgs(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	// Heartbeats go on while the jobs drain.
	heartbeats, stopHeartbeats := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHeartbeats()
	var wg sync.WaitGroup
	wg.Go(func() { q.maintain(heartbeats) })
	wg.Go(func() { q.runSchedules(ctx) })
	q.runLanes(ctx)
	stopHeartbeats()
	wg.Wait()
	return nil
}

// unlessDone is the error, unless the context's end explains it.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// watchClock notices that the machine's clock is set back, by comparing wall
// time with monotonic time, of which a time.Time has both. It is for SQLite, which
// takes its time from that clock.
func (q *Queue) watchClock(ctx context.Context) {
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(q.options.Poll):
		}
		now := time.Now()
		if back := now.Sub(last) - now.Round(0).Sub(last.Round(0)); back > time.Second {
			q.setBack(ctx, back)
		}
		last = now
	}
}

// setBack moves what is due in the future by as much as the clock was set
// back: it was planned by the clock as it was before, and would be late.
func (q *Queue) setBack(ctx context.Context, by time.Duration) {
	err := q.db.InTx(ctx, func(tx *store.Tx) error {
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
	q.log.WarnContext(ctx, "the clock was set back", "by", by, "error", err)
}
