package signals_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestRecount sends the same signals to two organisations, to the second in another
// order and with duplicates. Both must give the same responses, which equal a
// recount.
func TestRecount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		rapid.Check(t, func(t *rapid.T) {
			all := rapid.SliceOfN(drawSignal(), 1, 25).Draw(t, "signals")
			one, two := w.org(t), w.org(t)
			one.send(chunks(t, all))
			again := append(slices.Clone(all), rapid.SliceOfN(rapid.SampledFrom(all), 0, 10).Draw(t, "again")...)
			two.send(chunks(t, rapid.Permutation(again).Draw(t, "order")))
			// Of signals with one source key the first counts; drawSignal makes them equal,
			// so that the order does not matter.
			for _, c := range []*client{one, two} {
				if diff := cmp.Diff(c.recount(), c.counted()); diff != "" {
					t.Errorf("cells (-recount +kept):\n%s", diff)
				}
			}
			one.republish()
			two.republish()
			for _, path := range []string{overviewPath, skillPath + "pdf", skillPath + "csv", aggregatesPath, aggregatesPath + "?bucket=week"} {
				want, got := one.get(path).want(http.StatusOK).object(), two.get(path).want(http.StatusOK).object()
				for _, its := range []string{"creator_id", "as_of"} {
					delete(want, its)
					delete(got, its)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-drawn order +another order):\n%s", path, diff)
				}
			}
		})
	})
}

// TestRecountGroup: bodies of one group are counted together, also if they share
// signals, or one of them is stored already. The first body of a signal has it.
func TestRecountGroup(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for _, test := range []struct {
			bodies []string // source keys of a letter each
			want   []int
		}{
			{[]string{"ab", "cd"}, []int{2, 2}},
			{[]string{"ab", "bc", "abd"}, []int{2, 1, 1}},
			{[]string{"aa", "z"}, []int{1, 0}},
			{[]string{"az", "b"}, []int{1, 1}},
			{[]string{"z", "z"}, []int{0, 0}},
		} {
			c := w.org(t)
			body := func(keys string) (all []signals.Signal) {
				for _, key := range keys {
					all = append(all, signals.Signal{
						SourceKey: string(key), SkillName: "pdf", Type: "x", Contributor: fmt.Sprint("of ", key%2), Confidence: new(int64(key)), Day: 20_000,
					})
				}
				return all
			}
			if _, err := w.signals.Store(t.Context(), c.Org.ID, body("z")); err != nil {
				t.Fatal(err)
			}
			var bodies [][]signals.Signal
			for _, keys := range test.bodies {
				bodies = append(bodies, body(keys))
			}
			got, err := w.signals.Store(t.Context(), c.Org.ID, bodies...)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("of %q %v were new (%v), want %v", test.bodies, got, err, test.want)
			}
			if diff := cmp.Diff(c.recount(), c.counted()); diff != "" {
				t.Errorf("%q: cells (-recount +kept):\n%s", test.bodies, diff)
			}
		}
	})
}

// drawSignal draws a signal all of whose fields follow from its source key.
func drawSignal() *rapid.Generator[object] {
	return rapid.Custom(func(t *rapid.T) object {
		n := rapid.IntRange(0, 60).Draw(t, "key")
		return signal([]string{"pdf", "csv"}[n%2], []string{"missed_trigger", "y"}[n/2%2], fmt.Sprint("k", n), float64(n%11)/10, fmt.Sprint("cohort", n%5))
	})
}

func chunks(t *rapid.T, all []object) [][]object {
	return slices.Collect(slices.Chunk(all, rapid.IntRange(min(3, len(all)), len(all)).Draw(t, "size")))
}

func (c *client) send(batches [][]object) {
	c.T.Helper()
	for _, b := range batches {
		c.post(batch(b...)).want(http.StatusOK)
	}
}

// counts is the counters of a cell.
type counts struct{ Signals, Contributors, Confidence int64 }

// recount counts the stored signals again.
func (c *client) recount() map[string]counts {
	return c.group(`
		SELECT $2 || skill_name || $2 || signal_type || $2 || CAST(day AS TEXT), COUNT(*), COUNT(DISTINCT contributor), CAST(SUM(confidence) AS BIGINT)
		FROM signals WHERE org_id = $1 GROUP BY skill_name, signal_type, day
		UNION ALL SELECT $2 || skill_name || $2 || signal_type, COUNT(*), COUNT(DISTINCT contributor), CAST(SUM(confidence) AS BIGINT)
		FROM signals WHERE org_id = $1 GROUP BY skill_name, signal_type
		UNION ALL SELECT $2 || skill_name, COUNT(*), COUNT(DISTINCT contributor), CAST(SUM(confidence) AS BIGINT)
		FROM signals WHERE org_id = $1 GROUP BY skill_name
		UNION ALL SELECT $2, COUNT(*), COUNT(DISTINCT contributor), CAST(SUM(confidence) AS BIGINT) FROM signals WHERE org_id = $1`)
}

// counted returns the stored counters.
func (c *client) counted() map[string]counts {
	return c.group(`
		SELECT CASE level WHEN 'org' THEN $2 WHEN 'skill' THEN $2 || skill_name WHEN 'kind' THEN $2 || skill_name || $2 || signal_type
			ELSE $2 || skill_name || $2 || signal_type || $2 || CAST(last_day AS TEXT) END, signals, contributors, confidence_sum
		FROM signal_cells WHERE org_id = $1 AND level <> 'week'`)
}

func (c *client) group(sql string) map[string]counts {
	c.T.Helper()
	all := map[string]counts{}
	rows, err := c.w.DB.Query(c.T.Context(), sql, c.Org.ID, "/")
	_, err = store.All(rows, err, func(row store.Row) (key string, err error) {
		var n counts
		err = row.Scan(&key, &n.Signals, &n.Contributors, &n.Confidence)
		all[key] = n
		return key, err
	})
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	return all
}
