package alerts

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Evaluated returns the ids of the rules of an organisation that were evaluated for at
// least one skill.
func (s *Service) Evaluated(ctx context.Context, orgID string) ([]string, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT r.id FROM alert_rules r
		WHERE r.org_id = $1 AND EXISTS (SELECT 1 FROM alert_states s WHERE s.rule_id = r.id)`, orgID)
	return store.All(rows, err, store.Value[string])
}
