package registry_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// explainer runs queries and fails the test if one reads a whole table.
type explainer struct {
	*store.DB
	t *testing.T
}

// Query explains the query before it runs it.
func (e explainer) Query(ctx context.Context, sql string, args ...any) (store.Rows, error) {
	plan := e.sqlitePlan
	if e.Dialect().Name() == "postgres" {
		plan = e.postgresPlan
	}
	steps, err := plan(ctx, sql, args)
	if err != nil {
		e.t.Fatalf("%v in %s", err, sql)
	}
	for _, step := range steps {
		if fullScan.MatchString(step) && !wanted.MatchString(step) {
			e.t.Errorf("%q in the plan of %s\n%s", step, sql, strings.Join(steps, "\n"))
		}
	}
	return e.DB.Query(ctx, sql, args...)
}

var (
	// fullScan is how the databases say that they read a table from its
	// beginning to its end.
	fullScan = regexp.MustCompile(`^SCAN |Seq Scan on registry_`)
	// wanted are the scans of a list in a parameter, of another query's rows, and
	// of the index that has only what is asked for.
	wanted = regexp.MustCompile(`^SCAN (json_each|shelf|\(subquery|e USING (COVERING )?INDEX registry_entries_public)`)
)

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

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, q := t.Context(), explainer{db, t}
		page := registry.Filter{Limit: 10}
		ids, entry := []string{"a", "b"}, registry.Entry{OrgID: "a", ID: "b"}
		items := []registry.SyncItem{{EntryID: "a", Hash: "x"}, {EntryID: "b", Hash: "y"}}
		for name, run := range map[string]func() error{
			"list": func() error {
				_, _, err := registry.ListEntries(ctx, q, "e.org_id = $1", "a", page)
				return err
			},
			"public list": func() error {
				_, _, err := registry.ListEntries(ctx, q, "e.visibility = 'public' AND e.org_id <> $1", "", page)
				return err
			},
			"versions":  func() error { return second(registry.VersionsAfter(ctx, q, entry, nil, 10)) },
			"manifests": func() error { return second(registry.ManifestTexts(ctx, q, ids)) },
			"before": func() error {
				return second(registry.VersionBefore(ctx, q, registry.Version{OrgID: "a", EntryID: "b"}))
			},
			"rollbacks":     func() error { return second(registry.RollbacksOfEntry(ctx, q, entry)) },
			"alive objects": func() error { return second(registry.ReferredKeys(ctx, q, ids)) },
			"sync, latest":  func() error { return second(registry.LatestVersions(ctx, q, "a", ids)) },
			"sync, known":   func() error { return second(registry.KnownVersions(ctx, q, items)) },
			"installations": func() error { return second(registry.InstallationsOfEntry(ctx, q, "a", "b")) },
			"sync, records": func() error { return second(registry.RecordsOfUser(ctx, q, "a")) },
			"installed": func() error {
				return second(registry.InstallationsOfUser(ctx, q, access.Caller{OrgID: "a", UserID: "b"}))
			},
			"index": func() error {
				return registry.EachOnShelf(ctx, q, registry.Shelf{}, 10, nil)
			},
			"skill of the index": func() error {
				return second(registry.SkillsNamed(ctx, q, registry.Shelf{}, "pdf"))
			},
			"index of an organisation": func() error {
				return registry.EachOnShelf(ctx, q, registry.Shelf{OrgName: "acme", Private: true}, 10, nil)
			},
		} {
			if err := run(); err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
