package skills

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// grading is a row of skill_gradings.
type grading struct {
	id          string
	skillID     string // the skill that it counts for
	originID    string // the skill that the newest report names
	skillName   string // of originID, see ingestion.loadSkills
	versionID   *string
	sessionHash string
	basis       basis.Basis
	// In billionths; nil while there is no verdict.
	passRate *int64
	at       time.Time
	ratedAt  time.Time // of the report that passRate comes from
}

// ingestGradings merges the gradings of the report with the stored ones, and
// attributes those of every session that the report touches: a grading counts for
// the version that the session used, so it follows its session's activations. before
// and merged hold every grading of every touched session, also those that no report
// names now: an activation that arrives late can move them to another version.
func (in *ingestion) ingestGradings(ctx context.Context) error {
	merged := maps.Clone(in.knownGradings)
	for _, id := range in.report.Withdrawn {
		delete(merged, id)
	}
	for _, g := range in.report.Gradings {
		s := in.storedGrading(g)
		if earlier, ok := merged[s.id]; ok {
			s = mergeGradings(earlier, s)
		}
		merged[s.id] = s
	}
	for id, g := range merged {
		g.skillID = in.skills[g.originID].countsFor
		merged[id] = g
	}
	touched := in.touchedSessions()
	for _, all := range []map[string]grading{in.knownGradings, merged} {
		for _, g := range all {
			touched[Session{SkillID: g.skillID, Hash: g.sessionHash}] = true
		}
	}
	if len(touched) == 0 {
		return nil
	}
	stored, err := gradingsOfSessions(ctx, in.tx, touched)
	if err != nil {
		return err
	}
	before := maps.Clone(in.knownGradings)
	for _, g := range stored {
		before[g.id] = g
		if _, ok := merged[g.id]; !ok && !slices.Contains(in.report.Withdrawn, g.id) {
			merged[g.id] = g
		}
	}
	if err := in.attributeGradings(ctx, merged); err != nil {
		return err
	}
	var changed []grading
	for id, g := range merged {
		old, ok := before[id]
		if ok && equalGradings(old, g) {
			continue
		}
		// Alerts recompute their evidence when gradingChanges of a skill differs.
		changed = append(changed, g)
		in.tally.total(g.skillID).gradingChanges++
		if ok && old.skillID != g.skillID {
			in.tally.total(old.skillID).gradingChanges++
		}
	}
	for id, g := range before {
		if _, kept := merged[id]; !kept {
			in.tally.total(g.skillID).gradingChanges++
		}
	}
	if err := writeGradings(ctx, in.tx, in.report, changed); err != nil {
		return err
	}
	if err := deleteGradings(ctx, in.tx, in.report.Withdrawn); err != nil {
		return err
	}
	return in.regrade(ctx, before, merged)
}

// touchedSessions returns the sessions of skills with versions that the report's
// observations belong to or belonged to. A skill without versions has nothing that
// its gradings could move to.
func (in *ingestion) touchedSessions() map[Session]bool {
	touched := map[Session]bool{}
	for _, all := range []map[string]observation{in.known, in.retired, in.merged} {
		for _, o := range all {
			if o.sessionHash != "" && in.mayHaveVersions(o.skillID) {
				touched[Session{SkillID: o.skillID, Hash: o.sessionHash}] = true
			}
		}
	}
	return touched
}

// mayHaveVersions reports whether the skill has an entry, or is of a plugin that
// may be one.
func (in *ingestion) mayHaveVersions(skillID string) bool {
	return in.versions.HasVersions(skillID) || in.ofPlugins[skillID]
}

// attributeGradings sets the versions of gradings: the one that the session activated
// last. Without an activation it is the one that was current when the grading was
// made; a session that activated something else cannot have used that one.
func (in *ingestion) attributeGradings(ctx context.Context, all map[string]grading) error {
	var sessions []Session
	for _, g := range all {
		if in.mayHaveVersions(g.skillID) {
			sessions = append(sessions, Session{SkillID: g.skillID, Hash: g.sessionHash})
		}
	}
	used, err := lastActivated(ctx, in.tx, sessions)
	for id, g := range all {
		if version, ok := used[Session{SkillID: g.skillID, Hash: g.sessionHash}]; ok {
			// "" if the session activated it at an unknown version: then the grade
			// counts for the skill only.
			g.versionID = orNull(version)
		} else {
			g.versionID = in.versions.CurrentAt(g.skillID, g.at)
		}
		all[id] = g
	}
	return err
}

// equalGradings compares what writeGradings would change.
func equalGradings(a, b grading) bool {
	return a.skillID == b.skillID && a.originID == b.originID && equal(a.versionID, b.versionID) &&
		a.sessionHash == b.sessionHash &&
		equal(a.passRate, b.passRate) && a.at.Equal(b.at) && a.ratedAt.Equal(b.ratedAt)
}

// storedGrading turns a reported grading into a row. Times are truncated to what the
// database stores: otherwise a repeated report would look like a change.
func (in *ingestion) storedGrading(g Grading) grading {
	// A grading without a session is a session of its own.
	session := cmp.Or(g.SessionHash, SessionHash(in.report.UserID, g.Session), g.ID)
	at, ratedAt := g.At.UTC().Truncate(time.Microsecond), g.RatedAt.UTC().Truncate(time.Microsecond)
	if g.RatedAt.IsZero() {
		ratedAt = at
	}
	return grading{
		id: g.ID, originID: in.skillIDs[g.SkillName], skillName: g.SkillName, sessionHash: session,
		basis:    cmp.Or(g.Basis, basis.Pushed),
		passRate: scaled(g.PassRate), at: at, ratedAt: ratedAt,
	}
}

// mergeGradings combines two reports of one grading: the newer one, with the
// newest verdict. Of two that are equally old the worse wins, so that the order
// of arrival does not matter.
func mergeGradings(a, b grading) grading {
	m := a
	if cmp.Or(a.at.Compare(b.at), strings.Compare(a.skillName, b.skillName), strings.Compare(a.sessionHash, b.sessionHash)) < 0 {
		m = b
	}
	rate, ratedAt := newest(a.passRate, b.passRate, a.ratedAt.UnixMicro(), b.ratedAt.UnixMicro(),
		func(x, y int64) int { return cmp.Compare(y, x) })
	if m.passRate, m.ratedAt = rate, m.at; rate != nil {
		m.ratedAt = time.UnixMicro(ratedAt).UTC()
	}
	return m
}

// regrade recomputes the grades of sessions from all their gradings, for the
// skill and for every version that one of them is or was attributed to.
func (in *ingestion) regrade(ctx context.Context, before, after map[string]grading) error {
	now := map[string][]grading{} // by session key
	subjectOf := map[string]string{}
	// A grading counts for its skill and, if known, for its version.
	each := func(g grading, fn func(key string)) {
		for _, subject := range subjects(g.skillID, g.versionID) {
			key := SessionKey(subject, g.sessionHash)
			subjectOf[key] = subject
			fn(key)
		}
	}
	for _, g := range before {
		// So that a subject that lost its last grading is recomputed to none.
		each(g, func(string) {})
	}
	for _, g := range after {
		each(g, func(key string) { now[key] = append(now[key], g) })
	}
	keys := slices.Sorted(maps.Keys(subjectOf))
	was, err := sessionGrades(ctx, in.tx, keys)
	if err != nil {
		return err
	}
	is := map[string]*SessionGrade{}
	for _, key := range keys {
		is[key] = meanGrade(now[key])
		// Equal grades cancel out in the tally.
		in.tally.graded(subjectOf[key], was[key], is[key])
	}
	in.grades = is
	for _, all := range []map[string]grading{before, after} {
		for _, g := range all {
			key, of := SessionKey(g.skillID, g.sessionHash), Session{SkillID: g.skillID, Hash: g.sessionHash}
			in.touched[of] = in.touched[of] || !equal(was[key], is[key])
		}
	}
	return writeSessionGrades(ctx, in.tx, is)
}

// meanGrade returns the grade of a session with these gradings, nil if none has a
// verdict: the mean of those with the highest basis. A person's verdict replaces
// that of a judge instead of being averaged with it.
func meanGrade(gradings []grading) *SessionGrade {
	gradings = slices.DeleteFunc(gradings, func(g grading) bool { return g.passRate == nil })
	highest := basis.Highest(columnsOf(gradings, func(g grading) basis.Basis { return g.basis })...)
	var sum, count, day int64
	for _, g := range gradings {
		if g.basis != highest {
			continue
		}
		sum += *g.passRate
		if d := dayOf(g.at); count == 0 || d > day {
			day = d
		}
		count++
	}
	if count == 0 {
		return nil
	}
	return &SessionGrade{Day: day, PassRate: int64(math.Round(float64(sum) / float64(count))), Basis: highest}
}
