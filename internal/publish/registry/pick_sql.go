package registry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// IDsByName returns the ids of entries of the organisation by their names. Unknown names are
// missing.
func IDsByName(ctx context.Context, q store.Querier, orgID string, names []string) (map[string]string, error) {
	in, list := q.Dialect().In("$2", names)
	rows, err := q.Query(ctx, `SELECT e.name, e.id FROM registry_entries e WHERE e.org_id = $1 AND e.name`+in, orgID, list)
	ids := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var name, id string
		err := row.Scan(&name, &id)
		ids[name] = id
		return err
	})
	return ids, err
}

// currentPicks returns the current versions of entries of the organisation.
func currentPicks(ctx context.Context, q store.Querier, orgID string, entryIDs []string) (map[string]Pick, error) {
	in, list := q.Dialect().In("$2", entryIDs)
	rows, err := q.Query(ctx, `
		SELECT e.id, e.name, e.current_version_id, e.current_version, e.current_hash, COALESCE(v.canonical_hash, '')
		FROM registry_entries e LEFT JOIN registry_versions v ON v.id = e.current_version_id
		WHERE e.org_id = $1 AND e.id`+in, orgID, list)
	picks := map[string]Pick{}
	err = store.Each(rows, err, func(row store.Row) error {
		p, err := scanPick(row)
		picks[p.EntryID] = p
		return err
	})
	return picks, err
}

// publishedPicks returns the published versions of entries, the newest push first.
func publishedPicks(ctx context.Context, q store.Querier, orgID string, entryIDs []string) (map[string][]Pick, error) {
	picks := map[string][]Pick{}
	if len(entryIDs) == 0 {
		return picks, nil
	}
	in, list := q.Dialect().In("$2", entryIDs)
	rows, err := q.Query(ctx, `
		SELECT v.entry_id, e.name, v.id, v.version, v.content_hash, COALESCE(v.canonical_hash, '')
		FROM registry_entries e JOIN registry_versions v ON v.entry_id = e.id
		WHERE e.org_id = $1 AND e.id`+in+` AND v.state = 'published' AND (NOT v.rolled_back OR v.id = e.current_version_id)
		ORDER BY v.pushed_at DESC, v.id DESC`, orgID, list)
	err = store.Each(rows, err, func(row store.Row) error {
		p, err := scanPick(row)
		picks[p.EntryID] = append(picks[p.EntryID], p)
		return err
	})
	return picks, err
}

func scanPick(row store.Row) (p Pick, err error) {
	err = row.Scan(&p.EntryID, &p.Name, &p.VersionID, &p.Version, &p.Hash, &p.CanonicalHash)
	return p, err
}
