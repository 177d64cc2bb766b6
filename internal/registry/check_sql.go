package registry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/exam"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Check says whether entries, versions and the uses of their bytes agree.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]exam.Finding, error) {
	return exam.Check(ctx, q, "registry", []exam.Rule{
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(e.name), '') FROM registry_entries e
				LEFT JOIN registry_versions v ON v.id = e.current_version_id AND v.entry_id = e.id
				WHERE v.id IS NULL OR v.version <> e.current_version OR v.content_hash <> e.current_hash`,
			Wrong: "entries whose current version is not there or another", Do: "make a version current with `whetstone rollback`, or restore a backup",
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(e.name), '') FROM registry_entries e
				WHERE e.installation_count <> (SELECT COUNT(DISTINCT i.user_id) FROM registry_installations i WHERE i.entry_id = e.id)`,
			Wrong: "entries whose count of installations is wrong", Do: exam.Report,
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(v.id), '') FROM registry_versions v
				WHERE NOT EXISTS (SELECT 1 FROM registry_blobs b WHERE b.hash = v.content_hash)
					OR v.canonical_hash IS NOT NULL AND NOT EXISTS (SELECT 1 FROM registry_blobs b WHERE b.hash = v.canonical_hash)`,
			Wrong: "versions whose bytes are not counted as used", Do: exam.Report,
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(b.hash), '') FROM registry_blobs b
				WHERE NOT b.deleting AND b.refs < (SELECT COUNT(*) FROM registry_versions v WHERE v.content_hash = b.hash)
					+ (SELECT COUNT(*) FROM registry_versions v WHERE v.canonical_hash = b.hash)`,
			Wrong: "archives that are used more often than was counted", Do: "let the service run for two hours: it recounts them",
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(b.hash), '') FROM registry_blobs b
				WHERE b.touched_at < $1 AND (b.refs = 0 OR b.refs > (SELECT COUNT(*) FROM registry_versions v WHERE v.content_hash = b.hash)
					+ (SELECT COUNT(*) FROM registry_versions v WHERE v.canonical_hash = b.hash))`,
			Args:  []any{store.Micros(store.Now().Add(-3 * pushGrace))},
			Wrong: "archives that nobody uses and that were not removed", Do: "is there a process with --roles worker? It recounts and removes them every hour", Mild: true,
		},
		{
			Broken: `
				SELECT COUNT(*), COALESCE(MIN(c.id), '') FROM registry_currents c
				WHERE NOT EXISTS (SELECT 1 FROM registry_versions v WHERE v.id = c.version_id)`,
			Wrong: "times of versions that are not there", Do: exam.Report,
		},
	})
}
