package jobs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

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
