package suggestions

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check verifies that the reviewed flag of suggestions agrees with the reviews.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "suggestions", []invariants.Rule{{
		Broken: `
			SELECT COUNT(*), COALESCE(MIN(g.id), '') FROM source_suggestions g
			WHERE g.reviewed <> EXISTS (
				SELECT 1 FROM source_reviews r WHERE r.source_id = g.source_id AND r.suggestion_id = g.id)`,
		Wrong: "suggestions whose mark of a review is wrong", Do: invariants.Report,
	}})
}
