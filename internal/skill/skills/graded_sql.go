package skills

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A GradedSession is the grade of one session of a skill.
type GradedSession struct {
	At        time.Time // of its last grading
	PassRate  float64   // 0 to 1
	VersionID string    // that it used, "" if unknown
}

// GradedSince returns the sessions of a skill that were graded since a time, oldest
// first. Of more gradings than the limit the newest are read.
func GradedSince(ctx context.Context, q store.Querier, skillID string, since time.Time, limit int) ([]GradedSession, error) {
	rows, err := q.Query(ctx, `
		SELECT session_hash, pass_rate, basis, COALESCE(version_id, ''), graded_at FROM skill_gradings
		WHERE skill_id = $1 AND graded_at >= $2 AND pass_rate IS NOT NULL ORDER BY graded_at DESC, id DESC LIMIT $3`,
		skillID, store.Micros(since), limit)
	return gradedInOrder(rows, err)
}

// GradedWithVersion is GradedSince of those that used a version of the skill, at any
// time. Alerts ask with it whether an earlier version is good enough to roll back
// to.
func GradedWithVersion(ctx context.Context, q store.Querier, skillID, versionID string, limit int) ([]GradedSession, error) {
	rows, err := q.Query(ctx, `
		SELECT session_hash, pass_rate, basis, COALESCE(version_id, ''), graded_at FROM skill_gradings
		WHERE skill_id = $1 AND version_id = $2 AND pass_rate IS NOT NULL ORDER BY graded_at DESC, id DESC LIMIT $3`,
		skillID, versionID, limit)
	return gradedInOrder(rows, err)
}

// gradedInOrder reads gradings, newest first, and returns their sessions, oldest first.
func gradedInOrder(rows store.Rows, err error) ([]GradedSession, error) {
	// sum and count are of the gradings with the basis.
	type gradings struct {
		GradedSession
		hash  string
		sum   float64
		count int
		basis basis.Basis
	}
	sessions := map[string]*gradings{}
	err = store.Each(rows, err, func(row store.Row) error {
		var hash string
		var rate int64
		var of *string
		var g gradings
		if err := row.Scan(&hash, &rate, &of, &g.VersionID, store.Time(&g.At)); err != nil {
			return err
		}
		g.hash = hash
		g.sum, g.count, g.basis = float64(rate)/1e9, 1, basis.Parse(of)
		// As in the pass rate of the skill: the mean of the gradings with the highest
		// basis, at the time of the last of them.
		known := sessions[hash]
		// The first grading met is the newest, so its time and version are the
		// session's.
		switch {
		case known == nil || known.basis != g.basis && basis.Highest(known.basis, g.basis) == g.basis:
			sessions[hash] = &g
		case known.basis == g.basis:
			known.sum += g.sum
			known.count++
		}
		return nil
	})
	// The order must not depend on that of a map: evidence depends on it.
	ordered := slices.SortedFunc(maps.Values(sessions), func(a, b *gradings) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.hash, b.hash))
	})
	all := make([]GradedSession, len(ordered))
	for i, g := range ordered {
		g.PassRate = g.sum / float64(g.count)
		all[i] = g.GradedSession
	}
	return all, err
}

// A SessionGrading is a grading of a session with a verdict. The API and the pages
// show it beside the session; GradedSession is for statistics.
type SessionGrading struct {
	ID       string
	SkillID  string
	PassRate int64 // in billionths
	Basis    basis.Basis
	At       time.Time // of the verdict
}

// SessionGradings returns the gradings of sessions that have a verdict.
func SessionGradings(ctx context.Context, q store.Querier, of []Session) ([]SessionGrading, error) {
	from, list := q.Dialect().ByPair("skill_gradings", "skill_id", "session_hash", "$1", SessionPairs(of))
	rows, err := q.Query(ctx, `
		SELECT id, skill_id, pass_rate, basis, COALESCE(rated_at, graded_at) FROM `+from+` AND pass_rate IS NOT NULL`, list)
	return store.All(rows, err, func(row store.Row) (g SessionGrading, err error) {
		var of *string
		err = row.Scan(&g.ID, &g.SkillID, &g.PassRate, &of, store.Time(&g.At))
		g.Basis = basis.Parse(of)
		return g, err
	})
}

// LastGradedAt returns when a session of the skill was last graded, nil if none was.
func LastGradedAt(ctx context.Context, q store.Querier, skillID string) (at *time.Time, err error) {
	rows, err := q.Query(ctx, `
		SELECT MAX(graded_at) FROM skill_gradings WHERE skill_id = $1`, skillID)
	_, err = store.One(rows, err, "Grading", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(store.NullTime(&at))
	})
	return at, err
}
