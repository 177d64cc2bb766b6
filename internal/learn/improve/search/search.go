package search

import (
	"math/rand/v2"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

const (
	// MinibatchSize is how many cases a new candidate is first tried on.
	MinibatchSize = 8
	// MaxAlive bounds the pool.
	MaxAlive = 8
	// MaxStale is after how many rounds without a new front the search stops.
	MaxStale = 3
)

// A Member is a candidate of the pool. Scores has the share of passed trials of
// each case of the selection; cases without a verdict are missing: an
// outage of the judge is no fail.
type Member struct {
	N      int // of the iteration; 0 is the current version
	Scores map[string]float64
	Gained bool // it was better than its parent on the minibatch
}

// Total is the sum of the scores on the cases on which other has a verdict, too.
func (m Member) Total(other Member) (sum float64) {
	for id, score := range m.Scores {
		if _, ok := other.Scores[id]; ok {
			sum += score
		}
	}
	return sum
}

// dominates reports whether m is nowhere worse than other. A case without a verdict counts as
// worse, so nothing is dropped because of an outage.
func (m Member) dominates(other Member) bool {
	for id, score := range other.Scores {
		if own, ok := m.Scores[id]; !ok || own < score {
			return false
		}
	}
	return true
}

// A State is how far a search has come.
type State struct {
	// Pool is the Pareto front over the cases of the selection: each member is
	// better than every other one on some case.
	Pool   []Member
	Rounds int
	Stale  int // rounds since the front last changed
}

// New begins with the current version.
func New(current Member) *State { return &State{Pool: []Member{current}} }

// Finish ends a round with its candidate, or with nil if there was none, or if it
// was worse than its parent on the minibatch. A candidate that an existing member dominates is
// dropped; members that it dominates leave the pool.
func (s *State) Finish(candidate *Member) {
	s.Rounds++
	s.Stale++
	if candidate == nil {
		return
	}
	for i, m := range s.Pool {
		if !m.dominates(*candidate) {
			continue
		}
		// A few cases do not show every step: what mends training cases and ties here
		// is a better parent than what it ties with.
		if candidate.Gained && candidate.dominates(m) {
			s.Pool[i] = *candidate
		}
		return
	}
	s.Stale = 0
	s.Pool = append(slices.DeleteFunc(s.Pool, candidate.dominates), *candidate)
	// One too many: the member that is best on the fewest cases goes.
	if len(s.Pool) > MaxAlive {
		wins := s.wins()
		fewest := 0
		for i := range wins {
			if wins[i] < wins[fewest] {
				fewest = i
			}
		}
		s.Pool = slices.Delete(s.Pool, fewest, fewest+1)
	}
}

// wins counts, for each member, the cases on which none is better.
func (s *State) wins() []int {
	best := map[string]float64{}
	for _, m := range s.Pool {
		for id, score := range m.Scores {
			best[id] = max(best[id], score)
		}
	}
	wins := make([]int, len(s.Pool))
	for id, most := range best {
		for i, m := range s.Pool {
			if score, ok := m.Scores[id]; ok && score == most {
				wins[i]++
			}
		}
	}
	return wins
}

// Parent draws the member that the next candidate is written from, by the number
// of cases that it is best on. So a member that only wins on a single hard case is still drawn now
// and then, which keeps the search from a local optimum.
func (s *State) Parent(r *rand.Rand) Member {
	wins, total := s.wins(), 0
	for _, n := range wins {
		total += n
	}
	if total == 0 {
		return s.Pool[0]
	}
	at := r.IntN(total)
	for i, n := range wins {
		if at -= n; at < 0 {
			return s.Pool[i]
		}
	}
	return s.Pool[0]
}

// Best is the member with the highest total, the earliest of equal ones. Two are
// compared on the cases on which both have a verdict.
func (s *State) Best() Member {
	best := s.Pool[0]
	for _, m := range s.Pool[1:] {
		if own, other := m.Total(best), best.Total(m); own > other || own == other && m.N < best.N {
			best = m
		}
	}
	return best
}

// Partner is the member whose scores complement those of Best most; false if no
// merge of the two could be better than Best.
func (s *State) Partner() (partner Member, found bool) {
	best := s.Best()
	most := 0.0
	for _, m := range s.Pool {
		gain := 0.0
		for id, score := range m.Scores {
			if other, ok := best.Scores[id]; ok {
				gain += max(0, score-other)
			}
		}
		if m.N != 0 && m.N != best.N && gain > most {
			partner, most, found = m, gain, true
		}
	}
	return partner, found && best.N != 0
}

// Done reports whether the search stops, after at most so many rounds.
func (s *State) Done(rounds int) bool { return s.Rounds >= rounds || s.Stale >= MaxStale }

// Minibatch draws cases to try a candidate on: at least half of them fail with its
// parent, if there are as many. The passing ones keep a candidate from mending failures at their
// expense.
func Minibatch(train []string, failing map[string]bool, r *rand.Rand) []string {
	var bad, good []string
	for _, id := range train {
		if failing[id] {
			bad = append(bad, id)
		} else {
			good = append(good, id)
		}
	}
	r.Shuffle(len(bad), func(i, k int) { bad[i], bad[k] = bad[k], bad[i] })
	r.Shuffle(len(good), func(i, k int) { good[i], good[k] = good[k], good[i] })
	n := min(len(bad), max(MinibatchSize/2, MinibatchSize-len(good)))
	return append(bad[:n:n], good[:min(len(good), MinibatchSize-n)]...)
}

// Gain is by how many cases a candidate passes more than its parent, of those that
// both have a verdict of; false if there is none.
func Gain(cases []decision.Case) (gain float64, known bool) {
	for _, c := range cases {
		if c.Current.Decided > 0 && c.New.Decided > 0 {
			known = true
			gain += c.New.Rate() - c.Current.Rate()
		}
	}
	return gain, known
}
