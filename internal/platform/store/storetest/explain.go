package storetest

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// An Explainer runs statements, and fails the test if the plan of one has a step
// that is refused and not allowed, such as the scan of a whole table.
type Explainer struct {
	*store.DB
	T             testing.TB
	Refuse, Allow *regexp.Regexp
	// Filled says that the tables have rows and statistics (see Fill), by which
	// PostgreSQL then plans. Otherwise enable_seqscan is off.
	Filled bool
}

// Query explains the query before it runs it.
func (e Explainer) Query(ctx context.Context, sql string, args ...any) (store.Rows, error) {
	e.explain(ctx, sql, args)
	return e.DB.Query(ctx, sql, args...)
}

// Exec explains the statement before it runs it.
func (e Explainer) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	e.explain(ctx, sql, args)
	return e.DB.Exec(ctx, sql, args...)
}

func (e Explainer) explain(ctx context.Context, sql string, args []any) {
	plan := e.sqlitePlan
	if e.Dialect().Name() == "postgres" {
		plan = e.postgresPlan
	}
	steps, err := plan(ctx, sql, args)
	if err != nil {
		e.T.Fatalf("%v in %s", err, sql)
	}
	for _, step := range steps {
		if e.Refuse.MatchString(step) && !e.Allow.MatchString(step) {
			e.T.Errorf("%q in the plan of %s\n%s", step, sql, strings.Join(steps, "\n"))
		}
	}
}

func (e Explainer) sqlitePlan(ctx context.Context, sql string, args []any) ([]string, error) {
	rows, err := e.DB.Query(ctx, `EXPLAIN QUERY PLAN `+sql, args...)
	return store.All(rows, err, func(row store.Row) (step string, err error) {
		var id, parent, unused int
		err = row.Scan(&id, &parent, &unused, &step)
		return step, err
	})
}

func (e Explainer) postgresPlan(ctx context.Context, sql string, args []any) (steps []string, err error) {
	avoided := []string{"enable_seqscan", "enable_sort", "enable_bitmapscan"} // the tables are small
	if e.Filled {
		avoided = nil
	}
	err = e.InTx(ctx, func(tx *store.Tx) error {
		for _, setting := range avoided {
			if _, err := tx.Exec(ctx, `SET LOCAL `+setting+` = off`); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, `EXPLAIN `+sql, args...)
		steps, err = store.All(rows, err, store.Value[string])
		return err
	})
	return steps, err
}

// Fill gives skills with sessions of 30 days to two organisations that exist: a few to
// one and many to the other, so that it is worse to read the rows of both than to look
// those of the first up.
func Fill(t testing.TB, db *store.DB, few, many string) {
	t.Helper()
	const days = 30
	today := time.Now().Unix() / int64(24*time.Hour/time.Second)
	for org, count := range map[string]int{few: 40, many: 600} {
		for _, sql := range []string{
			`INSERT INTO skills (id, org_id, name, created_at)
			SELECT $1 || '-filled-' || CAST(n AS TEXT), $1, 'filled-' || CAST(n AS TEXT), 0 FROM numbers`,
			`INSERT INTO skill_totals (subject_id, unique_sessions, graded_sessions, first_seen_at, last_seen_at)
			SELECT $1 || '-filled-' || CAST(n AS TEXT), 30, 30, 0, 0 FROM numbers`,
		} {
			exec(t, db, `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $2) `+sql, org, count)
		}
		for day := range days { // as they arrive: the days of a skill are far apart
			exec(t, db, `INSERT INTO skill_days (subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions, checks,
					triggers, confidence_sum, confidence_count, graded_sessions, pass_rate_sum)
				SELECT id, $2, 1, 1, 1, 1, 1, 1, 0, 0, 1, 900000000 FROM skills WHERE org_id = $1 AND id LIKE '%-filled-%'`,
				org, today-int64(day))
		}
	}
	exec(t, db, `ANALYZE`)
}

func exec(t testing.TB, db *store.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}
