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
func ForgetSessions(ctx context.Context, db *store.DB, orgID string) (deleted int64, err error) {
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

// A sessionRow is an observation or a grading.
type sessionRow struct{ id, skillID, versionID, sessionHash string }

func deleteRollups(ctx context.Context, db *store.DB, of []sessionRow) (deleted int64, err error) {
	keys := map[string]bool{}
	for _, u := range of {
		keys[SessionKey(u.skillID, u.sessionHash)] = true
		keys[SessionKey(u.versionID, u.sessionHash)] = true
	}
	in, list := db.Dialect().In("$1", slices.Collect(maps.Keys(keys)))
	err = db.InTx(ctx, func(tx *store.Tx) error {
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
