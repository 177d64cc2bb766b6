package registry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// own restricts a query to entries of the organisation named $1.
const own = `e.org_id = (SELECT o.id FROM organisations o WHERE o.name = $1) AND `

// condition selects the entries on the shelf of organisation $1. On the host's own shelf,
// each name belongs to one organisation (see claimName).
func (sh Shelf) condition() string {
	switch {
	case sh.OrgName == "":
		return `$1 = '' AND e.visibility = 'public'
			AND EXISTS (SELECT 1 FROM registry_names n WHERE n.name = e.name AND n.org_id = e.org_id)`
	case sh.Private:
		return own + `e.visibility IN ('public', 'org')`
	}
	return own + `e.visibility = 'public'`
}

// reachable selects the entries that a lookup by name finds: those on the shelf, and
// unlisted ones of the organisation.
func (sh Shelf) reachable() string {
	if sh.OrgName == "" {
		return sh.condition()
	}
	return `(` + sh.condition() + ` OR ` + own + `e.visibility = 'unlisted')`
}

// shelfTables joins entries with their current versions: an entry without one is on no
// shelf.
const shelfTables = `registry_entries e JOIN registry_versions v ON v.id = e.current_version_id`

// skillsNamed finds the skill of a name, unlisted or not; none or one.
func skillsNamed(ctx context.Context, q store.Querier, sh Shelf, name string) ([]Listed, error) {
	rows, err := q.Query(ctx, `
		SELECT `+listedColumns+`, v.archive_key FROM `+shelfTables+`
		WHERE `+sh.reachable()+` AND e.name = $2 AND e.entry_type = 'skill' AND v.canonical_hash IS NOT NULL
		LIMIT 1`, sh.OrgName, name)
	return store.All(rows, err, func(row store.Row) (l Listed, err error) {
		err = row.Scan(append(listedTargets(&l), &l.Current.archiveKey)...)
		return l, err
	})
}

// eachOnShelf calls fn for the skills of a shelf. Organisations take turns, oldest skill
// first, so that one with many skills can't crowd others out of a full index.
func eachOnShelf(ctx context.Context, q store.Querier, sh Shelf, limit int, fn func(l Listed, paths string) error) error {
	rows, err := q.Query(ctx, `
		SELECT `+listedColumns+`, v.archive_key, v.file_paths
		FROM (SELECT chosen.id, ROW_NUMBER() OVER (PARTITION BY chosen.org_id ORDER BY chosen.id) AS turn FROM (
				SELECT e.id, e.org_id FROM `+shelfTables+`
				WHERE `+sh.condition()+` AND e.entry_type = 'skill' AND v.canonical_hash IS NOT NULL) chosen
			ORDER BY turn, chosen.id LIMIT $2) shelf
		JOIN registry_entries e ON e.id = shelf.id JOIN registry_versions v ON v.id = e.current_version_id
		ORDER BY shelf.turn, shelf.id`, sh.OrgName, limit)
	return store.Each(rows, err, func(row store.Row) error {
		var l Listed
		var paths string
		if err := row.Scan(append(listedTargets(&l), &l.Current.archiveKey, &paths)...); err != nil {
			return err
		}
		return fn(l, paths)
	})
}

// eachSelected is eachOnShelf for a shelf of sets, with the versions that they give.
func eachSelected(ctx context.Context, q store.Querier, sh Shelf, only Selection, fn func(l Listed, paths string) error) error {
	var versions []string
	for _, s := range only {
		if s.VersionID != "" {
			versions = append(versions, s.VersionID)
		}
	}
	in, list := q.Dialect().In("$2", versions)
	rows, err := q.Query(ctx, `
		SELECT `+listedColumns+`, v.archive_key, v.file_paths
		FROM registry_entries e JOIN registry_versions v ON v.entry_id = e.id
		WHERE `+sh.condition()+` AND e.entry_type = 'skill' AND v.canonical_hash IS NOT NULL AND v.state = 'published'
			AND v.id`+in+`
		ORDER BY e.id`, sh.OrgName, list)
	return store.Each(rows, err, func(row store.Row) error {
		var l Listed
		var paths string
		if err := row.Scan(append(listedTargets(&l), &l.Current.archiveKey, &paths)...); err != nil {
			return err
		}
		return fn(l, paths)
	})
}

// RevisionOf is Service.ShelfRevision inside a transaction. It sums the counters of the
// shelf's organisations.
func RevisionOf(ctx context.Context, q store.Querier, sh Shelf) (Revision, error) {
	rows, err := q.Query(ctx, `
		SELECT COUNT(*), COALESCE(CAST(SUM(c.changes) AS BIGINT), 0), COALESCE(CAST(SUM(c.removals) AS BIGINT), 0)
		FROM registry_changes c
		WHERE $1 = '' OR c.org_id = (SELECT o.id FROM organisations o WHERE o.name = $1)`, sh.OrgName)
	return store.One(rows, err, "Changes", func(row store.Row) (r Revision, err error) {
		err = row.Scan(&r.Orgs, &r.Changes, &r.Removals)
		return r, err
	})
}

// A canonical archive is that of a published version.
type canonical struct{ version, key string }

// canonicalsByHash finds published versions by the hash of their canonical archive: several may
// have the same files.
func canonicalsByHash(ctx context.Context, q store.Querier, e Entry, hash string) ([]canonical, error) {
	rows, err := q.Query(ctx, `SELECT v.version, v.canonical_key`+ofEntry+`
		AND v.canonical_hash = $3 AND v.state = 'published' ORDER BY v.id`, e.OrgID, e.ID, hash)
	return store.All(rows, err, func(row store.Row) (c canonical, err error) {
		err = row.Scan(&c.version, &c.key)
		return c, err
	})
}
