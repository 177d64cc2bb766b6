package signals

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Row is the published figures of one skill, type and period.
type Row struct {
	SkillName    string
	Type         string
	Bucket       string
	Signals      *int64 // nil if suppressed
	Contributors *int   // nil if suppressed
	Confidence   *float64
	Suppressed   bool
}

// Totals are sums over the rows that are not suppressed.
type Totals struct {
	Signals      *int64
	Skills       int
	Contributors *int
	Suppressed   bool
	AsOf         *time.Time // the last snapshot
}

// A Query selects rows.
type Query struct {
	SkillName string
	Type      string
	Since     *time.Time
	Until     *time.Time
	Weekly    bool
}

// Aggregates returns the rows of a query, by skill, period and type, and their
// totals. Periods are never split: one is listed if any part of it lies between
// since and until. Rows that are suppressed are listed without figures, unless even their existence
// says something.
func (s *Service) Aggregates(ctx context.Context, orgID string, q Query) (rows []Row, t Totals, err error) {
	defer fault.Wrap(&err, "aggregates")
	if t.AsOf, err = snapshotAt(ctx, s.DB, orgID); err != nil {
		return nil, t, err
	}
	// All cells are read even if the query selects few of them, since suppression
	// depends on the cells beside.
	levels := []level{orgLevel, skillLevel, kindLevel, weekLevel}
	if !q.Weekly {
		levels = append(levels, dayLevel)
	}
	f, err := s.forest(ctx, orgID, q.SkillName, levels...)
	if err != nil {
		return nil, t, err
	}
	complete, unlisted := true, false
	for _, skill := range f.skills {
		for _, n := range skill.periods(q.Weekly) {
			switch {
			case n.unlisted:
				unlisted = true
			case !q.selects(n):
				complete = false
			default:
				rows = append(rows, newRow(n))
			}
		}
	}
	rows = merge(rows)
	asOf := t.AsOf
	t = f.totals(rows, q, complete)
	t.AsOf = asOf
	if unlisted { // whatever the query selects: else queries could locate the rows
		t.Suppressed = true
		if t.Signals != nil && *t.Signals == 0 {
			t.Signals, t.Contributors = nil, nil
		}
	}
	return rows, t, nil
}

// forest reads the published cells of some levels, of one skill or, if that is "", of all, and
// applies the rules of suppress.go. Callers pass every level that they show and all levels above:
// suppression depends on the cells beside.
func (s *Service) forest(ctx context.Context, orgID, skill string, levels ...level) (forest, error) {
	cells, err := cellsOf(ctx, s.DB, orgID, skill, levels...)
	return newForest(cells, s.k()), err
}

// periods returns the weeks or days of a skill.
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

// selects compares whole periods, see Aggregates.
func (q Query) selects(n *node) bool {
	first, last := n.lastDay, n.lastDay
	if q.Weekly {
		first = mondayOf(n.lastDay)
		last = first + 6
	}
	return (q.Type == "" || q.Type == n.kind) &&
		(q.Since == nil || dayOf(*q.Since) <= last) && (q.Until == nil || dayOf(*q.Until) >= first)
}

// merge sorts rows. If events and sessions have the same type, their rows are
// merged; the result is suppressed if either is. The contributors of the sum are unknown, as people
// may have sent both.
func merge(rows []Row) []Row {
	order := func(a, b Row) int {
		return cmp.Or(strings.Compare(a.SkillName, b.SkillName), strings.Compare(a.Bucket, b.Bucket),
			strings.Compare(a.Type, b.Type))
	}
	slices.SortFunc(rows, order)
	merged := make([]Row, 0, len(rows))
	for _, r := range rows {
		if last := len(merged) - 1; last >= 0 && order(merged[last], r) == 0 {
			both := Row{SkillName: r.SkillName, Type: r.Type, Bucket: r.Bucket, Suppressed: r.Suppressed ||
				merged[last].Suppressed}
			if !both.Suppressed {
				sum := *r.Signals + *merged[last].Signals
				both.Signals = &sum
			}
			merged[last] = both
			continue
		}
		merged = append(merged, r)
	}
	return merged
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

// totals sums rows up. The distinct contributors of several rows are known only
// if the rows are all of the skill's or the organisation's. A number of contributors that was
// summed up would count people twice, and its difference to the true one could be used.
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

// A Summary is the published figures of a skill. Rates are over the sessions that report a state.
type Summary struct {
	SkillName    string
	Signals      *int64 // nil if suppressed
	Contributors *int   // nil if suppressed
	TriggerRate  *float64
	MissRate     *float64
	Actionable   bool
	LastDay      time.Time
	Suppressed   bool
}

// actionable is how many signals are needed for a finding.
const actionable = 10

// summary leaves out the rates if any of the states is suppressed: two of three rates give the
// third away.
func (n *node) summary() Summary {
	sum := Summary{SkillName: n.skill, LastDay: date(n.lastDay), Suppressed: !n.shown}
	if !n.shown {
		return sum
	}
	sum.Signals, sum.Contributors = &n.signals, n.people
	sum.Actionable = n.signals >= actionable
	states := n.classes(stateLevel)
	triggered, missed, untriggered := states[string(Triggered)], states[string(Missed)], states[string(Untriggered)]
	if known := triggered.signals + missed.signals + untriggered.signals; known > 0 && !states.suppressed() {
		sum.TriggerRate, sum.MissRate = rate(triggered.signals, known), rate(missed.signals, known)
	}
	return sum
}

func rate(part, whole int64) *float64 {
	r := float64(part) / float64(whole)
	return &r
}

// A class is a class of a level, e.g. the grade "A", summed over all kinds of
// signals.
type class struct {
	signals    int64
	suppressed bool // some of it is
}

type classes map[string]class

func (c classes) suppressed() bool {
	for _, class := range c {
		if class.suppressed {
			return true
		}
	}
	return false
}

// classes sums the cells of a level below a skill, by class. A sum over kinds is suppressed as a
// whole if any part of it is.
func (n *node) classes(l level) classes {
	all := classes{}
	var walk func(*node)
	walk = func(n *node) {
		if n.level == l {
			c := all[n.class]
			c.signals += n.signals
			c.suppressed = c.suppressed || !n.shown
			all[n.class] = c
		}
		for _, siblings := range n.below {
			for _, child := range siblings {
				walk(child)
			}
		}
	}
	walk(n)
	return all
}

// An Overview is the published figures of all skills of an organisation. The totals are sums of
// what is shown, so they reveal nothing more.
type Overview struct {
	Signals      *int64 // nil if suppressed
	Contributors *int   // nil if suppressed
	Suppressed   bool   // the totals leave out suppressed skills
	Pending      int    // proposals
	Skills       []Summary
	AsOf         *time.Time // the last snapshot; nil before the first
}

// Overview returns the figures of all skills of an organisation.
func (s *Service) Overview(ctx context.Context, orgID string) (o Overview, err error) {
	defer fault.Wrap(&err, "signals overview")
	asOf, err := snapshotAt(ctx, s.DB, orgID)
	if err != nil {
		return o, err
	}
	f, err := s.forest(ctx, orgID, "", orgLevel, skillLevel, kindLevel, stateLevel)
	if err != nil {
		return o, err
	}
	o = Overview{Skills: each(f.skills, (*node).summary), Contributors: f.people(), Signals: new(int64), AsOf: asOf}
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
	o.Pending, err = s.OnOverview.Pending(ctx, orgID)
	return o, err
}

// A Count is the number of signals of a class.
type Count struct {
	Class   string
	Signals int64
}

// A Week is the published figures of a skill in a week, of all kinds together.
type Week struct {
	Week         string
	Signals      *int64 // nil if suppressed
	Contributors *int   // nil if suppressed
	Suppressed   bool
}

// A Detail is the published figures of one skill.
type Detail struct {
	Skill       *Summary // nil if there are no signals
	Missed      []Count
	Grades      map[string]*int64
	Invocations map[string]*int64
	Weekly      []Week
	Suppressed  bool       // some of these figures are suppressed
	AsOf        *time.Time // the last snapshot; nil before the first
}

// Skill returns the figures of one skill. A skill without signals is not an
// error. The name is looked up as it was sent: skills of contributors needn't exist in the
// registry.
func (s *Service) Skill(ctx context.Context, orgID, name string) (d Detail, err error) {
	defer fault.Wrap(&err, "signals of %q", name)
	if d.AsOf, err = snapshotAt(ctx, s.DB, orgID); err != nil {
		return d, err
	}
	f, err := s.forest(ctx, orgID, strings.TrimSpace(name),
		skillLevel, kindLevel, weekLevel, stateLevel, invocationLevel, gradeLevel, queryLevel)
	if err != nil {
		return d, err
	}
	n := &node{cell: &cell{}, shown: true} // no signals
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
	d.Suppressed = !n.shown || missed.suppressed() || graded.suppressed() || called.suppressed() ||
		slices.ContainsFunc(n.periods(true), func(week *node) bool { return !week.shown })
	return d, nil
}

// list returns the classes that are shown, the most frequent first. The others
// are left out: that one exists could reveal what a single person did.
func (c classes) list() []Count {
	list := []Count{}
	for name, class := range c {
		if name != none && !class.suppressed {
			list = append(list, Count{name, class.signals})
		}
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Signals, a.Signals), strings.Compare(a.Class, b.Class))
	})
	return list
}

// distribution returns the counts of the given classes. If one is suppressed, so
// are the empty ones, or they would reveal which class is not empty. A class without signals is
// normally shown as 0, which is a fact about everyone.
func (c classes) distribution(skill *node, words []string) map[string]*int64 {
	all := make(map[string]*int64, len(words))
	for _, word := range words {
		class, is := c[word]
		all[word] = &class.signals
		if !skill.shown || class.suppressed || !is && c.suppressed() {
			all[word] = nil
		}
	}
	return all
}

// weekly sums the weeks over all kinds of signals, oldest first.
func (n *node) weekly() []Week {
	weeks := []Week{}
	periods := slices.DeleteFunc(n.periods(true), func(p *node) bool { return p.unlisted })
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
