package release

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/registry/lineage"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// idBefore finds the version that was current last before the one that is, but is
// neither rolled back nor withdrawn.
func idBefore(ctx context.Context, q store.Querier, e registry.Entry) (string, error) {
	rows, err := q.Query(ctx, `
		SELECT v.id FROM registry_entries e JOIN registry_versions v ON v.id = `+lineage.Before+`
		WHERE e.org_id = $1 AND e.id = $2`, e.OrgID, e.ID)
	return store.One(rows, err, "Version", store.Value[string])
}

// copyVersion inserts a version with the content of another. They share their
// objects, which are deleted with the entry.
func copyVersion(ctx context.Context, tx *store.Tx, of, fresh registry.Version, summary string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO registry_versions (id, entry_id, version, content_hash, canonical_hash, tree_digest, size, description,
			file_manifest, change_summary, source, source_ref, source_repo, rolled_back, pushed_by, pushed_at, file_paths, skill_md,
			archive_key, canonical_key, entry_description, state, gate_id)
		SELECT $2, entry_id, $3, content_hash, canonical_hash, tree_digest, size, description,
			file_manifest, $4, source, source_ref, source_repo, FALSE, $5, $6, file_paths, skill_md,
			archive_key, canonical_key, entry_description, 'published', NULL
		FROM registry_versions WHERE id = $1`, of.ID, fresh.ID, fresh.Version, summary, fresh.PushedBy, store.Micros(fresh.PushedAt))
	return err
}

func versionNames(ctx context.Context, q store.Querier, e registry.Entry) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT version FROM registry_versions WHERE entry_id = $1`, e.ID)
	return store.All(rows, err, store.Value[string])
}

// markRolledBack marks the version that was rolled back, and clears the mark of
// the one that becomes current.
func markRolledBack(ctx context.Context, q store.Querier, from, to string) error {
	_, err := q.Exec(ctx, `UPDATE registry_versions SET rolled_back = (id = $1) WHERE id IN ($1, $2)`, from, to)
	return err
}

func insertRollback(ctx context.Context, q store.Querier, entryID string, r registry.Rollback) error {
	_, err := q.Exec(ctx, `
		INSERT INTO registry_rollbacks (id, entry_id, from_version, to_version, reason, rolled_back_by, rolled_back_at, published)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, store.NewID(), entryID, r.From, r.To, r.Reason, r.By, store.Micros(r.At), r.Published)
	return err
}

// wasRolledBack reports whether there was a rollback from the version.
func wasRolledBack(ctx context.Context, tx *store.Tx, v registry.Version) (bool, error) {
	rows, err := tx.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM registry_rollbacks WHERE entry_id = $1 AND from_version = $2)`, v.EntryID, v.Version)
	return store.One(rows, err, "Rollback", store.Value[bool])
}
