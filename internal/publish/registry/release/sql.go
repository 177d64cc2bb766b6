package release

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// idBefore finds the version that was current before, and is neither rolled back nor
// withdrawn.
func idBefore(ctx context.Context, q store.Querier, e registry.Entry) (id, name string, err error) {
	rows, err := q.Query(ctx, `
		SELECT v.id, v.version FROM registry_entries e JOIN registry_versions v ON v.id = `+registry.BeforeCurrent+`
		WHERE e.org_id = $1 AND e.id = $2`, e.OrgID, e.ID)
	_, err = store.One(rows, err, "Version", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(&id, &name)
	})
	return id, name, err
}

// maxEarlier is how many earlier versions a revert considers.
const maxEarlier = 20

// earlierIDs returns the versions that a revert, the automatic rollback, can make current, last current first:
// neither rolled back nor withdrawn, and with content that differs from the current
// version's and from that of every version that was rolled back. The last condition is
// about rolling forward: it copies a version's content, and if the copy is bad, so is the
// original.
func earlierIDs(ctx context.Context, q store.Querier, e registry.Entry) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT v.id FROM registry_versions v
			JOIN (SELECT version_id, MAX(since) AS since FROM registry_currents WHERE entry_id = $1 GROUP BY version_id) c
				ON c.version_id = v.id
		WHERE v.entry_id = $1 AND NOT v.rolled_back AND v.state = 'published' AND NOT EXISTS (
			SELECT 1 FROM registry_versions b
			WHERE b.entry_id = $1 AND b.content_hash = v.content_hash AND (b.rolled_back OR b.id = $2))
		ORDER BY c.since DESC, v.id DESC LIMIT $3`, e.ID, e.CurrentVersionID, maxEarlier)
	return store.All(rows, err, store.Value[string])
}

// copyVersion inserts a version with the content of another. The two share objects, which
// are deleted with the entry.
func copyVersion(ctx context.Context, tx *store.Tx, of, fresh registry.Version, summary string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO registry_versions (id, entry_id, version, content_hash, canonical_hash, tree_digest, size, description,
			file_manifest, change_summary, source, source_ref, source_repo, rolled_back, pushed_by, pushed_at,
				file_paths, skill_md,
			archive_key, canonical_key, entry_description, state, gate_id, source_commit, source_path)
		SELECT $2, entry_id, $3, content_hash, canonical_hash, tree_digest, size, description,
			file_manifest, $4, source, source_ref, source_repo, FALSE, $5, $6, file_paths, skill_md,
			archive_key, canonical_key, entry_description, 'published', NULL, source_commit, source_path
		FROM registry_versions WHERE id = $1`, of.ID, fresh.ID, fresh.Version, summary, fresh.PushedBy,
		store.Micros(fresh.PushedAt))
	if err != nil {
		return err
	}
	if err := requirements.Copy(ctx, tx, of.ID, fresh.ID); err != nil {
		return err
	}
	return treehash.Copy(ctx, tx, of.ID, fresh.ID)
}

// versionNames returns the names of all versions, in no order.
func versionNames(ctx context.Context, q store.Querier, e registry.Entry) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT version FROM registry_versions WHERE entry_id = $1`, e.ID)
	return store.All(rows, err, store.Value[string])
}

// setRolledBack sets or clears the mark that a version was rolled back.
func setRolledBack(ctx context.Context, q store.Querier, versionID string, marked bool) error {
	_, err := q.Exec(ctx, `UPDATE registry_versions SET rolled_back = $2 WHERE id = $1`, versionID, marked)
	return err
}

// insertRollback records a rollback. unmarked: the target had the mark before, which
// undoing must set again.
func insertRollback(ctx context.Context, q store.Querier, entryID string, r registry.Rollback, unmarked bool) error {
	_, err := q.Exec(ctx, `
		INSERT INTO registry_rollbacks (id, entry_id, from_version, to_version, reason, rolled_back_by, rolled_back_at,
			published, unmarked)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		store.NewID(), entryID, r.From, r.To, r.Reason, r.By, store.Micros(r.At), r.Published, unmarked)
	return err
}

// A rollback is the part of a record that undoing needs.
type rollback struct {
	id, from, to string
	at           time.Time
	unmarked     bool
	undone       bool
	standing     bool // no other version has become current since
}

// lastRollback returns the newest rollback of an entry; to is the version that became
// current, which differs from the target if it was rolled forward.
func lastRollback(ctx context.Context, q store.Querier, entryID string) (rollback, error) {
	rows, err := q.Query(ctx, `
		SELECT r.id, r.from_version, COALESCE(r.published, r.to_version), r.rolled_back_at, r.unmarked, r.undone_at IS NOT NULL,
			NOT EXISTS (SELECT 1 FROM registry_currents c WHERE c.entry_id = r.entry_id AND c.since > r.rolled_back_at)
		FROM registry_rollbacks r WHERE r.entry_id = $1 ORDER BY r.id DESC LIMIT 1`, entryID)
	return store.One(rows, err, "Rollback", func(row store.Row) (r rollback, err error) {
		err = row.Scan(&r.id, &r.from, &r.to, store.Time(&r.at), &r.unmarked, &r.undone, &r.standing)
		return r, err
	})
}

func markUndone(ctx context.Context, q store.Querier, r rollback, by string, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE registry_rollbacks SET undone_at = $2, undone_by = $3 WHERE id = $1`,
		r.id, store.Micros(at), by)
	return err
}

// maxTenures is how many changes of the current version are read.
const maxTenures = 1_000

// tenuresOf reads the most recent tenure of each version, by version id.
func tenuresOf(ctx context.Context, q store.Querier, entryID string) (map[string]Tenure, error) {
	rows, err := q.Query(ctx, `
		SELECT version_id, since FROM registry_currents WHERE entry_id = $1 ORDER BY since DESC, id DESC LIMIT $2`,
		entryID, maxTenures)
	tenures := map[string]Tenure{}
	var next *time.Time // when the following version became current
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var since time.Time
		err := row.Scan(&id, store.Time(&since))
		if _, later := tenures[id]; !later {
			tenures[id] = Tenure{since, next}
		}
		next = &since
		return err
	})
	return tenures, err
}

// wasRolledBack reports whether the version was ever rolled back.
func wasRolledBack(ctx context.Context, tx *store.Tx, v registry.Version) (bool, error) {
	rows, err := tx.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM registry_rollbacks WHERE entry_id = $1 AND from_version = $2)`, v.EntryID, v.Version)
	return store.One(rows, err, "Rollback", store.Value[bool])
}
