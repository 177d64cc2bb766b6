package curate

import (
	"cmp"
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// skill is a row of skills.
type skill struct {
	id, orgID, name   string
	confirmed, hidden bool
	mergedInto        string // "" for none
}

func scanSkill(row store.Row) (k skill, err error) {
	err = row.Scan(&k.id, &k.orgID, &k.name, &k.confirmed, &k.hidden, &k.mergedInto)
	return k, err
}

const selectSkill = `
	SELECT id, org_id, name, confirmed, hidden, COALESCE(merged_into, '') FROM skills
	WHERE org_id = $1 AND (id = $2 OR name = $2) ORDER BY id = $2 DESC LIMIT 1`

func skillByIDOrName(ctx context.Context, q store.Querier, orgID, idOrName string) (skill, error) {
	rows, err := q.Query(ctx, selectSkill, orgID, idOrName)
	return store.One(rows, err, "Skill", scanSkill)
}

// targetSkill keeps the skill from being merged itself, not from being reported.
func targetSkill(ctx context.Context, tx *store.Tx, orgID, idOrName string) (skill, error) {
	rows, err := tx.Query(ctx, selectSkill+tx.Dialect().ForKeyShare(), orgID, idOrName)
	return store.One(rows, err, "Skill", scanSkill)
}

func updateSkill(ctx context.Context, tx *store.Tx, k skill) error {
	_, err := tx.Exec(ctx, `UPDATE skills SET hidden = $3, merged_into = NULLIF($4, '') WHERE org_id = $1 AND id = $2`,
		k.orgID, k.id, k.hidden, k.mergedInto)
	return err
}

// hasMerged reports whether other skills are merged into this one.
func hasMerged(ctx context.Context, q store.Querier, orgID, id string) (bool, error) {
	n, err := store.Count(ctx, q, `FROM skills WHERE org_id = $1 AND merged_into = $2`, orgID, id)
	return n > 0, err
}

// holderOf returns what belongs to a skill and cannot be merged, "" for nothing.
func holderOf(ctx context.Context, q store.Querier, orgID, id string) (string, error) {
	rows, err := q.Query(ctx, `
		SELECT CASE WHEN EXISTS (SELECT 1 FROM registry_entries WHERE org_id = $1 AND skill_id = $2) THEN 'registry entry'
			WHEN EXISTS (SELECT 1 FROM cloud_sources WHERE org_id = $1 AND skill_id = $2) THEN 'source' ELSE '' END`, orgID, id)
	return store.One(rows, err, "Holder", store.Value[string])
}

// reported is a row that a user reported.
type reported struct{ id, userID string }

// misplacedRows returns rows of a skill that do not count for the right one.
func misplacedRows(ctx context.Context, q store.Querier, table string, k skill, limit int) ([]reported, error) {
	// The first part finds the rows of a merge, the second those of one that was
	// taken back; the limit ends the search early in both.
	rows, err := q.Query(ctx, `
		SELECT user_id, id FROM (
			SELECT user_id, id FROM `+table+` WHERE skill_id = $1 AND origin_id IS NULL AND $1 <> $2
			UNION ALL SELECT user_id, id FROM `+table+` WHERE origin_id = $1 AND skill_id <> $2) AS misplaced
		LIMIT $3`, k.id, cmp.Or(k.mergedInto, k.id), limit)
	return store.All(rows, err, func(row store.Row) (r reported, err error) {
		err = row.Scan(&r.userID, &r.id)
		return r, err
	})
}
