package privacy

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const exportColumns = `id, org_id, created_by, state, row_count, blob_count, size, sha256, created_at, finished_at,
	expires_at, error`

func scanExport(row store.Row) (e Export, err error) {
	err = row.Scan(&e.ID, &e.OrgID, &e.CreatedBy, &e.State, &e.Rows, &e.Blobs, &e.Size, &e.SHA256,
		store.Time(&e.CreatedAt), store.NullTime(&e.FinishedAt), store.NullTime(&e.ExpiresAt), &e.Error)
	return e, err
}

func insertExport(ctx context.Context, q store.Querier, e Export) error {
	_, err := q.Exec(ctx, `
		INSERT INTO organisation_exports (`+exportColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		e.ID, e.OrgID, e.CreatedBy, e.State, e.Rows, e.Blobs, e.Size, e.SHA256,
		store.Micros(e.CreatedAt), store.NullMicros(e.FinishedAt), store.NullMicros(e.ExpiresAt), e.Error)
	return err
}

// updateExport reports whether the export is there and not done yet.
func updateExport(ctx context.Context, q store.Querier, e Export) (bool, error) {
	n, err := q.Exec(ctx, `
		UPDATE organisation_exports SET state = $3, row_count = $4, blob_count = $5, size = $6, sha256 = $7, finished_at = $8,
			expires_at = $9, error = $10
		WHERE org_id = $1 AND id = $2 AND state IN ('queued', 'running')`,
		e.OrgID, e.ID, e.State, e.Rows, e.Blobs, e.Size, e.SHA256, store.NullMicros(e.FinishedAt),
		store.NullMicros(e.ExpiresAt), e.Error)
	return n == 1, err
}

func exportByID(ctx context.Context, q store.Querier, orgID, id string) (Export, error) {
	rows, err := q.Query(ctx, `SELECT `+exportColumns+` FROM organisation_exports WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Export", scanExport)
}

func newestExport(ctx context.Context, q store.Querier, orgID string) (Export, error) {
	rows, err := q.Query(ctx, `
		SELECT `+exportColumns+` FROM organisation_exports WHERE org_id = $1 ORDER BY id DESC LIMIT 1`, orgID)
	return store.One(rows, err, "Export", scanExport)
}

// lockOrg keeps two exports of an organisation from being started at the same time.
func lockOrg(ctx context.Context, tx *store.Tx, orgID string) (name string, err error) {
	rows, err := tx.Query(ctx, `SELECT name FROM organisations WHERE id = $1 AND deleted_at IS NULL`+tx.Dialect().ForUpdate(),
		orgID)
	return store.One(rows, err, "Organisation", store.Value[string])
}

// supersededExports returns the finished exports of an organisation that are not the
// newest one.
func supersededExports(ctx context.Context, q store.Querier, orgID string) ([]Export, error) {
	rows, err := q.Query(ctx, `
		SELECT `+exportColumns+` FROM organisation_exports
		WHERE org_id = $1 AND state IN ('done', 'failed', 'expired')
			AND id < (SELECT MAX(id) FROM organisation_exports WHERE org_id = $1 AND state = 'done')`, orgID)
	return store.All(rows, err, scanExport)
}

func expiredExports(ctx context.Context, q store.Querier, now time.Time) ([]Export, error) {
	rows, err := q.Query(ctx, `
		SELECT `+exportColumns+` FROM organisation_exports WHERE state = 'done' AND expires_at <= $1`, store.Micros(now))
	return store.All(rows, err, scanExport)
}

func setExpired(ctx context.Context, q store.Querier, e Export) error {
	_, err := q.Exec(ctx, `UPDATE organisation_exports SET state = 'expired' WHERE id = $1 AND state = 'done'`, e.ID)
	return err
}

// failStale says of exports that they will not come.
func failStale(ctx context.Context, q store.Querier, before time.Time) error {
	_, err := q.Exec(ctx, `
		UPDATE organisation_exports SET state = 'failed', finished_at = $2, error = $3
		WHERE state IN ('queued', 'running') AND created_at < $1`, store.Micros(before), store.Micros(store.Now()), staleError)
	return err
}

func deleteExport(ctx context.Context, q store.Querier, e Export) error {
	_, err := q.Exec(ctx, `DELETE FROM organisation_exports WHERE id = $1`, e.ID)
	return err
}

func deleteExportsBefore(ctx context.Context, q store.Querier, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM organisation_exports WHERE created_at < $1`, store.Micros(before))
	return err
}

func insertDeletion(ctx context.Context, q store.Querier, orgID string, at time.Time) error {
	_, err := q.Exec(ctx, `
		INSERT INTO organisation_deletions (id, requested_at, row_count, blob_count) VALUES ($1, $2, 0, 0)`, orgID,
		store.Micros(at))
	return err
}

// A deletion is an organisation that deleted itself.
type deletion struct {
	orgID       string
	requestedAt time.Time
	finishedAt  *time.Time
}

func scanDeletion(row store.Row) (d deletion, err error) {
	err = row.Scan(&d.orgID, store.Time(&d.requestedAt), store.NullTime(&d.finishedAt))
	return d, err
}

func deletionByID(ctx context.Context, q store.Querier, orgID string) (deletion, error) {
	rows, err := q.Query(ctx, `SELECT id, requested_at, finished_at FROM organisation_deletions WHERE id = $1`, orgID)
	return store.One(rows, err, "Deletion", scanDeletion)
}

// deletionsSince returns those that were asked for since, or are not finished.
func deletionsSince(ctx context.Context, q store.Querier, since time.Time) ([]deletion, error) {
	rows, err := q.Query(ctx, `
		SELECT id, requested_at, finished_at FROM organisation_deletions
		WHERE requested_at >= $1 OR finished_at IS NULL`, store.Micros(since))
	return store.All(rows, err, scanDeletion)
}

func countDeleted(ctx context.Context, q store.Querier, orgID string, rows, blobs int64) error {
	_, err := q.Exec(ctx, `
		UPDATE organisation_deletions SET row_count = row_count + $2, blob_count = blob_count + $3 WHERE id = $1`,
		orgID, rows, blobs)
	return err
}

func finishDeletion(ctx context.Context, q store.Querier, orgID string, at time.Time) error {
	_, err := q.Exec(ctx, `
		UPDATE organisation_deletions SET finished_at = $2 WHERE id = $1 AND finished_at IS NULL`, orgID, store.Micros(at))
	return err
}

// isOpen reports whether the organisation is there and was not deleted.
func isOpen(ctx context.Context, q store.Querier, orgID string) (bool, error) {
	n, err := store.Count(ctx, q, `FROM organisations WHERE id = $1 AND deleted_at IS NULL`, orgID)
	return n > 0, err
}

// eachBlob calls fn with the keys of the blobs of an organisation's rows of a table.
func eachBlob(ctx context.Context, q store.Querier, t table, condition, orgID string, fn func(key string) error) error {
	for _, key := range t.blobs {
		rows, err := q.Query(ctx, fmt.Sprintf(`SELECT DISTINCT %s FROM %s WHERE (%s) AND %s IS NOT NULL`, key, t.Name,
			condition, key), orgID)
		err = store.Each(rows, err, func(row store.Row) error {
			key, err := store.Value[string](row)
			if err != nil || key == "" {
				return err
			}
			return fn(key)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sharedBlobs returns those of the keys that rows of other organisations refer to.
func sharedBlobs(ctx context.Context, q store.Querier, t table, orgID string, keys []string) (map[string]bool, error) {
	shared := map[string]bool{}
	in, list := q.Dialect().In("$2", keys)
	for _, key := range t.blobs {
		rows, err := q.Query(ctx, fmt.Sprintf(`SELECT %s FROM %s WHERE %s%s AND NOT (%s)`, key, t.Name, key, in, t.delete),
			orgID, list)
		err = store.Each(rows, err, func(row store.Row) error {
			key, err := store.Value[string](row)
			shared[key] = true
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return shared, nil
}
