package skills

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// A tally collects the increments of the rollups that a report causes, so that
// each row is written once however large the report is.
type tally struct {
	days     map[dayKey]*dayCount
	sessions map[string]*sessionTally // by session key
	totals   map[string]*totalCount   // by subject
	// after is what writeSessions left stored of the sessions, by session key, and
	// appeared are those of them of which nothing was stored before.
	after    map[string]map[int64]seenCount
	appeared map[string]bool
}

// A dayKey is the primary key of skill_days: a subject is a skill or a version, and
// the day is counted since the epoch, in UTC.
type dayKey struct {
	subject string
	day     int64
}

// dayCount is a row of skill_days, or an increment of one.
type dayCount struct {
	// Sessions that observed, or activated, the subject on this day. They do not add
	// up over days: a session that lasts for two days is in both.
	sessions, triggerSessions int64
	// Sessions whose last such day this is. These do add up, see moveLast.
	lastSessions, lastTriggerSessions int64
	lastOfferedSessions               int64
	checks, triggers                  int64
	// Sums are in billionths, as integers: increments of floats would not cancel
	// out.
	confidenceSum, confidenceCount int64
	gradedSessions, passRateSum    int64
	byBasis                        basis.Counts // of the graded sessions
}

// totalCount is an increment of a row of skill_totals. first and last only ever
// widen; see recomputeSeen for what was removed.
type totalCount struct {
	uniqueSessions, gradedSessions int64
	gradingChanges                 int64
	checks                         basisCounts // of a version
	first, last                    *time.Time  // of what was added
	moved                          bool        // something was removed: recomputeSeen
}

// sessionTally is how often a subject was observed in a session, by day.
type sessionTally struct {
	subject string
	// Of a version: the session key of its skill, and its id.
	skillKey, versionID string
	days                map[int64]seenCount
}

type seenCount struct{ seen, triggers, offers int64 }

func (c seenCount) plus(d seenCount) seenCount {
	return seenCount{c.seen + d.seen, c.triggers + d.triggers, c.offers + d.offers}
}

func newTally() *tally {
	return &tally{
		days: map[dayKey]*dayCount{}, sessions: map[string]*sessionTally{}, totals: map[string]*totalCount{},
		after: map[string]map[int64]seenCount{}, appeared: map[string]bool{},
	}
}

// day returns the increment of a row, to be added to.
func (t *tally) day(subject string, day int64) *dayCount {
	k := dayKey{subject, day}
	if t.days[k] == nil {
		t.days[k] = &dayCount{}
	}
	return t.days[k]
}

func (t *tally) total(subject string) *totalCount {
	if t.totals[subject] == nil {
		t.totals[subject] = &totalCount{}
	}
	return t.totals[subject]
}

// session returns the increment of a session of a subject. That of a version knows
// its skill's key, since rows are found by it when a skill is merged.
func (t *tally) session(skillID, subject, session string) *sessionTally {
	key := SessionKey(subject, session)
	if t.sessions[key] == nil {
		s := &sessionTally{subject: subject, days: map[int64]seenCount{}}
		if subject != skillID {
			s.skillKey, s.versionID = SessionKey(skillID, session), subject
		}
		t.sessions[key] = s
	}
	return t.sessions[key]
}

// subjects returns what an observation or grading counts for: its skill, and the
// version of it that was in use.
func subjects(skillID string, versionID *string) []string {
	if versionID == nil {
		return []string{skillID}
	}
	return []string{skillID, *versionID}
}

// observed adds an observation, or removes it with sign -1. Removing must be given
// the stored row exactly as it was added, or the counters drift.
func (t *tally) observed(o observation, sign int64) {
	n, day := sign*o.weight, dayOf(o.at)
	t.total(o.skillID).noteSeen(o.at, sign)
	if o.until != nil {
		t.total(o.skillID).noteSeen(*o.until, sign)
	}
	if o.versionID != nil && o.isCheck {
		*t.total(*o.versionID).checks.by(o.basis) += n
	}
	seen := seenCount{seen: n}
	if o.triggered {
		seen.triggers = n
	}
	if o.until != nil { // an offer
		seen.offers = n
	}
	for _, subject := range subjects(o.skillID, o.versionID) {
		t.day(subject, day).count(o, n)
		if o.sessionHash == "" {
			continue
		}
		s := t.session(o.skillID, subject, o.sessionHash)
		s.days[day] = s.days[day].plus(seen)
	}
}

// basisCounts are the checks of a version by the basis of their attribution.
type basisCounts struct{ hash, plugin, installation, time int64 }

// by returns the counter of a basis. nil is the weakest: the version was just the
// current one at the time.
func (c *basisCounts) by(basis *string) *int64 {
	switch {
	case basis == nil:
		return &c.time
	case *basis == inuse.ByHash:
		return &c.hash
	case *basis == inuse.ByPlugin:
		return &c.plugin
	}
	return &c.installation
}

// count adds n checks. Offers are no checks; they count by session only.
func (d *dayCount) count(o observation, n int64) {
	if !o.isCheck {
		return
	}
	d.checks += n
	if !o.triggered {
		return
	}
	d.triggers += n
	if o.confidence != nil {
		d.confidenceSum += n * *o.confidence
		d.confidenceCount += n
	}
}

// noteSeen widens the range of times. A removal cannot narrow it without a query.
func (c *totalCount) noteSeen(at time.Time, sign int64) {
	if sign < 0 {
		c.moved = true
		return
	}
	if c.first == nil || at.Before(*c.first) {
		c.first = &at
	}
	if c.last == nil || at.After(*c.last) {
		c.last = &at
	}
}

// graded replaces the grade of a session; nil means none. The two may lie on
// different days, since a grade counts on the day of its last grading.
func (t *tally) graded(subject string, before, after *SessionGrade) {
	for _, change := range []struct {
		grade *SessionGrade
		sign  int64
	}{{before, -1}, {after, +1}} {
		if change.grade == nil {
			continue
		}
		d := t.day(subject, change.grade.Day)
		d.gradedSessions += change.sign
		d.passRateSum += change.sign * change.grade.PassRate
		d.byBasis.Add(change.grade.Basis, change.grade.PassRate, change.sign)
		t.total(subject).gradedSessions += change.sign
	}
}

// diffSessions compares each session before and after, and counts where it
// appeared, disappeared or was last observed. It returns the rows that changed.
func (t *tally) diffSessions(before map[string]map[int64]seenCount) (changed []sessionDay) {
	for key, s := range t.sessions {
		// An absent key is a session that is new to the subject: was is an empty map
		// then.
		was := before[key]
		// A copy: the rows before are compared with it below.
		is := map[int64]seenCount{}
		for day, c := range was {
			is[day] = c
		}
		for day, d := range s.days {
			is[day] = is[day].plus(d)
			changed = append(changed, sessionDay{
				key: key, day: day, skillKey: s.skillKey, versionID: s.versionID,
				seenCount: is[day],
			})
			count := t.day(s.subject, day)
			count.sessions += appeared(was[day].seen, is[day].seen)
			count.triggerSessions += appeared(was[day].triggers, is[day].triggers)
		}
		t.moveLast(s.subject, was, is)
		t.after[key], t.appeared[key] = is, len(was) == 0
	}
	return changed
}

// moveLast counts each session on the last day on which it observed the subject,
// on the last on which it triggered it, and on the last on which it was offered. That makes the distinct sessions
// of a window the sum over its days: a window always reaches up to today, so a
// session is in it exactly if its last day is.
func (t *tally) moveLast(subject string, was, is map[int64]seenCount) {
	move := func(of func(seenCount) int64, count func(day *dayCount) *int64) (appeared int64) {
		if day, ok := lastDay(was, of); ok {
			*count(t.day(subject, day))--
			appeared--
		}
		if day, ok := lastDay(is, of); ok {
			*count(t.day(subject, day))++
			appeared++
		}
		return appeared
	}
	t.total(subject).uniqueSessions += move(
		func(c seenCount) int64 { return c.seen }, func(d *dayCount) *int64 { return &d.lastSessions })
	move(func(c seenCount) int64 { return c.triggers }, func(d *dayCount) *int64 { return &d.lastTriggerSessions })
	move(func(c seenCount) int64 { return c.offers }, func(d *dayCount) *int64 { return &d.lastOfferedSessions })
}

// appeared is 1 if a count rises from zero, -1 if it falls to zero, else 0. A count
// may be zero or less in between, while one report replaces several rows.
func appeared(was, is int64) int64 {
	switch {
	case was <= 0 && is > 0:
		return 1
	case was > 0 && is <= 0:
		return -1
	}
	return 0
}

// lastDay returns the last day with a positive count.
func lastDay(days map[int64]seenCount, of func(seenCount) int64) (last int64, ok bool) {
	for day, c := range days {
		if of(c) > 0 && (!ok || day > last) {
			last, ok = day, true
		}
	}
	return last, ok
}

// writeSessions updates the rows of sessions and counts what changed. It must
// precede writeCounts: whether a session is new on a day is only known by comparing
// with what is stored.
func (t *tally) writeSessions(ctx context.Context, tx *store.Tx) error {
	before, err := sessionDays(ctx, tx, slices.Collect(maps.Keys(t.sessions)))
	if err != nil {
		return err
	}
	return writeSessionDays(ctx, tx, t.diffSessions(before))
}

// writeCounts adds the increments to the rollups.
func (t *tally) writeCounts(ctx context.Context, tx *store.Tx) error {
	if err := incrementDays(ctx, tx, t.days); err != nil {
		return err
	}
	return incrementTotals(ctx, tx, t.totals)
}
