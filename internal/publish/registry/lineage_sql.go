package registry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// BeforeCurrent is a subquery for the version that a rollback without a target makes current:
// the last one that was current and is neither rolled back nor withdrawn. The outer
// statement must name the entry e.
const BeforeCurrent = `(
	SELECT c.version_id FROM registry_currents c JOIN registry_versions b ON b.id = c.version_id
	WHERE c.entry_id = e.id AND c.version_id <> e.current_version_id AND NOT b.rolled_back AND b.state = 'published'
	ORDER BY c.since DESC, c.id DESC LIMIT 1)`

// A Lineage is the current version of a skill's entry, and the version before it.
type Lineage struct {
	EntryID   string
	CurrentID string
	Current   string
	Since     time.Time // when the current version became current
	BeforeID  string    // "" if there is none
	Before    string
}

// LineagesOfSkills returns the lineages of an organisation's skills, by skill id. Skills without
// an entry or a current version are left out.
func LineagesOfSkills(ctx context.Context, q store.Querier, orgID string, skillIDs []string) (map[string]Lineage, error) {
	all := map[string]Lineage{}
	if len(skillIDs) == 0 {
		return all, nil
	}
	in, list := q.Dialect().In("$2", skillIDs)
	rows, err := q.Query(ctx, `
		SELECT e.skill_id, e.id, v.id, v.version,
			COALESCE((SELECT MAX(c.since) FROM registry_currents c WHERE c.entry_id = e.id), 0),
			COALESCE(b.id, ''), COALESCE(b.version, '')
		FROM registry_entries e JOIN registry_versions v ON v.id = e.current_version_id
			LEFT JOIN registry_versions b ON b.id = `+BeforeCurrent+`
		WHERE e.org_id = $1 AND e.skill_id`+in, orgID, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var skillID string
		var l Lineage
		err := row.Scan(&skillID, &l.EntryID, &l.CurrentID, &l.Current, store.Time(&l.Since), &l.BeforeID, &l.Before)
		all[skillID] = l
		return err
	})
	return all, err
}

// An EntryText is the SKILL.md of an entry's current version.
type EntryText struct {
	EntryID   string
	VersionID string
	Version   string
	SkillMD   string // "" if it's too large to be stored in the database
}

// EntryTexts returns the SKILL.md of an organisation's entries, by entry id. Entries without a
// current version are left out.
func EntryTexts(ctx context.Context, q store.Querier, orgID string, entryIDs []string) (map[string]EntryText, error) {
	all := map[string]EntryText{}
	if len(entryIDs) == 0 {
		return all, nil
	}
	in, list := q.Dialect().In("$2", entryIDs)
	rows, err := q.Query(ctx, `
		SELECT e.id, v.id, v.version, v.skill_md FROM registry_entries e JOIN registry_versions v ON v.id = e.current_version_id
		WHERE e.org_id = $1 AND e.id`+in, orgID, list)
	return all, store.Each(rows, err, func(row store.Row) error {
		var t EntryText
		var content []byte
		err := row.Scan(&t.EntryID, &t.VersionID, &t.Version, &content)
		t.SkillMD = string(content)
		all[t.EntryID] = t
		return err
	})
}
