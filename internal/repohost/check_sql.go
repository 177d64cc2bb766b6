package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/repohost/attempt"
	"github.com/whetstone-dev/whetstone/internal/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/repohost/guard"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Check finds deliveries and commits that wait too long, contested accounts and invalid tag patterns.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]exam.Finding, error) {
	findings, err := attempt.Check(ctx, q)
	if err != nil {
		return nil, err
	}
	all, err := claims.All(ctx, q)
	for _, c := range all {
		if c.OrgID == "" {
			findings = append(findings, exam.Warn("repohost",
				"the account %s was bound by %d organisations, and all of them are suspended; `whetstone repohost claims`"+
					" names them, `whetstone repohost allow ORG %s` gives it to one", c.Account, len(c.BoundBy), c.Account))
		}
	}
	if err != nil {
		return findings, err
	}
	unused, err := guard.Unused(ctx, q)
	if err != nil {
		return findings, err
	}
	findings = append(findings, unused...)
	// Patterns with braces may have been stored before their number was limited.
	rows, err := q.Query(ctx, `
		SELECT `+connectionColumns+` FROM repohost_connections c WHERE c.tag_pattern LIKE '%{%' ORDER BY c.id`)
	connections, err := store.All(rows, err, scanConnection)
	for _, c := range connections {
		if _, problem := c.tags(); problem != nil {
			findings = append(findings, exam.Warn("repohost", "the connection %s publishes no tags: %s; change its tag_pattern",
				c.ID, userMessage(problem)))
		}
	}
	return findings, err
}
