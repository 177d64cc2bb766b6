package guard

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Unused finds the connections from before CODEOWNERS files had to be allowed, whose file
// named owners and does not count now.
func Unused(ctx context.Context, q store.Querier) ([]exam.Finding, error) {
	rows, err := q.Query(ctx, `
		SELECT c.id, c.repo_full_name, c.entry_name FROM repohost_connections c
		WHERE NOT c.codeowners AND c.chosen_at = 0 AND EXISTS (
			SELECT 1 FROM entry_codeowners o WHERE o.connection_id = c.id AND o.owners <> '[]')
		ORDER BY c.id`)
	return store.All(rows, err, func(row store.Row) (f exam.Finding, err error) {
		var id, repository, entry string
		err = row.Scan(&id, &repository, &entry)
		return exam.Warn("repohost", "the CODEOWNERS file of %s no longer names the owners of %s: who connected it is neither admin nor owner;"+
			" set codeowners of the connection %s to true, or set the owners by hand", repository, entry, id), err
	})
}
