package registry

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"math"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const (
	entryColumns = `e.id, e.org_id, e.name, e.entry_type, e.description, e.visibility, e.source_repo, e.skill_id,
		e.current_version_id, e.current_version, e.current_hash, e.installation_count, e.created_by, e.created_at, e.updated_at`
	versionColumns = `v.id, e.org_id, v.entry_id, v.version, v.content_hash, v.canonical_hash, v.tree_digest,
		v.size, v.description,
		v.file_manifest, v.change_summary, v.source, v.source_ref, v.source_repo, v.rolled_back, v.pushed_by, v.pushed_at,
		v.archive_key, v.canonical_key, COALESCE(v.entry_description, v.description), v.state, v.gate_id,
		v.withdrawn_reason, v.chosen_by, v.apart`

	// ofEntry selects the versions of entry $2 of organisation $1.
	ofEntry = ` FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
		WHERE e.org_id = $1 AND v.entry_id = $2`
)

// entryTargets are the scan targets for entryColumns, in its order.
func entryTargets(e *Entry) []any {
	return []any{
		&e.ID, &e.OrgID, &e.Name, &e.Type, &e.Description, &e.Visibility, &e.SourceRepo, &e.SkillID,
		&e.CurrentVersionID, &e.CurrentVersion, &e.CurrentHash, &e.InstallationCount, &e.CreatedBy,
		store.Time(&e.CreatedAt), store.Time(&e.UpdatedAt),
	}
}

func scanEntry(row store.Row) (e Entry, err error) {
	err = row.Scan(entryTargets(&e)...)
	return e, err
}

func scanVersion(row store.Row) (v Version, err error) {
	var manifest string
	err = row.Scan(&v.ID, &v.OrgID, &v.EntryID, &v.Version, &v.ContentHash, &v.CanonicalHash, &v.TreeDigest, &v.Size,
		&v.Description,
		&manifest, &v.ChangeSummary, &v.Source, &v.SourceRef, &v.SourceRepo, &v.RolledBack, &v.PushedBy, store.Time(&v.PushedAt),
		&v.archiveKey, &v.canonicalKey, &v.EntryDescription, &v.State, &v.GateID, &v.WithdrawnReason, &v.ChosenBy, &v.Apart)
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(manifest), &v.Manifest)
}

func insertEntry(ctx context.Context, q store.Querier, e Entry) error {
	_, err := q.Exec(ctx, `
		INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, source_repo, skill_id,
			current_version_id, current_version, current_hash, installation_count, created_by, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13, $13)`,
		e.ID, e.OrgID, e.Name, e.Type, e.Description, e.Visibility, e.SourceRepo, e.SkillID,
		e.CurrentVersionID, e.CurrentVersion, e.CurrentHash, e.CreatedBy, store.Micros(e.CreatedAt))
	return err
}

// insertCurrent records that a version became current now, in the history by which
// sessions are attributed to versions.
func insertCurrent(ctx context.Context, q store.Querier, e Entry) error {
	_, err := q.Exec(ctx, `INSERT INTO registry_currents (id, entry_id, version_id, since) VALUES ($1, $2, $3, $4)`,
		store.NewID(), e.ID, e.CurrentVersionID, store.Micros(e.UpdatedAt))
	if err != nil {
		return err
	}
	if err := countChange(ctx, q, e.OrgID); err != nil {
		return err
	}
	return claimName(ctx, q, e)
}

// insertVersion also writes file_paths, a copy of the paths in the manifest: the index
// for older installers lists them and would otherwise have to parse every manifest.
func insertVersion(ctx context.Context, tx *store.Tx, v Version) error {
	if v.Manifest == nil {
		v.Manifest = []skillpkg.ManifestEntry{}
	}
	manifest, err := json.Marshal(v.Manifest)
	if err != nil {
		return err
	}
	names := make([]string, len(v.Manifest))
	for i, f := range v.Manifest {
		names[i] = f.Path
	}
	paths, err := json.Marshal(names)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO registry_versions (id, entry_id, version, content_hash, canonical_hash, tree_digest, size, description,
			file_manifest, change_summary, source, source_ref, source_repo, rolled_back, pushed_by, pushed_at, file_paths,
			skill_md,
			archive_key, canonical_key, entry_description, state, gate_id, source_commit, source_path, chosen_by, apart)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, FALSE, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			NULLIF($23, ''), NULLIF($24, ''), $25, $26)`,
		v.ID, v.EntryID, v.Version, v.ContentHash, v.CanonicalHash, v.TreeDigest, v.Size, v.Description,
		string(manifest), v.ChangeSummary, v.Source, v.SourceRef, v.SourceRepo, v.PushedBy, store.Micros(v.PushedAt),
		string(paths), v.skillText, v.archiveKey, v.canonicalKey, v.EntryDescription, v.State, v.GateID, v.commit, v.path,
		v.ChosenBy, v.Apart)
	if err != nil {
		return err
	}
	if err := requirements.Insert(ctx, tx, v.OrgID, v.EntryID, v.ID, v.requires); err != nil {
		return err
	}
	return treehash.Insert(ctx, tx, v.EntryID, v.ID, v.treeHashes)
}

// ownEntry finds an entry of the organisation.
func ownEntry(ctx context.Context, q store.Querier, orgID, id string) (Entry, error) {
	rows, err := q.Query(ctx, `SELECT `+entryColumns+` FROM registry_entries e WHERE e.org_id = $1 AND e.id = $2`, orgID, id)
	return store.One(rows, err, "Registry entry", scanEntry)
}

// lockEntry is ownEntry with a row lock. It serialises pushes, rollbacks and the deletion
// of an entry across all replicas.
func lockEntry(ctx context.Context, tx *store.Tx, orgID, id string) (Entry, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+entryColumns+` FROM registry_entries e WHERE e.org_id = $1 AND e.id = $2`+tx.Dialect().ForUpdate(), orgID, id)
	return store.One(rows, err, "Registry entry", scanEntry)
}

// Unlike ownEntry it also finds other organisations' entries once they have a current
// version.
const selectVisible = `
	SELECT ` + entryColumns + ` FROM registry_entries e
	WHERE e.id = $2 AND (e.org_id = $1 OR e.visibility IN ('public', 'unlisted') AND e.current_version_id <> '')`

// visibleEntry finds an entry that the organisation may see.
func visibleEntry(ctx context.Context, q store.Querier, orgID, id string) (Entry, error) {
	rows, err := q.Query(ctx, selectVisible, orgID, id)
	return store.One(rows, err, "Registry entry", scanEntry)
}

// LockVisible is Entry with a row lock, for a transaction that adds to the entry. It requires a
// current version of own entries, too.
func (s *Service) LockVisible(ctx context.Context, tx *store.Tx, orgID, entryID string) (Entry, error) {
	rows, err := tx.Query(ctx, selectVisible+` AND e.current_version_id <> ''`+tx.Dialect().ForUpdate(), orgID, entryID)
	return store.One(rows, err, "Registry entry", scanEntry)
}

// updateCurrent writes what setCurrent changed. The columns are copies of the current
// version's, so that lists and search read a single table.
func updateCurrent(ctx context.Context, q store.Querier, e Entry) error {
	_, err := q.Exec(ctx, `
		UPDATE registry_entries SET current_version_id = $2, current_version = $3, current_hash = $4, description = $5,
			updated_at = $6
		WHERE id = $1`, e.ID, e.CurrentVersionID, e.CurrentVersion, e.CurrentHash, e.Description, store.Micros(e.UpdatedAt))
	if err != nil {
		return err
	}
	return insertCurrent(ctx, q, e)
}

// deleteEntry deletes children first: their foreign keys don't cascade.
func deleteEntry(ctx context.Context, q store.Querier, e Entry) error {
	for _, table := range []string{"registry_rollbacks", "registry_currents", "registry_versions"} {
		if _, err := q.Exec(ctx, `DELETE FROM `+table+` WHERE entry_id = $1`, e.ID); err != nil {
			return err
		}
	}
	if _, err := q.Exec(ctx, `DELETE FROM registry_entries WHERE id = $1`, e.ID); err != nil {
		return err
	}
	if err := countRemoval(ctx, q, e.OrgID); err != nil {
		return err
	}
	return releaseName(ctx, q, e)
}

// clearCurrent leaves an entry without a current version: a new one whose first version
// is a candidate, or one whose last published version was withdrawn.
func clearCurrent(ctx context.Context, q store.Querier, e Entry) error {
	_, err := q.Exec(ctx, `
		UPDATE registry_entries SET current_version_id = '', current_version = '', current_hash = '' WHERE id = $1`, e.ID)
	if err != nil {
		return err
	}
	return countChange(ctx, q, e.OrgID)
}

// setState writes state, gate and reason of a version. A withdrawal invalidates caches at
// once.
func setState(ctx context.Context, q store.Querier, e Entry, v Version) error {
	_, err := q.Exec(ctx, `UPDATE registry_versions SET state = $2, gate_id = $3, withdrawn_reason = $4 WHERE id = $1`,
		v.ID, v.State, v.GateID, v.WithdrawnReason)
	if err == nil && v.State == Withdrawn {
		err = countRemoval(ctx, q, e.OrgID)
	}
	return err
}

// setVisibility counts as a removal, because the entry may have become less visible.
func setVisibility(ctx context.Context, q store.Querier, e Entry) error {
	_, err := q.Exec(ctx, `UPDATE registry_entries SET visibility = $3, updated_at = $4 WHERE org_id = $1 AND id = $2`,
		e.OrgID, e.ID, e.Visibility, store.Micros(e.UpdatedAt))
	if err != nil {
		return err
	}
	return countRemoval(ctx, q, e.OrgID)
}

// lastCurrent finds the version that became current last.
func lastCurrent(ctx context.Context, q store.Querier, e Entry) (Version, error) {
	rows, err := q.Query(ctx, `
		SELECT `+versionColumns+ofEntry+`
			AND v.id = (SELECT c.version_id FROM registry_currents c WHERE c.entry_id = $2
			ORDER BY c.since DESC, c.id DESC LIMIT 1)`,
		e.OrgID, e.ID)
	return store.One(rows, err, "Version", scanVersion)
}

// WasCurrent reports whether a version has ever been current.
func (s *Service) WasCurrent(ctx context.Context, tx *store.Tx, v Version) (bool, error) {
	rows, err := tx.Query(ctx, `SELECT EXISTS (SELECT 1 FROM registry_currents WHERE entry_id = $1 AND version_id = $2)`,
		v.EntryID, v.ID)
	return store.One(rows, err, "Version", store.Value[bool])
}

// touchEntry is updateCurrent for a push that doesn't change the current version.
func touchEntry(ctx context.Context, q store.Querier, e Entry, at time.Time) error {
	if _, err := q.Exec(ctx, `UPDATE registry_entries SET updated_at = $2 WHERE id = $1`, e.ID, store.Micros(at)); err != nil {
		return err
	}
	return countChange(ctx, q, e.OrgID)
}

// countChange invalidates caches of an organisation's entries (update checks, discovery
// indexes) on all replicas. It must be called in the transaction of every change to
// entries.
func countChange(ctx context.Context, q store.Querier, orgID string) error {
	return count(ctx, q, orgID, 0)
}

// countRemoval is countChange for content that no cache may serve any longer, not even
// within the time that catalogs may otherwise be stale.
func countRemoval(ctx context.Context, q store.Querier, orgID string) error {
	return count(ctx, q, orgID, 1)
}

// count starts an organisation's removals at a number derived from its id. Otherwise the
// sum over all organisations could stay the same when one is deleted and another one
// created.
func count(ctx context.Context, q store.Querier, orgID string, removals int64) error {
	_, err := q.Exec(ctx, `
		INSERT INTO registry_changes (org_id, changes, removals) VALUES ($1, 1, $2)
		ON CONFLICT (org_id) DO UPDATE SET changes = registry_changes.changes + 1, removals = registry_changes.removals + $3`,
		orgID, int64(crc32.ChecksumIEEE([]byte(orgID)))+removals, removals)
	return err
}

// Changes returns a counter that every change of an organisation's entries increments.
// Caches use it as their key, on all replicas.
func (s *Service) Changes(ctx context.Context, orgID string) (int64, error) {
	rows, err := s.DB.Query(ctx, `SELECT COALESCE(MAX(changes), 0) FROM registry_changes WHERE org_id = $1`, orgID)
	return store.One(rows, err, "Changes", store.Value[int64])
}

// versionByName finds a version of the entry in any state.
func versionByName(ctx context.Context, q store.Querier, e Entry, version string) (Version, error) {
	rows, err := q.Query(ctx, `SELECT `+versionColumns+ofEntry+` AND v.version = $3`, e.OrgID, e.ID, version)
	return store.One(rows, err, "Version "+version, scanVersion)
}

// downloadColumns are the columns that scanDownload reads.
const downloadColumns = `e.name, e.org_id, v.id, v.version, v.content_hash, v.archive_key, v.state, v.withdrawn_reason`

func scanDownload(row store.Row) (d download, err error) {
	v := &d.version
	err = row.Scan(&d.entryName, &v.OrgID, &v.ID, &v.Version, &v.ContentHash, &v.archiveKey, &v.State, &v.WithdrawnReason)
	return d, err
}

// downloadOf reads only what a download needs, of a version that the organisation may
// see.
func downloadOf(ctx context.Context, q store.Querier, orgID string, at VersionPath) (download, error) {
	rows, err := q.Query(ctx, `
		SELECT `+downloadColumns+` FROM registry_entries e JOIN registry_versions v ON v.entry_id = e.id
		WHERE e.id = $1 AND v.version = $2
			AND (e.org_id = $3 OR e.visibility IN ('public', 'unlisted') AND v.state <> 'candidate')`,
		at.ID, at.Version, orgID)
	d, err := store.One(rows, err, "Version "+at.Version, scanDownload)
	d.own = d.version.OrgID == orgID
	return d, err
}

// versionsOfKey finds the versions that use an object and are visible to the
// organisation; "" sees all.
func versionsOfKey(ctx context.Context, q store.Querier, key, orgID string) ([]download, error) {
	rows, err := q.Query(ctx, `
		SELECT `+downloadColumns+` FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
		WHERE v.archive_key = $1
			AND ($2 = '' OR e.org_id = $2 OR e.visibility IN ('public', 'unlisted') AND v.state <> 'candidate')`, key, orgID)
	return store.All(rows, err, scanDownload)
}

func versionByID(ctx context.Context, q store.Querier, e Entry, id string) (Version, error) {
	rows, err := q.Query(ctx, `SELECT `+versionColumns+ofEntry+` AND v.id = $3`, e.OrgID, e.ID, id)
	return store.One(rows, err, "Version", scanVersion)
}

// versionByTree finds the newest version with the same files.
func versionByTree(ctx context.Context, q store.Querier, e Entry, digest string) (Version, error) {
	rows, err := q.Query(ctx, `
		SELECT `+versionColumns+ofEntry+` AND v.tree_digest = $3
		ORDER BY v.pushed_at DESC, v.id DESC LIMIT 1`, e.OrgID, e.ID, digest)
	return store.One(rows, err, "Version", scanVersion)
}

// hasRelease reports whether an entry has a published version that isn't from a branch.
func hasRelease(ctx context.Context, q store.Querier, e Entry) (bool, error) {
	rows, err := q.Query(ctx, `SELECT EXISTS (SELECT 1`+ofEntry+` AND v.state = 'published' AND v.version NOT LIKE $3)`,
		e.OrgID, e.ID, branchPrefix+"%")
	return store.One(rows, err, "Version", store.Value[bool])
}

// versionBefore finds the published version pushed before v. The id breaks ties between
// equal times, e.g. of imported versions.
func versionBefore(ctx context.Context, q store.Querier, v Version) (Version, error) {
	rows, err := q.Query(ctx, `
		SELECT `+versionColumns+ofEntry+` AND (v.pushed_at, v.id) < ($3, $4) AND v.state = 'published'
		ORDER BY v.pushed_at DESC, v.id DESC LIMIT 1`, v.OrgID, v.EntryID, store.Micros(v.PushedAt), v.ID)
	return store.One(rows, err, "Version", scanVersion)
}

// versionsAfter reads a page of versions without manifests, newest first, by keyset
// pagination: cursor is the last version of the page before, or nil. An entry always has
// a version, so an empty first page means that it was deleted (fault.NotFound).
// Candidates are only shown to the own organisation.
func versionsAfter(ctx context.Context, q store.Querier, e Entry, own bool, cursor *Version, limit int) ([]Version, error) {
	// The first page starts after the greatest possible key.
	pushed, id := int64(math.MaxInt64), ""
	if cursor != nil {
		pushed, id = store.Micros(cursor.PushedAt), cursor.ID
	}
	rows, err := q.Query(ctx, `
		SELECT v.id, e.org_id, v.entry_id, v.version, v.content_hash, v.size, OCTET_LENGTH(v.file_manifest),
		v.change_summary, v.source,
			v.source_ref, v.source_repo, v.rolled_back, v.pushed_by, v.pushed_at, v.state, v.gate_id,
			v.withdrawn_reason`+ofEntry+`
			AND (v.pushed_at, v.id) < ($3, $4) AND (v.state <> 'candidate' OR $6)
		ORDER BY v.pushed_at DESC, v.id DESC LIMIT $5`, e.OrgID, e.ID, pushed, id, limit, own)
	versions, err := store.All(rows, err, func(row store.Row) (v Version, err error) {
		err = row.Scan(&v.ID, &v.OrgID, &v.EntryID, &v.Version, &v.ContentHash, &v.Size, &v.manifestSize,
			&v.ChangeSummary, &v.Source,
			&v.SourceRef, &v.SourceRepo, &v.RolledBack, &v.PushedBy, store.Time(&v.PushedAt), &v.State, &v.GateID,
			&v.WithdrawnReason)
		return v, err
	})
	if err == nil && cursor == nil && len(versions) == 0 {
		return nil, fault.New(fault.NotFound, "Registry entry not found")
	}
	return versions, err
}

// manifestTexts reads manifests as raw JSON, by version id.
func manifestTexts(ctx context.Context, q store.Querier, ids []string) (map[string]string, error) {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `SELECT id, file_manifest FROM registry_versions WHERE id`+in, list)
	texts := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id, text string
		err := row.Scan(&id, &text)
		texts[id] = text
		return err
	})
	return texts, err
}

// rollbacksOfEntry returns the newest rollbacks first; ids are ordered by time.
func rollbacksOfEntry(ctx context.Context, q store.Querier, e Entry) ([]Rollback, error) {
	rows, err := q.Query(ctx, `
		SELECT r.from_version, r.to_version, r.reason, r.rolled_back_by, r.rolled_back_at, r.published, r.undone_at
		FROM registry_rollbacks r JOIN registry_entries e ON e.id = r.entry_id
		WHERE e.org_id = $1 AND r.entry_id = $2 ORDER BY r.id DESC LIMIT $3`, e.OrgID, e.ID, maxRollbacks)
	return store.All(rows, err, func(row store.Row) (r Rollback, err error) {
		err = row.Scan(&r.From, &r.To, &r.Reason, &r.By, store.Time(&r.At), &r.Published, store.NullTime(&r.UndoneAt))
		return r, err
	})
}

var entrySorts = store.Sorting{"name": "e.name", "installed": "e.installation_count", "updated_at": "e.updated_at"}

// listEntries reads a page of the entries that condition (on $1) selects. The search
// scans them with LIKE: an organisation has hundreds of entries, and a full-text index
// would match differently on the two databases. It is no store.List, whose count would
// read the versions, too: SQLite drops no outer join.
func listEntries(ctx context.Context, q store.Querier, condition, arg string, f Filter) ([]Listed, int, error) {
	const chosen = ` AND (e.current_version_id <> '' OR $4) AND ($2 = '' OR e.name = $2)
		AND ($3 = '' OR lower(e.name) LIKE lower($3) ESCAPE '\' OR lower(e.description) LIKE lower($3) ESCAPE '\')`
	search := store.Like(f.Search)
	total, err := store.Count(ctx, q, `FROM registry_entries e WHERE `+condition+chosen, arg, f.Name, search, f.Pending)
	if err != nil {
		return nil, 0, err
	}
	rows, err := q.Query(ctx, `
		SELECT `+listedColumns+` FROM registry_entries e LEFT JOIN registry_versions v ON v.id = e.current_version_id
		WHERE `+condition+chosen+`
		`+entrySorts.By(f.Sort, `e.name, e.id`)+` LIMIT $5 OFFSET $6`, arg, f.Name, search, f.Pending, f.Limit, f.Offset)
	entries, err := store.All(rows, err, func(row store.Row) (l Listed, err error) {
		err = row.Scan(listedTargets(&l)...)
		return l, err
	})
	return entries, total, err
}

// listedColumns are the columns for listedTargets, in its order.
const listedColumns = entryColumns + `, COALESCE(v.id, ''), COALESCE(v.version, ''), COALESCE(v.content_hash, ''),
	v.canonical_hash, COALESCE(v.description, ''),
	(SELECT o.name FROM organisations o WHERE o.id = e.org_id)`

func listedTargets(l *Listed) []any {
	v := &l.Current
	return append(entryTargets(&l.Entry), &v.ID, &v.Version, &v.ContentHash, &v.CanonicalHash, &v.Description, &l.OrgName)
}

// orgName returns the name of the organisation that owns an entry.
func orgName(ctx context.Context, q store.Querier, e Entry) (string, error) {
	rows, err := q.Query(ctx, `SELECT name FROM organisations WHERE id = $1`, e.OrgID)
	return store.One(rows, err, "Organisation", store.Value[string])
}

// manifestOf reads the files of a version.
func manifestOf(ctx context.Context, q store.Querier, versionID string) ([]skillpkg.ManifestEntry, error) {
	rows, err := q.Query(ctx, `SELECT file_manifest FROM registry_versions WHERE id = $1`, versionID)
	text, err := store.One(rows, err, "Version", store.Value[string])
	if err != nil {
		return nil, err
	}
	var manifest []skillpkg.ManifestEntry
	return manifest, json.Unmarshal([]byte(text), &manifest)
}

// skillTextOf reads the stored SKILL.md of a version; nil if it was too large to store.
func skillTextOf(ctx context.Context, q store.Querier, versionID string) ([]byte, error) {
	rows, err := q.Query(ctx, `SELECT skill_md FROM registry_versions WHERE id = $1`, versionID)
	return store.One(rows, err, "Version", store.Value[[]byte])
}
