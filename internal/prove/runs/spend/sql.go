package spend

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Insert stores that a new run has cost nothing yet. Runs without this row are
// imported, or older than the counting of costs.
func Insert(ctx context.Context, tx *store.Tx, runID string) error {
	cost, err := json.Marshal(Cost{})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO eval_run_costs (run_id, cost) VALUES ($1, $2)`, runID, string(cost))
	return err
}

// Update stores what a run has cost. For a run without a row it does nothing.
func Update(ctx context.Context, tx *store.Tx, runID string, c Cost) error {
	cost, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE eval_run_costs SET cost = $2 WHERE run_id = $1`, runID, string(cost))
	return err
}

// OfRun returns the cost of a run so far; it is zero for a run without a row.
func OfRun(ctx context.Context, q store.Querier, runID string) (c Cost, err error) {
	rows, err := q.Query(ctx, `SELECT cost FROM eval_run_costs WHERE run_id = $1`, runID)
	stored, err := store.All(rows, err, store.Value[string])
	if err != nil || len(stored) == 0 {
		return c, err
	}
	return c, json.Unmarshal([]byte(stored[0]), &c)
}

// InsertTerms stores the terms of a new run, if it has any.
func InsertTerms(ctx context.Context, tx *store.Tx, runID string, t Terms) error {
	if t.isZero() {
		return nil
	}
	terms, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO eval_run_terms (run_id, terms, spent_micros) VALUES ($1, $2, 0)`, runID, string(terms))
	return err
}

// Spent returns what all requests of runs have cost, in millionths of a dollar. Runs without
// terms count as nothing.
func Spent(ctx context.Context, q store.Querier, runIDs ...string) (micros int64, err error) {
	in, list := q.Dialect().In("$1", runIDs)
	rows, err := q.Query(ctx, `SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM eval_run_terms WHERE run_id`+in, list)
	return store.One(rows, err, "Cost", store.Value[int64])
}

// SaveSpent stores what all requests of a run have cost. The sum never falls, so a late
// write by a worker that was replaced changes nothing.
func SaveSpent(ctx context.Context, q store.Querier, runID string, micros int64) error {
	_, err := q.Exec(ctx, `UPDATE eval_run_terms SET spent_micros = $2 WHERE run_id = $1 AND spent_micros < $2`, runID, micros)
	return err
}

// AddTrials adds the cost of agents' trials in a run to the rollup that estimates are
// made from.
func AddTrials(ctx context.Context, tx *store.Tx, orgID, runID string, of map[Model]Sum) error {
	for m, sum := range of { // a run has one agent, or a few
		_, err := tx.Exec(ctx, `
			INSERT INTO eval_agent_costs (org_id, agent, model, run_id, trials, micros) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (org_id, agent, model, run_id) DO UPDATE SET
				trials = eval_agent_costs.trials + excluded.trials, micros = eval_agent_costs.micros + excluded.micros`,
			orgID, m.Agent, m.Model, runID, sum.Trials, sum.Micros)
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveTrials removes a run's sums from the rollup, so that they can be added anew.
func RemoveTrials(ctx context.Context, tx *store.Tx, runID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM eval_agent_costs WHERE run_id = $1`, runID)
	return err
}

// recentRuns is how many runs an estimate is based on.
const recentRuns = 20

// recent returns what the trials cost in the last runs with an agent and a model. Run
// ids are UUIDs of version 7, so they sort by time.
func recent(ctx context.Context, q store.Querier, orgID string, m Model) (Sum, error) {
	rows, err := q.Query(ctx, `
		SELECT trials, micros FROM eval_agent_costs
		WHERE org_id = $1 AND agent = $2 AND model = $3 ORDER BY run_id DESC LIMIT $4`, orgID, m.Agent, m.Model, recentRuns)
	runs, err := store.All(rows, err, func(row store.Row) (s Sum, err error) { return s, row.Scan(&s.Trials, &s.Micros) })
	var total Sum
	for _, s := range runs {
		total.Trials += s.Trials
		total.Micros += s.Micros
	}
	return total, err
}
