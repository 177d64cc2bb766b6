package jobs

import (
	"context"
	"time"
)

// SetBack tells a queue on SQLite what it would notice by itself: no test can
// set a clock back.
func SetBack(ctx context.Context, q *Queue, by time.Duration) { q.engine.(*table).setBack(ctx, by) }

// Tick tells a queue on PostgreSQL what the database's clock shows.
func Tick(q *Queue, now time.Time) { q.engine.tick(now) }

// ClockOf is the time by which a queue on PostgreSQL plans and wakes jobs.
func ClockOf(q *Queue) time.Time { return q.engine.clock() }
