package treehash

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Insert stores the hashes of a version. It's idempotent, for the backfill.
func Insert(ctx context.Context, tx *store.Tx, entryID, versionID string, hashes []Hash) error {
	if len(hashes) == 0 {
		return nil
	}
	kinds, hexes := make([]string, len(hashes)), make([]string, len(hashes))
	for i, h := range hashes {
		kinds[i], hexes[i] = string(h.Kind), h.Hex
	}
	_, err := store.Bulk{
		Table: "registry_tree_hashes",
		Columns: []store.Column{
			store.Col("kind", kinds), store.Col("hash", hexes),
			store.Col("entry_id", slices.Repeat([]string{entryID}, len(hashes))),
			store.Col("version_id", slices.Repeat([]string{versionID}, len(hashes))),
		},
		OnConflict: "ON CONFLICT (kind, hash, entry_id, version_id) DO NOTHING",
	}.Insert(ctx, tx)
	return err
}

// Copy gives a version the hashes of another with the same files.
func Copy(ctx context.Context, q store.Querier, from, to string) error {
	_, err := q.Exec(ctx, `
		INSERT INTO registry_tree_hashes (kind, hash, entry_id, version_id)
		SELECT h.kind, h.hash, h.entry_id, CAST($2 AS TEXT) FROM registry_tree_hashes h WHERE h.version_id = $1`, from, to)
	return err
}

// Find names the newest version of an entry whose files have the hash; candidates are
// ignored. A missing one is fault.NotFound.
func Find(ctx context.Context, q store.Querier, entryID string, h Hash) (version string, err error) {
	rows, err := q.Query(ctx, `
		SELECT v.version FROM registry_tree_hashes h JOIN registry_versions v ON v.id = h.version_id
		WHERE h.kind = $1 AND h.hash = $2 AND h.entry_id = $3 AND v.state <> 'candidate'
		ORDER BY v.pushed_at DESC, v.id DESC LIMIT 1`, h.Kind, h.Hex, entryID)
	return store.One(rows, err, "Version", store.Value[string])
}

// OfVersions returns the hash of one kind by version id. Versions that the backfill
// hasn't reached are left out.
func OfVersions(ctx context.Context, q store.Querier, kind Kind, versionIDs []string) (map[string]string, error) {
	in, list := q.Dialect().In("$2", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT version_id, hash FROM registry_tree_hashes WHERE version_id`+in+` AND kind = $1`, kind, list)
	hashes := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id, hash string
		err := row.Scan(&id, &hash)
		hashes[id] = hash
		return err
	})
	return hashes, err
}

// A Lacking is a version from before hashes were stored.
type Lacking struct{ OrgID, EntryID, Name, VersionID string }

// NextLacking returns the next versions for the backfill; none at the end.
func NextLacking(ctx context.Context, q store.Querier, limit int) ([]Lacking, error) {
	rows, err := q.Query(ctx, `
		SELECT e.org_id, v.entry_id, e.name, v.id FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
		WHERE v.id > (SELECT after_id FROM registry_tree_backfill) ORDER BY v.id LIMIT $1`, limit)
	return store.All(rows, err, func(row store.Row) (l Lacking, err error) {
		err = row.Scan(&l.OrgID, &l.EntryID, &l.Name, &l.VersionID)
		return l, err
	})
}

// SetSeen advances the backfill's cursor.
func SetSeen(ctx context.Context, q store.Querier, versionID string) error {
	_, err := q.Exec(ctx, `UPDATE registry_tree_backfill SET after_id = $1`, versionID)
	return err
}

// SetDone marks the backfill as complete, by deleting the cursor.
func SetDone(ctx context.Context, q store.Querier) error {
	_, err := q.Exec(ctx, `DELETE FROM registry_tree_backfill`)
	return err
}

// Lacks reports whether the backfill isn't complete yet.
func Lacks(ctx context.Context, q store.Querier) (bool, error) {
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT 1 FROM registry_tree_backfill)`)
	return store.One(rows, err, "Backfill", store.Value[bool])
}
