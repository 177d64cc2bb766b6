package alerts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check finds notifications that do not arrive.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "alerts", []invariants.Rule{
		deliveries.Waiting("notifications that were not attempted for an hour"),
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(rule_id), '') FROM alert_deliveries
				WHERE status = 'failed' AND created_at > $1`,
			Args:  []any{store.Micros(store.Now().Add(-24 * time.Hour))},
			Wrong: "notifications of the last day that could not be sent",
			Do:    "see the rule's deliveries for the reason, and send a test", Mild: true,
		},
	})
}
