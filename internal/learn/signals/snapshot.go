package signals

import (
	"cmp"
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Figures are published in snapshots: else whoever reads them twice would learn what was
// sent in between, e.g. by the one colleague who works at that hour. A snapshot is taken
// as soon as k contributors have sent something since the last, in the transaction that
// stores the signals. It goes down the hierarchy of cell.go:
//
//  1. A cell below one that isn't published anew keeps its figures.
//  2. A cell that is shown is published anew if k contributors have changed it since
//     its figures were published. Otherwise it keeps them.
//  3. What the cells below a shown one leave of its figures (suppressed cells, and the
//     changes of those that keep theirs) is nothing, or of k contributors.
//  4. Where that changes, it becomes nothing, or gains changes of k contributors since the
//     last snapshot. So it differs by k contributors from what was left at any time before.
//
// Where 3 or 4 don't hold, more cells keep their figures, the smallest first. It ends at
// the latest when all do: then what is left gains all changes of the cell above, which
// is published anew only if they are of k contributors.

// A group is a set of contributors that is only asked whether it is empty or has k
// members. Beyond k, the list isn't complete, and needn't be.
type group struct {
	k      int
	people map[string]bool
	some   bool
	many   bool
}

// add adds n contributors. The list has them all if they are fewer than k.
func (g *group) add(n int, list []string) {
	if g.people == nil {
		g.people = map[string]bool{}
	}
	for _, contributor := range list {
		g.people[contributor] = true
	}
	g.some = g.some || n > 0
	g.many = g.many || n >= g.k || len(g.people) >= g.k
}

func (g *group) addList(list []string) { g.add(len(list), list) }

func (g *group) safe() bool { return g.many || !g.some }

// A standing is a cell in a snapshot: its live figures and what was published of them. Both carried
// and since are lists of pseudonyms, kept only until k of them are known.
type standing struct {
	cell
	id    string
	since []string // who has changed it since it was published, up to k
	// carriedSignals is how many it had when carried was noted.
	carriedSignals int64
	people         int      // contributors, as published
	few            []string // as published
	fate           fate
	below          map[level][]*standing
}

// A fate is what a snapshot does to a cell.
type fate int

const (
	stays      fate = iota // nothing has changed
	keeps                  // it has changed, and keeps its figures
	advances               // its figures are published, and shown
	suppresses             // its figures are published, but not shown
)

// decide chooses the fates of the cells below one that is published. A cell below a suppressed one
// is suppressed, too: its figures would give away those above.
func (n *standing) decide(k int) {
	for _, siblings := range n.below {
		if n.fate == advances {
			share(siblings, k, n.revealed)
		}
		for _, c := range siblings {
			if n.fate == suppresses && len(c.since) > 0 {
				c.fate = suppresses
			}
			if c.fate == advances || c.fate == suppresses {
				c.decide(k)
			}
		}
	}
}

// share applies the rules to the cells below one that is shown. Cells are taken back one by one,
// the smallest first, until the rest is safe; the loop ends at the latest when none is published.
func share(siblings []*standing, k int, shownBefore bool) {
	var anew []*standing
	for _, c := range siblings {
		switch {
		case c.revealed && len(c.since) == 0:
		case c.revealed && len(c.since) < k:
			c.fate = keeps
		case c.contributors >= k:
			c.fate = advances
			anew = append(anew, c)
		case len(c.since) > 0:
			c.fate = suppresses
		}
	}
	slices.SortFunc(anew, func(a, b *standing) int {
		return cmp.Or(cmp.Compare(a.signals, b.signals), cmp.Compare(a.id, b.id))
	})
	for _, c := range anew {
		if safe(siblings, k, shownBefore) {
			return
		}
		if c.fate = keeps; !c.revealed {
			c.fate = suppresses
		}
	}
}

// safe reports whether what the cells leave of the one above reveals nothing, by itself
// and compared with what they left before. These are rules 3 and 4 of the comment at the top.
func safe(siblings []*standing, k int, shownBefore bool) bool {
	left, lost, gained := group{k: k}, group{k: k}, group{k: k}
	for _, c := range siblings {
		switch c.fate {
		case advances:
			lost.add(c.lost())
		case keeps:
			left.addList(c.since)
			gained.addList(without(c.since, c.carried))
			gained.some = gained.some || c.signals != c.carriedSignals // perhaps of the same people
		case suppresses:
			left.add(c.contributors, c.cell.few)
			gained.addList(c.since)
		case stays:
			if !c.revealed {
				left.add(c.people, c.few)
			}
		}
	}
	same := !lost.some && !gained.some
	return left.safe() && (!shownBefore || same || gained.many || !left.some)
}

// lost returns whose signals are no longer among the rest if the cell is published. They
// were in it while the cell was suppressed, or kept its figures. They leave the rest at the moment
// when the cell gets a row of its own.
func (n *standing) lost() (people int, list []string) {
	if n.revealed {
		return len(n.carried), n.carried
	}
	return n.people, n.few
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// snapshot publishes the figures that may be, if a snapshot is due. It runs in the transaction that
// stores the signals, so a snapshot is never of half a body. With k = 1 there's nothing to protect.
func (s *Service) snapshot(ctx context.Context, tx *store.Tx, orgID string, due bool) error {
	if !due {
		return nil
	}
	if s.k() == 1 {
		return publishAll(ctx, tx, orgID)
	}
	all, err := standingsOf(ctx, tx, orgID)
	if err != nil {
		return err
	}
	fates := map[fate][]string{}
	for _, c := range settle(all, s.k()) {
		fates[c.fate] = append(fates[c.fate], c.id)
	}
	return publish(ctx, tx, orgID, fates)
}

// settle decides the fates of all cells and returns them in the order of their keys. Skills are
// decided independently: the organisation's figure is a sum over them.
func settle(all []*standing, k int) []*standing {
	at := make(map[place]*standing, len(all))
	for _, c := range all {
		at[c.place] = c
	}
	for _, c := range all {
		if parent := at[c.parent()]; parent != nil && c.level != orgLevel && c.level != skillLevel {
			parent.below[c.level] = append(parent.below[c.level], c)
		}
	}
	for _, c := range all {
		switch {
		case c.level == orgLevel:
			c.fate = advances
		case c.level != skillLevel || len(c.since) == 0:
			continue
		case c.contributors < k:
			c.fate = suppresses
			c.decide(k)
		case !c.revealed || len(c.since) >= k:
			c.fate = advances
			c.decide(k)
		}
	}
	slices.SortFunc(all, func(a, b *standing) int { return cmp.Compare(a.id, b.id) })
	return all
}
