package store_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/migrations"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestNewerSchema opens a database that a newer binary has migrated.
func TestNewerSchema(t *testing.T) {
	newest := store.Newest()
	for _, c := range []struct {
		name   string
		oldest int64 // 0 is none
		says   string
	}{
		{"says nothing", 0, fmt.Sprintf("needs a Whetstone of schema %d", newest+9)},
		{"needs a newer binary", newest + 1, fmt.Sprintf("needs a Whetstone of schema %d", newest+1)},
		{"works with this one", newest, ""},
		{"works with older ones", newest - 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				storetest.Upgrade(t, db, newest+9, c.oldest)
				for what, err := range map[string]error{"CheckSchema": db.CheckSchema(t.Context()), "Migrate": db.Migrate(t.Context())} {
					switch {
					case c.says == "" && err != nil:
						t.Errorf("%s: %v", what, err)
					case c.says != "" && (!fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), c.says) ||
						!strings.Contains(err.Error(), fmt.Sprintf("has schema %d", newest+9)) ||
						!strings.Contains(err.Error(), fmt.Sprintf("this one is of schema %d", newest))):
						t.Errorf("%s: %v, want a Conflict that says %q and both versions", what, err, c.says)
					}
				}
			})
		})
	}
}

// TestMigrateNotesOldestBinary checks that Migrate stores the oldest binary of
// the schema, also where that is missing or wrong.
func TestMigrateNotesOldestBinary(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		want, err := migrations.OldestBinary(migrations.Of(db.Dialect().Name()), store.Newest())
		if err != nil {
			t.Fatal(err)
		}
		if db.Dialect().Name() == "postgres" {
			want = max(want, 85) // a new database has partitions
		}
		for _, spoil := range []string{"", `DELETE FROM schema_compat`, `UPDATE schema_compat SET oldest = 1`} {
			if spoil != "" {
				if _, err := db.Exec(t.Context(), spoil); err != nil {
					t.Fatal(err)
				}
				if err := db.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			rows, err := db.Query(t.Context(), `SELECT oldest FROM schema_compat WHERE version = $1`, store.Newest())
			if got, err := store.One(rows, err, "Version", store.Value[int64]); err != nil || got != want {
				t.Errorf("after %q: oldest %d, %v; want %d", spoil, got, err, want)
			}
		}
	})
}

func TestOldestBinary(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"00001_a.sql": "",
		"00002_b.sql": "-- Oldest binary: 1\n",
		"00003_c.sql": "-- +goose Up\n-- Oldest binary: 2\nSELECT 1;\n",
		"00005_d.sql": "-- oldest\n",
		"00006_e.sql": "-- Oldest binary: 4\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for version, want := range map[int64]int64{1: 1, 2: 1, 3: 2, 5: 5, 6: 5} {
		if got, err := migrations.OldestBinary(files, version); err != nil || got != want {
			t.Errorf("oldest binary for %d: %d, %v; want %d", version, got, err, want)
		}
	}
	sqlite, err := migrations.OldestBinary(migrations.Of("sqlite"), store.Newest())
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := migrations.OldestBinary(migrations.Of("postgres"), store.Newest())
	if err != nil || sqlite != postgres {
		t.Errorf("sqlite's migrations work with binaries from %d on, postgres' from %d (%v): write the same lines into both",
			sqlite, postgres, err)
	}
}

// TestUpgradeNeedsNoStop checks that the version before, which scripts/version-before
// builds, works with this version's schema: so replicas can be replaced one by one.
// A migration that breaks it belongs into the next minor version but one: first
// a version that needs neither the old form nor the new one.
func TestUpgradeNeedsNoStop(t *testing.T) {
	const before = 84 // newest migration of the version before
	oldest, err := migrations.OldestBinary(migrations.Of("sqlite"), store.Newest())
	if err != nil || oldest > before {
		t.Errorf("this schema needs a binary of schema %d (%v), the version before has %d: "+
			"does a migration lack its line \"-- Oldest binary: %d\"?", oldest, err, before, before)
	}
}
