package signals

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// forgetChunk is how many signals one transaction of Forget handles.
const forgetChunk = 500

// Forget deletes the memberships of an organisation's contributors, whose rows name
// no organisation, and returns how many there were. The signals must still be there. The ids of the
// rows are hashes, so they have to be computed from the signals, which is why these must still be
// there. It can be repeated after a crash.
func Forget(ctx context.Context, db *store.DB, orgID string) (deleted int64, err error) {
	for after := ""; ; {
		signals, err := signalsAfter(ctx, db, orgID, after, forgetChunk)
		if err != nil || len(signals) == 0 {
			return deleted, err
		}
		after = signals[len(signals)-1].SourceKey
		all := tallyOf(orgID, signals).memberships(func(string) bool { return false })
		in, list := db.Dialect().In("$1", slices.Collect(maps.Keys(all)))
		n, err := db.Exec(ctx, `DELETE FROM signal_contributors WHERE id`+in, list)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
}

// signalsAfter returns the next signals of an organisation in the order of their keys.
func signalsAfter(ctx context.Context, q store.Querier, orgID, after string, limit int) ([]Signal, error) {
	rows, err := q.Query(ctx, `
		SELECT source_key, skill_name, signal_type, contributor, day, session FROM signals
		WHERE org_id = $1 AND source_key > $2 ORDER BY source_key LIMIT $3`, orgID, after, limit)
	return store.All(rows, err, func(row store.Row) (s Signal, err error) {
		var session *string
		if err := row.Scan(&s.SourceKey, &s.SkillName, &s.Type, &s.Contributor, &s.Day, &session); err != nil || session == nil {
			return s, err
		}
		return s, json.Unmarshal([]byte(*session), &s.Session)
	})
}
