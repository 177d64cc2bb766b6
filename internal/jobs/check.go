package jobs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// maxLate is for how long a job may wait before somebody should look.
const maxLate = 10 * time.Minute

// Check says whether jobs are done in good time.
func (q *Queue) Check(ctx context.Context) ([]exam.Finding, error) {
	counts, err := q.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var findings []exam.Finding
	total := 0
	for _, n := range counts {
		total += n.Waiting + n.Running + n.Retrying
		if n.Discarded > 0 {
			findings = append(findings, exam.Warn("jobs", "%d of kind %s were given up in the last 14 days; the server's log says why", n.Discarded, n.Kind))
		}
		if n.Late > maxLate {
			findings = append(findings, exam.Warn("jobs", "kind %s waits for %s; does a process with --roles worker run?", n.Kind, n.Late.Round(time.Second)))
		}
	}
	stuck, err := q.stuck(ctx)
	if err != nil {
		return nil, err
	}
	if stuck > 0 {
		findings = append(findings, exam.Warn("jobs", "%d run in processes that have gone silent; a process with --roles worker gives them to others", stuck))
	}
	if len(findings) == 0 {
		findings = append(findings, exam.Fine("jobs", "none given up, none late; %d in the queue", total))
	}
	return findings, nil
}

// stuck counts the jobs that only a worker that has gone could end.
func (q *Queue) stuck(ctx context.Context) (int, error) {
	rows, err := q.db.Query(ctx, q.engine.countStuck(), store.Micros(time.Now().Add(-maxLate)))
	return store.One(rows, err, "Count", store.Value[int])
}

func (*table) countStuck() string {
	return `SELECT COUNT(*) FROM jobs WHERE state = 'running' AND owner NOT IN (SELECT id FROM job_workers WHERE seen_at > $1)`
}

func (*riverQueue) countStuck() string {
	return `
		SELECT COUNT(*) + (` + (*table)(nil).countStuck() + `) FROM river_job
		WHERE state = 'running' AND attempted_by[cardinality(attempted_by)] NOT IN (SELECT id FROM job_workers WHERE seen_at > $1)`
}
