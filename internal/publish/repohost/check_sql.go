package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// Check finds deliveries and commits that are stuck, contested accounts, connections
// whose CODEOWNERS file stopped counting, and invalid tag patterns.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	findings, err := publication.Check(ctx, q)
	if err != nil {
		return nil, err
	}
	all, err := claims.All(ctx, q)
	for _, c := range all {
		if c.OrgID == "" {
			findings = append(findings, invariants.Warn("repohost",
				"the account %s was bound by %d organisations, and all of them are suspended; `whetstone repohost claims`"+
					" names them, `whetstone repohost allow ORG %s` gives it to one", c.Account, len(c.BoundBy), c.Account))
		}
	}
	if err != nil {
		return findings, err
	}
	unused, err := unusedOwners(ctx, q)
	if err != nil {
		return findings, err
	}
	findings = append(findings, unused...)
	// A limit on alternatives in braces was added later; older patterns may exceed it.
	rows, err := q.Query(ctx, `
		SELECT `+connectionColumns+` FROM repohost_connections c WHERE c.tag_pattern LIKE '%{%' ORDER BY c.id`)
	connections, err := store.All(rows, err, scanConnection)
	for _, c := range connections {
		if _, problem := c.tags(); problem != nil {
			findings = append(findings, invariants.Warn("repohost",
				"the connection %s publishes no tags: %s; change its tag_pattern",
				c.ID, userMessage(problem)))
		}
	}
	return findings, err
}

// unusedOwners finds connections from before CODEOWNERS files had to be allowed
// (chosen_at is 0), whose file used to name owners and no longer counts.
func unusedOwners(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	rows, err := q.Query(ctx, `
		SELECT c.id, c.repo_full_name, c.entry_name FROM repohost_connections c
		WHERE NOT c.codeowners AND c.chosen_at = 0 AND EXISTS (
			SELECT 1 FROM entry_codeowners o WHERE o.connection_id = c.id AND o.owners <> '[]')
		ORDER BY c.id`)
	return store.All(rows, err, func(row store.Row) (f invariants.Finding, err error) {
		var id, repository, entry string
		err = row.Scan(&id, &repository, &entry)
		return invariants.Warn("repohost",
			"the CODEOWNERS file of %s no longer names the owners of %s: who connected it is neither admin"+

				" nor owner; set codeowners of the connection %s to true, or set the owners by hand", repository, entry, id), err
	})
}
