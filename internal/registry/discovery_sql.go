package registry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// maxShelf bounds an index; a larger catalogue is searched, not installed.
const maxShelf = 5_000

// condition chooses the entries that stand on the shelf of $1.
func (sh shelf) condition() string {
	const own = `e.org_id = (SELECT o.id FROM organisations o WHERE o.name = $1) AND `
	switch {
	case sh.orgName == "":
		return `$1 = '' AND e.visibility = 'public'`
	case sh.private:
		return own + `e.visibility IN ('public', 'org')`
	}
	return own + `e.visibility = 'public'`
}

// skillsOn reads the skills of a shelf, or only those of a name that is not
// empty. Each name comes once: the oldest entry has it.
func skillsOn(ctx context.Context, q store.Querier, sh shelf, name string) ([]Listed, error) {
	those := `e.name >= $2`
	if name != "" {
		those = `e.name = $2`
	}
	rows, err := q.Query(ctx, `
		SELECT `+entryColumns+`, v.id, v.version, v.content_hash, v.canonical_hash, v.description
		FROM registry_entries e JOIN registry_versions v ON v.id = e.current_version_id
		WHERE `+sh.condition()+` AND `+those+` AND e.entry_type = 'skill' AND v.canonical_hash IS NOT NULL
		ORDER BY e.name, e.id LIMIT $3`, sh.orgName, name, maxShelf)
	all, err := store.All(rows, err, scanListed)
	if err != nil {
		return nil, err
	}
	listed := all[:0]
	for _, l := range all {
		repeated := len(listed) > 0 && listed[len(listed)-1].Name == l.Name
		if !repeated && discoverable(l) {
			listed = append(listed, l)
		}
	}
	return listed, nil
}

// versionOfArchive finds a version of an entry by its canonical archive.
func versionOfArchive(ctx context.Context, q store.Querier, entryID, hash string) (string, error) {
	rows, err := q.Query(ctx, `
		SELECT version FROM registry_versions WHERE entry_id = $1 AND canonical_hash = $2 LIMIT 1`, entryID, hash)
	return store.One(rows, err, "Version", store.Value[string])
}
