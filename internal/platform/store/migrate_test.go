package store_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

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

// TestMigrationInDeadlock has a running server that reads two tables in another order than
// a migration alters them. PostgreSQL aborts the migration, which is made all the same.
func TestMigrationInDeadlock(t *testing.T) {
	t.Parallel()
	const twoTables = 109 // alters registry_changes, and then registry_versions
	db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, "postgres"), MaxConns: 6})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.MigrateTo(t.Context(), twoTables-1); err != nil {
		t.Fatal(err)
	}
	var migrated errgroup.Group
	err = db.InTx(t.Context(), func(tx *store.Tx) error {
		// The migration shall notice the deadlock first.
		for _, statement := range []string{"SET LOCAL deadlock_timeout = '1 h'", "LOCK TABLE registry_versions IN ACCESS SHARE MODE"} {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		migrated.Go(func() error { return db.MigrateTo(t.Context(), twoTables) })
		for waits := 0; waits == 0; time.Sleep(5 * time.Millisecond) {
			rows, err := db.Query(t.Context(), "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'registry_versions'::regclass")
			if waits, err = store.One(rows, err, "Count", store.Value[int]); err != nil {
				return err
			}
		}
		_, err := tx.Exec(t.Context(), "LOCK TABLE registry_changes IN ACCESS SHARE MODE")
		return err
	})
	if err := errors.Join(err, migrated.Wait()); err != nil {
		t.Error(err)
	}
}

// TestSchemaOfEmptyDatabase compares what an empty SQLite database gets, the schema of
// migrations/sqlite.sql and the migrations after it, with what all migrations make.
func TestSchemaOfEmptyDatabase(t *testing.T) {
	t.Parallel()
	migrated := func(versions ...int64) *store.DB {
		db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, "sqlite"), MaxConns: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		for _, version := range versions {
			if err := db.MigrateTo(t.Context(), version); err != nil {
				t.Fatal(err)
			}
		}
		return db
	}
	want := schemaText(t, migrated(1, store.Newest()))
	if *update {
		if err := os.WriteFile("migrations/sqlite.sql", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, schemaText(t, migrated(store.Newest()))); diff != "" {
		t.Errorf("run `make generate`; an empty database gets another schema (- all migrations, + migrations/sqlite.sql):\n%s", diff)
	}
}

// schemaText is the SQL that makes a SQLite database: each table with its indexes and
// triggers in the order in which they were made, which the query planner goes by, and
// the rows.
func schemaText(t *testing.T, db *store.DB) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("-- The schema that the migrations of SQLite make. Written by `make generate`.\n")
	rows, err := db.Query(t.Context(), `
		SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY tbl_name, rowid`)
	statements, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if strings.HasPrefix(statement, "CREATE TABLE") {
			b.WriteString("\n")
		}
		b.WriteString(statement + ";\n")
	}
	b.WriteString("\n")
	err = db.Snapshot(t.Context(), func(tx *store.Tx) error {
		tables, err := tx.Tables(t.Context())
		if err != nil {
			return err
		}
		for _, table := range tables {
			err := tx.Dump(t.Context(), table, func(row []any) error {
				return fmt.Errorf("a migration has written %v into %s; TestSchemaOfEmptyDatabase must learn to keep it", row, table.Name)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err = db.Query(t.Context(), `SELECT version_id FROM goose_db_version ORDER BY id`)
	versions, err := store.All(rows, err, store.Value[int64])
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		fmt.Fprintf(&b, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, 1);\n", version)
	}
	return b.String()
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
		return table == "goose_db_version" || strings.HasPrefix(table, "sqlite_")
	})
	slices.Sort(all)
	return all
}
