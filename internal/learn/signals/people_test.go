package signals_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestPeople: numbers of contributors are shown only where no two of them, and no
// sum, differ by one or two.
func TestPeople(t *testing.T) {
	t.Parallel()
	type week struct{ skill, people string } // a letter is a person
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for _, test := range []struct {
			name  string
			weeks []week
			rows  []any // contributors of the weeks, by skill
			total any
		}{
			{"the same people", []week{{"pdf", "abc"}, {"pdf", "abc"}}, []any{3.0, 3.0}, 3.0},
			{"one more in all", []week{{"pdf", "abc"}, {"pdf", "abcd"}}, []any{nil, 4.0}, 4.0},
			{"three more in all", []week{{"pdf", "abc"}, {"pdf", "abcdef"}}, []any{3.0, 6.0}, 6.0},
			{"disjoint", []week{{"pdf", "abc"}, {"pdf", "def"}}, []any{3.0, 3.0}, 6.0},
			{"one in both", []week{{"pdf", "abcd"}, {"pdf", "defg"}}, []any{4.0, nil}, 7.0},
			{"three in both", []week{{"pdf", "abcdef"}, {"pdf", "defghi"}}, []any{6.0, 6.0}, 9.0},
			{"skills of the same people", []week{{"csv", "abc"}, {"pdf", "abc"}}, []any{3.0, 3.0}, 3.0},
			{"skills of different people", []week{{"csv", "abc"}, {"pdf", "def"}}, []any{3.0, 3.0}, 6.0},
			{"skills with one more", []week{{"csv", "abc"}, {"pdf", "abcd"}}, []any{3.0, 4.0}, nil},
			{"skills with one in both", []week{{"csv", "abcd"}, {"pdf", "defg"}}, []any{4.0, 4.0}, nil},
			{"a suppressed skill", []week{{"csv", "x"}, {"pdf", "abc"}}, []any{nil, 3.0}, nil},
		} {
			t.Run(test.name, func(t *testing.T) {
				c := w.org(t)
				var all []signals.Signal
				for n, week := range test.weeks {
					for _, who := range week.people {
						all = append(all, signals.Signal{
							SourceKey: fmt.Sprint(len(all)), SkillName: week.skill, Type: "x", Contributor: string(who),
							Day: firstDay + 7*int64(n), Confidence: new(int64),
						})
					}
				}
				if _, err := w.signals.Store(t.Context(), c.Org.ID, all); err != nil {
					t.Fatal(err)
				}
				var rows []any
				for _, row := range c.get(aggregatesPath + "?bucket=week").want(http.StatusOK).object()["aggregates"].([]any) {
					rows = append(rows, row.(object)["contributor_count"])
				}
				if diff := cmp.Diff(test.rows, rows); diff != "" {
					t.Errorf("contributors (-want +got):\n%s", diff)
				}
				if got := c.get(overviewPath).want(http.StatusOK).object()["total_contributors"]; got != test.total {
					t.Errorf("total_contributors %v, want %v", got, test.total)
				}
			})
		}
	})
}

// TestUnlisted: suppressed rows that are as many as their signals are not listed.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org(t)
		var all []signals.Signal
		for n := range 3 {
			all = append(all, signals.Signal{
				SourceKey: fmt.Sprint(n), SkillName: "pdf", Type: "x", Contributor: fmt.Sprint(n),
				Day: firstDay + int64(n), Confidence: new(int64),
			})
		}
		if _, err := w.signals.Store(t.Context(), c.Org.ID, all); err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{"", query("since", "2024-01-01"), query("since", "2030-01-01")} {
			c.get(aggregatesPath + q).want(http.StatusOK).wantBody(object{
				"totals": object{"signals": nil, "skills": 0, "contributors": nil, "suppressed": true}, "aggregates": []any{},
			})
		}
		rows := c.get(aggregatesPath + "?bucket=week").want(http.StatusOK).object()["aggregates"].([]any)
		if len(rows) != 1 || rows[0].(object)["signal_count"] != 3.0 {
			t.Errorf("weeks %v, want one of 3 signals", rows)
		}
	})
}
