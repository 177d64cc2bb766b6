package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Session is one of a user in which a skill was observed, graded or paid for.
type Session struct {
	SkillID string
	Hash    string // the session's pseudonym, see SessionHash
}

// SessionPairs are sessions as pairs of columns. The dialects' Pairs and ByPair take
// them.
func SessionPairs(sessions []Session) [][2]string {
	pairs := make([][2]string, len(sessions))
	for i, s := range sessions {
		pairs[i] = [2]string{s.SkillID, s.Hash}
	}
	return pairs
}

// lastActivated returns the version that each session activated last, by time; "" if no version
// is known of any activation. Sessions without an activation are not in it. The
// second subquery tells "activated at an unknown version" from "not activated": only
// the latter may be attributed to the version that was current.
func lastActivated(ctx context.Context, q store.Querier, sessions []Session) (map[Session]string, error) {
	versions := map[Session]string{}
	if len(sessions) == 0 {
		return versions, nil
	}
	pairs, list := q.Dialect().Pairs("$1", SessionPairs(sessions))
	rows, err := q.Query(ctx, `SELECT a, b, version_id FROM (
		SELECT pairs.a, pairs.b, COALESCE((
			SELECT o.version_id FROM skill_observations o
			WHERE o.skill_id = pairs.a AND o.session_hash = pairs.b AND o.triggered AND o.weight > 0 AND o.version_id IS NOT NULL
			ORDER BY o.occurred_at DESC, o.version_id DESC LIMIT 1
		), (
			SELECT '' FROM skill_observations o
			WHERE o.skill_id = pairs.a AND o.session_hash = pairs.b AND o.triggered AND o.weight > 0 LIMIT 1
		)) AS version_id FROM `+pairs+`) AS used WHERE version_id IS NOT NULL`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var of Session
		var version string
		err := row.Scan(&of.SkillID, &of.Hash, &version)
		versions[of] = version
		return err
	})
	return versions, err
}

// An activation is one whose version is known. activationsAfter pages through them
// for the backfill.
type activation struct {
	ID            string
	OrgID, UserID string
	Session       Session
	Several       bool // its session activated another version, too
}

// activationsAfter returns the next activations in the order of their ids. The id is
// the cursor. Whether the session used several versions is computed for the page
// only, which is why the page is a subquery.
func activationsAfter(ctx context.Context, q store.Querier, id string, limit int) ([]activation, error) {
	rows, err := q.Query(ctx, `
		SELECT id, org_id, user_id, skill_id, session_hash, EXISTS (
			SELECT 1 FROM skill_observations o
			WHERE o.skill_id = page.skill_id AND o.session_hash = page.session_hash AND o.triggered
			AND o.version_id <> page.version_id
		) FROM (
			SELECT id, org_id, user_id, skill_id, session_hash, version_id FROM skill_observations
			WHERE id > $1 AND triggered AND version_id IS NOT NULL AND session_hash <> '' ORDER BY id LIMIT $2
		) AS page ORDER BY id`, id, limit)
	return store.All(rows, err, func(row store.Row) (a activation, err error) {
		err = row.Scan(&a.ID, &a.OrgID, &a.UserID, &a.Session.SkillID, &a.Session.Hash, &a.Several)
		return a, err
	})
}
