package store_test

import (
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestSorting(t *testing.T) {
	sorts := store.Sorting{"n": "n", "half": "n / 2"}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for field, want := range map[string][]string{
			"":                 {"a", "b", "c", "d"},
			"n":                {"c", "a", "d", "b"},
			"-n":               {"d", "a", "c", "b"},
			"half":             {"c", "a", "d", "b"},
			"-half":            {"d", "a", "c", "b"},
			"id":               {"a", "b", "c", "d"}, // not offered
			"n; DELETE FROM t": {"a", "b", "c", "d"},
			"--n":              {"a", "b", "c", "d"},
		} {
			rows, err := db.Query(t.Context(), `
				WITH t (id, n) AS (SELECT 'a', 2 UNION ALL SELECT 'b', NULL UNION ALL SELECT 'c', 1 UNION ALL SELECT 'd', 8)
				SELECT id FROM t`+sorts.By(field, "id"))
			got, err := store.All(rows, err, store.Value[string])
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %v, %v, want %v", field, got, err, want)
			}
		}
	})
}
