package skills

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// A tally collects the increments of the rollups that a report causes, so that
// each row is written once however large the report is.
type tally struct {
	days     map[dayKey]*dayCount
	sessions map[string]*sessionTally // by session key
	totals   map[string]*totalCount   // by subject
}

type dayKey struct {
	subject string
	day     int64
}

// dayCount is a row of skill_days, or an increment of one.
type dayCount struct {
	sessions, triggerSessions         int64
	lastSessions, lastTriggerSessions int64
	checks, triggers                  int64
	confidenceSum, confidenceCount    int64
	gradedSessions, passRateSum       int64
}

// totalCount is an increment of a row of skill_totals.
type totalCount struct {
	uniqueSessions, gradedSessions int64
	first, last                    *time.Time // of what was added
	moved                          bool       // something was removed: recomputeSeen
}

// sessionTally is how often a subject was observed in a session, by day.
type sessionTally struct {
	subject string
	days    map[int64]seenCount
}

type seenCount struct{ seen, triggers int64 }

func (c seenCount) plus(d seenCount) seenCount {
	return seenCount{c.seen + d.seen, c.triggers + d.triggers}
}

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

func (t *tally) session(subject, session string) *sessionTally {
	key := sessionKey(subject, session)
	if t.sessions[key] == nil {
		t.sessions[key] = &sessionTally{subject: subject, days: map[int64]seenCount{}}
	}
	return t.sessions[key]
}

func sessionKey(subject, session string) string { return digest(subject, session) }

// subjects returns what an observation or grading counts for: its skill, and the
// version of it that was in use.
func subjects(skillID string, versionID *string) []string {
	if versionID == nil {
		return []string{skillID}
	}
	return []string{skillID, *versionID}
}

// observed adds an observation, or removes it with sign -1.
func (t *tally) observed(o observation, sign int64) {
	n, day := sign*o.weight, dayOf(o.at)
	t.total(o.skillID).noteSeen(o.at, sign)
	for _, subject := range subjects(o.skillID, o.versionID) {
		t.day(subject, day).count(o, n)
		if o.sessionHash == "" {
			continue
		}
		seen := seenCount{seen: n}
		if o.triggered {
			seen.triggers = n
		}
		s := t.session(subject, o.sessionHash)
		s.days[day] = s.days[day].plus(seen)
	}
}

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

// graded replaces the grade of a session; nil means none. The old grade is
// subtracted, so that a regrade on another day moves it there.
func (t *tally) graded(subject string, before, after *sessionGrade) {
	for _, change := range []struct {
		grade *sessionGrade
		sign  int64
	}{{before, -1}, {after, +1}} {
		if change.grade == nil {
			continue
		}
		d := t.day(subject, change.grade.day)
		d.gradedSessions += change.sign
		d.passRateSum += change.sign * change.grade.passRate
		t.total(subject).gradedSessions += change.sign
	}
}

// diffSessions compares each session before and after, and counts where it
// appeared, disappeared or was last observed. It returns the rows that changed.
func (t *tally) diffSessions(before map[string]map[int64]seenCount) (changed []sessionDay) {
	for key, s := range t.sessions {
		was := before[key]
		is := map[int64]seenCount{}
		for day, c := range was {
			is[day] = c
		}
		for day, d := range s.days {
			is[day] = is[day].plus(d)
			changed = append(changed, sessionDay{key, day, is[day]})
			count := t.day(s.subject, day)
			count.sessions += appeared(was[day].seen, is[day].seen)
			count.triggerSessions += appeared(was[day].triggers, is[day].triggers)
		}
		t.moveLast(s.subject, was, is)
	}
	return changed
}

// moveLast counts each session on the last day on which it observed the subject,
// and on the last day on which it triggered it. That makes the distinct sessions
// of a window the sum over its days: a window always reaches up to today, so a
// session is in it exactly if its last day is.
func (t *tally) moveLast(subject string, was, is map[int64]seenCount) {
	seen := func(c seenCount) int64 { return c.seen }
	triggers := func(c seenCount) int64 { return c.triggers }
	if day, ok := lastDay(was, seen); ok {
		t.day(subject, day).lastSessions--
		t.total(subject).uniqueSessions--
	}
	if day, ok := lastDay(is, seen); ok {
		t.day(subject, day).lastSessions++
		t.total(subject).uniqueSessions++
	}
	if day, ok := lastDay(was, triggers); ok {
		t.day(subject, day).lastTriggerSessions--
	}
	if day, ok := lastDay(is, triggers); ok {
		t.day(subject, day).lastTriggerSessions++
	}
}

// appeared turns two counts of observations into a change of the number of
// sessions: it is 1 if a count rises from zero, -1 if it falls to zero, else 0.
func appeared(was, is int64) int64 {
	switch {
	case was <= 0 && is > 0:
		return 1
	case was > 0 && is <= 0:
		return -1
	}
	return 0
}

func lastDay(days map[int64]seenCount, of func(seenCount) int64) (last int64, ok bool) {
	for day, c := range days {
		if of(c) > 0 && (!ok || day > last) {
			last, ok = day, true
		}
	}
	return last, ok
}

// write adds the increments to the rollups.
func (t *tally) write(ctx context.Context, tx *store.Tx) error {
	keys := make([]string, 0, len(t.sessions))
	for key := range t.sessions {
		keys = append(keys, key)
	}
	before, err := sessionDays(ctx, tx, keys)
	if err != nil {
		return err
	}
	if err := writeSessionDays(ctx, tx, t.diffSessions(before)); err != nil {
		return err
	}
	if err := incrementDays(ctx, tx, t.days); err != nil {
		return err
	}
	return incrementTotals(ctx, tx, t.totals)
}
