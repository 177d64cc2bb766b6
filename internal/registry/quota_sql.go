package registry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Stored says how the archives of organisations are counted anew: each content
// once for each of them.
func Stored() quota.Count {
	return quota.Count{Kind: quota.Registry, SQL: `
		SELECT org_id, CAST(SUM(size) AS BIGINT) AS bytes FROM (
			SELECT DISTINCT e.org_id, v.content_hash, v.size
			FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id) AS archives
		GROUP BY org_id`}
}

// countContent counts the versions of the organisation that have a content.
func countContent(ctx context.Context, q store.Querier, orgID, hash string) (int, error) {
	rows, err := q.Query(ctx, `
		SELECT COUNT(*) FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
		WHERE v.content_hash = $1 AND e.org_id = $2`, hash, orgID)
	return store.One(rows, err, "Count", store.Value[int])
}

// contentsOf returns the sizes of an entry's contents by their hashes.
func contentsOf(ctx context.Context, tx *store.Tx, entryID string) (map[string]int64, error) {
	sizes := map[string]int64{}
	rows, err := tx.Query(ctx, `SELECT content_hash, size FROM registry_versions WHERE entry_id = $1`, entryID)
	err = store.Each(rows, err, func(row store.Row) error {
		var hash string
		var size int64
		err := row.Scan(&hash, &size)
		sizes[hash] = size
		return err
	})
	return sizes, err
}

// contentsAmong returns those of some contents that the organisation has.
func contentsAmong(ctx context.Context, tx *store.Tx, orgID string, hashes []string) ([]string, error) {
	in, list := tx.Dialect().In("$2", hashes)
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT v.content_hash FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
		WHERE e.org_id = $1 AND v.content_hash`+in, orgID, list)
	return store.All(rows, err, store.Value[string])
}
