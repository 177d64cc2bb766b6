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

// entriesAfter returns the entries after one and before a time, oldest first.
func entriesAfter(ctx context.Context, q store.Querier, orgID string, after Entry, end time.Time, f Filter) ([]Entry, error) {
	if f.Until != nil && f.Until.Before(end) {
		end = *f.Until
	}
	start := int64(0)
	if after.ID != "" {
		start = store.Micros(after.At)
	}
	rows, err := q.Query(ctx, `
		SELECT `+entryColumns+` FROM audit_entries
		WHERE org_id = $1 AND (at, id) > ($2, $3) AND at >= $4 AND at < $5
			AND ($6 = '' OR actor = $6 OR user_id = $6 OR key_id = $6 OR actor_name = $6)
			AND substr(action, 1, length($7)) = $7 AND ($8 = '' OR target_id = $8 OR target_name = $8)
		ORDER BY at, id LIMIT $9`,
		orgID, start, after.ID, micros(f.Since, time.Unix(0, 0)), store.Micros(end), f.Actor, f.Action, f.Target, f.Limit)
	return store.All(rows, err, scanEntry)
}

// unsent returns entries that were not sent to the collector, oldest first. It looks
// back: an entry may be committed after one of a later time.
func unsent(ctx context.Context, q store.Querier, overlap time.Duration, limit int) ([]Entry, error) {
	rows, err := q.Query(ctx, `
		SELECT `+entryColumns+` FROM audit_entries e
		WHERE at >= COALESCE((SELECT sent_at FROM audit_export WHERE id = 1), 0) - $1
			AND NOT EXISTS (SELECT 1 FROM audit_exported x WHERE x.entry_id = e.id)
		ORDER BY at, id LIMIT $2`, overlap.Microseconds(), limit)
	return store.All(rows, err, scanEntry)
}

// markSent remembers what was sent, for as long as unsent looks back.
func markSent(ctx context.Context, tx *store.Tx, batch []Entry, overlap time.Duration) error {
	ids, times := make([]string, len(batch)), make([]int64, len(batch))
	for i, e := range batch {
		ids[i], times[i] = e.ID, store.Micros(e.At)
	}
	sent := store.Bulk{
		Table: "audit_exported", Columns: []store.Column{store.Col("entry_id", ids), store.Col("at", times)},
		OnConflict: "ON CONFLICT (entry_id) DO NOTHING",
	}
	if _, err := sent.Insert(ctx, tx); err != nil {
		return err
	}
	// A clock that is ahead must not move the cursor past what others write.
	at := min(times[len(times)-1], store.Micros(store.Now()))
	_, err := tx.Exec(ctx, `
		INSERT INTO audit_export (id, sent_at) VALUES (1, $1)
		ON CONFLICT (id) DO UPDATE SET sent_at = excluded.sent_at WHERE audit_export.sent_at < excluded.sent_at`, at)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		DELETE FROM audit_exported WHERE at < (SELECT sent_at FROM audit_export WHERE id = 1) - $1`, overlap.Microseconds())
	return err
}
