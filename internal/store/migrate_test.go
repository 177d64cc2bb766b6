package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

func TestRacingStartsMigrateOnce(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := storetest.EmptyURL(t, name)
			var g errgroup.Group
			for range 4 {
				g.Go(func() error {
					db, err := store.Open(t.Context(), store.Options{URL: url, MaxConns: 3})
					if err != nil {
						return err
					}
					defer db.Close()
					if err := db.Migrate(t.Context()); err != nil {
						return err
					}
					pending, err := db.Pending(t.Context())
					if pending {
						t.Error("a migration is pending after Migrate")
					}
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSchemaParity compares tables and columns. On PostgreSQL a library has
// tables of its own for the job queue.
func TestSchemaParity(t *testing.T) {
	const sqliteColumns = `
		SELECT m.name || '.' || c.name || CASE WHEN c."notnull" OR c.pk > 0 THEN '' ELSE ' NULL' END
		FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'`
	const postgresColumns = `
		SELECT table_name || '.' || column_name || CASE WHEN is_nullable = 'NO' THEN '' ELSE ' NULL' END
		FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT IN (SELECT relname FROM pg_class WHERE relispartition)`
	sqlite := columns(t, storetest.Open(t, "sqlite"), sqliteColumns)
	postgres := columns(t, storetest.Open(t, "postgres"), postgresColumns)
	if diff := cmp.Diff(sqlite, postgres); diff != "" {
		t.Errorf("the schemas differ (- sqlite, + postgres):\n%s", diff)
	}
}

func columns(t *testing.T, db *store.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(t.Context(), query)
	all, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(column string) bool {
		table, _, _ := strings.Cut(column, ".")
		return table == "goose_db_version" ||
			strings.HasPrefix(table, "river_") || strings.HasPrefix(table, "sqlite_")
	})
	slices.Sort(all)
	return all
}
