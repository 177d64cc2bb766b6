package repohost

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

const deliveryColumns = `d.id, d.provider, d.delivery_id, d.event, d.action, d.content_type, d.installation_id, d.repo_full_name,
	d.status, d.attempts, d.detail, d.received_at, d.finished_at`

// deliveryTargets are the scan targets for deliveryColumns, in its order.
func deliveryTargets(d *Delivery) []any {
	return []any{
		&d.ID, &d.Provider, &d.DeliveryID, &d.Event, &d.Action, &d.ContentType, &d.InstallationID, &d.RepoFullName,
		&d.Status, &d.Attempts, &d.Detail, store.Time(&d.ReceivedAt), store.NullTime(&d.FinishedAt),
	}
}

// scanDelivery skips the body, which may be large.
func scanDelivery(row store.Row) (d Delivery, err error) {
	err = row.Scan(deliveryTargets(&d)...)
	return d, err
}

// insertDelivery stores a delivery. It returns false for a duplicate, by the code host's
// delivery id.
func insertDelivery(ctx context.Context, tx *store.Tx, d Delivery) (bool, error) {
	n, err := tx.Exec(ctx, `
		INSERT INTO repohost_deliveries (id, provider, delivery_id, event, action, content_type, installation_id, repo_full_name,
			repo_key, body, status, attempts, detail, received_at, finished_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13, $14)
		ON CONFLICT (provider, delivery_id) DO NOTHING`,
		d.ID, d.Provider, d.DeliveryID, d.Event, d.Action, d.ContentType, d.InstallationID, d.RepoFullName,
		repoKey(d.RepoFullName), d.Body, d.Status, d.Detail, store.Micros(d.ReceivedAt), store.NullMicros(d.FinishedAt))
	return n == 1, err
}

func updateDelivery(ctx context.Context, q store.Querier, d Delivery) error {
	_, err := q.Exec(ctx, `
		UPDATE repohost_deliveries SET status = $2, attempts = $3, detail = $4, finished_at = $5 WHERE id = $1`,
		d.ID, d.Status, d.Attempts, d.Detail, store.NullMicros(d.FinishedAt))
	return err
}

// lockDeliveryOfHost locks the delivery, so that two duplicates can't both requeue it.
func lockDeliveryOfHost(ctx context.Context, tx *store.Tx, p host.Provider, deliveryID string) (Delivery, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+deliveryColumns+` FROM repohost_deliveries d WHERE d.provider = $1
			AND d.delivery_id = $2`+tx.Dialect().ForUpdate(),
		p, deliveryID)
	return store.One(rows, err, "Delivery", scanDelivery)
}

// deliveryByID reads the body as well, for processing.
func deliveryByID(ctx context.Context, q store.Querier, id string) (Delivery, error) {
	rows, err := q.Query(ctx, `SELECT `+deliveryColumns+`, d.body FROM repohost_deliveries d WHERE d.id = $1`, id)
	return store.One(rows, err, "Delivery", func(row store.Row) (d Delivery, err error) {
		err = row.Scan(append(deliveryTargets(&d), &d.Body)...)
		return d, err
	})
}

// visibleToOrg is the condition for deliveries d that organisation $1 may see: about a
// repository it is connected to, or an installation it has bound and claimed. In either
// case it must hold the claim on the repository's account, so that a repository that
// moved to another account stays private.
var visibleToOrg = `(EXISTS (SELECT 1 FROM repohost_connections c WHERE c.org_id = $1 AND c.repo_key = d.repo_key)
		OR EXISTS (SELECT 1 FROM repohost_installations i
			WHERE i.org_id = $1 AND i.installation_id = d.installation_id AND ` + claims.Claimed + `))
	AND (d.repo_key = '' OR EXISTS (SELECT 1 FROM repohost_claims k
		WHERE k.org_id = $1 AND ` + claims.OwnedBy("d.repo_key", "k.account_key") + `))`

func deliveryOfOrg(ctx context.Context, tx *store.Tx, orgID, id string) (Delivery, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+deliveryColumns+` FROM repohost_deliveries d WHERE `+visibleToOrg+` AND d.id = $2`, orgID, id)
	return store.One(rows, err, "Delivery", scanDelivery)
}

var listedDeliveries = store.List[Delivery]{
	Columns: deliveryColumns, From: `FROM repohost_deliveries d WHERE ` + visibleToOrg, Order: `d.id DESC`, Scan: scanDelivery,
	Sorts: store.Sorting{
		"received_at": "d.received_at", "event": "d.event", "repository": "lower(d.repo_full_name)", "state": "d.status",
	},
}

// closeDelivery finishes a delivery without queued attempts. If any attempt failed, so
// did the delivery, and a redelivery by the code host will process it again.
func closeDelivery(ctx context.Context, tx *store.Tx, id string) error {
	_, err := tx.Exec(ctx, `
		UPDATE repohost_deliveries SET finished_at = $2,
			status = CASE WHEN EXISTS (SELECT 1 FROM repohost_attempts a WHERE a.delivery_id = $1 AND a.status = 'failed')
				THEN 'failed' ELSE 'done' END
		WHERE id = $1 AND status = 'processing'
			AND NOT EXISTS (SELECT 1 FROM repohost_attempts a WHERE a.delivery_id = $1 AND a.status = 'queued')`,
		id, store.Micros(store.Now()))
	return err
}

// closeOrphanedDeliveries finishes deliveries whose attempts were deleted with their
// connection.
func closeOrphanedDeliveries(ctx context.Context, tx *store.Tx, fullName string) error {
	_, err := tx.Exec(ctx, `
		UPDATE repohost_deliveries SET finished_at = $2, status = 'done'
		WHERE repo_key = $1 AND status = 'processing'
			AND NOT EXISTS (SELECT 1 FROM repohost_attempts a WHERE a.delivery_id = repohost_deliveries.id)`,
		repoKey(fullName), store.Micros(store.Now()))
	return err
}

// deleteDeliveriesBefore applies the retention. Attempts keep the id of a deleted
// delivery, which isn't a foreign key for this reason.
func deleteDeliveriesBefore(ctx context.Context, q store.Querier, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM repohost_deliveries WHERE received_at < $1`, store.Micros(before))
	return err
}
