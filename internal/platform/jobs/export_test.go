package jobs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// ClaimPlan is how the database claims the next job.
func ClaimPlan(ctx context.Context, q *Queue, kinds []string) (steps []string, err error) {
	d := q.db.Dialect()
	in, list := d.In("$2", kinds)
	explain, column := "EXPLAIN ", store.Value[string]
	if d.OneWriter() {
		explain = "EXPLAIN QUERY PLAN "
		column = func(row store.Row) (step string, err error) {
			err = row.Scan(new(int64), new(int64), new(int64), &step)
			return step, err
		}
	}
	rows, err := q.db.Query(ctx, explain+claimNextSQL(d, in), "", list, "", 6)
	return store.All(rows, err, column)
}

// ClaimInDoubt claims a job, and then does what a queue does that did not get the answer.
func ClaimInDoubt(ctx context.Context, q *Queue) (claimed int, err error) {
	kinds, _ := q.kinds()
	jobs, err := q.claim(ctx, q.plain, kinds)
	for _, j := range jobs {
		q.giveBack(ctx, j)
	}
	return len(jobs), err
}

// SetBack does what a queue on SQLite does when the machine's clock is set
// back, which a test cannot do.
func SetBack(ctx context.Context, q *Queue, by time.Duration) { q.setBack(ctx, by) }
