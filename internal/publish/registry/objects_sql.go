package registry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// referredKeys returns the keys that a version refers to.
func referredKeys(ctx context.Context, q store.Querier, keys []string) ([]string, error) {
	in, list := q.Dialect().In("$1", keys)
	rows, err := q.Query(ctx, `
		SELECT archive_key FROM registry_versions WHERE archive_key`+in+`
		UNION SELECT canonical_key FROM registry_versions WHERE canonical_key`+in, list)
	return store.All(rows, err, store.Value[string])
}

// eachKey calls fn for every key that a version refers to.
func eachKey(ctx context.Context, q store.Querier, fn func(key string) error) error {
	rows, err := q.Query(ctx, `
		SELECT archive_key FROM registry_versions
		UNION SELECT canonical_key FROM registry_versions WHERE canonical_key IS NOT NULL`)
	return store.Each(rows, err, func(row store.Row) error {
		key, err := store.Value[string](row)
		if err != nil {
			return err
		}
		return fn(key)
	})
}

// objectsOfEntry returns the keys of an entry's objects, and the bytes to subtract from
// the quota.
func objectsOfEntry(ctx context.Context, tx *store.Tx, entryID string) (keys []string, size int64, err error) {
	rows, err := tx.Query(ctx, `SELECT archive_key, canonical_key, size FROM registry_versions WHERE entry_id = $1`, entryID)
	err = store.Each(rows, err, func(row store.Row) error {
		var v Version
		err := row.Scan(&v.archiveKey, &v.canonicalKey, &v.Size)
		keys, size = append(keys, v.objectKeys()...), size+v.Size
		return err
	})
	return keys, size, err
}

// archiveBytes sums the archives per organisation, for the quota's recount.
const archiveBytes = `
	SELECT e.org_id, CAST(SUM(v.size) AS BIGINT) AS bytes
	FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id GROUP BY e.org_id`
