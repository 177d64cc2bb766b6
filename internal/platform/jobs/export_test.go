package jobs

import (
	"context"
	"time"

	"github.com/riverqueue/river/riverdriver"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// ClaimPlan is how the database claims the next job, or the next 8.
func ClaimPlan(ctx context.Context, q *Queue, kinds []string) (steps []string, err error) {
	d := q.db.Dialect()
	explain, args := "EXPLAIN "+claimInTurn, []any{"", 8, kinds, []string{"big"}, []int64{1}, 6, "", 100}
	column := store.Value[string]
	if q.river == nil {
		in, list := d.In("$2", kinds)
		explain, args = "EXPLAIN QUERY PLAN "+claimNext(d.Now(), in), []any{"", list, "", 6}
		column = func(row store.Row) (step string, err error) {
			err = row.Scan(new(int64), new(int64), new(int64), &step)
			return step, err
		}
	}
	rows, err := q.db.Query(ctx, explain, args...)
	return store.All(rows, err, column)
}

// ClaimInDoubt claims a job on PostgreSQL, of which the answer is lost.
func ClaimInDoubt(ctx context.Context, q *Queue, kinds []string) (claimed int, err error) {
	t := &q.river.turns
	err = q.db.InTx(ctx, func(tx *store.Tx) error {
		t.doubtful, err = t.claim(ctx, tx, &riverdriver.JobGetAvailableParams{
			ClientID: q.worker, Kind: kinds, MaxAttemptedBy: 100, MaxToLock: 1,
		})
		return err
	})
	return len(t.doubtful), err
}

// SetBack does what a queue on SQLite does when the machine's clock is set
// back, which a test cannot do.
func SetBack(ctx context.Context, q *Queue, by time.Duration) { q.table.setBack(ctx, by) }

// SetDatabaseClock is a heartbeat of a queue on PostgreSQL at that time.
func SetDatabaseClock(q *Queue, now time.Time) { q.river.clock.set(now) }

// DatabaseClock is the time by which a queue on PostgreSQL schedules retries.
func DatabaseClock(q *Queue) time.Time { return q.river.clock.Now() }
