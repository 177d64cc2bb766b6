package runs

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
)

const runColumns = `id, org_id, suite_id, source_id, status, subject, previous, distractors, trials, baseline, seed, judge,
	total, done, passed, failed, errors, skipped, pass_rate, interval_low, interval_high, pass_k,
	base_rate, base_delta, base_gain, error, created_by, created_at, started_at, finished_at, verifier_kind, no_skill, case_count,
	COALESCE((SELECT c.tried FROM eval_run_counts c WHERE c.run_id = eval_runs.id), 0),
	COALESCE((SELECT c.errors FROM eval_run_counts c WHERE c.run_id = eval_runs.id), 0),
	(SELECT c.cost FROM eval_run_costs c WHERE c.run_id = eval_runs.id),
	(SELECT t.terms FROM eval_run_terms t WHERE t.run_id = eval_runs.id),
	(SELECT i.origin FROM eval_run_imports i WHERE i.run_id = eval_runs.id),
	(SELECT NULLIF(p.improve_run_id, '') FROM eval_run_purposes p WHERE p.run_id = eval_runs.id),
	` + scoreColumn + `, (SELECT s.lift FROM eval_run_scores s WHERE s.run_id = eval_runs.id), ` + catalogue.Column

const scoreColumn = `(SELECT s.score FROM eval_run_scores s WHERE s.run_id = eval_runs.id)`

// listed leaves out the runs that were made for an improve run, and those without a skill.
const listed = ` AND NOT EXISTS (SELECT 1 FROM eval_run_purposes p WHERE p.run_id = eval_runs.id)`

var listedRuns = store.List[Run]{
	Columns: runColumns, Order: `id DESC`, Scan: scanRunHead,
	From: `FROM eval_runs WHERE org_id = $1 AND suite_id = $2 AND ($3 = '' OR status = $3)` + listed,
	Sorts: store.Sorting{
		"created_at": "created_at", "status": "status", "score": scoreColumn, "pass_rate": "pass_rate", "failed": "failed",
	},
}

// scanRunHead scans a run without its cases, which may be megabytes.
func scanRunHead(row store.Row) (Run, error) { return scanRun(row) }

// scanRunCases scans a run with its cases.
func scanRunCases(row store.Row) (Run, error) {
	var cases string
	r, err := scanRun(row, &cases)
	r.document = json.RawMessage(cases)
	return r, err
}

// scanRun scans runColumns, and what follows them into further.
func scanRun(row store.Row, further ...any) (r Run, err error) {
	var subject string
	var previous, distractors, judge, cost, terms, origin, lift, catalog *string
	var score, low, high, rate, delta, gain *float64
	s := &r.Summary
	err = row.Scan(append([]any{
		&r.ID, &r.OrgID, &r.SuiteID, &r.SourceID, &r.Status, &subject, &previous, &distractors, &r.Trials, &r.Baseline, &r.Seed,
		&judge, &r.Total, &r.Done, &s.Passed, &s.Failed, &s.Errors, &s.Skipped, &s.PassRate, &low, &high, &s.PassK,
		&rate, &delta, &gain, &r.Error, &r.CreatedBy, store.Time(&r.CreatedAt), store.NullTime(&r.StartedAt),
		store.NullTime(&r.FinishedAt), &r.verifier, &r.noSkill, &r.caseCount,
		&s.Tried, &s.TrialErrors, &cost, &terms, &origin, &r.ImproveRunID, &score, &lift, &catalog,
	}, further...)...)
	if err != nil {
		return r, err
	}
	if low != nil && high != nil {
		s.Interval = &[2]float64{*low, *high}
	}
	// The interval is not stored: it follows from the score and the number of cases.
	if score != nil {
		low, high := stats.Wilson(*score, s.Passed+s.Failed)
		s.Score = &stats.Estimate{Value: *score, Interval: [2]float64{low, high}}
	}
	if rate != nil && delta != nil && gain != nil {
		s.Baseline = &Comparison{PassRate: *rate, Delta: *delta, NormalizedGain: *gain}
	}
	// Columns of JSON; NULL leaves the field as it is.
	for _, field := range []struct {
		text *string
		into any
	}{
		{&subject, &r.Subject},
		{previous, &r.Previous},
		{distractors, &r.Distractors},
		{judge, &r.Judge},
		{cost, &r.Cost},
		{terms, &r.Terms},
		{origin, &r.Imported},
		{lift, &s.Lift},
		{catalog, &r.Catalog},
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

// nullJSON encodes a value for a column; nil is NULL.
func nullJSON[T any](value *T) (column *string, err error) {
	if value != nil {
		raw, encodeErr := json.Marshal(value)
		encoded := string(raw)
		column, err = &encoded, encodeErr
	}
	return column, err
}

// insertRun stores a run with its rows in the tables beside eval_runs: costs, purpose,
// catalogue and terms.
func insertRun(ctx context.Context, tx *store.Tx, r Run) error {
	subject, err := nullJSON(&r.Subject)
	if err != nil {
		return err
	}
	previous, err := nullJSON(r.Previous)
	if err != nil {
		return err
	}
	judge, err := nullJSON(r.Judge)
	if err != nil {
		return err
	}
	var distractors *string
	if r.Distractors != nil {
		if distractors, err = nullJSON(&r.Distractors); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO eval_runs (id, org_id, suite_id, source_id, status, subject, previous, distractors, trials,
			baseline, seed, judge,
			total, done, last_event, passed, failed, errors, skipped, created_by, created_at, verifier_kind, no_skill,
				case_count, cases)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 0, 0, 0, 0, 0, $14, $15, $16, $17, $18, $19)`,
		r.ID, r.OrgID, r.SuiteID, r.SourceID, r.Status, *subject, previous, distractors, r.Trials, r.Baseline, r.Seed, judge,
		r.Total, r.CreatedBy, store.Micros(r.CreatedAt), r.verifier, r.noSkill, r.caseCount, string(r.document))
	if err != nil {
		return err
	}
	if r.Imported == nil { // of a run made elsewhere, neither requests nor tokens are known
		if err := spend.Insert(ctx, tx, r.ID); err != nil {
			return err
		}
	}
	if r.ImproveRunID != nil || r.Baseline == NoSkillOnly { // the arm of a comparison has an empty id
		_, err := tx.Exec(ctx, `INSERT INTO eval_run_purposes (run_id, improve_run_id) VALUES ($1, COALESCE($2, ''))`,
			r.ID, r.ImproveRunID)
		if err != nil {
			return err
		}
	}
	if r.Catalog != nil {
		if err := catalogue.Insert(ctx, tx, r.OrgID, r.ID, *r.Catalog, r.listed); err != nil {
			return err
		}
	}
	return spend.InsertTerms(ctx, tx, r.ID, r.Terms)
}

// runByID returns a run without its cases. lock is "" or a locking clause, e.g.
// Dialect.ForUpdate.
func runByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Run, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+` FROM eval_runs WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Eval run", scanRunHead)
}

// ByID returns runs of an organisation without their cases, by id; deleted ones are missing.
func ByID(ctx context.Context, q store.Querier, orgID string, ids []string) (map[string]Run, error) {
	in, list := q.Dialect().In("$2", ids)
	rows, err := q.Query(ctx, `SELECT `+runColumns+` FROM eval_runs WHERE org_id = $1 AND id`+in, orgID, list)
	found := map[string]Run{}
	err = store.Each(rows, err, func(row store.Row) error {
		r, err := scanRunHead(row)
		found[r.ID] = r
		return err
	})
	return found, err
}

func runWithCases(ctx context.Context, q store.Querier, orgID, id string) (Run, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+`, cases FROM eval_runs WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Eval run", scanRunCases)
}

// runsWithCases returns runs of an organisation by id; deleted ones are missing.
func runsWithCases(ctx context.Context, q store.Querier, orgID string, ids []string) (map[string]Run, error) {
	in, list := q.Dialect().In("$2", ids)
	rows, err := q.Query(ctx, `SELECT `+runColumns+`, cases FROM eval_runs WHERE org_id = $1 AND id`+in, orgID, list)
	found := map[string]Run{}
	err = store.Each(rows, err, func(row store.Row) error {
		r, err := scanRunCases(row)
		found[r.ID] = r
		return err
	})
	return found, err
}

// newestRuns returns the newest run of each suite that has one, in no order. Runs on a
// catalogue and runs made for an improve run don't count. The subquery reads one index
// entry per suite and the uncounted ones after it; GROUP BY would read them all.
func newestRuns(ctx context.Context, q store.Querier, orgID string, suiteIDs []string) ([]Run, error) {
	wanted, list := q.Dialect().List("$2", suiteIDs)
	rows, err := q.Query(ctx, `
		SELECT `+runColumns+` FROM eval_runs
		WHERE org_id = $1 AND id IN (
			SELECT (
				SELECT eval_runs.id FROM eval_runs WHERE eval_runs.suite_id = wanted.value`+listed+catalogue.Ordinary+`
				ORDER BY eval_runs.id DESC LIMIT 1
			)
			FROM `+wanted+`
		)`, orgID, list)
	return store.All(rows, err, scanRunHead)
}

func runStatus(ctx context.Context, q store.Querier, orgID, id string) (Status, error) {
	rows, err := q.Query(ctx, `SELECT status FROM eval_runs WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Eval run", store.Value[Status])
}

// lockRun locks the run's row until the transaction ends, and reports whether
// the run is still running.
func lockRun(ctx context.Context, tx *store.Tx, id string) (bool, error) {
	rows, err := tx.Query(ctx, `SELECT status FROM eval_runs WHERE id = $1`+tx.Dialect().ForUpdate(), id)
	all, err := store.All(rows, err, store.Value[Status])
	return len(all) == 1 && all[0] == Running, err
}

// markRunStarted makes a queued run a running one, and reports whether it was queued.
func markRunStarted(ctx context.Context, tx *store.Tx, id string, at time.Time) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE eval_runs SET status = $2, started_at = $3 WHERE id = $1 AND status = $4`,
		id, Running, store.Micros(at), Queued)
	return n > 0, err
}

// addDone adds n to the run's progress and returns the sum.
func addDone(ctx context.Context, tx *store.Tx, id string, n int64) (done int, err error) {
	rows, err := tx.Query(ctx, `UPDATE eval_runs SET done = done + $2 WHERE id = $1 RETURNING done`, id, n)
	return store.One(rows, err, "Eval run", store.Value[int])
}

// markRunFinished stores the end of a run.
func markRunFinished(ctx context.Context, tx *store.Tx, r Run) error {
	s := r.Summary
	var low, high, rate, delta, gain *float64
	if s.Interval != nil {
		low, high = &s.Interval[0], &s.Interval[1]
	}
	if s.Baseline != nil {
		rate, delta, gain = &s.Baseline.PassRate, &s.Baseline.Delta, &s.Baseline.NormalizedGain
	}
	_, err := tx.Exec(ctx, `
		UPDATE eval_runs SET status = $2, error = $3, finished_at = $4, passed = $5, failed = $6, errors = $7, skipped = $8,
			pass_rate = $9, interval_low = $10, interval_high = $11, pass_k = $12, base_rate = $13, base_delta = $14,
				base_gain = $15
		WHERE id = $1`,
		r.ID, r.Status, r.Error, store.NullMicros(r.FinishedAt), s.Passed, s.Failed, s.Errors, s.Skipped,
		s.PassRate, low, high, s.PassK, rate, delta, gain)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO eval_run_counts (run_id, tried, errors) VALUES ($1, $2, $3)`, r.ID, s.Tried, s.TrialErrors)
	if err != nil {
		return err
	}
	var score *float64
	if s.Score != nil {
		score = &s.Score.Value
	}
	lift, err := nullJSON(s.Lift)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO eval_run_scores (run_id, score, lift) VALUES ($1, $2, $3)`, r.ID, score, lift)
	return err
}

// insertTrials stores trials and returns how many are new: a trial that another
// worker has stored is skipped.
func insertTrials(ctx context.Context, tx *store.Tx, runID string, trials []Trial) (int64, error) {
	n := len(trials)
	index, number, took := make([]int64, n), make([]int64, n), make([]int64, n)
	arm, verdict, evidence, tails := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	score, problem := make([]*float64, n), make([]*string, n)
	for i, t := range trials {
		raw, err := json.Marshal(t.Evidence)
		if err != nil {
			return 0, err
		}
		index[i], number[i], took[i] = int64(t.Case), int64(t.N), t.Duration.Milliseconds()
		arm[i], verdict[i], evidence[i], tails[i] = string(t.Arm), string(t.Verdict), string(raw), t.OutputTail
		score[i], problem[i] = t.Score, t.Error
	}
	return store.Bulk{
		Table: "eval_run_trials",
		Columns: []store.Column{
			store.Col("run_id", slices.Repeat([]string{runID}, n)), store.Col("case_index", index), store.Col("variant", arm),
			store.Col("n", number), store.Col("verdict", verdict), store.Col("score", score), store.Col("duration_ms", took),
			store.Col("error", problem), store.Col("evidence", evidence), store.Col("output_tail", tails),
		},
		OnConflict: "ON CONFLICT DO NOTHING",
	}.Insert(ctx, tx)
}

// byTrial is the order of a run's trials: the skill's arm before the baseline's,
// whichever that is.
const byTrial = ` ORDER BY case_index, CASE variant WHEN 'skill' THEN 0 ELSE 1 END, n`

func scanTrial(row store.Row) (Trial, error) { return scanTrialOf(row) }

// scanTrialOf scans a trial, and what precedes its columns into before.
func scanTrialOf(row store.Row, before ...any) (t Trial, err error) {
	var took int64
	var evidence string
	err = row.Scan(append(before,
		&t.Case, &t.Arm, &t.N, &t.Verdict, &t.Score, &took, &t.Error, &evidence, &t.OutputTail)...)
	if err != nil {
		return t, err
	}
	t.Duration = time.Duration(took) * time.Millisecond
	return t, json.Unmarshal([]byte(evidence), &t.Evidence)
}

// trialsOfRun returns the trials of all cases, or of the one at index.
func trialsOfRun(ctx context.Context, q store.Querier, runID string, index *int) ([]Trial, error) {
	rows, err := q.Query(ctx, `
		SELECT case_index, variant, n, verdict, score, duration_ms, error, evidence, output_tail FROM eval_run_trials
		WHERE run_id = $1 AND (CAST($2 AS BIGINT) IS NULL OR case_index = $2)`+byTrial, runID, index)
	return store.All(rows, err, scanTrial)
}

// measuredTrials returns the trials of runs without outputs, and of their evidence only costs and
// turns: all that a summary needs, at a fraction of the bytes.
func measuredTrials(ctx context.Context, q store.Querier, runIDs ...string) (map[string][]Trial, error) {
	in, list := q.Dialect().In("$1", runIDs)
	rows, err := q.Query(ctx, `
		SELECT run_id, case_index, variant, n, verdict, score, duration_ms, error, evidence, '' FROM eval_run_trials
		WHERE run_id`+in+byTrial, list)
	all := map[string][]Trial{}
	return all, store.Each(rows, err, func(row store.Row) error {
		var run string
		t, err := scanTrialOf(row, &run)
		e := t.Evidence
		t.Evidence = Evidence{Cost: e.Cost, Reported: e.Reported}
		if e.Agent != nil {
			t.Evidence.Agent = &attempt.Evidence{Turns: e.Agent.Turns}
		}
		all[run] = append(all[run], t)
		return err
	})
}

// An Output is what a trial has put out.
type Output struct {
	RunID    string `json:"-"`
	TrialKey `json:"-"`
	Text     string `json:"-"`
	// Recording is the id of what its agent did; "" without one.
	Recording string `json:"recording"`
}

// Outputs returns those of all trials that runs of an organisation made of the cases from first
// to last.
func Outputs(ctx context.Context, q store.Querier, orgID string, runIDs []string, first, last int) ([]Output, error) {
	in, runs := q.Dialect().In("$2", runIDs)
	rows, err := q.Query(ctx, `
		SELECT t.run_id, t.case_index, t.variant, t.n, t.output_tail, t.evidence FROM eval_run_trials t
		JOIN eval_runs r ON r.id = t.run_id
		WHERE r.org_id = $1 AND t.run_id`+in+` AND t.case_index BETWEEN $3 AND $4`, orgID, runs, first, last)
	return store.All(rows, err, func(row store.Row) (o Output, err error) {
		var evidence string
		if err := row.Scan(&o.RunID, &o.Case, &o.Arm, &o.N, &o.Text, &evidence); err != nil {
			return o, err
		}
		return o, json.Unmarshal([]byte(evidence), &o)
	})
}

// verdictsOfRun returns trials without evidence and outputs, which may be megabytes.
func verdictsOfRun(ctx context.Context, q store.Querier, runID string) ([]Trial, error) {
	rows, err := q.Query(ctx, `
		SELECT case_index, variant, n, verdict, score, duration_ms, error, '{}', '' FROM eval_run_trials
		WHERE run_id = $1`+byTrial, runID)
	return store.All(rows, err, scanTrial)
}
