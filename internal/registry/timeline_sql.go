package registry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Timelines tells which version of a skill was current when, so that what was
// observed counts for the version in use. Skills without an entry have none.
func (s *Service) Timelines(ctx context.Context, q store.Querier, skillIDs []string) (map[string]skills.Timeline, error) {
	in, list := q.Dialect().In("$1", skillIDs)
	timelines := map[string]skills.Timeline{}
	rows, err := q.Query(ctx, `
		SELECT e.skill_id, c.version_id, c.since
		FROM registry_entries e JOIN registry_currents c ON c.entry_id = e.id
		WHERE e.skill_id`+in+` ORDER BY c.since, c.id`, list)
	_, err = store.All(rows, err, func(row store.Row) (c skills.Current, err error) {
		var skillID string
		err = row.Scan(&skillID, &c.VersionID, store.Time(&c.Since))
		t := timelines[skillID]
		t.Currents = append(t.Currents, c)
		timelines[skillID] = t
		return c, err
	})
	if err != nil || len(timelines) == 0 {
		return timelines, err
	}
	return timelines, addHashes(ctx, q, skillIDs, timelines)
}

func addHashes(ctx context.Context, q store.Querier, skillIDs []string, timelines map[string]skills.Timeline) error {
	in, list := q.Dialect().In("$1", skillIDs)
	rows, err := q.Query(ctx, `
		SELECT e.skill_id, v.content_hash, v.id
		FROM registry_entries e JOIN registry_versions v ON v.entry_id = e.id
		WHERE e.skill_id`+in+` ORDER BY v.pushed_at, v.id`, list)
	_, err = store.All(rows, err, func(row store.Row) (struct{}, error) {
		var skillID, hash, id string
		err := row.Scan(&skillID, &hash, &id)
		t := timelines[skillID]
		if t.ByHash == nil {
			t.ByHash = map[string]string{}
		}
		t.ByHash[hash] = id
		timelines[skillID] = t
		return struct{}{}, err
	})
	return err
}
