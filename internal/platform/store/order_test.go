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

// TestList: a page has the condition of the count, and its own order and bounds.
func TestList(t *testing.T) {
	list := store.List[string]{
		Columns: "id", Order: "id", Scan: store.Value[string], Sorts: store.Sorting{"n": "n"},
		From: `FROM (SELECT 'a' AS id, 2 AS n UNION ALL SELECT 'b', 3 UNION ALL SELECT 'c', 1 UNION ALL SELECT 'd', 8) AS t
			WHERE n < $1 AND id <> $2`,
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, c := range []struct {
			page store.Page
			want []string
		}{
			{store.Page{Limit: 9}, []string{"a", "b", "c"}},
			{store.Page{Sort: "-n", Limit: 2}, []string{"b", "a"}},
			{store.Page{Sort: "n", Limit: 2, Offset: 2}, []string{"b"}},
			{store.Page{Limit: 2, Offset: 3}, []string{}},
		} {
			got, total, err := list.Page(t.Context(), db, c.page, 8, "e")
			if err != nil || total != 3 || !slices.Equal(got, c.want) {
				t.Errorf("%+v: %v of %d, %v, want %v of 3", c.page, got, total, err, c.want)
			}
		}
		if n, err := list.Count(t.Context(), db, 2, "e"); err != nil || n != 1 {
			t.Errorf("%d, %v, want 1", n, err)
		}
	})
}
