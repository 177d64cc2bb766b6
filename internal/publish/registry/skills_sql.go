package registry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

// currentsOfSkills reads when each version of the skills' entries became current, oldest
// first.
func currentsOfSkills(ctx context.Context, q store.Querier, skillIDs []string) (map[string]inuse.Timeline, error) {
	in, list := q.Dialect().In("$1", skillIDs)
	timelines := map[string]inuse.Timeline{}
	rows, err := q.Query(ctx, `
		SELECT e.skill_id, c.version_id, c.since
		FROM registry_entries e JOIN registry_currents c ON c.entry_id = e.id
		WHERE e.skill_id`+in+` ORDER BY c.since, c.id`, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var skillID string
		var c inuse.Current
		err := row.Scan(&skillID, &c.VersionID, store.Time(&c.Since))
		t := timelines[skillID]
		t.Currents = append(t.Currents, c)
		timelines[skillID] = t
		return err
	})
	return timelines, err
}

// addVersions adds the lookup of versions by content and by name. Later pushes win, hence
// the order.
func addVersions(ctx context.Context, q store.Querier, skillIDs []string, timelines map[string]inuse.Timeline) error {
	in, list := q.Dialect().In("$1", skillIDs)
	rows, err := q.Query(ctx, `
		SELECT e.skill_id, v.content_hash, v.version, v.id
		FROM registry_entries e JOIN registry_versions v ON v.entry_id = e.id
		WHERE e.skill_id`+in+` ORDER BY v.pushed_at, v.id`, list)
	return store.Each(rows, err, func(row store.Row) error {
		var skillID, hash, name, id string
		err := row.Scan(&skillID, &hash, &name, &id)
		t := timelines[skillID]
		if t.ByHash == nil {
			t.ByHash, t.ByName = map[string]string{}, map[string]string{}
		}
		t.ByHash[hash], t.ByName[name] = id, id
		timelines[skillID] = t
		return err
	})
}

// CurrentVersion returns the name of the current version of a skill's entry; nil if the
// skill isn't in the registry, or no version is current.
func (s *Service) CurrentVersion(ctx context.Context, q store.Querier, orgID, skillID string) (version *string, err error) {
	rows, err := q.Query(ctx, `
		SELECT current_version FROM registry_entries
		WHERE org_id = $1 AND skill_id = $2 AND current_version_id <> ''`, orgID, skillID)
	err = store.Each(rows, err, func(row store.Row) error {
		found, err := store.Value[string](row)
		version = &found
		return err
	})
	return version, err
}

// IDOfSkill returns the entry that belongs to a skill. A skill that isn't in the registry is
// fault.NotFound.
func IDOfSkill(ctx context.Context, q store.Querier, orgID, skillID string) (string, error) {
	rows, err := q.Query(ctx, `
		SELECT id FROM registry_entries WHERE org_id = $1 AND skill_id = $2 ORDER BY id LIMIT 1`, orgID, skillID)
	return store.One(rows, err, "Registry entry", store.Value[string])
}

// LockOfSkill is Lock by the skill that the entry belongs to.
func (s *Service) LockOfSkill(ctx context.Context, tx *store.Tx, orgID, skillID string) (Entry, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+entryColumns+` FROM registry_entries e
		WHERE e.org_id = $1 AND e.skill_id = $2`+tx.Dialect().ForUpdate(), orgID, skillID)
	return store.One(rows, err, "Registry entry", scanEntry)
}
