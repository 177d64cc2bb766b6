package resolve

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// The columns of a match. visible restricts to what organisation $1 may see: its own
// versions, and others' that are or were published.
const (
	matchColumns = `e.id AS entry_id, e.name, o.name AS organisation, e.org_id = $1 AS own, e.visibility = 'unlisted' AS unlisted,
		v.version, v.content_hash, v.state, e.current_version, e.current_hash, v.id = e.current_version_id AS is_current,
			v.pushed_at`
	matchNames = `entry_id, name, organisation, own, unlisted, version, content_hash, state, current_version, current_hash,
		is_current, pushed_at`
	visible = ` AND (e.org_id = $1 OR e.visibility IN ('public', 'unlisted') AND e.current_version_id <> ''
		AND v.state <> 'candidate')`
	// most is how many versions with the same files are considered per hash. Anyone may
	// publish copies of somebody's skill in bulk; own and current versions are considered
	// first.
	most = 50
)

// entryOf joins a version's entry and organisation.
func entryOf(d store.Dialect) string {
	return d.Lookup("registry_entries", "e", "e.id = v.entry_id") + d.Lookup("organisations", "o", "o.id = e.org_id")
}

// scanMatch reads the columns in also before those of the match.
func scanMatch(row store.Row, also ...any) (m match, err error) {
	err = row.Scan(append(also, &m.entryID, &m.name, &m.organisation, &m.own, &m.unlisted, &m.version, &m.hash, &m.state,
		&m.latest, &m.latestHash, &m.current, &m.pushed)...)
	return m, err
}

// versionsByHash finds the versions with the items' hashes.
func versionsByHash(ctx context.Context, q store.Querier, orgID string, items []Item) (map[treehash.Hash][]match, error) {
	var pairs [][2]string
	for _, h := range hashesOf(items) {
		pairs = append(pairs, [2]string{string(h.Kind), h.Hex})
	}
	found := map[treehash.Hash][]match{}
	if len(pairs) == 0 {
		return found, nil
	}
	d := q.Dialect()
	table, list := d.Pairs("$2", pairs)
	// Each arm of the UNION can use an index. 'g' sorts after all hex digits, so the
	// range matches a prefix.
	rows, err := q.Query(ctx, `
		WITH wanted AS (SELECT DISTINCT pairs.a AS kind, pairs.b AS hash FROM `+table+`),
		hit AS (
			SELECT w.kind, w.hash, h.version_id FROM wanted w`+
		d.Lookup("registry_tree_hashes", "h", "h.kind = w.kind AND h.hash = w.hash")+`
			UNION SELECT w.kind, w.hash, h.version_id FROM (SELECT * FROM wanted WHERE kind = 'plugin-zip'
				AND LENGTH(hash) < 64) w`+
		d.Lookup("registry_tree_hashes", "h", "h.kind = w.kind AND h.hash >= w.hash AND h.hash < w.hash || 'g'")+`
			UNION SELECT w.kind, w.hash, v.id FROM (SELECT * FROM wanted WHERE kind = 'archive') w`+
		d.Lookup("registry_versions", "v", "v.content_hash = w.hash")+`
			UNION SELECT w.kind, w.hash, v.id FROM (SELECT * FROM wanted WHERE kind = 'archive') w`+
		d.Lookup("registry_versions", "v", "v.canonical_hash = w.hash")+`
		),
		ranked AS (
			SELECT hit.kind, hit.hash, `+matchColumns+`, ROW_NUMBER() OVER (PARTITION BY hit.kind, hit.hash
				ORDER BY e.org_id <> $1, e.current_version_id <> v.id, v.pushed_at DESC, v.id) AS place
			FROM hit`+d.Lookup("registry_versions", "v", "v.id = hit.version_id")+entryOf(d)+` WHERE TRUE`+visible+`
		)
		SELECT kind, hash, `+matchNames+` FROM ranked WHERE place <= $3`, orgID, list, most)
	err = store.Each(rows, err, func(row store.Row) error {
		var h treehash.Hash
		m, err := scanMatch(row, &h.Kind, &h.Hex)
		found[h] = append(found[h], m)
		return err
	})
	return found, err
}

// hashesOf returns all hashes of the items; duplicates are removed by the query.
func hashesOf(items []Item) (all []treehash.Hash) {
	for _, i := range items {
		all = append(all, i.Hashes...)
	}
	return all
}

// names are the entries that items refer to, and the versions named of them.
type names struct {
	ownOrg   string            // id
	orgs     map[string]string // ids by name
	byID     map[string]match
	byName   map[[2]string]match // by organisation's id and name
	versions map[[2]string]match // by entry's id and version
}

// of returns the entry that an item refers to, by id or, if it's from here, by name.
func (n *names) of(i Item) (entry match, ok bool) {
	if entry, ok = n.byID[i.EntryID]; ok || !i.Here {
		return entry, ok
	}
	entry, ok = n.byName[n.key(i)]
	return entry, ok
}

// key is an item's organisation id and name.
func (n *names) key(i Item) [2]string {
	if i.Organisation == "" {
		return [2]string{n.ownOrg, i.Name}
	}
	return [2]string{n.orgs[i.Organisation], i.Name}
}

// entriesByName finds the entries that items refer to, and the versions named of them.
func entriesByName(ctx context.Context, q store.Querier, orgID string, items []Item) (*names, error) {
	n := &names{ownOrg: orgID, byID: map[string]match{}, byName: map[[2]string]match{}, versions: map[[2]string]match{}}
	var orgs, ids []string
	for _, i := range items {
		if i.Here && i.Organisation != "" {
			orgs = append(orgs, i.Organisation)
		}
		if i.EntryID != "" {
			ids = append(ids, i.EntryID)
		}
	}
	var err error
	if n.orgs, err = orgIDs(ctx, q, orgs); err != nil {
		return nil, err
	}
	var keys [][2]string
	for _, i := range items {
		if k := n.key(i); i.Here && k[0] != "" {
			keys = append(keys, k)
		}
	}
	if err := n.readEntries(ctx, q, ids, keys); err != nil {
		return nil, err
	}
	return n, n.readVersions(ctx, q, items)
}

// orgIDs returns the ids of organisations by name. Unknown names are left out.
func orgIDs(ctx context.Context, q store.Querier, names []string) (map[string]string, error) {
	ids := map[string]string{}
	if len(names) == 0 {
		return ids, nil
	}
	in, list := q.Dialect().In("$1", names)
	rows, err := q.Query(ctx, `SELECT name, id FROM organisations WHERE name`+in, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var name, id string
		err := row.Scan(&name, &id)
		ids[name] = id
		return err
	})
	return ids, err
}

// readEntries reads entries by id, and by organisation and name.
func (n *names) readEntries(ctx context.Context, q store.Querier, ids []string, keys [][2]string) error {
	if len(ids)+len(keys) == 0 {
		return nil
	}
	in, list := q.Dialect().In("$2", ids)
	pairs, keyList := q.Dialect().Pairs("$3", keys)
	rows, err := q.Query(ctx, `
		SELECT e.id, e.name, o.name, e.org_id = $1, e.visibility = 'unlisted', e.current_version, e.current_hash, e.org_id
		FROM registry_entries e JOIN organisations o ON o.id = e.org_id
		WHERE e.id IN (SELECT x.id FROM registry_entries x WHERE x.id`+in+`
				UNION SELECT x.id FROM `+pairs+` JOIN registry_entries x ON x.org_id = pairs.a AND x.name = pairs.b)
			AND (e.org_id = $1 OR e.visibility IN ('public', 'unlisted') AND e.current_version_id <> '')`,
		n.ownOrg, list, keyList)
	return store.Each(rows, err, func(row store.Row) error {
		var m match
		var orgID string
		err := row.Scan(&m.entryID, &m.name, &m.organisation, &m.own, &m.unlisted, &m.latest, &m.latestHash, &orgID)
		n.byID[m.entryID] = m
		n.byName[[2]string{orgID, m.name}] = m
		return err
	})
}

// readVersions reads the named versions of the items' entries.
func (n *names) readVersions(ctx context.Context, q store.Querier, items []Item) error {
	var keys [][2]string
	for _, i := range items {
		if e, ok := n.of(i); ok && i.Version != "" {
			keys = append(keys, [2]string{e.entryID, i.Version})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	pairs, list := q.Dialect().Pairs("$2", keys)
	rows, err := q.Query(ctx, `
		SELECT `+matchColumns+` FROM `+pairs+
		q.Dialect().Lookup("registry_versions", "v", "v.entry_id = pairs.a AND v.version = pairs.b")+entryOf(q.Dialect())+`
		WHERE TRUE`+visible, n.ownOrg, list)
	return store.Each(rows, err, func(row store.Row) error {
		m, err := scanMatch(row)
		n.versions[[2]string{m.entryID, m.version}] = m
		return err
	})
}
