package sources

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const sourceColumns = `id, org_id, label, source_type, skill_id, installation_id, repo_full_name, default_branch, skill_path,
	current_snapshot_id, suggested_at, created_by, created_at`

// scanSource sets Repo only for the type that has one; the columns are null otherwise.
func scanSource(row store.Row) (s Source, err error) {
	var installation *int64
	var repo, branch, path *string
	err = row.Scan(&s.ID, &s.OrgID, &s.Label, &s.Type, &s.SkillID, &installation, &repo, &branch, &path,
		&s.CurrentSnapshotID, store.Time(&s.SuggestedAt), &s.CreatedBy, store.Time(&s.CreatedAt))
	if err == nil && s.Type == Repohost {
		s.Repo = &Repo{*installation, *repo, *branch, *path}
	}
	return s, err
}

// lockSource is sourceOfOrg with a row lock.
func lockSource(ctx context.Context, tx *store.Tx, orgID, id string) (Source, error) {
	return sourceOfOrg(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
}

// sourceOfOrg returns a source of the organisation by id, with or without prefix.
func sourceOfOrg(ctx context.Context, q store.Querier, orgID, id, suffix string) (Source, error) {
	bare, err := ParseID(id)
	if err != nil {
		return Source{}, err
	}
	s, err := sourceByID(ctx, q, bare, suffix)
	if err == nil && s.OrgID != orgID {
		return Source{}, fault.New(fault.Denied, "This cloud source belongs to another organisation")
	}
	return s, err
}

// sourceByID doesn't check the organisation, because the API replies 403 and not 404 for
// another's source. Only sourceOfOrg and jobs may call it.
func sourceByID(ctx context.Context, q store.Querier, id, suffix string) (Source, error) {
	rows, err := q.Query(ctx, `SELECT `+sourceColumns+` FROM cloud_sources WHERE id = $1`+suffix, id)
	return store.One(rows, err, "Cloud source", scanSource)
}

// List returns the organisation's sources, newest first, without the temporary types
// unless the filter asks for one. Ids are ordered by creation time.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Source, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+sourceColumns+` FROM cloud_sources
		WHERE org_id = $1 AND ($2 = '' AND source_type NOT IN ('pull', 'candidate') OR source_type = $2) AND ($3 = ''
			OR skill_id = $3)
		ORDER BY id DESC`, orgID, f.Type, f.SkillID)
	return store.All(rows, err, scanSource)
}

// HasLinked reports whether the organisation has any source that's linked to a skill.
func (s *Service) HasLinked(ctx context.Context, q store.Querier, orgID string) (bool, error) {
	rows, err := q.Query(ctx, `SELECT 1 FROM cloud_sources WHERE org_id = $1 AND skill_id IS NOT NULL LIMIT 1`, orgID)
	found, err := store.All(rows, err, store.Value[int])
	return len(found) > 0, err
}

// Linked returns the organisation's sources that are linked to a skill.
func (s *Service) Linked(ctx context.Context, orgID string) ([]Source, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+sourceColumns+` FROM cloud_sources WHERE org_id = $1 AND skill_id IS NOT NULL ORDER BY id`, orgID)
	return store.All(rows, err, scanSource)
}

// Stale returns up to limit sources of all organisations that are linked to a skill and
// whose suggestions are older than before, oldest first.
func (s *Service) Stale(ctx context.Context, before time.Time, limit int) ([]Source, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+sourceColumns+` FROM cloud_sources WHERE suggested_at < $1 AND skill_id IS NOT NULL
		ORDER BY suggested_at, id LIMIT $2`, store.Micros(before), limit)
	return store.All(rows, err, scanSource)
}

func insertSource(ctx context.Context, q store.Querier, s Source) error {
	var installation *int64
	var repo, branch, path *string
	if s.Repo != nil {
		installation, repo, branch, path = &s.Repo.InstallationID, &s.Repo.FullName, &s.Repo.DefaultBranch, &s.Repo.SkillPath
	}
	_, err := q.Exec(ctx, `
		INSERT INTO cloud_sources (`+sourceColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		s.ID, s.OrgID, s.Label, s.Type, s.SkillID, installation, repo, branch, path,
		s.CurrentSnapshotID, store.Micros(s.SuggestedAt), s.CreatedBy, store.Micros(s.CreatedAt))
	if err != nil {
		return err
	}
	return insertLink(ctx, q, s)
}

// insertLink remembers the link between source and skill after it's removed.
func insertLink(ctx context.Context, q store.Querier, s Source) error {
	if len(s.read()) == 0 {
		return nil
	}
	_, err := q.Exec(ctx, `
		INSERT INTO source_links (org_id, skill_id, source_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, s.OrgID,
		s.SkillID, s.ID)
	return err
}

// EverLinked returns the ids of all sources that were ever linked to a skill, including
// deleted ones. Gates use it, so that unlinking a source doesn't hide its history.
func (s *Service) EverLinked(ctx context.Context, q store.Querier, orgID, skillID string) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT source_id FROM source_links WHERE org_id = $1 AND skill_id = $2 ORDER BY source_id`, orgID, skillID)
	return store.All(rows, err, store.Value[string])
}

func updateSource(ctx context.Context, tx *store.Tx, s Source) error {
	_, err := tx.Exec(ctx, `
		UPDATE cloud_sources SET label = $3, skill_id = $4, current_snapshot_id = $5, suggested_at = $6
		WHERE org_id = $1 AND id = $2`,
		s.OrgID, s.ID, s.Label, s.SkillID, s.CurrentSnapshotID, store.Micros(s.SuggestedAt))
	if err != nil {
		return err
	}
	return insertLink(ctx, tx, s)
}

// deleteSource deletes a locked source with its snapshots and reports; the foreign keys
// don't cascade. source_links is kept on purpose.
func deleteSource(ctx context.Context, tx *store.Tx, src Source) error {
	for _, statement := range []string{
		`DELETE FROM source_reports WHERE org_id = $1
			AND snapshot_id IN (SELECT id FROM source_snapshots WHERE org_id = $1 AND source_id = $2)`,
		`DELETE FROM source_snapshots WHERE org_id = $1 AND source_id = $2`,
		`DELETE FROM cloud_sources WHERE org_id = $1 AND id = $2`,
	} {
		if _, err := tx.Exec(ctx, statement, src.OrgID, src.ID); err != nil {
			return err
		}
	}
	return nil
}

// snapshotColumns are used for reading and inserting.
const snapshotColumns = `id, org_id, source_id, content_hash, total_bytes, files, skill_name, description, runnable,
	commit_sha, ref, created_by, created_at`

func scanSnapshot(row store.Row) (s Snapshot, err error) {
	var files string
	if err := row.Scan(&s.ID, &s.OrgID, &s.SourceID, &s.ContentHash, &s.TotalBytes, &files, &s.SkillName, &s.Description,
		&s.Runnable, &s.CommitSHA, &s.Ref, &s.CreatedBy, store.Time(&s.CreatedAt)); err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(files), &s.Files)
}

func insertSnapshot(ctx context.Context, tx *store.Tx, s Snapshot) error {
	files, err := json.Marshal(s.Files)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO source_snapshots (`+snapshotColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		s.ID, s.OrgID, s.SourceID, s.ContentHash, s.TotalBytes, string(files), s.SkillName, s.Description,
		s.Runnable, s.CommitSHA, s.Ref, s.CreatedBy, store.Micros(s.CreatedAt))
	return err
}

// Stored recounts the bytes of organisations' snapshots for their quotas.
func Stored() quota.Count {
	return quota.Count{Kind: quota.Sources, SQL: `
		SELECT org_id, CAST(SUM(total_bytes) AS BIGINT) AS bytes FROM source_snapshots GROUP BY org_id`}
}

// bytesOfSource returns the size of all snapshots of a source.
func bytesOfSource(ctx context.Context, tx *store.Tx, src Source) (int64, error) {
	rows, err := tx.Query(ctx, `
		SELECT CAST(COALESCE(SUM(total_bytes), 0) AS BIGINT) FROM source_snapshots WHERE org_id = $1 AND source_id = $2`,
		src.OrgID, src.ID)
	return store.One(rows, err, "Size", store.Value[int64])
}

func snapshotByID(ctx context.Context, q store.Querier, src Source, id string) (Snapshot, error) {
	rows, err := q.Query(ctx, `
		SELECT `+snapshotColumns+` FROM source_snapshots WHERE org_id = $1 AND source_id = $2 AND id = $3`,
		src.OrgID, src.ID, id)
	return store.One(rows, err, "Snapshot", scanSnapshot)
}

// snapshotOfOrg finds a snapshot of any of the organisation's sources.
func snapshotOfOrg(ctx context.Context, q store.Querier, orgID, id string) (Snapshot, error) {
	rows, err := q.Query(ctx, `SELECT `+snapshotColumns+` FROM source_snapshots WHERE org_id = $1 AND id = $2`, orgID, id)
	return store.One(rows, err, "Snapshot", scanSnapshot)
}

// snapshotsOf returns the newest snapshots of a source, newest first.
func snapshotsOf(ctx context.Context, q store.Querier, src Source, limit int) ([]Snapshot, error) {
	rows, err := q.Query(ctx, `
		SELECT `+snapshotColumns+` FROM source_snapshots WHERE org_id = $1 AND source_id = $2
		ORDER BY created_at DESC, id DESC LIMIT $3`, src.OrgID, src.ID, limit)
	return store.All(rows, err, scanSnapshot)
}

// Current returns the current snapshots of the organisation's sources, by source id.
// Sources without one are left out.
func (s *Service) Current(
	ctx context.Context, q store.Querier, orgID string, sourceIDs []string,
) (map[string]Snapshot, error) {
	all := map[string]Snapshot{}
	if len(sourceIDs) == 0 {
		return all, nil
	}
	in, list := q.Dialect().In("$2", sourceIDs)
	rows, err := q.Query(ctx, `
		SELECT `+snapshotColumns+` FROM source_snapshots
		WHERE org_id = $1 AND id IN (SELECT c.current_snapshot_id FROM cloud_sources c WHERE c.org_id = $1
			AND c.id`+in+`)`, orgID, list)
	found, err := store.All(rows, err, scanSnapshot)
	for _, s := range found {
		all[s.SourceID] = s
	}
	return all, err
}

// Previous returns the snapshot that the given one replaced. The first one has none:
// fault.NotFound.
func (s *Service) Previous(ctx context.Context, snapshot Snapshot) (Snapshot, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+snapshotColumns+` FROM source_snapshots WHERE org_id = $1 AND source_id = $2 AND created_at < $3
		ORDER BY created_at DESC, id DESC LIMIT 1`, snapshot.OrgID, snapshot.SourceID, store.Micros(snapshot.CreatedAt))
	return store.One(rows, err, "Earlier snapshot", scanSnapshot)
}

// hasContent reports whether the source has a snapshot with the same content, and
// therefore the same blob.
func hasContent(ctx context.Context, q store.Querier, s Snapshot) (bool, error) {
	rows, err := q.Query(ctx, `
		SELECT 1 FROM source_snapshots WHERE org_id = $1 AND source_id = $2 AND content_hash = $3 LIMIT 1`,
		s.OrgID, s.SourceID, s.ContentHash)
	found, err := store.All(rows, err, store.Value[int])
	return len(found) > 0, err
}

// snapshotKeys returns the blob keys that the sources' snapshots refer to.
func snapshotKeys(ctx context.Context, q store.Querier, sourceIDs []string) ([]string, error) {
	in, list := q.Dialect().In("$1", sourceIDs)
	rows, err := q.Query(ctx, `SELECT DISTINCT source_id, content_hash FROM source_snapshots WHERE source_id`+in, list)
	return store.All(rows, err, func(row store.Row) (string, error) {
		var sourceID, hash string
		err := row.Scan(&sourceID, &hash)
		return blobKey(sourceID, hash), err
	})
}

func insertReport(ctx context.Context, tx *store.Tx, r Report) error {
	findings, err := json.Marshal(r.Found)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO source_reports (id, org_id, snapshot_id, engine, status, findings, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		r.ID, r.OrgID, r.SnapshotID, r.Engine, r.Found.Status(), string(findings), store.Micros(r.CreatedAt))
	return err
}

func reportsOf(ctx context.Context, q store.Querier, orgID, snapshotID string) ([]Report, error) {
	rows, err := q.Query(ctx, `
		SELECT id, org_id, snapshot_id, engine, findings, created_at FROM source_reports
		WHERE org_id = $1 AND snapshot_id = $2 ORDER BY id`, orgID, snapshotID)
	return store.All(rows, err, func(row store.Row) (r Report, err error) {
		var findings string
		if err := row.Scan(&r.ID, &r.OrgID, &r.SnapshotID, &r.Engine, &findings, store.Time(&r.CreatedAt)); err != nil {
			return r, err
		}
		return r, json.Unmarshal([]byte(findings), &r.Found)
	})
}

// References calls fn for every blob that a snapshot refers to, for backup and doctor.
func (s *Service) References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error {
	rows, err := q.Query(ctx, `SELECT DISTINCT source_id, content_hash FROM source_snapshots`)
	return store.Each(rows, err, func(row store.Row) error {
		var sourceID, hash string
		if err := row.Scan(&sourceID, &hash); err != nil {
			return err
		}
		return fn(blob.Ref{Key: blobKey(sourceID, hash), SHA256: hash})
	})
}
