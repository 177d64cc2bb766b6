package signals_test

import (
	"maps"
	"math/big"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/learn/signals"
)

// subtract combines known sets pairwise until nothing new follows. It reports
// whether a set turned out to be empty.
func (a *attacker) subtract() bool {
	const most = 120
	before := new(big.Int).Set(a.empty)
	for grown := true; grown && len(a.known) < most; {
		grown = false
		all := slices.Collect(maps.Values(a.known))
		for _, x := range all {
			for _, y := range all {
				common := new(big.Int).And(x, y)
				switch {
				case len(a.known) >= most:
				case common.Sign() == 0:
					grown = a.derive("a sum", new(big.Int).Or(x, y)) || grown
				case common.Cmp(y) == 0:
					grown = a.derive("a difference", new(big.Int).AndNot(x, y)) || grown
				}
			}
		}
	}
	return before.Cmp(a.empty) != 0
}

// eliminate solves all known figures as linear equations, in which each point is
// an unknown. The solution must not determine a group of points with few
// contributors: a point, a day, a week or a whole kind.
func (a *attacker) eliminate() {
	equations := basis{}
	for _, set := range a.known {
		equations.add(vector(set, len(a.list)))
	}
	for _, target := range a.targets() {
		n, people := a.truth(target)
		if people > 0 && people < a.k && equations.spans(vector(target, len(a.list))) {
			a.Fatalf("equations reveal %d signals of %d contributors: %v", n, people, a.describe(target))
		}
	}
}

// prime is large enough that sums of a few hundred products are not zero by
// accident, and small enough that they fit into an int64.
const prime = 2_147_483_647

// A basis is a row echelon form, by leading column.
type basis map[int][]int64

func vector(set *big.Int, size int) []int64 {
	v := make([]int64, size)
	for i := range v {
		v[i] = int64(set.Bit(i))
	}
	return v
}

// reduce subtracts the basis from a vector, and returns the leading column that is
// left, -1 for none.
func (b basis) reduce(v []int64) int {
	first := -1
	for i := range v {
		row := b[i]
		if v[i] == 0 || row == nil {
			if v[i] != 0 && first < 0 {
				first = i
			}
			continue
		}
		factor := v[i]
		for j := i; j < len(v); j++ {
			v[j] = ((v[j]-factor*row[j])%prime + prime) % prime
		}
	}
	return first
}

func (b basis) add(v []int64) {
	i := b.reduce(v)
	if i < 0 {
		return
	}
	inverse := new(big.Int).ModInverse(big.NewInt(v[i]), big.NewInt(prime)).Int64()
	for j := i; j < len(v); j++ {
		v[j] = v[j] * inverse % prime
	}
	b[i] = v
}

func (b basis) spans(v []int64) bool { return b.reduce(v) < 0 }

func (a *attacker) targets() map[string]*big.Int {
	all := map[string]*big.Int{}
	for _, p := range a.secrets {
		p := p.point
		for _, same := range []func(point) bool{
			func(q point) bool { return q == p },
			func(q point) bool { return q.skill == p.skill && q.kind == p.kind && q.day == p.day },
			func(q point) bool {
				return q.skill == p.skill && q.kind == p.kind && signals.WeekName(q.day) == signals.WeekName(p.day)
			},
			func(q point) bool { return q.skill == p.skill && q.kind == p.kind },
			func(q point) bool { return q.skill == p.skill && q.day == p.day },
			func(q point) bool { return q.skill == p.skill && q.says.State == p.says.State },
			func(q point) bool { return q.skill == p.skill && q.says == p.says },
			func(q point) bool { return q.skill == p.skill },
			func(q point) bool { return q.day == p.day },
			func(q point) bool { return q.kind == p.kind },
		} {
			set := a.set(same)
			all[set.Text(16)] = set
		}
	}
	return all
}

// countPeople compares the numbers of contributors of a set and its parts.
func (a *attacker) countPeople() {
	for _, whole := range a.people {
		for _, part := range a.people {
			if new(big.Int).AndNot(part.set, whole.set).Sign() == 0 && !a.harmless(whole.n-part.n) {
				a.Fatalf("%d contributors of %v and %d of %v", whole.n, a.describe(whole.set), part.n, a.describe(part.set))
			}
		}
	}
	a.overlap(true)
	a.overlap(false)
}

// overlap compares the contributors of a skill with the sum over all its
// weeks or days, if all are known.
func (a *attacker) overlap(weekly bool) {
	for _, skill := range []string{"pdf", "csv"} {
		whole := a.set(func(p point) bool { return p.skill == skill })
		sum, all := 0, new(big.Int)
		for _, row := range a.rows {
			if row.weekly != weekly || !row.counted || new(big.Int).AndNot(row.set, whole).Sign() != 0 {
				continue
			}
			_, people := a.truth(row.set)
			sum += people
			all.Or(all, row.set)
		}
		if _, people := a.truth(whole); all.Cmp(whole) == 0 && !a.harmless(sum-people) {
			a.Fatalf("the parts of %s have %d contributors more than it has", skill, sum-people)
		}
	}
}

func (a *attacker) harmless(n int) bool { return n == 0 || n >= a.k || n <= -a.k }

// countRows searches for suppressed rows that are as many as their signals.
func (a *attacker) countRows() {
	for _, whole := range a.known {
		for _, weekly := range []bool{true, false} {
			suppressed, rest := 0, new(big.Int).Set(whole)
			for _, row := range a.rows {
				if row.weekly != weekly || new(big.Int).AndNot(row.set, whole).Sign() != 0 {
					continue
				}
				if row.suppressed {
					suppressed++
				} else {
					rest.AndNot(rest, row.set)
				}
			}
			if left, _ := a.truth(rest); suppressed > 0 && left <= suppressed {
				a.Fatalf("%d signals are in %d suppressed rows of %v", left, suppressed, a.describe(whole))
			}
		}
	}
}
