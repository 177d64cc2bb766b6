package content

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Check looks for content without a session, and compares its figures with a
// recount.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "evidence", []invariants.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(id), '') FROM evidence_sessions e
				WHERE NOT EXISTS (SELECT 1 FROM agent_sessions s WHERE s.id = e.id)`,
			Wrong: "kept contents of sessions that are not there", Do: invariants.Report,
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(id), '') FROM (
					SELECT id FROM (
						SELECT id, texts, bytes, stored FROM evidence_sessions
						UNION ALL SELECT session_id, -COUNT(*), -SUM(bytes), -SUM(stored) FROM evidence_texts GROUP BY session_id
					) AS recount GROUP BY id HAVING SUM(texts) <> 0 OR SUM(bytes) <> 0 OR SUM(stored) <> 0
				) AS wrong`,
			Wrong: "sessions whose figures are not those of what is kept of them", Do: invariants.Report,
		},
	})
}
