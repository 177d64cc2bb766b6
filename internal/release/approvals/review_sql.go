package approvals

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// A waiting candidate, and the commit that made it.
type waiting struct{ versionID, commit string }

// waitingOf lists the newest candidates that commits of a connection made, on its branch or
// as a tag. Those that a later push has superseded are left out.
func waitingOf(ctx context.Context, q store.Querier, c repohost.Connection) ([]waiting, error) {
	const candidates = `
		FROM registry_entries e
		JOIN registry_versions v ON v.entry_id = e.id AND v.state = 'candidate' AND v.source IN ('repohost', 'repohost-direct')
		LEFT JOIN registry_versions current ON current.id = e.current_version_id
		JOIN repohost_attempts a ON a.connection_id = $1 AND a.version = v.version`
	const mine = ` AND e.org_id = $2 AND e.id = $3 AND (current.id IS NULL OR current.pushed_at <= v.pushed_at)`
	rows, err := q.Query(ctx, `
		SELECT id, commit_sha FROM (
			SELECT v.id, v.pushed_at, a.commit_sha`+candidates+`
			WHERE a.ref_kind = 'branch' AND a.ref_name = $4 AND a.commit_sha = v.source_ref
				AND a.status IN ('published', 'unchanged')`+mine+`
			UNION ALL
			SELECT v.id, v.pushed_at, a.commit_sha`+candidates+`
			WHERE a.ref_kind = 'tag' AND a.ref_name = v.source_ref AND a.status = 'published'`+mine+`) found
		ORDER BY pushed_at DESC, id DESC LIMIT $5`, c.ID, c.OrgID, c.EntryID, c.DefaultBranch, maxReviewed)
	return store.All(rows, err, func(row store.Row) (w waiting, err error) {
		err = row.Scan(&w.versionID, &w.commit)
		return w, err
	})
}

// A known version of an entry.
type known struct {
	id    string
	state registry.State
}

// versionsWith lists the versions of an entry with a content, those that were published
// first. One that was withdrawn is none.
func versionsWith(ctx context.Context, q store.Querier, entryID, digest string) ([]known, error) {
	rows, err := q.Query(ctx, `
		SELECT id, state FROM registry_versions
		WHERE entry_id = $1 AND tree_digest = $2 AND state IN ('published', 'candidate')
		ORDER BY state DESC, id LIMIT 20`, entryID, digest)
	return store.All(rows, err, func(row store.Row) (k known, err error) {
		err = row.Scan(&k.id, &k.state)
		return k, err
	})
}
