package signals

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Row is what is shown of one skill, type and period.
type Row struct {
	SkillName    string
	Type         string
	Bucket       string
	Signals      *int64 // nil if hidden
	Contributors *int   // nil if hidden
	Confidence   *float64
	Suppressed   bool
}

// Totals are sums over what is shown.
type Totals struct {
	Signals      *int64
	Skills       int
	Contributors *int
	Suppressed   bool
}

// A Query chooses rows.
type Query struct {
	SkillName string
	Type      string
	Since     *time.Time
	Until     *time.Time
	Weekly    bool
}

// Aggregates lists the rows of a query, by skill, period and type, and their
// totals. A period is whole: it is listed if any of it lies between since and
// until.
func (s *Service) Aggregates(ctx context.Context, orgID string, q Query) (rows []Row, t Totals, err error) {
	defer fault.Wrap(&err, "aggregates")
	// Everything is read even for a part of it, since what is hidden depends on
	// what is beside it.
	levels := []level{orgLevel, skillLevel, kindLevel, weekLevel}
	if !q.Weekly {
		levels = append(levels, dayLevel)
	}
	f, err := s.forest(ctx, orgID, q.SkillName, levels...)
	if err != nil {
		return nil, t, err
	}
	complete, silent := true, false
	for _, skill := range f.skills {
		for _, n := range skill.periods(q.Weekly) {
			switch {
			case n.silent:
				silent = true
			case !q.wants(n):
				complete = false
			default:
				rows = append(rows, newRow(n))
			}
		}
	}
	rows = merge(rows)
	t = f.totals(rows, q, complete)
	if silent { // said whatever was asked for, or one could search for the place
		t.Suppressed = true
		if t.Signals != nil && *t.Signals == 0 {
			t.Signals, t.Contributors = nil, nil
		}
	}
	return rows, t, nil
}

// forest reads cells of an organisation, of one skill or, if that is "", of all.
func (s *Service) forest(ctx context.Context, orgID, skill string, levels ...level) (forest, error) {
	cells, err := cellsOf(ctx, s.DB, orgID, skill, levels...)
	return grow(cells, s.k()), err
}

// periods are the weeks or days of a skill.
func (n *node) periods(weekly bool) []*node {
	var all []*node
	for _, kind := range n.below[kindLevel] {
		for _, week := range kind.below[weekLevel] {
			if weekly {
				all = append(all, week)
				continue
			}
			all = append(all, week.below[dayLevel]...)
		}
	}
	return all
}

func (q Query) wants(n *node) bool {
	first, last := n.lastDay, n.lastDay
	if q.Weekly {
		first = mondayOf(n.lastDay)
		last = first + 6
	}
	return (q.Type == "" || q.Type == n.kind) &&
		(q.Since == nil || dayOf(*q.Since) <= last) && (q.Until == nil || dayOf(*q.Until) >= first)
}

// merge sorts rows. The two forms of a signal may have the same type; then
// they share a row, which shows no more than either.
func merge(rows []Row) []Row {
	order := func(a, b Row) int {
		return cmp.Or(strings.Compare(a.SkillName, b.SkillName), strings.Compare(a.Bucket, b.Bucket), strings.Compare(a.Type, b.Type))
	}
	slices.SortFunc(rows, order)
	merged := make([]Row, 0, len(rows))
	for _, r := range rows {
		if last := len(merged) - 1; last >= 0 && order(merged[last], r) == 0 {
			merged[last] = merged[last].plus(r)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

func (r Row) plus(o Row) Row {
	both := Row{SkillName: r.SkillName, Type: r.Type, Bucket: r.Bucket, Suppressed: r.Suppressed || o.Suppressed}
	if !both.Suppressed {
		sum := *r.Signals + *o.Signals
		both.Signals = &sum
	}
	return both
}

func newRow(n *node) Row {
	row := Row{SkillName: n.skill, Type: n.kind, Bucket: n.class, Suppressed: !n.shown}
	if !n.shown {
		return row
	}
	row.Signals, row.Contributors = &n.signals, n.people
	if n.form == event { // all of them have a confidence
		mean := float64(n.confidenceSum) / billion / float64(n.signals)
		row.Confidence = &mean
	}
	return row
}

// totals sums rows up. The contributors of several rows are known only where
// the rows are all that there is.
func (f forest) totals(rows []Row, q Query, complete bool) Totals {
	t := Totals{Signals: new(int64)}
	skills := map[string]bool{}
	var shown []Row
	for _, r := range rows {
		skills[r.SkillName] = true
		if r.Suppressed {
			t.Suppressed = true
			continue
		}
		*t.Signals += *r.Signals
		shown = append(shown, r)
	}
	t.Skills = len(skills)
	switch {
	case len(rows) == 0:
		t.Contributors = new(int)
	case len(shown) == 0:
		t.Signals = nil
	case complete && q.SkillName != "":
		t.Contributors = f.skills[0].people
	case complete:
		t.Contributors = f.people()
	case len(shown) == 1:
		t.Contributors = shown[0].Contributors
	}
	return t
}

// A Summary is what is shown of a skill.
type Summary struct {
	SkillName    string
	Signals      *int64 // nil if hidden
	Contributors *int   // nil if hidden
	TriggerRate  *float64
	MissRate     *float64
	Actionable   bool
	LastDay      time.Time
	Suppressed   bool
}

// actionable is how many signals are worth a proposal.
const actionable = 10

func (n *node) summary() Summary {
	sum := Summary{SkillName: n.skill, LastDay: date(n.lastDay), Suppressed: !n.shown}
	if !n.shown {
		return sum
	}
	sum.Signals, sum.Contributors = &n.signals, n.people
	sum.Actionable = n.signals >= actionable
	states := n.classes(stateLevel)
	triggered, missed, untriggered := states[string(Triggered)], states[string(Missed)], states[string(Untriggered)]
	if known := triggered.signals + missed.signals + untriggered.signals; known > 0 && !states.hidden() {
		sum.TriggerRate, sum.MissRate = rate(triggered.signals, known), rate(missed.signals, known)
	}
	return sum
}

func rate(part, whole int64) *float64 {
	r := float64(part) / float64(whole)
	return &r
}

// A class is the sum of a class over all kinds of signals.
type class struct {
	signals int64
	hidden  bool // some of it
}

type classes map[string]class

func (c classes) hidden() bool {
	for _, class := range c {
		if class.hidden {
			return true
		}
	}
	return false
}

// classes sums the cells of a level that are below a skill.
func (n *node) classes(l level) classes {
	all := classes{}
	var walk func(*node)
	walk = func(n *node) {
		if n.level == l {
			c := all[n.class]
			c.signals += n.signals
			c.hidden = c.hidden || !n.shown
			all[n.class] = c
		}
		for _, family := range n.below {
			for _, child := range family {
				walk(child)
			}
		}
	}
	walk(n)
	return all
}

// An Overview is what is shown of all skills of an organisation.
type Overview struct {
	Signals      *int64 // nil if hidden
	Contributors *int   // nil if hidden
	Suppressed   bool   // something is left out of the totals
	Pending      int
	Skills       []Summary
}

// Overview tells what the signals of an organisation say together.
func (s *Service) Overview(ctx context.Context, orgID string) (o Overview, err error) {
	defer fault.Wrap(&err, "signals overview")
	f, err := s.forest(ctx, orgID, "", orgLevel, skillLevel, kindLevel, stateLevel)
	if err != nil {
		return o, err
	}
	o = Overview{Skills: each(f.skills, (*node).summary), Contributors: f.people(), Signals: new(int64)}
	shown := 0
	for _, skill := range o.Skills {
		if skill.Suppressed {
			o.Suppressed = true
			continue
		}
		shown++
		*o.Signals += *skill.Signals
	}
	if len(o.Skills) > 0 && shown == 0 {
		o.Signals = nil
	}
	o.Pending, err = s.Proposals.Pending(ctx, orgID)
	return o, err
}

// A Count is how many signals of a class there are.
type Count struct {
	Class   string
	Signals int64
}

// A Week is what is shown of all signals of a skill in a week.
type Week struct {
	Week         string
	Signals      *int64 // nil if hidden
	Contributors *int   // nil if hidden
	Suppressed   bool
}

// A Detail is what is shown of one skill.
type Detail struct {
	Skill       *Summary // nil if there are no signals
	Missed      []Count
	Grades      map[string]*int64
	Invocations map[string]*int64
	Weekly      []Week
	Suppressed  bool // something of all this is hidden
}

// Skill tells what the signals about one skill say together. No signals is
// not an error.
func (s *Service) Skill(ctx context.Context, orgID, name string) (d Detail, err error) {
	defer fault.Wrap(&err, "signals of %q", name)
	f, err := s.forest(ctx, orgID, strings.TrimSpace(name),
		skillLevel, kindLevel, weekLevel, stateLevel, invocationLevel, gradeLevel, queryLevel)
	if err != nil {
		return d, err
	}
	n := &node{cell: &cell{}, shown: true} // nothing at all
	if len(f.skills) > 0 {
		n = f.skills[0]
		sum := n.summary()
		d.Skill = &sum
	}
	missed, graded, called := n.classes(queryLevel), n.classes(gradeLevel), n.classes(invocationLevel)
	if state, is := n.classes(stateLevel)[string(Missed)]; is {
		called[string(Missed)] = state
	}
	d.Missed, d.Weekly = missed.list(), n.weekly()
	d.Grades, d.Invocations = graded.distribution(n, grades), called.distribution(n, invocations)
	d.Suppressed = !n.shown || missed.hidden() || graded.hidden() || called.hidden() ||
		slices.ContainsFunc(n.periods(true), func(week *node) bool { return !week.shown })
	return d, nil
}

// list shows the classes that may be, the most frequent first. That the others
// exist is not told: it could be what a single person did.
func (c classes) list() []Count {
	list := []Count{}
	for name, class := range c {
		if name != none && !class.hidden {
			list = append(list, Count{name, class.signals})
		}
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Signals, a.Signals), strings.Compare(a.Class, b.Class))
	})
	return list
}

// distribution shows all words of a class. If one is hidden, so are the empty
// ones: nobody knows which has somebody in it.
func (c classes) distribution(skill *node, words []string) map[string]*int64 {
	all := make(map[string]*int64, len(words))
	for _, word := range words {
		class, is := c[word]
		all[word] = &class.signals
		if !skill.shown || class.hidden || !is && c.hidden() {
			all[word] = nil
		}
	}
	return all
}

// weekly sums the weeks up over all kinds of signals, oldest first.
func (n *node) weekly() []Week {
	weeks := []Week{}
	periods := slices.DeleteFunc(n.periods(true), func(p *node) bool { return p.silent })
	slices.SortStableFunc(periods, func(a, b *node) int { return strings.Compare(a.class, b.class) })
	for _, p := range periods {
		row := newRow(p)
		if last := len(weeks) - 1; last < 0 || weeks[last].Week != p.class {
			weeks = append(weeks, Week{p.class, row.Signals, row.Contributors, row.Suppressed})
			continue
		}
		w := &weeks[len(weeks)-1]
		w.Contributors = nil
		if w.Suppressed = w.Suppressed || row.Suppressed; w.Suppressed {
			w.Signals = nil
			continue
		}
		sum := *w.Signals + *row.Signals
		w.Signals = &sum
	}
	return weeks
}
