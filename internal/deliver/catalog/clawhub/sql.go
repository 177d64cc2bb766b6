package clawhub

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// maxPublishers is how many organisations an ambiguous handle names.
const maxPublishers = 10

// publishersOf names the organisations with a handle, in whatever case, that have
// a public or unlisted skill of that name. Two branches of a UNION, since each
// visibility has a partial index of its own.
func publishersOf(ctx context.Context, q store.Querier, slug, handle string) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT o.name FROM (
			SELECT e.org_id FROM registry_entries e WHERE e.visibility = 'public' AND e.name = $1 AND e.current_version_id <> ''
			UNION ALL SELECT e.org_id FROM registry_entries e
			WHERE e.visibility = 'unlisted' AND e.name = $1 AND e.current_version_id <> '') found
		JOIN organisations o ON o.id = found.org_id WHERE lower(o.name) = lower($2)
		ORDER BY o.name LIMIT $3`,
		slug, handle, maxPublishers)
	return store.All(rows, err, store.Value[string])
}

// A note is what is said about a version.
type note struct {
	id, version string
	pushedAt    time.Time
	summary     *string
}

func scanNote(row store.Row) (n note, err error) {
	err = row.Scan(&n.id, &n.version, store.Time(&n.pushedAt), &n.summary)
	return n, err
}

// notesOf reads the notes of versions, by version id.
func notesOf(ctx context.Context, q store.Querier, versionIDs []string) (map[string]note, error) {
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `SELECT v.id, v.version, v.pushed_at, v.change_summary FROM registry_versions v WHERE v.id`+in, list)
	notes := map[string]note{}
	err = store.Each(rows, err, func(row store.Row) error {
		n, err := scanNote(row)
		notes[n.id] = n
		return err
	})
	return notes, err
}

// notesAfter reads a page of an entry's published versions, newest push first, after the
// version that was pushed at a time with an id.
func notesAfter(ctx context.Context, q store.Querier, entryID string, pushed int64, id string, limit int) ([]note, error) {
	rows, err := q.Query(ctx, `
		SELECT v.id, v.version, v.pushed_at, v.change_summary FROM registry_versions v
		WHERE v.entry_id = $1 AND v.state = 'published' AND (v.pushed_at, v.id) < ($2, $3)
		ORDER BY v.pushed_at DESC, v.id DESC LIMIT $4`, entryID, pushed, id, limit)
	return store.All(rows, err, scanNote)
}

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
		INSERT INTO clawhub_uploads (id, org_id, user_id, sha256, size, received, created_at) VALUES ($1, $2, $3, $4, $5, FALSE, $6)`,
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
