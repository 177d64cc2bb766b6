package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Scheduled (cron) jobs: the table job_schedules has the time at which each is due
// next. Whichever process moves that time forward enqueues the job, in the same
// transaction (any worker may run it), so there is no leader to elect and none whose death must be
// noticed.

// schedule is a periodic job.
type schedule struct {
	interval time.Duration
	spec     spec
}

// scheduleKey is the unique key of schedules' jobs.
const scheduleKey = "schedule"

// scheduleAttempts is the default number of attempts of a schedule's job. It is
// small because the next job is enqueued soon.
const scheduleAttempts = 3

// RunOnStart makes a schedule's job due whenever a process starts to run the
// queue. It is an option of Every.
func RunOnStart() Option { return func(s *spec) { s.onStart = true } }

// Every schedules a periodic job. At each interval one of the processes that
// run the queue enqueues it, unless the previous one still waits or runs. A
// run that was missed while no process was up happens once, at the
// next start. Every must be called before Run, once for each kind.
func (q *Queue) Every(interval time.Duration, args Args, opts ...Option) {
	s, err := newSpec(args, append([]Option{Unique(scheduleKey), Attempts(scheduleAttempts)}, opts...))
	if err != nil {
		panic(fmt.Sprintf("jobs: schedule %s: %v", args.Kind(), err))
	}
	for _, other := range q.schedules {
		if other.spec.kind == s.kind {
			panic("jobs: two schedules for " + s.kind)
		}
	}
	q.schedules = append(q.schedules, schedule{interval: interval, spec: s})
}

// maxScheduleSleep bounds the sleep until the next schedule is due: a process
// that starts can move it forward.
const maxScheduleSleep = 10 * time.Second

// runSchedules enqueues the jobs of due schedules until the context ends.
func (q *Queue) runSchedules(ctx context.Context) {
	if len(q.schedules) == 0 {
		return
	}
	for {
		wait, err := q.enqueueDue(ctx)
		if err != nil && ctx.Err() == nil {
			q.log.WarnContext(ctx, "scheduled jobs could not be enqueued", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// planSchedules stores when each schedule is due first. A time that is stored
// already is only moved forward, in case the interval has become shorter.
func (q *Queue) planSchedules(ctx context.Context) error {
	earlier := q.db.Dialect().Least("job_schedules.next_at", "excluded.next_at")
	return q.db.InTx(ctx, func(tx *store.Tx) error {
		for _, s := range q.schedules {
			first := s.interval
			if s.spec.onStart {
				first = 0
			}
			if _, err := tx.Exec(ctx, `
				INSERT INTO job_schedules (kind, next_at) VALUES ($1, `+tx.Dialect().Now()+` + $2)
				ON CONFLICT (kind) DO UPDATE SET next_at = `+earlier, s.spec.kind, first.Microseconds()); err != nil {
				return err
			}
		}
		return nil
	})
}

// enqueueDue enqueues the jobs of all schedules that are due. It returns how
// long to sleep, also after an error.
func (q *Queue) enqueueDue(ctx context.Context) (time.Duration, error) {
	rows, err := q.db.Query(ctx, `SELECT kind, next_at - `+q.db.Dialect().Now()+` FROM job_schedules`)
	dueIn := map[string]time.Duration{}
	err = store.Each(rows, err, func(row store.Row) error {
		var kind string
		var micros int64
		err := row.Scan(&kind, &micros)
		dueIn[kind] = time.Duration(micros) * time.Microsecond
		return err
	})
	if err != nil {
		return time.Second, err
	}
	sleep := maxScheduleSleep
	for _, s := range q.schedules {
		wait := dueIn[s.spec.kind]
		if wait <= 0 {
			if err := q.enqueueScheduled(ctx, s); err != nil {
				return time.Second, err
			}
			wait = s.interval
		}
		sleep = min(sleep, wait)
	}
	return sleep, nil
}

// enqueueScheduled enqueues a schedule's job, unless another process was
// faster or the previous job still waits or runs.
func (q *Queue) enqueueScheduled(ctx context.Context, s schedule) error {
	return q.db.InTx(ctx, func(tx *store.Tx) error {
		now := tx.Dialect().Now()
		due, err := tx.Exec(ctx, `
			UPDATE job_schedules SET next_at = `+now+` + $2 WHERE kind = $1 AND next_at <= `+now,
			s.spec.kind, s.interval.Microseconds())
		if err != nil || due == 0 {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT id FROM jobs WHERE kind = $1 AND unique_key = $2 AND state <> 'discarded' LIMIT 1`,
			s.spec.kind, s.spec.key)
		if previous, err := store.All(rows, err, store.Value[int64]); err != nil || len(previous) > 0 {
			return err
		}
		if _, err := acquireKey(ctx, tx, s.spec.kind, s.spec.key); err != nil {
			return err
		}
		return q.insert(ctx, tx, s.spec)
	})
}
