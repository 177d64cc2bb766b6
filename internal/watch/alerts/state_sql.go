package alerts

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

func rulesWithState(ctx context.Context, q store.Querier, orgID string) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT r.id FROM alert_rules r
		WHERE r.org_id = $1 AND EXISTS (SELECT 1 FROM alert_states s WHERE s.rule_id = r.id)`, orgID)
	return store.All(rows, err, store.Value[string])
}
