package audit

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const entryColumns = `id, org_id, at, actor, actor_name, user_id, key_id, action, target_kind, target_id, target_name,
	detail, via, request_id`

func scanEntry(row store.Row) (e Entry, err error) {
	var detail string
	err = row.Scan(&e.ID, &e.OrgID, store.Time(&e.At), &e.Actor, &e.ActorName, &e.UserID, &e.KeyID, &e.Action,
		&e.Target.Kind, &e.Target.ID, &e.Target.Name, &detail, &e.Via, &e.RequestID)
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal([]byte(detail), &e.Detail)
}

func insertEntry(ctx context.Context, tx *store.Tx, e Entry, detail string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO audit_entries (`+entryColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		e.ID, e.OrgID, store.Micros(e.At), e.Actor, e.ActorName, e.UserID, e.KeyID, e.Action,
		e.Target.Kind, e.Target.ID, e.Target.Name, detail, e.Via, e.RequestID)
	return err
}

func entryByID(ctx context.Context, q store.Querier, orgID, id string) (Entry, error) {
	rows, err := q.Query(ctx, `SELECT `+entryColumns+` FROM audit_entries WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Audit entry", scanEntry)
}

// entriesBefore returns the entries before one, newest first.
func entriesBefore(ctx context.Context, q store.Querier, orgID string, end Entry, f Filter) ([]Entry, error) {
	rows, err := q.Query(ctx, `
		SELECT `+entryColumns+` FROM audit_entries
		WHERE org_id = $1 AND (at, id) < ($2, $3) AND at >= $4 AND at < $5
			AND ($6 = '' OR actor = $6 OR user_id = $6 OR key_id = $6 OR actor_name = $6)
			AND substr(action, 1, length($7)) = $7 AND ($8 = '' OR target_id = $8 OR target_name = $8)
		ORDER BY at DESC, id DESC LIMIT $9`,
		orgID, store.Micros(end.At), end.ID, micros(f.Since, time.Unix(0, 0)), micros(f.Until, end.At.Add(time.Microsecond)),
		f.Actor, f.Action, f.Target, f.Limit)
	return store.All(rows, err, scanEntry)
}

func micros(t *time.Time, without time.Time) int64 {
	if t == nil {
		return store.Micros(without)
	}
	return store.Micros(*t)
}
