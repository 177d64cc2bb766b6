package improve

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

const runColumns = `id, org_id, suite_id, status, subject, description, distractors, max_iterations, holdout, seed, judge,
	train_count, holdout_count, left_out, done, total, winner, proposal_id, error, created_by, created_at, started_at, finished_at`

func scanRunHead(row store.Row) (Run, error) { return scanRun(row) }

// scanRunQueries scans an improve run with its queries.
func scanRunQueries(row store.Row) (Run, error) {
	var queries string
	r, err := scanRun(row, &queries)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(queries), &r.queries)
}

func scanRun(row store.Row, further ...any) (r Run, err error) {
	var subject, distractors, judge string
	err = row.Scan(append([]any{
		&r.ID, &r.OrgID, &r.SuiteID, &r.Status, &subject, &r.Description, &distractors, &r.MaxIterations, &r.Holdout, &r.Seed, &judge,
		&r.Train, &r.HeldOut, &r.LeftOut, &r.Done, &r.Total, &r.Winner, &r.ProposalID, &r.Error, &r.CreatedBy,
		store.Time(&r.CreatedAt), store.NullTime(&r.StartedAt), store.NullTime(&r.FinishedAt),
	}, further...)...)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(subject), &r.Subject); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(distractors), &r.Distractors); err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(judge), &r.Judge)
}

func insertRun(ctx context.Context, tx *store.Tx, r Run) error {
	subject, err := json.Marshal(r.Subject)
	if err != nil {
		return err
	}
	distractors, err := json.Marshal(r.Distractors)
	if err != nil {
		return err
	}
	judge, err := json.Marshal(r.Judge)
	if err != nil {
		return err
	}
	queries, err := json.Marshal(r.queries)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO improve_runs (id, org_id, suite_id, status, subject, description, distractors, max_iterations, holdout, seed, judge,
			train_count, holdout_count, left_out, done, total, created_by, created_at, queries)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0, $15, $16, $17, $18)`,
		r.ID, r.OrgID, r.SuiteID, r.Status, string(subject), r.Description, string(distractors), r.MaxIterations, r.Holdout, r.Seed,
		string(judge), r.Train, r.HeldOut, r.LeftOut, r.Total, r.CreatedBy, store.Micros(r.CreatedAt), string(queries))
	return err
}

func runByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Run, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+` FROM improve_runs WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Improve run", scanRunHead)
}

// runWithResults returns a run with its queries and the results of its
// iterations: all that the next iteration needs.
func runWithResults(ctx context.Context, q store.Querier, orgID, id string) (Run, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+`, queries FROM improve_runs WHERE org_id = $1 AND id = $2`, orgID, id)
	r, err := store.One(rows, err, "Improve run", scanRunQueries)
	if err != nil {
		return r, err
	}
	rows, err = q.Query(ctx, `SELECT `+iterationColumns+`, results FROM improve_iterations WHERE run_id = $1 ORDER BY n`, id)
	r.Iterations, err = store.All(rows, err, func(row store.Row) (it Iteration, err error) {
		var results string
		if it, err = scanIteration(row, &results); err != nil {
			return it, err
		}
		return it, json.Unmarshal([]byte(results), &it.results)
	})
	return r, err
}

const filtered = ` FROM improve_runs WHERE org_id = $1 AND ($2 = '' OR suite_id = $2) AND ($3 = '' OR status = $3)`

func runsOfOrg(ctx context.Context, q store.Querier, orgID string, f Filter) ([]Run, int, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*)`+filtered, orgID, f.SuiteID, f.Status)
	total, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		return nil, 0, err
	}
	const page = filtered + ` ORDER BY id DESC LIMIT $4 OFFSET $5`
	rows, err = q.Query(ctx, `SELECT `+runColumns+page, orgID, f.SuiteID, f.Status, f.Limit, f.Offset)
	found, err := store.All(rows, err, scanRunHead)
	if err != nil {
		return nil, 0, err
	}
	at := map[string]int{}
	for i, r := range found {
		at[r.ID] = i
	}
	rows, err = q.Query(ctx, `
		SELECT `+iterationColumns+`, run_id FROM improve_iterations WHERE run_id IN (SELECT id`+page+`) ORDER BY run_id, n`,
		orgID, f.SuiteID, f.Status, f.Limit, f.Offset)
	_, err = store.All(rows, err, func(row store.Row) (it Iteration, err error) {
		var id string
		if it, err = scanIteration(row, &id); err != nil {
			return it, err
		}
		if i, ok := at[id]; ok { // another run may have been started between the two queries
			found[i].Iterations = append(found[i].Iterations, it)
		}
		return it, nil
	})
	return found, total, err
}

// markRunStarted makes a queued run a running one.
func markRunStarted(ctx context.Context, q store.Querier, id string, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE improve_runs SET status = $2, started_at = $3 WHERE id = $1 AND status = $4`,
		id, runs.Running, store.Micros(at), runs.Queued)
	return err
}

// setProgress stores how many trials are done, and reports whether the run is
// still running.
func setProgress(ctx context.Context, q store.Querier, id string, done int) (bool, error) {
	n, err := q.Exec(ctx, `UPDATE improve_runs SET done = $2 WHERE id = $1 AND status = $3`, id, done, runs.Running)
	return n > 0, err
}

// updateRun stores what changes during a run and at its end.
func updateRun(ctx context.Context, tx *store.Tx, r Run) error {
	_, err := tx.Exec(ctx, `
		UPDATE improve_runs SET status = $3, done = $4, total = $5, winner = $6, proposal_id = $7, error = $8, finished_at = $9
		WHERE org_id = $1 AND id = $2`,
		r.OrgID, r.ID, r.Status, r.Done, r.Total, r.Winner, r.ProposalID, r.Error, store.NullMicros(r.FinishedAt))
	return err
}

const iterationColumns = `n, description, reason, problem, train_passed, train_cases, holdout_passed, holdout_cases, errors`

func scanIteration(row store.Row, further ...any) (it Iteration, err error) {
	err = row.Scan(append([]any{
		&it.N, &it.Description, &it.Reason, &it.Problem, &it.Train.Passed, &it.Train.Cases,
		&it.HeldOut.Passed, &it.HeldOut.Cases, &it.Errors,
	}, further...)...)
	return it, err
}

// iterationsOf returns the iterations of a run without the results of queries.
func iterationsOf(ctx context.Context, q store.Querier, runID string) ([]Iteration, error) {
	rows, err := q.Query(ctx, `SELECT `+iterationColumns+` FROM improve_iterations WHERE run_id = $1 ORDER BY n`, runID)
	return store.All(rows, err, func(row store.Row) (Iteration, error) { return scanIteration(row) })
}

// insertIteration stores an iteration, and reports whether it is new.
func insertIteration(ctx context.Context, tx *store.Tx, runID string, it Iteration) (bool, error) {
	results, err := json.Marshal(it.results)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, `
		INSERT INTO improve_iterations (run_id, `+iterationColumns+`, results)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
		runID, it.N, it.Description, it.Reason, it.Problem, it.Train.Passed, it.Train.Cases, it.HeldOut.Passed, it.HeldOut.Cases,
		it.Errors, string(results))
	return n > 0, err
}
