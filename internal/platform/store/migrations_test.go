package store_test

import (
	"testing"
	"testing/fstest"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

func TestOldestBinary(t *testing.T) {
	t.Parallel()
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
		if got, err := store.OldestBinary(files, version); err != nil || got != want {
			t.Errorf("oldest binary for %d: %d, %v; want %d", version, got, err, want)
		}
	}
	sqlite, err := store.OldestBinary(store.Migrations("sqlite"), store.Newest())
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := store.OldestBinary(store.Migrations("postgres"), store.Newest())
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
	t.Parallel()
	const before = 84 // newest migration of the version before
	oldest, err := store.OldestBinary(store.Migrations("sqlite"), store.Newest())
	if err != nil || oldest > before {
		t.Errorf("this schema needs a binary of schema %d (%v), the version before has %d: "+
			"does a migration lack its line \"-- Oldest binary: %d\"?", oldest, err, before, before)
	}
}
