package signals

import (
	"cmp"
	"slices"
	"strings"
)

// What is shown follows these rules. docs/signals.md says why they suffice.
//
// k is how many contributors a figure must have.
//
//  1. A skill is shown if it has k contributors at least.
//  2. Below a cell that is shown, a cell is shown if it has k contributors at
//     least, and the hidden ones beside it have k together, or there are none.
//     Where they have fewer, the smallest one that could be shown is hidden,
//     too. Below a hidden cell everything is hidden.
//  3. A sum is over cells that are shown.
//  4. Numbers of contributors are shown where no two of them differ by fewer
//     than k people.

// DefaultMinContributors is k unless a setting says otherwise.
const DefaultMinContributors = 3

// A node is a cell in its hierarchy.
type node struct {
	*cell
	below map[level][]*node
	shown bool
	// people is the number of contributors if that may be shown.
	people *int
	// silent says that not even the cell's being there may be shown: hidden
	// cells with one signal each would be found out by counting them.
	silent bool
}

// A forest is the hierarchy of an organisation, or of one of its skills.
type forest struct {
	k      int
	org    *cell // nil if it was not read
	skills []*node
}

// grow builds the hierarchy of some cells and decides what is shown.
func grow(cells []*cell, k int) forest {
	f := forest{k: k}
	nodes := make(map[place]*node, len(cells))
	for _, c := range cells {
		nodes[c.place] = &node{cell: c, below: map[level][]*node{}}
	}
	for _, c := range cells {
		n := nodes[c.place]
		switch parent := nodes[c.parent()]; {
		case c.level == orgLevel:
			f.org = c
		case c.level == skillLevel:
			f.skills = append(f.skills, n)
		case parent != nil:
			parent.below[c.level] = append(parent.below[c.level], n)
		}
	}
	slices.SortFunc(f.skills, byPlace)
	for _, skill := range f.skills {
		skill.shown = skill.contributors >= k
		skill.shield(k)
		skill.count(k)
	}
	return f
}

func byPlace(a, b *node) int {
	return cmp.Or(strings.Compare(a.skill, b.skill), strings.Compare(a.class, b.class), strings.Compare(a.kind, b.kind), cmp.Compare(a.form, b.form))
}

// shield decides what is shown below a node.
func (n *node) shield(k int) {
	for _, family := range n.below {
		slices.SortFunc(family, byPlace)
		if n.shown {
			shieldFamily(family, k)
		}
		for _, child := range family {
			child.shield(k)
		}
	}
}

// shieldFamily applies rule 2 to the cells below one that is shown.
func shieldFamily(family []*node, k int) {
	var hidden []*node
	var smallest *node
	for _, n := range family {
		n.shown = n.contributors >= k
		switch {
		case !n.shown:
			hidden = append(hidden, n)
		case smallest == nil || n.signals < smallest.signals:
			smallest = n
		}
	}
	if smallest != nil && len(hidden) > 0 && !crowd(hidden, k) {
		smallest.shown = false
		hidden = append(hidden, smallest)
	}
	silence(hidden)
}

// silence keeps quiet about the hidden parts of a cell if their number tells
// what is in each: one signal.
func silence(hidden []*node) {
	var signals int64
	var rows []*node
	for _, n := range hidden {
		signals += n.signals
		rows = append(rows, n.rows()...)
	}
	if signals > int64(len(rows)) {
		return
	}
	for _, n := range rows {
		n.silent = true
	}
}

// rows are the smallest periods below a node that were read, or the node.
func (n *node) rows() []*node {
	parts := slices.Concat(n.below[weekLevel], n.below[dayLevel])
	if len(parts) == 0 {
		return []*node{n}
	}
	var all []*node
	for _, part := range parts {
		all = append(all, part.rows()...)
	}
	return all
}

// crowd reports whether cells of few contributors have enough together.
func crowd(few []*node, k int) bool {
	people := map[string]bool{}
	for _, n := range few {
		for _, who := range n.few {
			people[who] = true
		}
	}
	return len(people) >= k
}

// apart reports whether a difference of two numbers of contributors tells of
// nobody, or of enough.
func apart(difference, k int) bool {
	return difference == 0 || difference >= k || -difference >= k
}

// count decides which numbers of contributors are shown below a skill: the
// weeks of all kinds are its parts, and the days are parts of a week.
func (n *node) count(k int) {
	if !n.shown {
		return
	}
	n.people = &n.contributors
	var weeks []*node
	for _, kind := range n.below[kindLevel] {
		weeks = append(weeks, kind.below[weekLevel]...)
	}
	countParts(n.contributors, weeks, k)
	for _, week := range weeks {
		if week.people != nil {
			countParts(week.contributors, week.below[dayLevel], k)
		}
	}
}

// countParts applies rule 4 to the parts of a whole whose number is shown.
// What the parts have in common is a difference, too: that of their sum and
// the whole.
func countParts(whole int, parts []*node, k int) {
	var counted []*node
	sum := 0
	for _, n := range parts {
		if n.shown && apart(whole-n.contributors, k) {
			counted = append(counted, n)
			sum += n.contributors
		}
	}
	slices.SortStableFunc(counted, func(a, b *node) int { return b.contributors - a.contributors })
	for len(counted) > 1 && !apart(sum-whole, k) {
		last := len(counted) - 1
		sum -= counted[last].contributors
		counted = counted[:last]
	}
	for _, n := range counted {
		n.people = &n.contributors
	}
}

// people is the number of contributors of the organisation, if it may be
// shown beside those of its skills.
func (f forest) people() *int {
	if f.org == nil {
		zero := 0
		return &zero
	}
	sum := 0
	for _, skill := range f.skills {
		if skill.people == nil {
			continue
		}
		sum += *skill.people
		if !apart(f.org.contributors-*skill.people, f.k) {
			return nil
		}
	}
	if sum == 0 || !apart(sum-f.org.contributors, f.k) {
		return nil
	}
	return &f.org.contributors
}
