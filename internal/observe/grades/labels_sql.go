package grades

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// labelsOf returns the labels of a skill's groups by key, "" where the judge's answer
// was not usable.
func labelsOf(ctx context.Context, q store.Querier, skillID string, groups []Group) (map[string]string, error) {
	in, list := q.Dialect().In("$2", columnOf(groups, func(g Group) string { return g.Key }))
	rows, err := q.Query(ctx, `
		SELECT key, COALESCE(MAX(label), '') FROM grade_failure_labels WHERE skill_id `+itsSkills+` AND key`+in+` GROUP BY key`,
		skillID, list)
	labels := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var key, label string
		err := row.Scan(&key, &label)
		labels[key] = label
		return err
	})
	return labels, err
}

// newestFailures returns the newest reason of each group, by key.
func newestFailures(
	ctx context.Context, q store.Querier, skillID string, since time.Time, groups []Group,
) (map[string]unlabelled, error) {
	in, list := q.Dialect().In("$3", columnOf(groups, func(g Group) string { return g.Key }))
	rows, err := q.Query(ctx, `
		SELECT key, grade_id, label FROM (
			SELECT key, grade_id, label, ROW_NUMBER() OVER (PARTITION BY key ORDER BY failed_at DESC, grade_id) AS place
			FROM grade_failures WHERE skill_id `+itsSkills+` AND failed_at >= $2 AND key`+in+`
		) AS f WHERE place = 1`, skillID, store.Micros(since), list)
	newest := map[string]unlabelled{}
	err = store.Each(rows, err, func(row store.Row) error {
		var u unlabelled
		err := row.Scan(&u.key, &u.gradeID, &u.reason)
		newest[u.key] = u
		return err
	})
	return newest, err
}

// insertLabel stores a label, or that there is none, unless its reason was deleted
// meanwhile: nothing that was made of it may outlive it.
func insertLabel(ctx context.Context, tx *store.Tx, skillID string, u unlabelled, label string) error {
	rows, err := tx.Query(ctx, `
		SELECT 1 FROM grade_failures WHERE grade_id = $1 AND key = $2`+tx.Dialect().ForKeyShare(), u.gradeID, u.key)
	if found, err := store.All(rows, err, store.Value[int]); err != nil || len(found) == 0 {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO grade_failure_labels (skill_id, key, grade_id, label, labelled_at) VALUES ($1, $2, $3, NULLIF($4, ''), $5)
		ON CONFLICT (skill_id, key) DO NOTHING`, skillID, u.key, u.gradeID, label, store.Micros(store.Now()))
	return err
}
