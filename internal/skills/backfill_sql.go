package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/store"
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
// version, in the order of their ids, and their users.
func observationsAfter(ctx context.Context, q store.Querier, after string, limit int) ([]observation, []string, error) {
	rows, err := q.Query(ctx, `
		SELECT user_id, `+observationColumns+` FROM skill_observations
		WHERE id > $1 AND (version_id IS NOT NULL OR NOT is_check) ORDER BY id LIMIT $2`, after, limit)
	return withUsers(rows, err, scanObservation)
}

func gradingsAfter(ctx context.Context, q store.Querier, after string, limit int) ([]grading, []string, error) {
	rows, err := q.Query(ctx, `
		SELECT user_id, `+gradingColumns+` FROM skill_gradings WHERE id > $1 ORDER BY id LIMIT $2`, after, limit)
	return withUsers(rows, err, scanGrading)
}

// withUsers scans rows that begin with a user's id.
func withUsers[T any](rows store.Rows, err error, scan func(store.Row) (T, error)) (all []T, users []string, _ error) {
	all, err = store.All(rows, err, func(row store.Row) (T, error) {
		return scan(rowWithUser{row, &users})
	})
	return all, users, err
}

// rowWithUser scans its first column into users.
type rowWithUser struct {
	store.Row
	users *[]string
}

func (r rowWithUser) Scan(targets ...any) error {
	var user string
	err := r.Row.Scan(append([]any{&user}, targets...)...)
	*r.users = append(*r.users, user)
	return err
}
