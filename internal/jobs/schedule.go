package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// schedule is a job that is enqueued again and again.
type schedule struct {
	every time.Duration
	order order
}

// scheduleKey is the unique key of a schedule's jobs.
const scheduleKey = "schedule"

// scheduleAttempts is how often a schedule's job is started unless it says
// otherwise: the next one comes soon enough.
const scheduleAttempts = 3

// RunOnStart makes a schedule's job due whenever a process starts to run it.
// It is for Every.
func RunOnStart() Option { return func(o *order) { o.onStart = true } }

// Every enqueues a job again and again, while any process runs the queue and
// however many do: when its turn comes one of them enqueues it, unless the
// previous one still waits or runs. A turn that came while nobody was there is
// made up for once. It must be called before Run, once for each kind.
func (q *Queue) Every(interval time.Duration, args Args, opts ...Option) {
	o, err := newOrder(args, append([]Option{Unique(scheduleKey), Attempts(scheduleAttempts)}, opts...))
	if err != nil {
		panic(fmt.Sprintf("jobs: schedule %s: %v", args.Kind(), err))
	}
	for _, s := range q.schedules {
		if s.order.kind == o.kind {
			panic("jobs: two schedules for " + o.kind)
		}
	}
	q.schedules = append(q.schedules, schedule{every: interval, order: o})
}

// maxScheduleSleep bounds the sleep until the next turn: a process that starts
// can move it forward.
const maxScheduleSleep = 10 * time.Second

// keepSchedules enqueues what is due until the context ends. The table, not a
// leader, decides who does it.
func (q *Queue) keepSchedules(ctx context.Context) {
	if len(q.schedules) == 0 {
		return
	}
	for {
		wait, err := q.fireSchedules(ctx)
		if err != nil && ctx.Err() == nil {
			q.log.WarnContext(ctx, "schedules could not be kept", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// planSchedules writes down the first turn of each schedule. A turn that is
// planned already only comes earlier, if the interval has become shorter.
func (q *Queue) planSchedules(ctx context.Context) error {
	earlier := q.db.Dialect().Least("job_schedules.next_at", "excluded.next_at")
	return q.db.InTx(ctx, func(tx *store.Tx) error {
		for _, s := range q.schedules {
			first := s.every
			if s.order.onStart {
				first = 0
			}
			if _, err := tx.Exec(ctx, `
				INSERT INTO job_schedules (kind, next_at) VALUES ($1, `+q.engine.now()+` + $2)
				ON CONFLICT (kind) DO UPDATE SET next_at = `+earlier, s.order.kind, first.Microseconds()); err != nil {
				return err
			}
		}
		return nil
	})
}

// fireSchedules enqueues what is due and returns how long to sleep, also after
// an error.
func (q *Queue) fireSchedules(ctx context.Context) (time.Duration, error) {
	type turn struct {
		kind string
		in   int64
	}
	rows, err := q.db.Query(ctx, `SELECT kind, next_at - `+q.engine.now()+` FROM job_schedules`)
	turns, err := store.All(rows, err, func(row store.Row) (t turn, err error) {
		err = row.Scan(&t.kind, &t.in)
		return t, err
	})
	if err != nil {
		return time.Second, err
	}
	in := map[string]time.Duration{}
	for _, t := range turns {
		in[t.kind] = time.Duration(t.in) * time.Microsecond
	}
	sleep := maxScheduleSleep
	for _, s := range q.schedules {
		wait := in[s.order.kind]
		if wait <= 0 {
			if err := q.fire(ctx, s); err != nil {
				return time.Second, err
			}
			wait = s.every
		}
		sleep = min(sleep, wait)
	}
	return sleep, nil
}

// fire enqueues a schedule's job unless another process was faster, or the
// previous job is not done.
func (q *Queue) fire(ctx context.Context, s schedule) error {
	return q.db.InTx(ctx, func(tx *store.Tx) error {
		due, err := tx.Exec(ctx, `
			UPDATE job_schedules SET next_at = `+q.engine.now()+` + $2
			WHERE kind = $1 AND next_at <= `+q.engine.now(), s.order.kind, s.every.Microseconds())
		if err != nil || due == 0 {
			return err
		}
		if live, err := q.engine.live(ctx, tx, s.order.kind, s.order.key); err != nil || live {
			return err
		}
		if _, err := q.engine.hold(ctx, tx, s.order.kind, s.order.key); err != nil {
			return err
		}
		return q.engine.insert(ctx, tx, s.order)
	})
}
