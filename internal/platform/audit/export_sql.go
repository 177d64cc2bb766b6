package audit

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

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
