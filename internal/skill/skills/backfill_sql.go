package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// lockBackfill returns the cursor of a step, NotFound if the step is done.
func lockBackfill(ctx context.Context, tx *store.Tx, step string) (after string, err error) {
	rows, err := tx.Query(ctx, `SELECT after_id FROM skill_backfill WHERE step = $1`+tx.Dialect().ForUpdate(), step)
	return store.One(rows, err, "Step", store.Value[string])
}

// moveBackfill moves the cursor of a step, or deletes it at the end.
func moveBackfill(ctx context.Context, tx *store.Tx, step, last string) error {
	if last == "" {
		_, err := tx.Exec(ctx, `DELETE FROM skill_backfill WHERE step = $1`, step)
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE skill_backfill SET after_id = $2 WHERE step = $1`, step, last)
	return err
}

// observationsAfter returns the next observations that are offers or have a
// version, in the order of their ids, and their owners.
func observationsAfter(ctx context.Context, q store.Querier, after string, limit int) ([]observation, []owner, error) {
	rows, err := q.Query(ctx, `
		SELECT org_id, user_id, `+observationColumns+` FROM skill_observations
		WHERE id > $1 AND (version_id IS NOT NULL OR NOT is_check) ORDER BY id LIMIT $2`, after, limit)
	return withOwners(rows, err, scanObservation)
}

func gradingsAfter(ctx context.Context, q store.Querier, after string, limit int) ([]grading, []owner, error) {
	rows, err := q.Query(ctx, `
		SELECT org_id, user_id, `+gradingColumns+` FROM skill_gradings WHERE id > $1 ORDER BY id LIMIT $2`, after, limit)
	return withOwners(rows, err, scanGrading)
}

// owner is whom a row belongs to.
type owner struct{ orgID, userID string }

// withOwners scans rows that begin with the ids of the organisation and the user.
func withOwners[T any](rows store.Rows, err error, scan func(store.Row) (T, error)) (all []T, owners []owner, _ error) {
	all, err = store.All(rows, err, func(row store.Row) (T, error) {
		return scan(rowWithOwner{row, &owners})
	})
	return all, owners, err
}

// rowWithOwner scans its first columns into owners.
type rowWithOwner struct {
	store.Row
	owners *[]owner
}

func (r rowWithOwner) Scan(targets ...any) error {
	var o owner
	err := r.Row.Scan(append([]any{&o.orgID, &o.userID}, targets...)...)
	*r.owners = append(*r.owners, o)
	return err
}
