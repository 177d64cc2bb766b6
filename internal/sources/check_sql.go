package sources

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Check says whether sources, snapshots and reviews agree.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]exam.Finding, error) {
	return exam.Check(ctx, q, "sources", []exam.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(c.label), '') FROM cloud_sources c
				WHERE c.current_snapshot_id IS NOT NULL
					AND NOT EXISTS (SELECT 1 FROM source_snapshots s WHERE s.id = c.current_snapshot_id AND s.source_id = c.id)`,
			Wrong: "sources whose current snapshot is not there", Do: "upload or sync the source again",
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(g.id), '') FROM source_suggestions g
				WHERE g.reviewed <> EXISTS (SELECT 1 FROM source_reviews r WHERE r.source_id = g.source_id AND r.suggestion_id = g.id)`,
			Wrong: "suggestions whose mark of a review is wrong", Do: exam.Report,
		},
	})
}
