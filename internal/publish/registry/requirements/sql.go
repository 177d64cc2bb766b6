package requirements

import (
	"context"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// Insert stores the requirements of a version. It's idempotent, for the backfill.
func Insert(ctx context.Context, q store.Querier, orgID, entryID, versionID string, all []requires.Requirement) error {
	if len(all) == 0 {
		return nil
	}
	args := []any{versionID, entryID, orgID}
	var rows []string
	for i, r := range all {
		n := len(args)
		rows = append(rows, fmt.Sprintf("($1, %d, $2, $3, $%d, $%d, $%d)", i, n+1, n+2, n+3))
		args = append(args, r.Org, r.Name, r.Range)
	}
	_, err := q.Exec(ctx, `
		INSERT INTO registry_requirements (version_id, position, entry_id, org_id, required_org, required_name, version_range)
		VALUES `+strings.Join(rows, ", ")+` ON CONFLICT (version_id, position) DO NOTHING`, args...)
	return err
}

// Copy gives a version the requirements of another with the same files.
func Copy(ctx context.Context, q store.Querier, from, to string) error {
	_, err := q.Exec(ctx, `
		INSERT INTO registry_requirements (version_id, position, entry_id, org_id, required_org, required_name, version_range)
		SELECT CAST($2 AS TEXT), r.position, r.entry_id, r.org_id, r.required_org, r.required_name, r.version_range
		FROM registry_requirements r WHERE r.version_id = $1`, from, to)
	return err
}

const (
	// required joins the entry e that row r requires, if organisation $1 may see it: in
	// another organisation it must be public. A private entry looks like a missing one.
	required = `registry_entries e ON e.name = r.required_name AND e.entry_type = 'skill'
		AND e.org_id = CASE WHEN r.required_org = '' THEN r.org_id
			ELSE (SELECT o.id FROM organisations o WHERE o.name = r.required_org) END
		AND (e.org_id = $1 OR e.visibility = 'public' AND e.current_version_id <> '')`

	foundColumns = `r.required_org, r.required_name, r.version_range, COALESCE(e.id, ''), COALESCE(e.name, ''),
		COALESCE(e.org_id, ''), COALESCE((SELECT o.name FROM organisations o WHERE o.id = e.org_id), ''),
		COALESCE(e.current_version_id, ''), COALESCE(e.current_version, ''), COALESCE(e.current_hash, ''),
			COALESCE(e.description, '')`
)

// foundTargets are the scan targets for foundColumns, in its order.
func foundTargets(f *Found) []any {
	s := &f.Skill
	return []any{
		&f.Org, &f.Name, &f.Range, &s.EntryID, &s.Name, &s.OrgID, &s.OrgName, &s.VersionID, &s.Version, &s.ContentHash,
		&s.Description,
	}
}

// closureOf returns the ids of versions, of the current versions they require, and so on,
// up to a limit. UNION visits each version once, so cycles and diamonds terminate.
func closureOf(ctx context.Context, q store.Querier, orgID string, versionIDs []string, limit int) ([]string, error) {
	in, list := q.Dialect().In("$2", versionIDs)
	rows, err := q.Query(ctx, `
		WITH RECURSIVE needed (version_id) AS (
			SELECT v.id FROM registry_versions v WHERE v.id`+in+`
			UNION
			SELECT e.current_version_id FROM needed
			JOIN registry_requirements r ON r.version_id = needed.version_id
			JOIN `+required+`
			WHERE e.current_version_id <> '')
		SELECT version_id FROM needed LIMIT $3`, orgID, list, limit)
	return store.All(rows, err, store.Value[string])
}

// requirementsOf returns the requirements of versions by version id, in the order of
// their SKILL.md.
func requirementsOf(ctx context.Context, q store.Querier, orgID string, versionIDs []string) (map[string][]Found, error) {
	in, list := q.Dialect().In("$2", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT r.version_id, `+foundColumns+`
		FROM registry_requirements r LEFT JOIN `+required+`
		WHERE r.version_id`+in+` ORDER BY r.version_id, r.position`, orgID, list)
	all := map[string][]Found{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var f Found
		err := row.Scan(append([]any{&id}, foundTargets(&f)...)...)
		all[id] = append(all[id], f)
		return err
	})
	return all, err
}

// find looks up requirements of a skill that isn't a version yet, in the name of the
// organisation.
func find(ctx context.Context, q store.Querier, orgID string, all []requires.Requirement) ([]Found, error) {
	pairs := make([][2]string, len(all))
	ranges := map[[2]string]string{}
	for i, r := range all {
		pairs[i] = [2]string{r.Name, r.Org}
		ranges[pairs[i]] = r.Range
	}
	from, list := q.Dialect().Pairs("$2", pairs)
	rows, err := q.Query(ctx, `
		SELECT `+foundColumns+`
		FROM (SELECT pairs.b AS required_org, pairs.a AS required_name, '' AS version_range, CAST($1 AS TEXT) AS org_id
			FROM `+from+`) r
		LEFT JOIN `+required, orgID, list)
	return store.All(rows, err, func(row store.Row) (f Found, err error) {
		err = row.Scan(foundTargets(&f)...)
		f.Range = ranges[[2]string{f.Name, f.Org}]
		return f, err
	})
}

// withdrawnOf returns the names of withdrawn versions, by entry id.
func withdrawnOf(ctx context.Context, q store.Querier, entryIDs []string) (map[string][]string, error) {
	in, list := q.Dialect().In("$1", entryIDs)
	rows, err := q.Query(ctx, `
		SELECT v.entry_id, v.version FROM registry_versions v WHERE v.entry_id`+in+` AND v.state = 'withdrawn' LIMIT 1000`, list)
	all := map[string][]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id, version string
		err := row.Scan(&id, &version)
		all[id] = append(all[id], version)
		return err
	})
	return all, err
}

// skillColumns are the columns that scanSkill reads.
const skillColumns = `e.id, e.name, e.org_id, (SELECT o.name FROM organisations o
	WHERE o.id = e.org_id), v.id, v.version, v.content_hash`

func scanSkill(row store.Row) (s Skill, err error) {
	err = row.Scan(&s.EntryID, &s.Name, &s.OrgID, &s.OrgName, &s.VersionID, &s.Version, &s.ContentHash)
	return s, err
}

// versionOf finds a version that the organisation may see; an empty name is the current
// one. Candidates are visible only to the entry's own organisation.
func versionOf(ctx context.Context, q store.Querier, orgID, entryID, version string) (Skill, error) {
	rows, err := q.Query(ctx, `
		SELECT `+skillColumns+` FROM registry_entries e JOIN registry_versions v ON v.entry_id = e.id
		WHERE e.id = $2 AND (v.version = $3 OR $3 = '' AND v.id = e.current_version_id)
			AND (e.org_id = $1 OR e.visibility IN ('public', 'unlisted') AND v.state <> 'candidate')`, orgID, entryID, version)
	return store.One(rows, err, "Version", scanSkill)
}

// versionsNamed finds versions by entry id and name, ignoring those that the organisation
// may not see.
func versionsNamed(ctx context.Context, q store.Querier, orgID string, names [][2]string) ([]Skill, error) {
	pairs, list := q.Dialect().Pairs("$2", names)
	rows, err := q.Query(ctx, `
		SELECT `+skillColumns+` FROM `+pairs+` JOIN registry_entries e ON e.id = pairs.a
			JOIN registry_versions v ON v.entry_id = e.id AND v.version = pairs.b
		WHERE e.org_id = $1 OR e.visibility IN ('public', 'unlisted') AND v.state <> 'candidate'`, orgID, list)
	return store.All(rows, err, scanSkill)
}

// dependentsOf returns the skills whose current version requires a skill, by name: those
// of organisation $1, and public ones.
func dependentsOf(ctx context.Context, q store.Querier, orgID string, s Skill, limit int) ([]Dependent, error) {
	const of = `SELECT e.id, e.name, e.org_id, (SELECT o.name FROM organisations o WHERE o.id = e.org_id) AS org_name,
			e.current_version_id, e.current_version, e.current_hash, r.version_range
		FROM registry_requirements r JOIN registry_entries e ON e.id = r.entry_id AND e.current_version_id = r.version_id
		WHERE r.required_name = $2 AND (e.org_id = $1 OR e.visibility = 'public')`
	rows, err := q.Query(ctx, `
		SELECT id, name, org_id, org_name, current_version_id, current_version, current_hash, version_range FROM (`+of+`
			AND r.required_org = '' AND r.org_id = $3
			UNION ALL `+of+` AND r.required_org = $4) found
		ORDER BY name, id LIMIT $5`, orgID, s.Name, s.OrgID, s.OrgName, limit)
	return store.All(rows, err, func(row store.Row) (d Dependent, err error) {
		err = row.Scan(&d.EntryID, &d.Name, &d.OrgID, &d.OrgName, &d.VersionID, &d.Version, &d.ContentHash, &d.Range)
		return d, err
	})
}

// A Lacking is a version from before requirements were stored.
type Lacking struct {
	OrgID, EntryID, VersionID string
	SkillMD                   []byte // nil if it wasn't stored
}

func nextLacking(ctx context.Context, q store.Querier, limit int) ([]Lacking, error) {
	rows, err := q.Query(ctx, `
		SELECT e.org_id, v.entry_id, v.id, v.skill_md FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
		WHERE v.id > (SELECT after_id FROM registry_requirement_backfill) ORDER BY v.id LIMIT $1`, limit)
	return store.All(rows, err, func(row store.Row) (l Lacking, err error) {
		err = row.Scan(&l.OrgID, &l.EntryID, &l.VersionID, &l.SkillMD)
		return l, err
	})
}

func setSeen(ctx context.Context, q store.Querier, versionID string) error {
	_, err := q.Exec(ctx, `UPDATE registry_requirement_backfill SET after_id = $1`, versionID)
	return err
}

// setDone removes the cursor: nextLacking then finds nothing, on any replica.
func setDone(ctx context.Context, q store.Querier) error {
	_, err := q.Exec(ctx, `DELETE FROM registry_requirement_backfill`)
	return err
}
