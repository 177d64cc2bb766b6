// Package search has the decisions of an improve run: which cases are for what,
// which candidate is the next one's parent, when to stop, and whether the winner
// is proved to be better. It is pure: it has no database, and draws from the
// random numbers that it is given.
package search

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// A Case is what is known about a case of the suite before the search.
type Case struct {
	ID string
	// Group is the stratum that does not depend on the skill: the kind of the case
	// and what it expects.
	Group   string
	Failing bool // with the current version
	Retired bool // it was part of a proof too often
}

// A Part is what a case is for.
type Part string

// The parts. A writer sees cases of Train only; Selection chooses among candidates;
// Proof is touched once, by the winner and the current version.
const (
	Train     Part = "train"
	Selection Part = "selection"
	Proof     Part = "proof"
)

// Least is the smallest number of cases of each part.
type Least struct{ Train, Selection, Proof int }

// MaxProofs is how often a case may be part of a proof. After that it has been
// looked at too often to be unknown, and is written from.
const MaxProofs = 5

// Counts are the sizes of the parts.
type Counts struct{ Train, Selection, Proof int }

// Count returns the sizes that Split makes of the cases, whatever the seed and
// whichever of them fail. It is deterministic, so that limits and estimates can use it before
// anything is scored.
func Count(cases []Case, holdout float64, least Least) Counts {
	held := 0
	for _, n := range heldOut(cases, holdout, least) {
		held += n
	}
	return Counts{Train: len(cases) - held, Selection: held / 2, Proof: held - held/2}
}

// heldOut returns how many cases of each group are not written from: the share
// of the holdout, at least one and never all of them. Then groups give or take
// until every part has its least size, as far as there are cases.
func heldOut(cases []Case, holdout float64, least Least) map[string]int {
	all, free := map[string]int{}, map[string]int{} // free are those that are not retired
	for _, c := range cases {
		all[c.Group]++
		if !c.Retired {
			free[c.Group]++
		}
	}
	held, total := map[string]int{}, 0
	for g, n := range all {
		if n > 1 { // a single one is for the writer: without it, nothing is written
			held[g] = min(free[g], n-1, max(1, int(math.Round(float64(n)*holdout))))
			total += held[g]
		}
	}
	groups := slices.Sorted(maps.Keys(all))
	// Groups with the most cases to write from give first.
	for total < least.Selection+least.Proof {
		best := ""
		for _, g := range groups {
			if held[g] < min(free[g], all[g]-1) && (best == "" || all[g]-held[g] > all[best]-held[best]) {
				best = g
			}
		}
		if best == "" {
			break
		}
		held[best]++
		total++
	}
	// And back, where the writer would be left with too few.
	for len(cases)-total < least.Train && total > least.Selection+least.Proof {
		best := ""
		for _, g := range groups {
			if held[g] > 0 && (best == "" || held[g] > held[best]) {
				best = g
			}
		}
		held[best]--
		total--
	}
	return held
}

// Split says what each case is for. It is stratified: each group, and in each
// group the failing and the passing cases, get about the same share of each part.
// The same seed makes the same split.
func Split(cases []Case, holdout float64, least Least, seed int64) []Part {
	parts := slices.Repeat([]Part{Train}, len(cases))
	held := heldOut(cases, holdout, least)
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	var out []int // those that are held out, stratum by stratum
	for _, g := range slices.Sorted(maps.Keys(held)) {
		var stratum []int
		for i, c := range cases {
			if c.Group == g && !c.Retired {
				stratum = append(stratum, i)
			}
		}
		r.Shuffle(len(stratum), func(i, k int) { stratum[i], stratum[k] = stratum[k], stratum[i] })
		// Failing and passing cases stand next to each other after the sort, so that systematic
		// takes its share of both.
		slices.SortStableFunc(stratum, func(a, b int) int { return order(cases[b].Failing) - order(cases[a].Failing) })
		for _, at := range systematic(len(stratum), held[g], r) {
			out = append(out, stratum[at])
		}
	}
	for _, i := range out {
		parts[i] = Selection
	}
	for _, at := range systematic(len(out), len(out)-len(out)/2, r) {
		parts[out[at]] = Proof
	}
	showFailure(cases, parts)
	return parts
}

// showFailure exchanges cases of the selection and the proof if none of the
// selection fails: no candidate could be better on it. It matters where there are
// very few. A passing case of the selection goes to the proof for it, so the sizes stay.
func showFailure(cases []Case, parts []Part) {
	passing, failing := -1, -1
	for i, part := range parts {
		switch {
		case part == Selection && cases[i].Failing:
			return
		case part == Selection:
			passing = i
		case part == Proof && cases[i].Failing:
			failing = i
		}
	}
	if passing >= 0 && failing >= 0 {
		parts[passing], parts[failing] = Proof, Selection
	}
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

// systematic draws k of n places at equal distances with a random start, so that
// neighbours, which are alike, are drawn in their share.
func systematic(n, k int, r *rand.Rand) (places []int) {
	start := r.Float64()
	for i := range n {
		before := math.Floor(float64(i)*float64(k)/float64(n) + start)
		after := math.Floor(float64(i+1)*float64(k)/float64(n) + start)
		if after > before && len(places) < k {
			places = append(places, i)
		}
	}
	// Rounding may lose the last one.
	for i := n - 1; len(places) < k; i-- {
		if !slices.Contains(places, i) {
			places = append(places, i)
		}
	}
	return places
}
