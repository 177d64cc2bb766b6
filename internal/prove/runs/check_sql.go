package runs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check finds runs that never end, and runs whose counters are wrong.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "evals", []invariants.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(id), '') FROM eval_runs
				WHERE status IN ('queued', 'running') AND created_at < $1`,
			Args:  []any{store.Micros(store.Now().Add(-24 * time.Hour))},
			Wrong: "runs that have not ended in a day", Mild: true,
			Do: "cancel them, and look at the jobs of kind evals.execute",
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(r.id), '') FROM eval_runs r
				WHERE r.last_event <> (SELECT COUNT(*) FROM eval_run_events e WHERE e.run_id = r.id)
					OR r.done < (SELECT COUNT(*) FROM eval_run_trials t WHERE t.run_id = r.id)`,
			Wrong: "runs whose counts are not those of their trials and events", Do: "run the suite again",
		},
	})
}
