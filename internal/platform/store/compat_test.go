package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
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
		want, err := store.OldestBinary(store.Migrations(db.Dialect().Name()), store.Newest())
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
