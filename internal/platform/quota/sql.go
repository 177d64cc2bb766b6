package quota

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

func planAndUsed(rows store.Rows, err error) (plan access.Plan, used int64, _ error) {
	_, err = store.One(rows, err, "Organisation", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(&plan, &used)
	})
	return plan, used, err
}

// Used returns the bytes of all organisations that store something, by id.
func (s *Service) Used(ctx context.Context) (map[string]int64, error) {
	used := map[string]int64{}
	rows, err := s.DB.Query(ctx, `SELECT org_id, CAST(SUM(bytes) AS BIGINT) FROM stored_bytes GROUP BY org_id`)
	err = store.Each(rows, err, func(row store.Row) error {
		var org string
		var n int64
		err := row.Scan(&org, &n)
		used[org] = n
		return err
	})
	return used, err
}

// setBytes recounts a kind. The second statement locks all counts of the kind: it
// waits for transactions that have changed one, and later ones add to the recounted
// value.
func setBytes(ctx context.Context, tx *store.Tx, c Count) error {
	for _, statement := range []string{
		`INSERT INTO stored_bytes (org_id, kind, bytes) SELECT id, $1, 0 FROM organisations WHERE TRUE ON CONFLICT DO NOTHING`,
		`UPDATE stored_bytes SET bytes = bytes WHERE kind = $1`,
		`UPDATE stored_bytes SET bytes = COALESCE(n.bytes, 0)
		FROM organisations o LEFT JOIN (` + c.SQL + `) AS n ON n.org_id = o.id
		WHERE kind = $1 AND stored_bytes.org_id = o.id`,
	} {
		if _, err := tx.Exec(ctx, statement, c.Kind); err != nil {
			return err
		}
	}
	return nil
}

func countWrong(ctx context.Context, q store.Querier, c Count) (n int64, err error) {
	rows, err := q.Query(ctx, wrongBytes(c), c.Kind)
	return store.One(rows, err, "Count", func(row store.Row) (n int64, err error) {
		var example string
		err = row.Scan(&n, &example)
		return n, err
	})
}

// wrongBytes is a query for the organisations whose count of kind $1 is wrong.
func wrongBytes(c Count) string {
	return `
		SELECT COUNT(*), COALESCE(MIN(o.name), '') FROM organisations o
		LEFT JOIN (` + c.SQL + `) AS n ON n.org_id = o.id
		LEFT JOIN stored_bytes b ON b.org_id = o.id AND b.kind = $1
		WHERE COALESCE(n.bytes, 0) <> COALESCE(b.bytes, 0)`
}
