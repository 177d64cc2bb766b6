package plugins

import (
	"context"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// upsertLoads stores loads, and reports whether any is new or extends one.
func upsertLoads(ctx context.Context, tx *store.Tx, c access.Caller, loads []load) (changed bool, err error) {
	if len(loads) == 0 {
		return false, nil
	}
	d := tx.Dialect()
	n, err := store.Bulk{
		Table: "plugin_loads",
		Columns: []store.Column{
			store.Col("id", column(loads, func(l load) string { return l.id })),
			store.Col("org_id", slices.Repeat([]string{c.OrgID}, len(loads))),
			store.Col("user_id", column(loads, func(l load) string { return l.userID })),
			store.Col("session_hash", column(loads, func(l load) string { return l.sessionHash })),
			store.Col("plugin", column(loads, func(l load) string { return l.plugin })),
			store.Col("marketplace", column(loads, func(l load) string { return l.marketplace })),
			store.Col("version", column(loads, func(l load) string { return l.version })),
			store.Col("first_at", column(loads, func(l load) int64 { return store.Micros(l.firstAt) })),
			store.Col("last_at", column(loads, func(l load) int64 { return store.Micros(l.lastAt) })),
			store.Col("pending", slices.Repeat([]bool{true}, len(loads))),
		},
		OnConflict: `ON CONFLICT (id) DO UPDATE SET
				first_at = ` + d.Least("plugin_loads.first_at", "excluded.first_at") + `,
				last_at = ` + d.Greatest("plugin_loads.last_at", "excluded.last_at") + `, pending = TRUE
			WHERE excluded.first_at < plugin_loads.first_at OR excluded.last_at > plugin_loads.last_at`,
	}.Insert(ctx, tx)
	return n > 0, err
}

// insertSkills stores names of skills, and reports whether any is new.
func insertSkills(ctx context.Context, tx *store.Tx, orgID string, names []string) (fresh bool, err error) {
	if len(names) == 0 {
		return false, nil
	}
	n, err := store.Bulk{
		Table: "plugin_skills",
		Columns: []store.Column{
			store.Col("org_id", slices.Repeat([]string{orgID}, len(names))),
			store.Col("plugin", column(names, pluginOf)),
			store.Col("name", names),
			store.Col("after_id", slices.Repeat([]string{""}, len(names))),
		},
		OnConflict: "ON CONFLICT (org_id, plugin, name) DO NOTHING",
	}.Insert(ctx, tx)
	return n > 0, err
}

const loadColumns = `id, user_id, session_hash, plugin, marketplace, version, first_at, last_at`

func scanLoad(row store.Row) (l load, err error) {
	err = row.Scan(&l.id, &l.userID, &l.sessionHash, &l.plugin, &l.marketplace, &l.version,
		store.Time(&l.firstAt), store.Time(&l.lastAt))
	return l, err
}

func lockPendingLoads(ctx context.Context, q store.Querier, orgID string, limit int) ([]load, error) {
	rows, err := q.Query(ctx, `
		SELECT `+loadColumns+` FROM plugin_loads WHERE org_id = $1 AND pending
		ORDER BY id LIMIT $2`+q.Dialect().ForUpdate(), orgID, limit)
	return store.All(rows, err, scanLoad)
}

func loadsAfter(ctx context.Context, q store.Querier, orgID, plugin, after string, limit int) ([]load, error) {
	rows, err := q.Query(ctx, `
		SELECT `+loadColumns+` FROM plugin_loads WHERE org_id = $1 AND plugin = $2 AND id > $3
		ORDER BY id LIMIT $4`, orgID, plugin, after, limit)
	return store.All(rows, err, scanLoad)
}

func loadsDone(ctx context.Context, tx *store.Tx, loads []load) error {
	in, list := tx.Dialect().In("$1", column(loads, func(l load) string { return l.id }))
	_, err := tx.Exec(ctx, `UPDATE plugin_loads SET pending = FALSE WHERE id`+in, list)
	return err
}

func skillsOf(ctx context.Context, q store.Querier, orgID, plugin string, limit int) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT name FROM plugin_skills WHERE org_id = $1 AND plugin = $2 ORDER BY name LIMIT $3`, orgID, plugin, limit)
	return store.All(rows, err, store.Value[string])
}

// lockPendingSkill returns a skill that not all loads were offered yet, and the
// last load that was.
func lockPendingSkill(ctx context.Context, q store.Querier, orgID string) (name, after string, err error) {
	rows, err := q.Query(ctx, `
		SELECT name, after_id FROM plugin_skills WHERE org_id = $1 AND after_id IS NOT NULL
		ORDER BY plugin, name LIMIT 1`+q.Dialect().ForUpdate(), orgID)
	found, err := store.One(rows, err, "Skill", func(row store.Row) (k [2]string, err error) {
		err = row.Scan(&k[0], &k[1])
		return k, err
	})
	return found[0], found[1], err
}

func moveSkill(ctx context.Context, tx *store.Tx, orgID, name, after string) error {
	_, err := tx.Exec(ctx, `UPDATE plugin_skills SET after_id = $4 WHERE org_id = $1 AND plugin = $2 AND name = $3`,
		orgID, pluginOf(name), name, after)
	return err
}

func skillDone(ctx context.Context, tx *store.Tx, orgID, name string) error {
	_, err := tx.Exec(ctx, `UPDATE plugin_skills SET after_id = NULL WHERE org_id = $1 AND plugin = $2 AND name = $3`,
		orgID, pluginOf(name), name)
	return err
}

// column maps a function over rows.
func column[Row, T any](rows []Row, value func(Row) T) []T {
	values := make([]T, len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return values
}

func loadsOfSessions(ctx context.Context, q store.Querier, orgID string, sessions []string) ([]load, error) {
	in, list := q.Dialect().In("$2", sessions)
	rows, err := q.Query(ctx, `
		SELECT `+loadColumns+` FROM plugin_loads WHERE org_id = $1 AND session_hash`+in, orgID, list)
	return store.All(rows, err, scanLoad)
}

// insertMarkets stores where loads say that their plugins come from.
func insertMarkets(ctx context.Context, tx *store.Tx, orgID string, loads []load) error {
	known := map[[2]string]bool{}
	for _, l := range loads {
		if l.marketplace != "" {
			known[[2]string{l.plugin, l.marketplace}] = true
		}
	}
	if len(known) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(maps.Keys(known), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	_, err := store.Bulk{
		Table: "plugin_markets",
		Columns: []store.Column{
			store.Col("org_id", slices.Repeat([]string{orgID}, len(sorted))),
			store.Col("plugin", column(sorted, func(k [2]string) string { return k[0] })),
			store.Col("marketplace", column(sorted, func(k [2]string) string { return k[1] })),
		},
		OnConflict: "ON CONFLICT (org_id, plugin, marketplace) DO NOTHING",
	}.Insert(ctx, tx)
	return err
}

// candidatesOf returns the skills that may be entries of the registry under the name
// of a plugin, with what is known of these plugins.
func candidatesOf(ctx context.Context, q store.Querier, orgID, own string) ([]candidate, error) {
	rows, err := q.Query(ctx, `
		SELECT p.plugin, p.name, e.name, e.id, COALESCE(k.merged_into, ''), p.merged,
			EXISTS (SELECT 1 FROM plugin_markets m WHERE m.org_id = $1 AND m.plugin = p.plugin AND m.marketplace = $2),
			EXISTS (SELECT 1 FROM plugin_markets m WHERE m.org_id = $1 AND m.plugin = p.plugin AND m.marketplace <> $2)
		FROM plugin_skills p
		JOIN skills k ON k.org_id = p.org_id AND k.name = p.name
		JOIN skills e ON e.org_id = p.org_id AND e.name = SUBSTR(p.name, LENGTH(p.plugin) + 2)
		WHERE p.org_id = $1 AND p.plugin IN (SELECT m.plugin FROM plugin_markets m WHERE m.org_id = $1)
			AND EXISTS (SELECT 1 FROM registry_entries r WHERE r.org_id = $1 AND r.skill_id = e.id)
		ORDER BY p.name`, orgID, own)
	return store.All(rows, err, func(row store.Row) (k candidate, err error) {
		err = row.Scan(&k.plugin, &k.name, &k.entryName, &k.entryID, &k.mergedInto, &k.merged, &k.own, &k.foreign)
		return k, err
	})
}

func markMerged(ctx context.Context, tx *store.Tx, orgID string, k candidate, merged bool) error {
	_, err := tx.Exec(ctx, `UPDATE plugin_skills SET merged = $4 WHERE org_id = $1 AND plugin = $2 AND name = $3`,
		orgID, k.plugin, k.name, merged)
	return err
}
