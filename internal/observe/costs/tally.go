package costs

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A tally collects the increments of the rollups that a change causes, so that
// each row is written once however large the change is.
type tally struct {
	orgID   string
	days    map[dayKey]*dayCount
	buckets map[bucketKey]*bucketCount
	models  map[modelKey]int64 // requests
	moves   map[string]*move   // by the key of the group
}

// A dayKey is the key of cost_days. The subject is a skill, a version or the
// organisation.
type dayKey struct {
	subject string
	day     int64
}

// dayCount is a row of cost_days, or an increment of one.
type dayCount struct {
	// All money is in millionths of a dollar, as integers: increments must cancel
	// out exactly.
	requests, reported, unpriced         int64
	micros                               int64
	input, output, cacheRead, cacheWrite int64
	uses, useRequests                    int64
	sessions, sessionRequests            int64
	graded, gradedMicros, passRateSum    int64
}

// A bucketKey is the key of cost_buckets, the histogram that medians are read from:
// see bucketOf.
type bucketKey struct {
	subject     string
	day, bucket int64
}

// bucketCount is a row of cost_buckets, or an increment of one.
type bucketCount struct{ uses, micros int64 }

// A modelKey is the key of cost_models, without the organisation.
type modelKey struct {
	day   int64
	model string
}

// The kinds of groups.
const (
	useGroup     = "use"
	sessionGroup = "session"
)

// group is a row of cost_groups: the requests of a use of a skill, of a session
// with a skill, or of a session of the organisation.
type group struct {
	key, kind  string
	subjectID  string // a skill, or the organisation
	versionID  string
	sessionKey string // of a use
	session    string // hash
	firstAt    *time.Time
	requests   int64
	unpriced   int64
	micros     int64
	grade      *skills.SessionGrade // of a session with a skill
}

// A move is how the requests of a group change.
type move struct {
	to                         group // without numbers
	requests, unpriced, micros int64
	added, removed             *time.Time // the first of each
}

// day returns the increment of a row, to be added to.
func (t *tally) day(subject string, day int64) *dayCount {
	k := dayKey{subject, day}
	if t.days[k] == nil {
		t.days[k] = &dayCount{}
	}
	return t.days[k]
}

// counted adds a request, or removes it with sign -1.
func (t *tally) counted(r request, sign int64) {
	day := dayOf(r.at)
	// The organisation counts every request, so its total includes what belongs to
	// no skill.
	for _, subject := range []string{t.orgID, r.skillID, r.versionID} {
		if subject != "" {
			t.day(subject, day).count(r, sign)
		}
	}
	if r.model != "" {
		t.models[modelKey{day, r.model}] += sign
	}
	for _, g := range groupsOf(t.orgID, r) {
		t.move(r, sign, g)
	}
}

// groupsOf returns the groups of a request, without numbers: its session, its
// session with the skill, and its use of the skill.
func groupsOf(orgID string, r request) []group {
	var all []group
	if r.session != "" {
		all = append(all, group{
			key: skills.SessionKey(orgID, r.session), kind: sessionGroup, subjectID: orgID, session: r.session,
		})
	}
	if r.skillID == "" {
		return all
	}
	use := group{key: r.useKey, kind: useGroup, subjectID: r.skillID, versionID: r.versionID, session: r.session}
	if r.session != "" {
		use.sessionKey = keyOf(r.skillSession())
		all = append(all, group{
			key: use.sessionKey, kind: sessionGroup, subjectID: r.skillID, versionID: r.versionID, session: r.session,
		})
	}
	return append(all, use)
}

// storedGroups are groups as they are stored, by key. One that is not stored has
// no requests.
type storedGroups map[string]group

// load adds groups that are not loaded yet.
func (s storedGroups) load(ctx context.Context, q store.Querier, keys []string) error {
	var wanted []string
	for _, key := range keys {
		if _, ok := s[key]; !ok {
			s[key] = group{}
			wanted = append(wanted, key)
		}
	}
	found, err := groupsByKey(ctx, q, wanted)
	for _, g := range found {
		s[g.key] = g
	}
	return err
}

// reported counts the requests whose cost the producer told; the others were priced
// from their tokens, or have no price.
func (d *dayCount) count(r request, sign int64) {
	d.requests += sign
	switch {
	case r.micros == nil:
		d.unpriced += sign
	case r.reported != nil:
		d.reported += sign
	}
	if r.micros != nil {
		d.micros += sign * *r.micros
	}
	d.input += sign * r.tokens.Input
	d.output += sign * r.tokens.Output
	d.cacheRead += sign * r.tokens.CacheRead
	d.cacheWrite += sign * r.tokens.CacheWrite
}

// move adds a request to a group, or removes it. Of several requests the one that
// is added says what the group becomes.
func (t *tally) move(r request, sign int64, to group) {
	m := t.moves[to.key]
	if m == nil {
		m = &move{to: to}
		t.moves[to.key] = m
	}
	first := &m.removed
	if sign > 0 {
		first, m.to = &m.added, to
	}
	if *first == nil || r.at.Before(**first) {
		*first = &r.at
	}
	m.requests += sign
	if r.micros == nil {
		m.unpriced += sign
	} else {
		m.micros += sign * *r.micros
	}
}

// regroup applies the moves to the stored groups, and the states to those of
// sessions with a skill, and counts the difference.
func (t *tally) regroup(
	ctx context.Context, tx *store.Tx, before storedGroups, states map[string]skills.SessionState,
) error {
	if err := before.load(ctx, tx, slices.Collect(maps.Keys(t.moves))); err != nil {
		return err
	}
	after := maps.Clone(before)
	var stale []group // whose first request was removed
	for key, m := range t.moves {
		g := before[key]
		// Kept apart, since g may be replaced by what it becomes.
		firstAt := g.firstAt
		switch {
		case g.requests == 0:
			g = m.to
		case m.added != nil:
			g.versionID = m.to.versionID
		}
		g.requests, g.unpriced, g.micros = g.requests+m.requests, g.unpriced+m.unpriced, g.micros+m.micros
		// Only these count on the day of their first request. A session with a skill
		// counts on the day of its grade.
		if g.kind == useGroup || g.subjectID == t.orgID {
			g.firstAt = earliest(firstAt, m.added)
			if firstAt != nil && m.removed != nil && !m.removed.After(*firstAt) && g.requests > 0 {
				// The minimum of what remains must be read: it cannot be computed
				// from the difference.
				stale = append(stale, g)
			}
		}
		after[key] = g
	}
	firsts, err := firstRequests(ctx, tx, stale)
	if err != nil {
		return err
	}
	for key, at := range firsts {
		g := after[key]
		g.firstAt = &at
		after[key] = g
	}
	for key, state := range states {
		if g := after[key]; g.requests > 0 {
			g.versionID, g.grade = orEmpty(state.VersionID), state.Grade
			after[key] = g
		}
	}
	var changed []group
	var gone []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		old, g := before[key], after[key]
		if old.equal(g) {
			continue
		}
		// A group without requests counts for nothing, so this covers new and
		// deleted ones.
		t.grouped(old, -1)
		t.grouped(g, +1)
		switch {
		case g.requests > 0:
			changed = append(changed, g)
		default:
			gone = append(gone, key)
		}
	}
	if err := deleteGroups(ctx, tx, gone); err != nil {
		return err
	}
	return upsertGroups(ctx, tx, changed)
}

// earliest returns the earlier of two times, of which any may be missing.
func earliest(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// equal reports whether two states of a group count for the same. The other fields
// are part of the key, or never change.
func (g group) equal(o group) bool {
	return g.versionID == o.versionID && g.requests == o.requests && g.unpriced == o.unpriced && g.micros == o.micros &&
		same(g.grade, o.grade) && (g.firstAt == o.firstAt || g.firstAt != nil && o.firstAt != nil && g.firstAt.Equal(*o.firstAt))
}

// grouped adds what a group counts for, or removes it with sign -1.
func (t *tally) grouped(g group, sign int64) {
	if g.requests == 0 {
		return
	}
	if g.subjectID == t.orgID {
		d := t.day(t.orgID, dayOf(*g.firstAt))
		d.sessions += sign
		d.sessionRequests += sign * g.requests
		return
	}
	for _, subject := range []string{g.subjectID, g.versionID} {
		switch {
		case subject == "":
		case g.kind == useGroup:
			t.used(g, subject, sign)
		// A session of unknown cost would distort the cost per graded session.
		case g.grade != nil && g.unpriced == 0:
			d := t.day(subject, g.grade.Day)
			d.graded += sign
			d.gradedMicros += sign * g.micros
			d.passRateSum += sign * g.grade.PassRate
		}
	}
}

// used adds a use. One with a request whose price is unknown has an unknown price:
// it is in no bucket.
func (t *tally) used(g group, subject string, sign int64) {
	day := dayOf(*g.firstAt)
	d := t.day(subject, day)
	d.uses += sign
	d.useRequests += sign * g.requests
	if g.unpriced > 0 {
		return
	}
	k := bucketKey{subject, day, bucketOf(g.micros)}
	if t.buckets[k] == nil {
		t.buckets[k] = &bucketCount{}
	}
	t.buckets[k].uses += sign
	t.buckets[k].micros += sign * g.micros
}

// bucketOf returns the bucket of a cost: every doubling has 8 of equal width, and
// costs below 8 have one each. It is integer arithmetic, so that a cost has the
// same bucket on every machine. A bucket is at most an eighth of its cost wide,
// which bounds the error of a median.
func bucketOf(micros int64) int64 {
	if micros < 8 {
		return micros
	}
	n := uint64(micros)                     // not negative
	shift := bits.Len64(n) - 4              // leaves 4 bits, the first of them 1
	return int64(shift)*8 + int64(n>>shift) // 8 to 15
}

// write adds the increments to the rollups. The order of tables is the same in all
// transactions, which avoids deadlocks.
func (t *tally) write(ctx context.Context, tx *store.Tx) error {
	if err := incrementDays(ctx, tx, t.days); err != nil {
		return err
	}
	if err := incrementBuckets(ctx, tx, t.buckets); err != nil {
		return err
	}
	return incrementModels(ctx, tx, t.orgID, t.models)
}
