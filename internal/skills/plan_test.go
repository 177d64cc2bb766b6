package skills_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// explainer runs statements and fails the test if one reads a whole table.
type explainer struct {
	*store.DB
	t *testing.T
}

// Query explains the query before it runs it.
func (e explainer) Query(ctx context.Context, sql string, args ...any) (store.Rows, error) {
	e.explain(ctx, sql, args)
	return e.DB.Query(ctx, sql, args...)
}

// Exec explains the statement before it runs it.
func (e explainer) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	e.explain(ctx, sql, args)
	return e.DB.Exec(ctx, sql, args...)
}

func (e explainer) explain(ctx context.Context, sql string, args []any) {
	plan := e.sqlitePlan
	if e.Dialect().Name() == "postgres" {
		plan = e.postgresPlan
	}
	steps, err := plan(ctx, sql, args)
	if err != nil {
		e.t.Fatalf("%v in %s", err, sql)
	}
	for _, step := range steps {
		if fullScan.MatchString(step) && !strings.HasPrefix(step, "SCAN json_each") {
			e.t.Errorf("%q in the plan of %s\n%s", step, sql, strings.Join(steps, "\n"))
		}
	}
}

// fullScan matches a full table scan in the plans of both databases.
var fullScan = regexp.MustCompile(`^SCAN |Seq Scan on (skill|registry)`)

func (e explainer) sqlitePlan(ctx context.Context, sql string, args []any) ([]string, error) {
	rows, err := e.DB.Query(ctx, `EXPLAIN QUERY PLAN `+sql, args...)
	return store.All(rows, err, func(row store.Row) (step string, err error) {
		var id, parent, unused int
		err = row.Scan(&id, &parent, &unused, &step)
		return step, err
	})
}

func (e explainer) postgresPlan(ctx context.Context, sql string, args []any) (steps []string, err error) {
	err = e.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL enable_seqscan = off`); err != nil { // the tables are small
			return err
		}
		rows, err := tx.Query(ctx, `EXPLAIN `+sql, args...)
		steps, err = store.All(rows, err, store.Value[string])
		return err
	})
	return steps, err
}

// TestQueryPlans: no query of the API or of Observe scans a whole table.
func TestQueryPlans(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, q := t.Context(), explainer{db, t}
		r := newRoom(t, db)
		r.publish("pdf", time.Now())
		published := []string{resolve(t, db, r.orgID, "pdf")}
		ids, page := []string{"a", "b"}, &skills.Filter{Limit: 10}
		for name, run := range map[string]func() error{
			"get":              func() error { return second(skills.SkillByIDOrName(ctx, q, "a", "b")) },
			"count":            func() error { return second(skills.CountSkills(ctx, q, "a", "")) },
			"list":             func() error { return second(skills.SkillsOfOrg(ctx, q, "a", "", page)) },
			"list, searched":   func() error { return second(skills.SkillsOfOrg(ctx, q, "a", "pdf", nil)) },
			"window":           func() error { return second(skills.Windows(ctx, q, ids, 1, 2)) },
			"days":             func() error { return second(skills.DaysOf(ctx, q, "a", 1, 2)) },
			"all names":        func() error { return second(skills.NamesOfOrg(ctx, q, "a")) },
			"all grades":       func() error { return second(skills.GradesOfOrg(ctx, q, "a", 1, 2)) },
			"names":            func() error { return second(skills.IDsByName(ctx, q, "a", ids)) },
			"aliases":          func() error { return second(skills.AliasesOf(ctx, q, ids)) },
			"observations":     func() error { return second(skills.ObservationsByID(ctx, q, ids)) },
			"gradings":         func() error { return second(skills.GradingsByID(ctx, q, ids)) },
			"graded sessions":  func() error { return second(skills.GradingsOfSessions(ctx, q, skills.GradedSessions("a", "s", "t"))) },
			"days of sessions": func() error { return second(skills.SessionDays(ctx, q, ids)) },
			"session grades":   func() error { return second(skills.SessionGrades(ctx, q, ids)) },
			"first and last":   func() error { return skills.RecomputeSeen(ctx, q, "a") },
			"versions":         func() error { return second(r.registry.Timelines(ctx, q, published)) },
		} {
			if err := run(); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
