package skills

import (
	"context"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// forgetChunk is how many observations or gradings one transaction handles.
const forgetChunk = 500

// ForgetSessions deletes the rollups of the sessions of an organisation and returns how many
// there were. The observations and gradings that they are of must still be there.
// Each chunk is a transaction of its own, so that the deletion of an organisation
// does not block ingestion. It is idempotent: after a crash it starts again.
func ForgetSessions(ctx context.Context, db *store.DB, orgID string) (deleted int64, err error) {
	// Both, since a session may have been graded without ever using the skill.
	for _, table := range []string{"skill_observations", "skill_gradings"} {
		for after := ""; ; {
			rows, err := db.Query(ctx, `
		SELECT id, skill_id, COALESCE(version_id, ''), session_hash FROM `+table+`
		WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3`, orgID, after, forgetChunk)
			found, err := store.All(rows, err, func(row store.Row) (u sessionRow, err error) {
				err = row.Scan(&u.id, &u.skillID, &u.versionID, &u.sessionHash)
				return u, err
			})
			if err != nil {
				return deleted, err
			}
			if len(found) == 0 {
				break
			}
			after = found[len(found)-1].id
			n, err := deleteRollups(ctx, db, found)
			deleted += n
			if err != nil {
				return deleted, err
			}
		}
	}
	return deleted, nil
}

// A sessionRow is an observation or a grading. It has what the session keys of the
// rollups are derived from: those are hashes, so the rows of an organisation cannot
// be found by themselves.
type sessionRow struct{ id, skillID, versionID, sessionHash string }

// deleteRollups deletes the rollups of these sessions, for the skills and for their
// versions. Days and totals stay: they are not personal data, and go with the skill.
func deleteRollups(ctx context.Context, db *store.DB, of []sessionRow) (deleted int64, err error) {
	keys := map[string]bool{}
	for _, u := range of {
		keys[SessionKey(u.skillID, u.sessionHash)] = true
		// With no version this is the key of no row, which deletes nothing.
		keys[SessionKey(u.versionID, u.sessionHash)] = true
	}
	in, list := db.Dialect().In("$1", slices.Collect(maps.Keys(keys)))
	err = db.InTx(ctx, func(tx *store.Tx) error {
		// The transaction may run again after a serialisation failure.
		deleted = 0
		for _, statement := range []string{
			`DELETE FROM skill_session_days WHERE session_key` + in,
			`DELETE FROM skill_session_days WHERE skill_key` + in,
			`DELETE FROM skill_session_grades WHERE session_key` + in,
		} {
			n, err := tx.Exec(ctx, statement, list)
			if err != nil {
				return err
			}
			deleted += n
		}
		return nil
	})
	return deleted, err
}
