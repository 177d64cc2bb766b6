package runs

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// recentRuns is how many runs of a suite OfSource looks back.
const recentRuns = 20

// insertCases stores the verdicts of a run that is over, by case.
func insertCases(ctx context.Context, tx *store.Tx, runID string, cases []suites.Case, verdicts []string) error {
	n := len(cases)
	ids, queries := make([]string, n), make([]*string, n)
	trigger, invocations := make([]bool, n), make([]string, n)
	for i, c := range cases {
		ids[i], queries[i] = c.ID, queryOf(c)
		trigger[i], invocations[i] = c.Expectation != suites.ShouldNotTrigger, text.Clean(c.Invocation)
	}
	_, err := store.Bulk{
		Table: "eval_run_cases",
		Columns: []store.Column{
			store.Col("run_id", slices.Repeat([]string{runID}, n)), store.Col("case_id", ids), store.Col("query", queries),
			store.Col("should_trigger", trigger), store.Col("verdict", verdicts), store.Col("invocation", invocations),
		},
		OnConflict: "ON CONFLICT DO NOTHING",
	}.Insert(ctx, tx)
	return err
}

// FailedCases returns the cases with a query that failed in the newest succeeded run of
// each suite on a source, with their verdict in the run before it and their failures
// in the recent runs.
func FailedCases(ctx context.Context, q store.Querier, orgID, sourceID string) ([]FailedCase, error) {
	rows, err := q.Query(ctx, `
		WITH ranked AS (
			SELECT id, suite_id, finished_at, ROW_NUMBER() OVER (PARTITION BY suite_id ORDER BY id DESC) AS place
			FROM eval_runs WHERE org_id = $1 AND source_id = $2 AND status = 'succeeded'
				AND NOT EXISTS (SELECT 1 FROM eval_run_purposes p WHERE p.run_id = eval_runs.id)`+catalogue.Ordinary+`
		), scored AS (
			SELECT r.suite_id, c.case_id, COUNT(*) FILTER (WHERE c.verdict = 'fail') AS failed, COUNT(*) AS runs
			FROM ranked r JOIN eval_run_cases c ON c.run_id = r.id AND c.verdict IN ('fail', 'pass')
			WHERE r.place <= $3 GROUP BY r.suite_id, c.case_id
		)
		SELECT newest.suite_id, newest.id, c.case_id, c.query, c.should_trigger, c.invocation, scored.failed, scored.runs,
			newest.finished_at, COALESCE(before.verdict = 'pass', FALSE)
		FROM ranked newest
		JOIN eval_run_cases c ON c.run_id = newest.id AND c.verdict = 'fail' AND c.query IS NOT NULL
		JOIN scored ON scored.suite_id = newest.suite_id AND scored.case_id = c.case_id
		LEFT JOIN ranked earlier ON earlier.suite_id = newest.suite_id AND earlier.place = 2
		LEFT JOIN eval_run_cases before ON before.run_id = earlier.id AND before.case_id = c.case_id
		WHERE newest.place = 1
		ORDER BY newest.id DESC, c.case_id`, orgID, sourceID, recentRuns)
	return store.All(rows, err, func(row store.Row) (f FailedCase, err error) {
		err = row.Scan(&f.SuiteID, &f.RunID, &f.CaseID, &f.Query, &f.ShouldTrigger, &f.Invocation, &f.Failed, &f.Runs,
			store.Time(&f.LastAt), &f.Regression)
		return f, err
	})
}

// queryOf returns what a user would ask in a case; nil for cases without it.
func queryOf(c suites.Case) *string {
	query := c.Query
	if c.Kind != suites.TriggerQuery {
		if c.Subject.Prompt == nil {
			return nil
		}
		query = *c.Subject.Prompt
	}
	query = text.Clean(query)
	return &query
}
