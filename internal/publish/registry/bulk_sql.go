package registry

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// briefColumns are the columns that scanBrief reads: few enough for many versions.
const briefColumns = `v.id, v.entry_id, v.version, v.content_hash, v.canonical_hash, v.change_summary, v.pushed_at,
	v.state, v.gate_id`

func scanBrief(row store.Row) (v Version, err error) {
	err = row.Scan(&v.ID, &v.EntryID, &v.Version, &v.ContentHash, &v.CanonicalHash, &v.ChangeSummary, store.Time(&v.PushedAt),
		&v.State, &v.GateID)
	return v, err
}

// VersionsByID returns versions in any state by id, with the columns of briefColumns only. It
// doesn't check who may see them.
func VersionsByID(ctx context.Context, q store.Querier, ids []string) (map[string]Version, error) {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `SELECT `+briefColumns+` FROM registry_versions v WHERE v.id`+in, list)
	found := map[string]Version{}
	err = store.Each(rows, err, func(row store.Row) error {
		v, err := scanBrief(row)
		found[v.ID] = v
		return err
	})
	return found, err
}

// PublishedBefore reads a page of an entry's published versions, newest push first, that were
// pushed before a version with this time and id. Like VersionsByID, it reads few columns.
func PublishedBefore(ctx context.Context, q store.Querier, entryID string, pushed int64, id string,
	limit int,
) ([]Version, error) {
	rows, err := q.Query(ctx, `
		SELECT `+briefColumns+` FROM registry_versions v
		WHERE v.entry_id = $1 AND v.state = 'published' AND (v.pushed_at, v.id) < ($2, $3)
		ORDER BY v.pushed_at DESC, v.id DESC LIMIT $4`, entryID, pushed, id, limit)
	return store.All(rows, err, scanBrief)
}

// Unpublished returns the candidates and withdrawn versions of an organisation's entry, or with ""
// of all its entries, as pairs of a version's id and its entry's.
func Unpublished(ctx context.Context, q store.Querier, orgID, entryID string) ([][2]string, error) {
	rows, err := q.Query(ctx, `
		SELECT v.id, v.entry_id FROM registry_entries e JOIN registry_versions v ON v.entry_id = e.id AND v.state <> 'published'
		WHERE e.org_id = $1 AND ($2 = '' OR e.id = $2)`, orgID, entryID)
	return store.All(rows, err, func(row store.Row) (pair [2]string, err error) {
		err = row.Scan(&pair[0], &pair[1])
		return pair, err
	})
}

// EntriesOf returns the ids, names and skills of an organisation's entries, by name.
func EntriesOf(ctx context.Context, q store.Querier, orgID string) ([]Entry, error) {
	rows, err := q.Query(ctx, `SELECT id, org_id, name, skill_id FROM registry_entries WHERE org_id = $1 ORDER BY name`, orgID)
	return store.All(rows, err, func(row store.Row) (e Entry, err error) {
		err = row.Scan(&e.ID, &e.OrgID, &e.Name, &e.SkillID)
		return e, err
	})
}

// Files are the files of a version.
type Files struct {
	VersionID string
	Manifest  []skillpkg.ManifestEntry
	SkillMD   []byte // nil if it's too large to be kept in the database
}

// FilesOf returns the files of versions. It doesn't check who may see them.
func FilesOf(ctx context.Context, q store.Querier, versionIDs []string) ([]Files, error) {
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `SELECT id, file_manifest, skill_md FROM registry_versions WHERE id`+in, list)
	return store.All(rows, err, func(row store.Row) (f Files, err error) {
		var manifest string
		if err := row.Scan(&f.VersionID, &manifest, &f.SkillMD); err != nil {
			return f, err
		}
		return f, json.Unmarshal([]byte(manifest), &f.Manifest)
	})
}

// Texts are what agents read of the current version of a skill's entry.
type Texts struct {
	SkillID, Name, Description string
	SkillMD                    *int64 // bytes of SKILL.md; nil if it's too large to be kept in the database
}

// TextsOfSkills returns the texts of skills that are in the registry.
func TextsOfSkills(ctx context.Context, q store.Querier, skillIDs []string) ([]Texts, error) {
	in, list := q.Dialect().In("$1", skillIDs)
	rows, err := q.Query(ctx, `
		SELECT e.skill_id, e.name, e.description, LENGTH(v.skill_md)
		FROM registry_entries e JOIN registry_versions v ON v.id = e.current_version_id WHERE e.skill_id`+in, list)
	return store.All(rows, err, func(row store.Row) (t Texts, err error) {
		err = row.Scan(&t.SkillID, &t.Name, &t.Description, &t.SkillMD)
		return t, err
	})
}

// OrgsOffering names the organisations called handle, in whatever case, that have a public or
// unlisted skill of that name. Two branches of a UNION, since each visibility has a partial index
// of its own.
func OrgsOffering(ctx context.Context, q store.Querier, skill, handle string, limit int) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT o.name FROM (
			SELECT e.org_id FROM registry_entries e WHERE e.visibility = 'public' AND e.name = $1 AND e.current_version_id <> ''
			UNION ALL SELECT e.org_id FROM registry_entries e
			WHERE e.visibility = 'unlisted' AND e.name = $1 AND e.current_version_id <> '') found
		JOIN organisations o ON o.id = found.org_id WHERE lower(o.name) = lower($2)
		ORDER BY o.name LIMIT $3`,
		skill, handle, limit)
	return store.All(rows, err, store.Value[string])
}

// Facts are what can be signed about a version.
type Facts struct {
	ID, OrgID, OrgName, EntryName, Version string
	ContentHash, CanonicalHash             string // "" if discovery doesn't serve it
	DirHash, PluginZip                     string // see treehash; "" if it has none
	Source                                 Source
	Repo, Ref, Commit, Path                *string
	PushedAt                               time.Time
}

// FactsOf returns the facts of versions, by id. Versions that don't exist are missing. A version
// may have several hashes of a kind; MIN picks the same one each time, as signed bytes must.
func FactsOf(ctx context.Context, q store.Querier, versionIDs []string) ([]Facts, error) {
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT v.id, e.org_id, o.name, e.name, v.version, v.content_hash, COALESCE(v.canonical_hash, ''), v.source, v.source_repo,
			v.source_ref, v.source_commit, v.source_path, v.pushed_at,
			COALESCE((SELECT MIN(h.hash) FROM registry_tree_hashes h WHERE h.version_id = v.id AND h.kind = 'dirhash'), ''),
			COALESCE((SELECT MIN(h.hash) FROM registry_tree_hashes h WHERE h.version_id = v.id AND h.kind = 'plugin-zip'), '')
		FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id JOIN organisations o ON o.id = e.org_id
		WHERE v.id`+in+` ORDER BY v.id`, list)
	return store.All(rows, err, func(row store.Row) (f Facts, err error) {
		err = row.Scan(&f.ID, &f.OrgID, &f.OrgName, &f.EntryName, &f.Version, &f.ContentHash, &f.CanonicalHash,
			&f.Source, &f.Repo,
			&f.Ref, &f.Commit, &f.Path, store.Time(&f.PushedAt), &f.DirHash, &f.PluginZip)
		return f, err
	})
}

// VersionIDsAfter returns the next ids of versions of all organisations, for backfills.
func VersionIDsAfter(ctx context.Context, q store.Querier, id string, limit int) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT id FROM registry_versions WHERE id > $1 ORDER BY id LIMIT $2`, id, limit)
	return store.All(rows, err, store.Value[string])
}
