package store_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestSnapshotSeesOneMoment(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		addOrg(t, db, "before")
		err := db.Snapshot(t.Context(), func(tx *store.Tx) error {
			addOrg(t, db, "after")
			rows, err := tx.Query(t.Context(), `SELECT name FROM organisations`)
			names, err := store.All(rows, err, store.Value[string])
			if diff := cmp.Diff([]string{"before"}, names); diff != "" {
				t.Errorf("the snapshot sees (-want +got):\n%s", diff)
			}
			if _, err := tx.Exec(t.Context(), `DELETE FROM organisations`); err == nil {
				t.Error("a snapshot wrote")
			}
			return err
		})
		// PostgreSQL's transaction is over once a statement in it has failed.
		if err != nil && db.Dialect().Name() == "sqlite" {
			t.Error(err)
		}
	})
}

func addOrg(t *testing.T, db *store.DB, name string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), insertOrg, name, "team", 1); err != nil {
		t.Fatal(err)
	}
}

func TestTablesParentsFirst(t *testing.T) {
	names := map[string][]string{}
	for _, engine := range []string{"sqlite", "postgres"} {
		db := storetest.Open(t, engine)
		err := db.Snapshot(t.Context(), func(tx *store.Tx) error {
			tables, err := tx.Tables(t.Context())
			for _, table := range tables {
				names[engine] = append(names[engine], table.Name)
			}
			version, versionErr := tx.SchemaVersion(t.Context())
			if version != store.Newest() || versionErr != nil {
				t.Errorf("schema version %d, %v; want %d", version, versionErr, store.Newest())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	index := func(table string) int { return slices.Index(names["sqlite"], table) }
	if !slices.IsSorted([]int{index("organisations"), index("users"), index("registry_entries"), index("registry_versions")}) {
		t.Errorf("the order is %v, want each table after those it refers to", names["sqlite"])
	}
	if diff := cmp.Diff(names["sqlite"], names["postgres"]); diff != "" || len(names["sqlite"]) < 40 {
		t.Errorf("tables (-sqlite +postgres):\n%s", diff)
	}
}

// TestDumpAndLoad copies every type of value from each database to each.
func TestDumpAndLoad(t *testing.T) {
	for _, from := range []string{"sqlite", "postgres"} {
		for _, to := range []string{"sqlite", "postgres"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				source, target := storetest.Open(t, from), storetest.Open(t, to)
				addOrg(t, source, "o")
				for _, statement := range []struct {
					text string
					args []any
				}{
					{text: `
						INSERT INTO users (id, org_id, email, name, role, created_at)
						VALUES ('u', 'o', 'ü@x', '', 'owner', -9223372036854775808)`},
					{text: `
						INSERT INTO service_secrets (name, value, created_at)
						VALUES ('s', $1, 9223372036854775807)`, args: []any{[]byte{0, 255, 10}}},
					{text: `
						INSERT INTO api_keys (id, org_id, user_id, name, prefix, hash, created_at, login)
						VALUES ('a', 'o', 'u', '', 'p', 'h', 2, TRUE), ('b', 'o', 'u', '', 'p', 'i', 3, FALSE)`},
					{text: `
						INSERT INTO cloud_sources (id, org_id, label, source_type, suggested_at, created_by, created_at)
						VALUES ('c', 'o', 'l', 'upload', 0, 'u', 1)`},
					{text: `
						INSERT INTO source_reviews (id, org_id, source_id, suggestion_id, review_status, query,
							should_trigger, evidence, provenance, confidence, reviewed_by, reviewed_at)
						VALUES ('r', 'o', 'c', 's', 'accepted', 'q', TRUE, 'e', 'p', 0.1, 'u', 1)`},
				} {
					if _, err := source.Exec(t.Context(), statement.text, statement.args...); err != nil {
						t.Fatal(err)
					}
				}
				want := dump(t, source)
				load(t, target, want)
				if diff := cmp.Diff(want, dump(t, target)); diff != "" {
					t.Errorf("(-dumped +loaded):\n%s", diff)
				}
			})
		}
	}
}

func dump(t *testing.T, db *store.DB) map[string][][]any {
	t.Helper()
	all := map[string][][]any{}
	err := db.Snapshot(t.Context(), func(tx *store.Tx) error {
		tables, err := tx.Tables(t.Context())
		for _, table := range tables {
			if err == nil {
				err = tx.Dump(t.Context(), table, func(row []any) error {
					all[table.Name] = append(all[table.Name], slices.Clone(row))
					return nil
				})
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func load(t *testing.T, db *store.DB, all map[string][][]any) {
	t.Helper()
	err := db.LoadOnce(t.Context(), func(tx *store.Tx) error {
		tables, err := tx.Tables(t.Context())
		for _, table := range tables {
			var copied [][]any
			for _, row := range all[table.Name] {
				copied = append(copied, slices.Clone(row))
			}
			if err == nil {
				err = tx.Load(t.Context(), table, copied)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMigrateTo stops at an older version and continues from there.
func TestMigrateTo(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, engine), MaxConns: 3})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, want := range []int64{3, store.Newest()} {
				if err := db.MigrateTo(t.Context(), want); err != nil {
					t.Fatal(err)
				}
				err := db.Snapshot(t.Context(), func(tx *store.Tx) error {
					got, err := tx.SchemaVersion(t.Context())
					if got != want {
						t.Errorf("version %d, want %d", got, want)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
