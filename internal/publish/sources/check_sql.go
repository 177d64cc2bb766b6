package sources

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check verifies that the current snapshots of sources exist.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "sources", []invariants.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(c.label), '') FROM cloud_sources c
				WHERE c.current_snapshot_id IS NOT NULL
					AND NOT EXISTS (SELECT 1 FROM source_snapshots s WHERE s.id = c.current_snapshot_id AND s.source_id = c.id)`,
			Wrong: "sources whose current snapshot is not there", Do: "upload or sync the source again",
		},
	})
}
