package signals

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"
)

// Signals are counted in cells of a fixed hierarchy:
//
//	organisation
//	  skill
//	    kind: signal type and form
//	      week
//	        day
//	      state
//	        triggered: invocation
//	        triggered: grade
//	        missed:    query bucket
//
// The cells of one level below a cell partition its signals. Every published
// figure is a cell, or a sum of cells that are shown: that is what the rules in
// suppress.go rely on.

// A level is a step of the hierarchy.
type level string

const (
	orgLevel        level = "org"
	skillLevel      level = "skill"
	kindLevel       level = "kind"
	weekLevel       level = "week"
	dayLevel        level = "day"
	stateLevel      level = "state"
	invocationLevel level = "invocation"
	gradeLevel      level = "grade"
	queryLevel      level = "query"
)

// none is the class of signals that leave it out.
const none = "none"

// A form is how a signal was sent.
type form string

const (
	event   form = "event"   // in a batch, with a confidence
	session form = "session" // as the object of one session
)

// A place is the coordinates of a cell in an organisation. It is comparable, and the key of maps.
type place struct {
	level level
	skill string
	form  form
	kind  string // signal type
	class string // e.g. "2026-W07" or "missed", depending on the level
}

// places returns the cells that count a signal. That's five cells for an event and up to eight for
// a session.
func (s Signal) places() []place {
	kind := place{level: kindLevel, skill: s.SkillName, form: event, kind: s.Type}
	if s.Session != nil {
		kind.form = session
	}
	all := []place{
		{level: orgLevel},
		{level: skillLevel, skill: s.SkillName},
		kind,
		kind.below(weekLevel, weekName(s.Day)), kind.below(dayLevel, dayName(s.Day)),
	}
	if s.Session == nil {
		return all
	}
	all = append(all, kind.below(stateLevel, string(s.Session.State)))
	switch s.Session.State {
	case Triggered:
		return append(all, kind.below(invocationLevel, s.Session.Invocation), kind.below(gradeLevel, s.Session.Grade))
	case Missed:
		return append(all, kind.below(queryLevel, s.Session.QueryBucket))
	case Untriggered, Unknown:
	}
	return all
}

// below returns a cell under the kind.
func (p place) below(l level, class string) place {
	p.level, p.class = l, class
	if class == "" {
		p.class = none
	}
	return p
}

// parent returns the cell above. It is undefined for skills, which newForest
// keeps in a list. Weeks and states are both below the kind: these are two partitions of the same
// signals, and each has to satisfy the rules on its own.
func (p place) parent() place {
	up := p
	switch p.level {
	case kindLevel:
		return place{level: skillLevel, skill: p.skill}
	case dayLevel:
		up.level, up.class = weekLevel, weekOfDay(p.class)
	case invocationLevel, gradeLevel:
		up.level, up.class = stateLevel, string(Triggered)
	case queryLevel:
		up.level, up.class = stateLevel, string(Missed)
	case weekLevel, stateLevel:
		up.level, up.class = kindLevel, ""
	case orgLevel, skillLevel:
		return place{level: orgLevel}
	}
	return up
}

// id returns the cell's primary key. It's a hash, so that all keys have one length and skill names
// don't appear in the index.
func (p place) id(orgID string) string {
	return hash(orgID, string(p.level), p.skill, string(p.form), p.kind, p.class)
}

// hash combines parts, none of which contains a NUL, into a key of fixed length.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// A cell is a stored counter: the figures that were published, or the live ones.
type cell struct {
	place
	revealed      bool     // readers have seen its figures
	carried       []string // who has changed it since, and is counted in the cell above
	signals       int64
	contributors  int
	few           []string // the contributors while there are fewer than k: see countTogether
	confidenceSum int64
	lastDay       int64
}

// A tally is the increments of an organisation's cells. It is computed before the transaction, so
// that the row locks are held for a short time only.
type tally struct {
	orgID string
	sums  map[place]*sum
}

// A sum is the increment of one cell.
type sum struct {
	id            string // of the cell
	signals       int64
	confidenceSum int64
	lastDay       int64
	people        map[string]bool
}

func newTally(orgID string) tally { return tally{orgID: orgID, sums: map[place]*sum{}} }

func newSum() *sum { return &sum{people: map[string]bool{}} }

// tallyOf counts signals. Signals of a batch are mostly of few kinds, so those of
// the same cells are summed before the cells are updated. It saves hashing: an event has five
// cells, whose ids are computed once for all events of a kind.
func tallyOf(orgID string, signals []Signal) tally {
	type kind struct {
		skill, signal string
		day           int64
	}
	alike := map[kind]*sum{}
	places := map[kind][]place{}
	t := newTally(orgID)
	for _, s := range signals {
		k := kind{s.SkillName, s.Type, s.Day}
		if s.Session != nil {
			for _, p := range s.places() {
				t.at(p).count(s)
			}
			continue
		}
		if alike[k] == nil {
			alike[k], places[k] = newSum(), s.places()
		}
		alike[k].count(s)
	}
	for k, c := range alike {
		for _, p := range places[k] {
			t.at(p).add(c)
		}
	}
	return t
}

func (c *sum) count(s Signal) {
	c.signals++
	c.lastDay = max(c.lastDay, s.Day)
	c.people[s.Contributor] = true
	if s.Confidence != nil {
		c.confidenceSum += *s.Confidence
	}
}

// at returns the sum of a cell, to add to.
func (t tally) at(p place) *sum {
	c := t.sums[p]
	if c == nil {
		c = newSum()
		c.id = p.id(t.orgID)
		t.sums[p] = c
	}
	return c
}

// merge adds another tally of the organisation.
func (t tally) merge(more tally) {
	for p, c := range more.sums {
		t.at(p).add(c)
	}
}

func (c *sum) add(more *sum) {
	c.signals += more.signals
	c.confidenceSum += more.confidenceSum
	c.lastDay = max(c.lastDay, more.lastDay)
	maps.Copy(c.people, more.people)
}
