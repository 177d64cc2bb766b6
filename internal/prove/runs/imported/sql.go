package imported

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Insert stores where a run comes from, and reports whether the suite did not have
// the same file before.
func Insert(ctx context.Context, tx *store.Tx, runID, suiteID string, o Origin) (bool, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, `
		INSERT INTO eval_run_imports (run_id, suite_id, digest, origin) VALUES ($1, $2, $3, $4)
		ON CONFLICT (suite_id, digest) DO NOTHING`, runID, suiteID, o.Digest, string(raw))
	return n > 0, err
}

// RunOf returns the run of a suite that was imported from a file. The error is a
// NotFound if there is none.
func RunOf(ctx context.Context, q store.Querier, suiteID, digest string) (string, error) {
	rows, err := q.Query(ctx, `SELECT run_id FROM eval_run_imports WHERE suite_id = $1 AND digest = $2`, suiteID, digest)
	return store.One(rows, err, "Eval run", store.Value[string])
}
