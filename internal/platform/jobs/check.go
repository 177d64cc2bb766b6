package jobs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// maxLate is how long a due job may wait before the doctor warns.
const maxLate = 10 * time.Minute

// Check reports discarded, late and stuck jobs to the doctor.
func (q *Queue) Check(ctx context.Context) ([]invariants.Finding, error) {
	counts, err := q.Counts(ctx)
	if err != nil {
		return nil, err
	}
	var findings []invariants.Finding
	total := 0
	for _, n := range counts {
		total += n.Waiting + n.Running + n.Retrying
		if n.Discarded > 0 {
			findings = append(findings, invariants.Warn("jobs",
				"%d of kind %s were given up in the last 14 days; the server's log says why", n.Discarded, n.Kind))
		}
		if n.Late > maxLate {
			findings = append(findings, invariants.Warn("jobs",
				"kind %s waits for %s; does a process with --roles worker run?", n.Kind, n.Late.Round(time.Second)))
		}
	}
	stuck, err := store.Count(ctx, q.db, `
		FROM jobs
		WHERE state = 'running' AND owner NOT IN (
			SELECT id FROM job_workers WHERE seen_at > `+q.db.Dialect().Now()+` - $1)`, maxLate.Microseconds())
	if err != nil {
		return nil, err
	}
	if stuck > 0 {
		findings = append(findings, invariants.Warn("jobs",
			"%d run in processes that have gone silent; a process with --roles worker gives them to others", stuck))
	}
	if len(findings) == 0 {
		findings = append(findings, invariants.Fine("jobs", "none given up, none late; %d in the queue", total))
	}
	return findings, nil
}
