package events

import (
	"context"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const webhookColumns = `id, org_id, url, secret, old_secret, old_secret_until, events, paused, paused_reason, created_by,
	created_at, updated_at`

// scanWebhook leaves the sealed columns as they are.
func scanWebhook(row store.Row) (w Webhook, err error) {
	var types string
	err = row.Scan(&w.ID, &w.OrgID, &w.URL, &w.Secret, &w.OldSecret, store.NullTime(&w.OldSecretUntil), &types, &w.Paused,
		&w.PausedReason, &w.CreatedBy, store.Time(&w.CreatedAt), store.Time(&w.UpdatedAt))
	w.Events = splitTypes(types)
	return w, err
}

func (s *Service) scanOpened(row store.Row) (Webhook, error) {
	w, err := scanWebhook(row)
	if err != nil {
		return w, err
	}
	err = s.Seal.OpenRow(w.sealedRow())
	return w, err
}

func splitTypes(text string) (types []Type) {
	for t := range strings.FieldsSeq(text) {
		types = append(types, Type(t))
	}
	return types
}

func joinTypes(types []Type) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return strings.Join(names, " ")
}

func insertWebhook(ctx context.Context, q store.Querier, w Webhook) error {
	_, err := q.Exec(ctx, `
		INSERT INTO event_webhooks (`+webhookColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		w.ID, w.OrgID, w.URL, w.Secret, w.OldSecret, store.NullMicros(w.OldSecretUntil), joinTypes(w.Events), w.Paused,
		w.PausedReason, w.CreatedBy, store.Micros(w.CreatedAt), store.Micros(w.UpdatedAt))
	return err
}

func updateWebhook(ctx context.Context, q store.Querier, w Webhook) error {
	_, err := q.Exec(ctx, `
		UPDATE event_webhooks SET url = $2, secret = $3, old_secret = $4, old_secret_until = $5, events = $6, paused = $7,
			paused_reason = $8, updated_at = $9
		WHERE id = $1`, w.ID, w.URL, w.Secret, w.OldSecret, store.NullMicros(w.OldSecretUntil), joinTypes(w.Events), w.Paused,
		w.PausedReason, store.Micros(w.UpdatedAt))
	return err
}

func (s *Service) webhookByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Webhook, error) {
	rows, err := q.Query(ctx, `SELECT `+webhookColumns+` FROM event_webhooks WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Event webhook", s.scanOpened)
}

func (s *Service) listed() store.List[Webhook] {
	return store.List[Webhook]{
		Columns: webhookColumns, From: `FROM event_webhooks WHERE org_id = $1`, Order: `id DESC`, Scan: s.scanOpened,
	}
}

// subscribers returns the ids of the webhooks that want events of a type. An
// organisation has few webhooks, so the types are compared here.
func subscribers(ctx context.Context, q store.Querier, orgID string, t Type) (ids []string, err error) {
	rows, err := q.Query(ctx, `SELECT id, events FROM event_webhooks WHERE org_id = $1 AND NOT paused ORDER BY id`, orgID)
	err = store.Each(rows, err, func(row store.Row) error {
		var id, types string
		if err := row.Scan(&id, &types); err != nil {
			return err
		}
		if slices.Contains(splitTypes(types), t) {
			ids = append(ids, id)
		}
		return nil
	})
	return ids, err
}

const recordColumns = `id, org_id, type, path, data, occurred_at`

func recordByID(ctx context.Context, q store.Querier, orgID, id string) (record, error) {
	rows, err := q.Query(ctx, `SELECT `+recordColumns+` FROM event_records WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Event", func(row store.Row) (r record, err error) {
		var data string
		err = row.Scan(&r.ID, &r.OrgID, &r.Type, &r.Path, &data, store.Time(&r.OccurredAt))
		r.Data = []byte(data)
		return r, err
	})
}

// lockUnqueued marks deliveries without a job as queued, and returns their ids and
// organisations.
func lockUnqueued(ctx context.Context, tx *store.Tx, limit int) ([]Delivery, error) {
	rows, err := tx.Query(ctx, `
		UPDATE event_deliveries SET queued = TRUE
		WHERE id IN (SELECT id FROM event_deliveries WHERE NOT queued ORDER BY id LIMIT $1`+tx.Dialect().ForUpdate()+`)
		RETURNING id, org_id`, limit)
	return store.All(rows, err, func(row store.Row) (d Delivery, err error) {
		err = row.Scan(&d.ID, &d.OrgID)
		return d, err
	})
}

// Check finds events that do not arrive.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "events", []invariants.Rule{
		deliveries.Waiting("events that were not sent for an hour"),
	})
}
