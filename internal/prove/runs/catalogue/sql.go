package catalogue

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Column is a column of a query on eval_runs: the choice of the run as JSON, NULL if it
// has none.
const Column = `(SELECT c.choice FROM eval_run_catalogs c WHERE c.run_id = eval_runs.id)`

// Ordinary is a condition for queries on eval_runs that leaves out runs on a catalogue:
// they measure the listing, so they must not count in the skill's rates or gates.
const Ordinary = ` AND NOT EXISTS (SELECT 1 FROM eval_run_catalogs c WHERE c.run_id = eval_runs.id)`

// Insert stores the catalogue of a new run.
func Insert(ctx context.Context, tx *store.Tx, orgID, runID string, c Choice, listed []judge.Skill) error {
	choice, err := json.Marshal(c)
	if err != nil {
		return err
	}
	skills, err := json.Marshal(listed)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO eval_run_catalogs (run_id, org_id, catalog, context_window, pair, choice, skills)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		runID, orgID, c.Catalog, c.Window, c.Pair, string(choice), string(skills))
	return err
}

// OfRun returns the skills that the model of a run sees.
func OfRun(ctx context.Context, q store.Querier, runID string) (listed []judge.Skill, err error) {
	rows, err := q.Query(ctx, `SELECT skills FROM eval_run_catalogs WHERE run_id = $1`, runID)
	raw, err := store.One(rows, err, "Catalog", store.Value[string])
	if err != nil {
		return nil, err
	}
	return listed, json.Unmarshal([]byte(raw), &listed)
}
