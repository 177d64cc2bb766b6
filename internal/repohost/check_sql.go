package repohost

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Check finds deliveries and commits that wait too long, contested accounts and
// invalid tag patterns.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]exam.Finding, error) {
	findings, err := checkRules(ctx, q)
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

func checkRules(ctx context.Context, q store.Querier) ([]exam.Finding, error) {
	before := store.Micros(store.Now().Add(-time.Hour))
	return exam.Check(ctx, q, "repohost", []exam.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(id), '') FROM repohost_deliveries
				WHERE status IN ('received', 'processing') AND received_at < $1`,
			Args: []any{before}, Wrong: "deliveries that wait for an hour",
			Do: "is there a process with --roles worker? Then deliver them again", Mild: true,
		},
		{
			Broken: `SELECT COUNT(*), COALESCE(MIN(id), '') FROM repohost_attempts WHERE status = 'queued' AND queued_at < $1`,
			Args:   []any{before}, Wrong: "commits that wait for an hour to be published",
			Do: "is there a process with --roles worker? Then sync the connection", Mild: true,
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(a.id), '') FROM repohost_attempts a
				WHERE a.status = 'queued' AND NOT EXISTS (SELECT 1 FROM repohost_connections c WHERE c.id = a.connection_id)`,
			Wrong: "queued commits of connections that are gone", Do: exam.Report,
		},
	})
}
