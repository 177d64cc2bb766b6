package installations

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Holding counts the installations of an organisation's entry that have the
// content of a version, and names the devices of some. Those of other
// organisations are not its business.
func (s *Service) Holding(
	ctx context.Context, q store.Querier, orgID, entryID, versionID string, limit int,
) (total int64, some []string, err error) {
	const holding = ` FROM registry_installations i JOIN registry_versions v ON v.id = $3
		WHERE i.org_id = $1 AND i.entry_id = $2 AND i.content_hash IN (v.content_hash, COALESCE(v.canonical_hash,
			v.content_hash))`
	rows, err := q.Query(ctx, `SELECT COUNT(*)`+holding, orgID, entryID, versionID)
	total, err = store.One(rows, err, "Count", store.Value[int64])
	if err != nil || total == 0 {
		return total, nil, err
	}
	rows, err = q.Query(ctx, `
		SELECT COALESCE(NULLIF(i.device_id, ''), 'an unnamed device')`+holding+` ORDER BY i.device_id, i.id LIMIT $4`,
		orgID, entryID, versionID, limit)
	some, err = store.All(rows, err, store.Value[string])
	return total, some, err
}

// clientsOf reads which clients have installed an entry.
func clientsOf(ctx context.Context, q store.Querier, entryID string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT DISTINCT client FROM registry_installations WHERE entry_id = $1 AND client <> ''`, entryID)
	return store.All(rows, err, store.Value[string])
}
