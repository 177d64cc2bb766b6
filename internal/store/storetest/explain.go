package storetest

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// An Explainer runs statements, and fails the test if the plan of one has a step
// that is refused and not allowed, such as the scan of a whole table.
type Explainer struct {
	*store.DB
	T             testing.TB
	Refuse, Allow *regexp.Regexp
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
	err = e.InTx(ctx, func(tx *store.Tx) error {
		for _, setting := range []string{"enable_seqscan", "enable_sort", "enable_bitmapscan"} { // the tables are small
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
