package suites

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// recordEdit stores who changed a suite, and how. The row outlives the suite.
func recordEdit(ctx context.Context, tx *store.Tx, c access.Caller, before, after Suite) error {
	edited, err := json.Marshal(compare(before, after))
	if err != nil {
		return err
	}
	sourceID := before.SourceID
	if sourceID == nil {
		sourceID = after.SourceID
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO eval_suite_edits (org_id, suite_id, version, source_id, edited_by, edited_at, cases)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		c.OrgID, after.ID, after.Version, sourceID, c.UserID, store.Micros(store.Now()), string(edited))
	return err
}

// Edits returns the changes of a suite from the one after version after up to version
// to, oldest first.
func (s *Service) Edits(ctx context.Context, q store.Querier, orgID, id string, after, to int64) ([]Edit, error) {
	rows, err := q.Query(ctx, `
		SELECT edited_by, edited_at, cases FROM eval_suite_edits
		WHERE org_id = $1 AND suite_id = $2 AND version > $3 AND version <= $4 ORDER BY version`, orgID, id, after, to)
	return store.All(rows, err, func(row store.Row) (e Edit, err error) {
		var cases string
		if err := row.Scan(&e.By, store.Time(&e.At), &cases); err != nil {
			return e, err
		}
		return e, json.Unmarshal([]byte(cases), &e.EditedCases)
	})
}

// hadSuite reports whether one of the sources ever had a suite, deleted ones included.
func hadSuite(ctx context.Context, q store.Querier, orgID string, sourceIDs []string) (bool, error) {
	in, list := q.Dialect().In("$2", sourceIDs)
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT 1 FROM eval_suite_edits WHERE org_id = $1 AND source_id`+in+`)`, orgID, list)
	return store.One(rows, err, "Suite", store.Value[bool])
}
