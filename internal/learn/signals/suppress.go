package signals

import (
	"cmp"
	"slices"
	"strings"
)

// Figures are published with k-anonymity: a figure that fewer than k
// contributors could be behind is suppressed. The rules are below;
// docs/signals.md proves that they suffice, and privacy_test.go attacks them.
//
//  1. A skill is shown if it has at least k contributors.
//  2. Below a cell that is shown, a cell is shown if it has at least k
//     contributors (primary suppression), and the suppressed cells beside it are
//     none or have k together. Where they have fewer, they could be computed as
//     a difference, so the smallest cell that could be shown is suppressed, too
//     (complementary suppression). Below a suppressed cell all are suppressed.
//  3. A sum is over cells that are shown.
//  4. Numbers of contributors are shown where no two of them differ by fewer
//     than k people.
//
// Figures are those of a snapshot, so that no two reads differ by fewer than k
// people either: snapshot.go.

// DefaultMinContributors is k unless a setting says otherwise.
const DefaultMinContributors = 3

// A node is a cell in the hierarchy.
type node struct {
	*cell
	below map[level][]*node
	shown bool
	// people is the number of contributors, nil if it is suppressed.
	people *int
	// unlisted suppresses even that the cell exists: suppressed cells with one
	// signal each would be revealed by counting the rows.
	unlisted bool
}

// A forest is the hierarchy of an organisation, or of one of its skills. It is rebuilt on every
// read.
type forest struct {
	k      int
	org    *cell // nil if it was not read
	skills []*node
}

// newForest builds the hierarchy of some cells and suppresses what must not be
// shown. Cells whose parent wasn't read are left out.
func newForest(cells []*cell, k int) forest {
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
		skill.shown = skill.revealed && skill.contributors >= k
		skill.suppressBelow(k)
		skill.countContributors(k)
	}
	return f
}

func byPlace(a, b *node) int {
	return cmp.Or(strings.Compare(a.skill, b.skill), strings.Compare(a.class, b.class),
		strings.Compare(a.kind, b.kind), cmp.Compare(a.form, b.form))
}

// suppressBelow applies rule 2 below a node. It goes from the top down, as a cell is only shown
// below one that is.
func (n *node) suppressBelow(k int) {
	for _, siblings := range n.below {
		slices.SortFunc(siblings, byPlace)
		if n.shown {
			suppressSiblings(siblings, k)
		}
		for _, child := range siblings {
			child.suppressBelow(k)
		}
	}
}

// suppressSiblings applies rule 2 to the cells below one that is shown. The snapshot has
// applied it already; that changes only with k. The choice of the smallest cell loses the least
// information.
func suppressSiblings(siblings []*node, k int) {
	var suppressed []*node
	var smallest *node
	left := group{k: k} // what the cells that are shown leave of the one above
	for _, n := range siblings {
		n.shown = n.revealed && n.contributors >= k
		switch {
		case !n.shown:
			suppressed = append(suppressed, n)
			left.add(n.contributors, n.few)
			continue
		case smallest == nil || n.signals < smallest.signals:
			smallest = n
		}
		left.addList(n.carried)
	}
	if smallest != nil && !left.safe() {
		smallest.shown = false
		suppressed = append(suppressed, smallest)
	}
	unlist(suppressed)
}

// unlist leaves suppressed rows out altogether if their number would reveal
// that each holds one signal. With as many rows as signals, each row must hold exactly one.
func unlist(suppressed []*node) {
	var signals int64
	var rows []*node
	for _, n := range suppressed {
		signals += n.signals
		rows = append(rows, n.rows()...)
	}
	if signals > int64(len(rows)) {
		return
	}
	for _, n := range rows {
		n.unlisted = true
	}
}

// rows returns the smallest periods below a node that were read, or the node.
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

// safeDifference reports whether the difference of two numbers of contributors
// reveals nothing, or a group of at least k.
func safeDifference(difference, k int) bool {
	return difference == 0 || difference >= k || -difference >= k
}

// countContributors decides which numbers of contributors are shown below a
// skill: the weeks of all kinds are its parts, and days are parts of a week. Days are only
// considered below weeks whose number is shown.
func (n *node) countContributors(k int) {
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

// countParts applies rule 4 to the parts of a whole whose number is shown. The
// overlap of the parts is a difference, too: that of their sum and the whole. Those with the most
// contributors stay, since they are the least revealing.
func countParts(whole int, parts []*node, k int) {
	var counted []*node
	sum := 0
	for _, n := range parts {
		if n.shown && safeDifference(whole-n.contributors, k) {
			counted = append(counted, n)
			sum += n.contributors
		}
	}
	slices.SortStableFunc(counted, func(a, b *node) int { return b.contributors - a.contributors })
	for len(counted) > 1 && !safeDifference(sum-whole, k) {
		last := len(counted) - 1
		sum -= counted[last].contributors
		counted = counted[:last]
	}
	for _, n := range counted {
		n.people = &n.contributors
	}
}

// people returns the organisation's number of contributors, nil if it is
// suppressed because of those of its skills. Without a cell there are no contributors, which may be
// said.
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
		if !safeDifference(f.org.contributors-*skill.people, f.k) {
			return nil
		}
	}
	if sum == 0 || !safeDifference(sum-f.org.contributors, f.k) {
		return nil
	}
	return &f.org.contributors
}
