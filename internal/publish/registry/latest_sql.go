package registry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// latestVersions reads copies of the current version's columns, and so a single table.
func latestVersions(ctx context.Context, q store.Querier, orgID string, entryIDs []string) (map[string]Latest, error) {
	in, list := q.Dialect().In("$2", entryIDs)
	rows, err := q.Query(ctx, `
		SELECT e.id, e.name, e.current_version_id, e.current_version, e.current_hash, e.org_id = $1 FROM registry_entries e
		WHERE e.id`+in+` AND e.current_version_id <> '' AND (e.org_id = $1 OR e.visibility IN ('public', 'unlisted'))`,
		orgID, list)
	latest := map[string]Latest{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var l Latest
		err := row.Scan(&id, &l.Name, &l.VersionID, &l.Version, &l.Hash, &l.Own)
		latest[id] = l
		return err
	})
	return latest, err
}

func currentSince(ctx context.Context, q store.Querier, entryIDs []string) (map[string]time.Time, error) {
	in, list := q.Dialect().In("$1", entryIDs)
	rows, err := q.Query(ctx, `SELECT entry_id, MAX(since) FROM registry_currents WHERE entry_id`+in+` GROUP BY entry_id`, list)
	since := map[string]time.Time{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var at time.Time
		err := row.Scan(&id, store.Time(&at))
		since[id] = at
		return err
	})
	return since, err
}

func knownVersions(ctx context.Context, q store.Querier, contents []Content) (map[Content]string, error) {
	known := map[Content]string{}
	if len(contents) == 0 {
		return known, nil
	}
	have := make([][2]string, len(contents))
	for i, c := range contents {
		have[i] = [2]string{c.EntryID, c.Hash}
	}
	pairs, list := q.Dialect().Pairs("$1", have)
	// Later pushes overwrite earlier ones in the map, hence the order.
	rows, err := q.Query(ctx, `
		SELECT v.entry_id, v.content_hash, v.version FROM `+pairs+`
		JOIN registry_versions v ON v.entry_id = pairs.a AND v.content_hash = pairs.b ORDER BY v.pushed_at, v.id`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var c Content
		var version string
		err := row.Scan(&c.EntryID, &c.Hash, &version)
		known[c] = version
		return err
	})
	return known, err
}

// textsOfVersions reads a text column of versions, by version id.
func textsOfVersions(ctx context.Context, q store.Querier, column string, versionIDs []string) (map[string]string, error) {
	texts := map[string]string{}
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `SELECT id, `+column+` FROM registry_versions WHERE id`+in, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var id, text string
		err := row.Scan(&id, &text)
		texts[id] = text
		return err
	})
	return texts, err
}

// CountInstallation increments how many users have installed an entry. The caller has
// locked the entry.
func (s *Service) CountInstallation(ctx context.Context, tx *store.Tx, e Entry) error {
	_, err := tx.Exec(ctx, `
		UPDATE registry_entries SET installation_count = installation_count + 1 WHERE org_id = $1 AND id = $2`, e.OrgID, e.ID)
	return err
}
