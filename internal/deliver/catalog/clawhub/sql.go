package clawhub

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// An upload is a file on its way to a version.
type upload struct {
	id, orgID, userID string
	sha256            string
	size              int64
	received          bool
	createdAt         time.Time
}

// insertUpload announces a file, of which nothing has arrived yet.
func insertUpload(ctx context.Context, q store.Querier, u upload) error {
	_, err := q.Exec(ctx, `
		INSERT INTO clawhub_uploads (id, org_id, user_id, sha256, size, received, created_at)
			VALUES ($1, $2, $3, $4, $5, FALSE, $6)`,
		u.id, u.orgID, u.userID, u.sha256, u.size, store.Micros(u.createdAt))
	return err
}

// pendingUploads counts the files of an organisation, and their bytes. Announced
// bytes count, too, so that announcing alone cannot exceed the limit.
func pendingUploads(ctx context.Context, q store.Querier, orgID string, since time.Time) (files int, bytes int64, err error) {
	rows, err := q.Query(ctx, `
		SELECT COUNT(*), COALESCE(CAST(SUM(size) AS BIGINT), 0) FROM clawhub_uploads WHERE org_id = $1 AND created_at > $2`,
		orgID, store.Micros(since))
	_, err = store.One(rows, err, "Uploads", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(&files, &bytes)
	})
	return files, bytes, err
}

// uploadsByID reads a user's uploads, by id. The user is part of the condition: an
// id that leaked is useless to others.
func uploadsByID(
	ctx context.Context, q store.Querier, orgID, userID string, ids []string, since time.Time,
) (map[string]upload, error) {
	in, list := q.Dialect().In("$4", ids)
	rows, err := q.Query(ctx, `
		SELECT id, org_id, user_id, sha256, size, received, created_at FROM clawhub_uploads
		WHERE org_id = $1 AND user_id = $2 AND created_at > $3 AND id`+in, orgID, userID, store.Micros(since), list)
	uploads := map[string]upload{}
	err = store.Each(rows, err, func(row store.Row) error {
		var u upload
		err := row.Scan(&u.id, &u.orgID, &u.userID, &u.sha256, &u.size, &u.received, store.Time(&u.createdAt))
		uploads[u.id] = u
		return err
	})
	return uploads, err
}

// setReceived may run twice, when a client sends the file again.
func setReceived(ctx context.Context, q store.Querier, u upload) error {
	_, err := q.Exec(ctx, `UPDATE clawhub_uploads SET received = TRUE WHERE org_id = $1 AND id = $2`, u.orgID, u.id)
	return err
}

func deleteUploads(ctx context.Context, q store.Querier, orgID string, ids []string) error {
	in, list := q.Dialect().In("$2", ids)
	_, err := q.Exec(ctx, `DELETE FROM clawhub_uploads WHERE org_id = $1 AND id`+in, orgID, list)
	return err
}

// expireUploads deletes rows only; the sweep then finds their blobs unreferenced.
func expireUploads(ctx context.Context, q store.Querier, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM clawhub_uploads WHERE created_at <= $1`, store.Micros(before))
	return err
}
