package skills

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"
)

// grading is a row of skill_gradings.
type grading struct {
	id          string
	skillID     string
	versionID   *string
	sessionHash string
	passRate    *int64
	at          time.Time
}

// sessionGrade is the grade of a session: the mean of its gradings, on the day of
// the newest.
type sessionGrade struct {
	day      int64
	passRate int64
}

// ingestGradings upserts gradings, and recomputes the grade of each session from
// all its gradings.
func (in *ingestion) ingestGradings(ctx context.Context) error {
	if len(in.report.Gradings) == 0 {
		return nil
	}
	merged := maps.Clone(in.knownGradings)
	for _, g := range in.report.Gradings {
		session := sessionHash(in.report.UserID, g.Session)
		if session == "" {
			session = g.ID // a grading without a session is a session of its own
		}
		s := grading{
			id: g.ID, skillID: in.skillIDs[g.SkillName], sessionHash: session,
			passRate: scaled(g.PassRate), at: g.At.UTC().Truncate(time.Microsecond),
		}
		if earlier, ok := merged[s.id]; ok {
			s = mergeGradings(earlier, s)
		}
		merged[s.id] = s
	}
	var write []grading
	touched := map[gradedSession]bool{}
	for id, g := range merged {
		if old, ok := in.knownGradings[id]; ok {
			touched[gradedSession{old.skillID, old.sessionHash}] = true
		}
		g.versionID = in.timelines[g.skillID].versionAt(nil, g.at)
		touched[gradedSession{g.skillID, g.sessionHash}] = true
		write = append(write, g)
	}
	if err := writeGradings(ctx, in.tx, in.report, write); err != nil {
		return err
	}
	return in.regrade(ctx, touched, slices.Concat(slices.Collect(maps.Values(in.knownGradings)), write))
}

// gradedSession is a session of a skill that has gradings.
type gradedSession struct{ skillID, session string }

// mergeGradings combines a stored grading with one more report of it: the newer
// one, with the verdict of the older if the newer has none.
func mergeGradings(known, report grading) grading {
	a, b := known, report
	if b.at.Before(a.at) {
		a, b = b, a
	}
	b.passRate = cmp.Or(b.passRate, a.passRate)
	return b
}

// regrade recomputes the grades of sessions, for the skill and for every version
// that one of their gradings is or was attributed to.
func (in *ingestion) regrade(ctx context.Context, touched map[gradedSession]bool, mentioned []grading) error {
	all, err := gradingsOfSessions(ctx, in.tx, touched)
	if err != nil {
		return err
	}
	now := map[string][]grading{} // by session key
	subjectOf := map[string]string{}
	note := func(g grading) (keys []string) {
		for _, subject := range subjects(g.skillID, g.versionID) {
			key := sessionKey(subject, g.sessionHash)
			subjectOf[key] = subject
			keys = append(keys, key)
		}
		return keys
	}
	for _, g := range mentioned {
		note(g)
	}
	for _, g := range all {
		for _, key := range note(g) {
			now[key] = append(now[key], g)
		}
	}
	keys := slices.Sorted(maps.Keys(subjectOf))
	before, err := sessionGrades(ctx, in.tx, keys)
	if err != nil {
		return err
	}
	after := map[string]*sessionGrade{}
	for _, key := range keys {
		after[key] = meanGrade(now[key])
		in.tally.graded(subjectOf[key], before[key], after[key])
	}
	return writeSessionGrades(ctx, in.tx, after)
}

// meanGrade returns the grade of a session with these gradings, nil if none has a
// verdict.
func meanGrade(gradings []grading) *sessionGrade {
	var sum, count, day int64
	for _, g := range gradings {
		if g.passRate == nil {
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
	return &sessionGrade{day: day, passRate: int64(math.Round(float64(sum) / float64(count)))}
}
