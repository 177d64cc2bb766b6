package events

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check finds events that do not arrive.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "events", []invariants.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(id), '') FROM event_deliveries
				WHERE status = 'pending' AND created_at < $1`,
			Args:  []any{store.Micros(store.Now().Add(-time.Hour))},
			Wrong: "events that were not sent for an hour", Do: "is there a process with --roles worker?",
		},
	})
}
