package telemetry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// orgsIn lists the organisations with rows in a partition. It goes from user to user
// in an index, so that it takes as long for ten rows of each as for ten thousand.
func orgsIn(ctx context.Context, q store.Querier, partition string) ([]string, error) {
	rows, err := q.Query(ctx, `
		WITH RECURSIVE people (id) AS (
			SELECT MIN(user_id) FROM `+partition+`
			UNION ALL SELECT (SELECT MIN(p.user_id) FROM `+partition+` p WHERE p.user_id > people.id)
			FROM people WHERE people.id IS NOT NULL)
		SELECT DISTINCT (SELECT p.org_id FROM `+partition+` p WHERE p.user_id = people.id LIMIT 1)
		FROM people WHERE people.id IS NOT NULL`)
	return store.All(rows, err, store.Value[string])
}
