package search_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// TestSplit wants of every split that it repeats itself, has the sizes of Count,
// keeps retired cases for the writer, and takes its share of each stratum.
func TestSplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		holdout := rapid.Float64Range(0.1, 0.9).Draw(t, "holdout")
		seed := rapid.Int64Range(0, 1<<53).Draw(t, "seed")
		least := search.Least{Train: 1, Selection: 1, Proof: 1}
		if rapid.Bool().Draw(t, "whole") {
			least = search.Least{Train: 8, Selection: 4, Proof: 4}
		}
		var cases []search.Case
		for i := range rapid.IntRange(least.Train+least.Selection+least.Proof, 60).Draw(t, "cases") {
			cases = append(cases, search.Case{
				ID: fmt.Sprint(i), Group: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"),
				Failing: rapid.Bool().Draw(t, "failing"), Retired: rapid.IntRange(0, 9).Draw(t, "proofs") == 0,
			})
		}
		parts := search.Split(cases, holdout, least, seed)
		if diff := cmp.Diff(parts, search.Split(cases, holdout, least, seed)); diff != "" {
			t.Fatalf("the same seed gives another split:\n%s", diff)
		}
		var got search.Counts
		held, all, retired := map[string]int{}, map[string]int{}, 0
		for i, part := range parts {
			all[cases[i].Group]++
			if cases[i].Retired {
				retired++
			}
			switch part {
			case search.Train:
				got.Train++
				continue
			case search.Selection:
				got.Selection++
			case search.Proof:
				got.Proof++
			}
			held[cases[i].Group]++
			if cases[i].Retired {
				t.Fatalf("case %d is retired, and is part of %s", i, part)
			}
		}
		if want := search.Count(cases, holdout, least); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
		if got.Proof < got.Selection || got.Proof > got.Selection+1 {
			t.Fatalf("the holdout is not halved: %v", got)
		}
		if retired == 0 && len(all) == 1 && (got.Train < least.Train || got.Selection < least.Selection || got.Proof < least.Proof) {
			t.Fatalf("%v is less than %v", got, least)
		}
		for g, n := range all {
			if n > 1 && held[g] == n {
				t.Fatalf("all of group %s are held out", g)
			}
		}
	})
}

// TestSplitStrata: failing and passing cases are in all parts in their share.
func TestSplitStrata(t *testing.T) {
	t.Parallel()
	var cases []search.Case
	for i := range 40 {
		cases = append(cases, search.Case{ID: fmt.Sprint(i), Group: "llm_rubric", Failing: i%4 == 0})
	}
	for seed := range int64(50) {
		failing := map[search.Part]int{}
		for i, part := range search.Split(cases, 0.5, search.Least{Train: 8, Selection: 4, Proof: 4}, seed) {
			if cases[i].Failing {
				failing[part]++
			}
		}
		for part, want := range map[search.Part]int{search.Train: 5, search.Selection: 2, search.Proof: 2} {
			if n := failing[part]; n < want || n > want+1 {
				t.Errorf("seed %d: %d of 10 failing cases are for %s, want %d or %d", seed, n, part, want, want+1)
			}
		}
	}
}

func member(n int, scores ...float64) search.Member {
	m := search.Member{N: n, Scores: map[string]float64{}}
	for i, score := range scores {
		m.Scores[fmt.Sprint(i)] = score
	}
	return m
}

func numbers(s *search.State) (all []int) {
	for _, m := range s.Pool {
		all = append(all, m.N)
	}
	return all
}

// TestPool keeps what is best on some case, and counts the rounds without anything
// new.
func TestPool(t *testing.T) {
	t.Parallel()
	s := search.New(member(0, 1, 0, 0))
	for _, row := range []struct {
		candidate *search.Member
		pool      []int
		stale     int
	}{
		{ptr(member(1, 1, 0, 0)), []int{0}, 1},         // a tie is nothing new
		{ptr(member(2, 0, 1, 0)), []int{0, 2}, 0},      // best on another case
		{nil, []int{0, 2}, 1},                          // nothing was written
		{ptr(member(4, 1, 1, 0)), []int{4}, 0},         // better than both
		{ptr(member(5, 0, 0, 0)), []int{4}, 1},         // worse
		{ptr(member(6, 0, 0, 0.5)), []int{4, 6}, 0},    // complements
		{ptr(member(7, 1, 1)), []int{4, 6}, 1},         // a case without a verdict counts as failed
		{ptr(member(8, 1, 0.5, 0.5)), []int{4, 8}, 0},  // takes the place of 6
		{ptr(member(9, 1, 0.5, 0.5)), []int{4, 8}, 1},  // again
		{ptr(member(10, 1, 0.5, 0.4)), []int{4, 8}, 2}, // below
		{ptr(member(11, 0.5, 0.5, 0)), []int{4, 8}, 3}, // below
	} {
		s.Finish(row.candidate)
		if got := numbers(s); !slices.Equal(got, row.pool) || s.Stale != row.stale {
			t.Errorf("round %d: the pool is %v after %d stale rounds, want %v and %d", s.Rounds, got, s.Stale, row.pool, row.stale)
		}
	}
	better := member(12, 1, 0.5, 0.5)
	better.Gained = true
	if s.Finish(&better); !slices.Equal(numbers(s), []int{4, 12}) || s.Stale != 4 {
		t.Errorf("the pool is %v after %d stale rounds: what mends more than the selection shows takes the place of 8", numbers(s), s.Stale)
	}
	if best := s.Best(); best.N != 4 {
		t.Errorf("the best of equal ones is %d", best.N)
	}
	if partner, found := s.Partner(); !found || partner.N != 12 {
		t.Errorf("the partner is %d %t", partner.N, found)
	}
	if !s.Done(100) || search.New(member(0)).Done(1) {
		t.Error("a search ends with its stale rounds, not before")
	}
	if _, found := search.New(member(0, 1)).Partner(); found {
		t.Error("the current version has nothing to merge with")
	}
}

func ptr[T any](v T) *T { return &v }

// TestPoolBound: of more than eight, the one that is best on the fewest cases goes.
func TestPoolBound(t *testing.T) {
	t.Parallel()
	s := search.New(member(0))
	for n := range 10 {
		scores := make([]float64, 20)
		scores[n], scores[19-n] = 1, 1
		if n == 3 {
			scores[19-n] = 0
		}
		s.Finish(ptr(member(n+1, scores...)))
	}
	if got := numbers(s); len(got) != search.MaxAlive || slices.Contains(got, 4) {
		t.Errorf("alive are %v", got)
	}
	drawn := map[int]bool{}
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		drawn[s.Parent(r).N] = true
	}
	if len(drawn) != search.MaxAlive {
		t.Errorf("drawn are %v", drawn)
	}
}

func TestMinibatch(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ train, failing, size, bad int }{
		{20, 10, 8, 4}, {20, 2, 8, 2}, {20, 20, 8, 8}, {8, 6, 8, 6}, {3, 1, 3, 1}, {10, 7, 8, 5}, {20, 0, 8, 0},
	} {
		var train []string
		failing := map[string]bool{}
		for i := range row.train {
			train = append(train, fmt.Sprint(i))
			failing[fmt.Sprint(i)] = i < row.failing
		}
		got := search.Minibatch(train, failing, rand.New(rand.NewPCG(1, 1)))
		bad := 0
		for _, id := range got {
			if failing[id] {
				bad++
			}
		}
		if len(got) != row.size || bad != row.bad || len(slices.Compact(slices.Sorted(slices.Values(got)))) != row.size {
			t.Errorf("%+v: got %v, %d of them failing", row, got, bad)
		}
	}
}

// TestProve has the check values of the rule.
func TestProve(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		better, worse, same int
		proved              bool
	}{{3, 0, 9, false}, {4, 0, 0, true}, {8, 2, 10, true}, {5, 1, 0, false}, {0, 4, 0, false}, {0, 0, 20, false}} {
		var cases []decision.Case
		add := func(n, before, now int) {
			for range n {
				cases = append(cases, decision.Case{Current: decision.Count{Passed: before, Decided: 5}, New: decision.Count{Passed: now, Decided: 5}})
			}
		}
		add(row.better, 2, 3)
		add(row.worse, 3, 2)
		add(row.same, 4, 4)
		cases = append(cases, decision.Case{New: decision.Count{Passed: 5, Decided: 5}}) // without a pair it does not count
		got := search.Prove(cases)
		if got.Proved != row.proved || got.Better != row.better || got.Worse != row.worse || got.Cases != row.better+row.worse+row.same {
			t.Errorf("%+v: got %+v", row, got)
		}
	}
	if got := search.Prove(nil); got.Proved || got.Cases != 0 || got.Interval != [2]float64{-1, 1} {
		t.Errorf("nothing proves %+v", got)
	}
}

// TestOutageIsNoFail: a case that the judge could not decide says nothing about a
// candidate.
func TestOutageIsNoFail(t *testing.T) {
	s := search.New(search.Member{Scores: map[string]float64{"a": 0, "b": 1, "c": 1}})
	s.Finish(&search.Member{N: 1, Scores: map[string]float64{"a": 1, "b": 1}}) // c had no verdict
	if best := s.Best(); best.N != 1 {
		t.Errorf("the best is %d, want 1", best.N)
	}
	// Nor does one that the current version missed.
	s = search.New(search.Member{Scores: map[string]float64{"b": 1}})
	s.Finish(&search.Member{N: 1, Scores: map[string]float64{"a": 0.5, "b": 0}})
	if best := s.Best(); best.N != 0 {
		t.Errorf("the best is %d, want 0", best.N)
	}
}

// TestIsBetter: a winner that loses more on one case than it gains on two is not better.
func TestIsBetter(t *testing.T) {
	t.Parallel()
	gains := decision.Case{Current: decision.Count{Passed: 2, Decided: 5}, New: decision.Count{Passed: 3, Decided: 5}}
	loses := decision.Case{Current: decision.Count{Passed: 5, Decided: 5}, New: decision.Count{Decided: 5}}
	if e := search.Prove([]decision.Case{gains, gains, loses}); e.Better != 2 || e.Worse != 1 || e.Winner >= e.Current || e.IsBetter() {
		t.Errorf("two cases gain a fifth, one loses all: %+v", e)
	}
	if e := search.Prove([]decision.Case{gains, gains}); !e.IsBetter() {
		t.Errorf("two cases gain a fifth: %+v", e)
	}
}
