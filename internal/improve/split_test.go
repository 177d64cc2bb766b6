package improve_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/improve"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

// TestSplit wants of every split that it keeps the queries, repeats itself, and
// holds the same share of each expectation out.
func TestSplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		holdout := rapid.Float64Range(0.1, 0.9).Draw(t, "holdout")
		seed := rapid.Int64Range(0, 1<<53).Draw(t, "seed")
		var queries []improve.Query
		for i, wanted := range rapid.SliceOfN(rapid.Bool(), 1, 60).Draw(t, "wanted") {
			q := improve.Query{Text: fmt.Sprint(i), Expectation: suites.ShouldNotTrigger}
			if wanted {
				q.Expectation = suites.ShouldTrigger
			}
			queries = append(queries, q)
		}
		split := improve.SplitQueries(queries, holdout, seed)
		if diff := cmp.Diff(split, improve.SplitQueries(queries, holdout, seed)); diff != "" {
			t.Fatalf("the same seed gives another split:\n%s", diff)
		}
		all, out := map[suites.Expectation]float64{}, map[suites.Expectation]float64{}
		for i, q := range split {
			all[q.Expectation]++
			if q.HeldOut {
				out[q.Expectation]++
			}
			q.HeldOut = false
			if q != queries[i] {
				t.Fatalf("query %d became %v", i, q)
			}
		}
		for e, n := range all {
			if n > 1 && (out[e] < 1 || out[e] > n-1) || n == 1 && out[e] != 0 {
				t.Fatalf("%v of %v %s queries are held out", out[e], n, e)
			}
			if off := out[e] - n*holdout; n > 1 && (off > 1 || off < -1) {
				t.Fatalf("%v of %v %s queries are held out, want a share of %v", out[e], n, e, holdout)
			}
		}
	})
}

// TestOutcome has a row for each rule by which a run ends and a winner is
// chosen. All have 10 held-out queries and may try three descriptions.
func TestOutcome(t *testing.T) {
	t.Parallel()
	missing := "1 of 20 queries has no verdict"
	text := "text"
	scored := func(passed int) improve.Iteration {
		return improve.Iteration{
			Description: &text, Train: improve.Score{Passed: 10 - passed, Cases: 10},
			HeldOut: improve.Score{Passed: passed, Cases: 10},
		}
	}
	undecided := func(passed, cases int) improve.Iteration {
		it := scored(passed)
		it.HeldOut.Cases, it.Errors, it.Problem = cases, 10-cases, &missing
		return it
	}
	unusable := improve.Iteration{Problem: &missing}
	for _, row := range []struct {
		name       string
		iterations []improve.Iteration
		api        string
		status     runs.Status
		winner     int // 0: none
	}{
		{"only the current", []improve.Iteration{scored(5)}, "", runs.Running, 0},
		{"current is perfect", []improve.Iteration{scored(10)}, "", improve.NoWinner, 0},
		{"more to try", []improve.Iteration{scored(5), scored(7)}, "", runs.Running, 1},
		{"perfect", []improve.Iteration{scored(5), scored(10)}, "", runs.Succeeded, 1},
		{"highest", []improve.Iteration{scored(5), scored(7), scored(8), scored(6)}, "", runs.Succeeded, 2},
		{"tie goes to the earlier", []improve.Iteration{scored(5), scored(7), scored(7), scored(7)}, "", runs.Succeeded, 1},
		{"tie with the current", []improve.Iteration{scored(5), scored(5), scored(4), scored(5)}, "", improve.NoWinner, 0},
		{"without a verdict", []improve.Iteration{scored(5), undecided(9, 9), scored(6), scored(5)}, "", runs.Succeeded, 2},
		{"current without a verdict", []improve.Iteration{undecided(5, 8), scored(7), scored(7), scored(7)}, "", improve.NoWinner, 0},
		{"above all the current may have", []improve.Iteration{undecided(5, 8), scored(8), scored(7), scored(7)}, "", runs.Succeeded, 1},
		{"current without any", []improve.Iteration{undecided(0, 0)}, "", improve.FailedTerminal, 0},
		{"unusable", []improve.Iteration{scored(5), unusable, unusable, unusable}, "", improve.NoWinner, 0},
		{"a model may have other words", []improve.Iteration{scored(5), scored(6), unusable}, "openai", runs.Running, 1},
		{"the builtin has not", []improve.Iteration{scored(5), scored(6), unusable}, judge.Builtin, runs.Succeeded, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for i := range row.iterations {
				row.iterations[i].N = i
			}
			status, winner := improve.Run{
				MaxIterations: 3, Train: 10, HeldOut: 10, Judge: judge.Description{API: row.api}, Iterations: row.iterations,
			}.Outcome()
			n := 0
			if winner != nil {
				n = winner.N
			}
			if status != row.status || n != row.winner {
				t.Errorf("got %s and the winner %d, want %s and %d", status, n, row.status, row.winner)
			}
		})
	}
}
