package improve

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
)

// runColumns are those of improve_runs r, with improve_searches s beside it: runs of
// earlier versions have no row there.
const runColumns = `r.id, r.org_id, r.suite_id, r.status, r.subject, r.description, r.distractors, r.max_iterations, r.holdout,
	r.seed, r.judge, r.train_count, r.holdout_count, r.left_out, r.done, r.total, r.winner, r.proposal_id, r.error, r.created_by,
	r.created_at, r.started_at, r.finished_at, s.terms, s.phase, s.writing, s.cost, s.proof`

const runTables = ` FROM improve_runs r LEFT JOIN improve_searches s ON s.run_id = r.id`

func scanRunHead(row store.Row) (Run, error) { return scanRun(row) }

// scanRunCases scans an improve run with its cases and the text of the skill.
func scanRunCases(row store.Row) (Run, error) {
	var cases, skillMD *string
	r, err := scanRun(row, &cases, &skillMD)
	if err != nil || cases == nil || skillMD == nil {
		return r, err
	}
	r.skillMD = *skillMD
	return r, json.Unmarshal([]byte(*cases), &r.cases)
}

// scanRun scans runColumns and whatever further columns the query has behind them. Columns of JSON
// that are NULL leave their field as it is.
func scanRun(row store.Row, further ...any) (r Run, err error) {
	var subject, distractors, judge string
	var terms, at, writing, cost, proof *string
	err = row.Scan(append([]any{
		&r.ID, &r.OrgID, &r.SuiteID, &r.Status, &subject, &r.Description, &distractors, &r.MaxIterations, &r.Holdout,
		&r.Seed, &judge,
		&r.Train, &r.HeldOut, &r.LeftOut, &r.Done, &r.Total, &r.Winner, &r.ProposalID, &r.Error, &r.CreatedBy,
		store.Time(&r.CreatedAt), store.NullTime(&r.StartedAt), store.NullTime(&r.FinishedAt), &terms, &at, &writing,
		&cost, &proof,
	}, further...)...)
	if err != nil {
		return r, err
	}
	r.Terms.Target = edit.Description
	if at != nil {
		r.phase = phase(*at)
	}
	for _, field := range []struct {
		text *string
		into any
	}{
		{&subject, &r.Subject},
		{&distractors, &r.Distractors},
		{&judge, &r.Judge},
		{terms, &r.Terms},
		{writing, &r.writing},
		{cost, &r.Cost},
		{proof, &r.Proof},
	} {
		if field.text == nil {
			continue
		}
		if err := json.Unmarshal([]byte(*field.text), field.into); err != nil {
			return r, err
		}
	}
	return r, nil
}

// columns encodes values for columns of JSON.
func columns(values ...any) (all []string, err error) {
	for _, v := range values {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		all = append(all, string(raw))
	}
	return all, nil
}

// insertRun also fills the column queries, in the form of earlier versions.
func insertRun(ctx context.Context, tx *store.Tx, r Run) error {
	type query struct {
		CaseID string `json:"case_id"` // as runs of earlier versions have it
	}
	queries := make([]query, len(r.cases))
	for i, c := range r.cases {
		queries[i].CaseID = c.ID
	}
	c, err := columns(r.Subject, r.Distractors, r.Judge, r.Terms, r.writing, r.Cost, r.cases, queries)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO improve_runs (id, org_id, suite_id, status, subject, description, distractors, max_iterations,
		holdout, seed, judge,
			train_count, holdout_count, left_out, done, total, created_by, created_at, queries)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0, $15, $16, $17, $18)`,
		r.ID, r.OrgID, r.SuiteID, r.Status, c[0], r.Description, c[1], r.MaxIterations, r.Holdout, r.Seed,
		c[2], r.Train, r.HeldOut, r.LeftOut, r.Total, r.CreatedBy, store.Micros(r.CreatedAt), c[7])
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO improve_searches (run_id, terms, phase, writing, cost, cases, skill_md) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		r.ID, c[3], r.phase, c[4], c[5], c[6], r.skillMD)
	return err
}

// lockRun reads a run and locks its row until the transaction ends. The lock is on improve_runs
// alone; FOR UPDATE can't be used with the outer join of runByID.
func lockRun(ctx context.Context, tx *store.Tx, orgID, id string) (Run, error) {
	rows, err := tx.Query(ctx, `SELECT id FROM improve_runs WHERE org_id = $1 AND id = $2`+tx.Dialect().ForUpdate(), orgID, id)
	if _, err := store.One(rows, err, "Improve run", store.Value[string]); err != nil {
		return Run{}, err
	}
	return runByID(ctx, tx, orgID, id)
}

func runByID(ctx context.Context, q store.Querier, orgID, id string) (Run, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+runTables+` WHERE r.org_id = $1 AND r.id = $2`, orgID, id)
	return store.One(rows, err, "Improve run", scanRunHead)
}

// runWithResults returns a run with its cases and candidates: all that its next
// step needs.
func runWithResults(ctx context.Context, q store.Querier, orgID, id string) (Run, error) {
	rows, err := q.Query(ctx, `
		SELECT `+runColumns+`, s.cases, s.skill_md`+runTables+` WHERE r.org_id = $1 AND r.id = $2`, orgID, id)
	r, err := store.One(rows, err, "Improve run", scanRunCases)
	if err != nil {
		return r, err
	}
	r.Iterations, err = candidatesOf(ctx, q, id)
	return r, err
}

var listed = store.List[Run]{
	Columns: runColumns, Order: `r.id DESC`, Scan: scanRunHead,
	From:  runTables + ` WHERE r.org_id = $1 AND ($2 = '' OR r.suite_id = $2) AND ($3 = '' OR r.status = $3)`,
	Sorts: store.Sorting{"created_at": "r.created_at", "status": "r.status"},
}

// List returns a page of the organisation's improve runs, newest first, and the
// total number.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Run, int, error) {
	found, total, err := listed.Page(ctx, s.DB, f.Page, orgID, f.SuiteID, f.Status)
	if err != nil {
		return nil, 0, err
	}
	at, ids := map[string]int{}, make([]string, len(found))
	for i, r := range found {
		at[r.ID], ids[i] = i, r.ID
	}
	in, list := s.DB.Dialect().In("$1", ids)
	rows, err := s.DB.Query(ctx, `
		SELECT `+iterationColumns+`, i.run_id`+iterationTables+` WHERE i.run_id`+in+` ORDER BY i.run_id, i.n`, list)
	return found, total, store.Each(rows, err, func(row store.Row) error {
		var id string
		it, err := scanIteration(row, &id)
		found[at[id]].Iterations = append(found[at[id]].Iterations, it)
		return err
	})
}

// markRunStarted makes a queued run a running one. Only one worker's update matches, so started_at
// is set once.
func markRunStarted(ctx context.Context, tx *store.Tx, id string, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE improve_runs SET status = $2, started_at = $3 WHERE id = $1 AND status = $4`,
		id, runs.Running, store.Micros(at), runs.Queued)
	return err
}

// setProgress stores how many trials of a running run are made, and what they cost. It doesn't
// touch a run that is over: the end has stored the final figures.
func setProgress(ctx context.Context, tx *store.Tx, r Run) error {
	c, err := columns(r.Cost)
	if err != nil {
		return err
	}
	n, err := tx.Exec(ctx, `UPDATE improve_runs SET done = $2 WHERE id = $1 AND status = $3`, r.ID, r.Done, runs.Running)
	if err != nil || n == 0 {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE improve_searches SET cost = $2 WHERE run_id = $1`, r.ID, c[0])
	return err
}

// updateRun stores what changes during a run and at its end.
func updateRun(ctx context.Context, tx *store.Tx, r Run) error {
	_, err := tx.Exec(ctx, `
		UPDATE improve_runs SET status = $3, done = $4, total = $5, winner = $6, proposal_id = $7, error = $8, finished_at = $9
		WHERE org_id = $1 AND id = $2`,
		r.OrgID, r.ID, r.Status, r.Done, r.Total, r.Winner, r.ProposalID, r.Error, store.NullMicros(r.FinishedAt))
	return err
}

// updateSearch stores the phase, the costs and the proof.
func updateSearch(ctx context.Context, tx *store.Tx, r Run) error {
	c, err := columns(r.writing, r.Cost, r.Terms)
	if err != nil {
		return err
	}
	var proof *string
	if r.Proof != nil {
		p, err := columns(r.Proof)
		if err != nil {
			return err
		}
		proof = &p[0]
	}
	_, err = tx.Exec(ctx, `UPDATE improve_searches SET phase = $2, writing = $3, cost = $4, proof = $5, terms = $6
		WHERE run_id = $1`,
		r.ID, r.phase, c[0], c[1], proof, c[2])
	return err
}

// updateCases stores what the cases are for.
func updateCases(ctx context.Context, tx *store.Tx, r Run) error {
	c, err := columns(r.cases)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE improve_searches SET cases = $2 WHERE run_id = $1`, r.ID, c[0])
	return err
}

// iterationColumns are those of improve_iterations i, with improve_candidates c
// beside it: the current version and iterations of earlier versions have no row
// there.
const iterationColumns = `i.n, i.description, i.reason, i.problem, i.train_passed, i.train_cases, i.holdout_passed,
	i.holdout_cases,
	i.errors, COALESCE(c.parent, 0), c.partner, COALESCE(c.stage, ''), c.source_id, COALESCE(c.edits, '[]')`

const iterationTables = ` FROM improve_iterations i LEFT JOIN improve_candidates c ON c.run_id = i.run_id AND c.n = i.n`

func scanIteration(row store.Row, further ...any) (it Iteration, err error) {
	var edits string
	err = row.Scan(append([]any{
		&it.N, &it.Description, &it.Reason, &it.Problem, &it.Train.Passed, &it.Train.Cases,
		&it.HeldOut.Passed, &it.HeldOut.Cases, &it.Errors, &it.Parent, &it.Partner, &it.stage, &it.sourceID, &edits,
	}, further...)...)
	if err != nil {
		return it, err
	}
	return it, json.Unmarshal([]byte(edits), &it.Edits)
}

// iterationsOf returns the iterations of a run without their texts and results. These are what
// lists and pages show; texts and results may have megabytes.
func iterationsOf(ctx context.Context, q store.Querier, runID string) ([]Iteration, error) {
	rows, err := q.Query(ctx, `SELECT `+iterationColumns+iterationTables+` WHERE i.run_id = $1 ORDER BY i.n`, runID)
	return store.All(rows, err, func(row store.Row) (Iteration, error) { return scanIteration(row) })
}

// candidatesOf returns the iterations with all that the search needs.
func candidatesOf(ctx context.Context, q store.Querier, runID string) ([]Iteration, error) {
	rows, err := q.Query(ctx, `
		SELECT `+iterationColumns+`, COALESCE(c.minibatch, '[]'), COALESCE(c.skill_md, ''), i.results`+iterationTables+`
		WHERE i.run_id = $1 ORDER BY i.n`, runID)
	return store.All(rows, err, func(row store.Row) (it Iteration, err error) {
		var minibatch, skillMD, results string
		if it, err = scanIteration(row, &minibatch, &skillMD, &results); err != nil {
			return it, err
		}
		it.SkillMD = skillMD
		if err := json.Unmarshal([]byte(minibatch), &it.minibatch); err != nil {
			return it, err
		}
		return it, json.Unmarshal([]byte(results), &it.results)
	})
}

// insertIteration stores an iteration, and reports whether it is new. ON CONFLICT makes a repeated
// step a no-op.
func insertIteration(ctx context.Context, tx *store.Tx, runID string, it Iteration) (bool, error) {
	c, err := columns(it.results, it.minibatch, it.Edits)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, `
		INSERT INTO improve_iterations (run_id, n, description, reason, problem, train_passed, train_cases, holdout_passed,
			holdout_cases, errors, results)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`,
		runID, it.N, it.Description, it.Reason, it.Problem, it.Train.Passed, it.Train.Cases, it.HeldOut.Passed, it.HeldOut.Cases,
		it.Errors, c[0])
	if err != nil || n == 0 || it.N == 0 {
		return n > 0, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO improve_candidates (run_id, n, parent, partner, stage, source_id, minibatch, edits, skill_md)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		runID, it.N, it.Parent, it.Partner, it.stage, it.sourceID, c[1], c[2], it.SkillMD)
	return true, err
}

// updateIteration stores the scores of an iteration and its stage.
func updateIteration(ctx context.Context, tx *store.Tx, runID string, it Iteration) error {
	c, err := columns(it.results)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE improve_iterations SET problem = $3, train_passed = $4, train_cases = $5, holdout_passed = $6, holdout_cases = $7,
			errors = $8, results = $9 WHERE run_id = $1 AND n = $2`,
		runID, it.N, it.Problem, it.Train.Passed, it.Train.Cases, it.HeldOut.Passed, it.HeldOut.Cases, it.Errors, c[0])
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE improve_candidates SET stage = $3 WHERE run_id = $1 AND n = $2`, runID, it.N, it.stage)
	return err
}

func trialsOf(ctx context.Context, q store.Querier, runID string) ([]trial, error) {
	rows, err := q.Query(ctx, `SELECT n, step, arm, run_id FROM improve_trials WHERE improve_run_id = $1 ORDER BY n, step, arm`,
		runID)
	return store.All(rows, err, func(row store.Row) (t trial, err error) {
		return t, row.Scan(&t.n, &t.step, &t.arm, &t.runID)
	})
}

// Insert implements runs.Purpose.
func (t trial) Insert(ctx context.Context, tx *store.Tx) (isNew bool, err error) {
	n, err := tx.Exec(ctx, `
		INSERT INTO improve_trials (improve_run_id, n, step, arm, run_id) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		t.of, t.n, t.step, t.arm, t.runID)
	return n > 0, err
}

func insertSource(ctx context.Context, tx *store.Tx, r Run, sourceID string) error {
	_, err := tx.Exec(ctx, `INSERT INTO improve_sources (source_id, org_id, run_id) VALUES ($1, $2, $3)`, sourceID, r.OrgID, r.ID)
	return err
}

func sourcesOf(ctx context.Context, q store.Querier, orgID, runID string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT source_id FROM improve_sources WHERE org_id = $1 AND run_id = $2`, orgID, runID)
	return store.All(rows, err, store.Value[string])
}

func deleteSource(ctx context.Context, q store.Querier, orgID, sourceID string) error {
	_, err := q.Exec(ctx, `DELETE FROM improve_sources WHERE org_id = $1 AND source_id = $2`, orgID, sourceID)
	return err
}

// retiredOf returns the digests of the suite's cases that were part of a proof too
// often.
func retiredOf(ctx context.Context, q store.Querier, suiteID string) (map[string]bool, error) {
	rows, err := q.Query(ctx, `SELECT digest FROM improve_proofs WHERE suite_id = $1 AND times >= $2`, suiteID, search.MaxProofs)
	digests, err := store.All(rows, err, store.Value[string])
	retired := make(map[string]bool, len(digests))
	for _, d := range digests {
		retired[d] = true
	}
	return retired, err
}

// countProofs counts that cases are part of another proof. It is called in the transaction that
// starts the proof, exactly once for each run.
func countProofs(ctx context.Context, tx *store.Tx, suiteID string, cases []Case) error {
	n := 0
	suiteIDs, digests, times := []string{}, []string{}, []int64{}
	for _, c := range cases {
		if c.Part == search.Proof {
			suiteIDs, digests, times = append(suiteIDs, suiteID), append(digests, c.Digest), append(times, 1)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	_, err := store.Bulk{
		Table:      "improve_proofs",
		Columns:    []store.Column{store.Col("suite_id", suiteIDs), store.Col("digest", digests), store.Col("times", times)},
		OnConflict: "ON CONFLICT (suite_id, digest) DO UPDATE SET times = improve_proofs.times + 1",
	}.Insert(ctx, tx)
	return err
}
