// Package graded reads the graded sessions of a skill one by one, in the order of
// their grading, and the gradings of a session. It reads skill_gradings.
package graded

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// A Session is the grade of one session of a skill.
type Session struct {
	At        time.Time // of its last grading
	PassRate  float64   // 0 to 1
	VersionID string    // that it used, "" if unknown
}

// Sessions returns the sessions of a skill that were graded since a time, oldest
// first. Of more gradings than the limit the newest are read.
func Sessions(ctx context.Context, q store.Querier, skillID string, since time.Time, limit int) ([]Session, error) {
	rows, err := q.Query(ctx, `
		SELECT session_hash, pass_rate, basis, COALESCE(version_id, ''), graded_at FROM skill_gradings
		WHERE skill_id = $1 AND graded_at >= $2 AND pass_rate IS NOT NULL ORDER BY graded_at DESC, id DESC LIMIT $3`,
		skillID, store.Micros(since), limit)
	return inOrder(rows, err)
}

// SessionsOf is Sessions of those that used a version of the skill, at any time.
func SessionsOf(ctx context.Context, q store.Querier, skillID, versionID string, limit int) ([]Session, error) {
	rows, err := q.Query(ctx, `
		SELECT session_hash, pass_rate, basis, COALESCE(version_id, ''), graded_at FROM skill_gradings
		WHERE skill_id = $1 AND version_id = $2 AND pass_rate IS NOT NULL ORDER BY graded_at DESC, id DESC LIMIT $3`,
		skillID, versionID, limit)
	return inOrder(rows, err)
}

// inOrder reads gradings, newest first, and returns their sessions, oldest first.
func inOrder(rows store.Rows, err error) ([]Session, error) {
	type gradings struct {
		Session
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
	all := make([]Session, len(ordered))
	for i, g := range ordered {
		g.PassRate = g.sum / float64(g.count)
		all[i] = g.Session
	}
	return all, err
}

// A Grading is a grading of a session with a verdict.
type Grading struct {
	ID       string
	SkillID  string
	PassRate int64 // in billionths
	Basis    basis.Basis
	At       time.Time // of the verdict
}

// Gradings returns the gradings of sessions that have a verdict.
func Gradings(ctx context.Context, q store.Querier, of []skills.Session) ([]Grading, error) {
	from, list := q.Dialect().ByPair("skill_gradings", "skill_id", "session_hash", "$1", skills.SessionPairs(of))
	rows, err := q.Query(ctx, `
		SELECT id, skill_id, pass_rate, basis, COALESCE(rated_at, graded_at) FROM `+from+` AND pass_rate IS NOT NULL`, list)
	return store.All(rows, err, func(row store.Row) (g Grading, err error) {
		var of *string
		err = row.Scan(&g.ID, &g.SkillID, &g.PassRate, &of, store.Time(&g.At))
		g.Basis = basis.Parse(of)
		return g, err
	})
}

// LastAt returns when a session of the skill was last graded, nil if none was.
func LastAt(ctx context.Context, q store.Querier, skillID string) (at *time.Time, err error) {
	rows, err := q.Query(ctx, `
		SELECT MAX(graded_at) FROM skill_gradings WHERE skill_id = $1`, skillID)
	_, err = store.One(rows, err, "Grading", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(store.NullTime(&at))
	})
	return at, err
}
