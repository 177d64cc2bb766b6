package jobs

import (
	"context"
	"time"
)

// SetBack does what a queue on SQLite does when the machine's clock is set
// back, which a test cannot do.
func SetBack(ctx context.Context, q *Queue, by time.Duration) { q.table.setBack(ctx, by) }

// SetDatabaseClock is a heartbeat of a queue on PostgreSQL at that time.
func SetDatabaseClock(q *Queue, now time.Time) { q.river.clock.set(now) }

// DatabaseClock is the time by which a queue on PostgreSQL schedules retries.
func DatabaseClock(q *Queue) time.Time { return q.river.clock.Now() }
