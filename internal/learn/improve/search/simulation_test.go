package search_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// A world is a suite with the chance of each case to pass, and what a writer does
// to it.
type world struct {
	r     *rand.Rand
	cases int
	write func(r *rand.Rand, parent []float64) []float64
}

// trial is how often a case passes in some trials.
func (w world) trial(p float64, trials int) decision.Count {
	c := decision.Count{Decided: trials}
	for range trials {
		if w.r.Float64() < p {
			c.Passed++
		}
	}
	return c
}

// run makes an improve run in the order of the service.
func (w world) run(rounds int, holdout float64) (chosen bool, e search.Evidence) {
	index := map[string]int{}
	cases := make([]search.Case, w.cases)
	current := make([]float64, w.cases)
	for i := range cases {
		cases[i] = search.Case{ID: fmt.Sprint(i), Group: "llm_rubric"}
		index[cases[i].ID] = i
		current[i] = math.Pow(w.r.Float64(), 0.5) // mean 2/3, some of them hopeless, some safe
	}
	known := map[string]bool{}
	scores := map[string]float64{}
	for i, c := range cases {
		passed := w.trial(current[i], 1).Passed
		cases[i].Failing, known[c.ID], scores[c.ID] = passed == 0, passed == 0, float64(passed)
	}
	parts := search.Split(cases, holdout, search.Least{Train: 8, Selection: 4, Proof: 4}, w.r.Int64N(1<<53))
	ids := map[search.Part][]string{}
	for i, part := range parts {
		ids[part] = append(ids[part], cases[i].ID)
	}
	select1 := func(n int, p []float64, first bool) search.Member {
		m := search.Member{N: n, Scores: map[string]float64{}}
		for _, id := range ids[search.Selection] {
			if m.Scores[id] = scores[id]; !first {
				m.Scores[id] = float64(w.trial(p[index[id]], 1).Passed)
			}
		}
		return m
	}
	chances := [][]float64{current}
	s := search.New(select1(0, current, true))
	start := s.Pool[0]
	for n := 1; !s.Done(rounds); n++ {
		parent := chances[s.Parent(w.r).N]
		candidate := w.write(w.r, parent)
		chances = append(chances, candidate)
		var pairs []decision.Case
		for _, id := range search.Minibatch(ids[search.Train], known, w.r) {
			i := index[id]
			pairs = append(pairs, decision.Case{Current: w.trial(parent[i], 1), New: w.trial(candidate[i], 1)})
		}
		gain, _ := search.Gain(pairs)
		if gain < 0 {
			s.Finish(nil)
			continue
		}
		m := select1(n, candidate, false)
		m.Gained = gain > 0
		s.Finish(&m)
	}
	best := s.Best()
	if best.N == 0 || best.Total(start) <= start.Total(best) {
		return false, e
	}
	var pairs []decision.Case
	for _, id := range ids[search.Proof] {
		i := index[id]
		pairs = append(pairs, decision.Case{
			ID: id, Current: w.trial(current[i], search.ProofTrials), New: w.trial(chances[best.N][i], search.ProofTrials),
		})
	}
	return true, search.Prove(pairs)
}

// TestSimulation measures how often a winner is called proved. Writers that make
// nothing better must not win in more than 5 % of the runs, however often they
// try; one that makes every case 25 points better should.
func TestSimulation(t *testing.T) {
	t.Parallel()
	same := func(_ *rand.Rand, parent []float64) []float64 { return parent }
	// Some cases get better, and as many get worse by the same.
	other := func(r *rand.Rand, parent []float64) []float64 {
		next := make([]float64, len(parent))
		for i, p := range parent {
			room := min(p, 1-p)
			next[i] = p + room*(2*r.Float64()-1)
		}
		return next
	}
	better := func(_ *rand.Rand, parent []float64) []float64 {
		next := make([]float64, len(parent))
		for i, p := range parent {
			next[i] = min(1, p+0.25)
		}
		return next
	}
	const repeats = 500
	t.Logf("%-8s %6s %6s %10s %10s %10s", "writer", "rounds", "cases", "proof", "proposed %", "proved %")
	for _, row := range []struct {
		name    string
		write   func(*rand.Rand, []float64) []float64
		rounds  int
		cases   int
		holdout float64
		least   float64 // of the runs that must be proved, in %
		most    float64
	}{
		{"same", same, 3, 16, 0.5, 0, 5},
		{"same", same, 10, 16, 0.5, 0, 5},
		{"same", same, 10, 48, 0.5, 0, 5},
		{"same", same, 3, 96, 0.5, 0, 5},
		{"same", same, 10, 96, 0.5, 0, 5},
		{"other", other, 3, 48, 0.5, 0, 5},
		{"other", other, 10, 48, 0.5, 0, 5},
		{"+25", better, 1, 96, 0.5, 80, 100},
		{"+25", better, 3, 96, 0.5, 90, 100},
		{"+25", better, 3, 24, 0.5, 10, 100},
	} {
		w := world{r: rand.New(rand.NewPCG(42, uint64(row.rounds))), cases: row.cases, write: row.write}
		chosen, proved, size := 0, 0, 0
		for range repeats {
			was, e := w.run(row.rounds, row.holdout)
			if was {
				chosen++
				size = e.Cases
			}
			if e.Proved {
				proved++
			}
		}
		share := 100 * float64(proved) / repeats
		t.Logf("%-8s %6d %6d %10d %10.1f %10.1f", row.name, row.rounds, row.cases, size, 100*float64(chosen)/repeats, share)
		if share < row.least || share > row.most {
			t.Errorf("%s, %d rounds, %d cases: %.1f %% are proved, want %g to %g", row.name, row.rounds, row.cases, share, row.least, row.most)
		}
	}
}
