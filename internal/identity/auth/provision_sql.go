package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// reinstateUser undoes markUserRemoved, and reports whether the user was removed.
func reinstateUser(ctx context.Context, tx *store.Tx, u User) (bool, error) {
	n, err := tx.Exec(ctx, `
		UPDATE users SET removed_at = NULL, former_email = NULL, email = $3, name = $4, role = $5, given_role = $5
		WHERE org_id = $1 AND id = $2 AND removed_at IS NOT NULL`, u.OrgID, u.ID, u.Email, u.Name, u.Role)
	return n > 0, err
}

func updateProfile(ctx context.Context, tx *store.Tx, u User) error {
	_, err := tx.Exec(ctx, `
		UPDATE users SET email = $3, name = $4 WHERE org_id = $1 AND id = $2 AND removed_at IS NULL`, u.OrgID, u.ID,
		u.Email, u.Name)
	return err
}

// lockOwnersAnd is lockUsers for any number of members. Its cost is one query whatever their
// number.
func lockOwnersAnd(ctx context.Context, tx *store.Tx, orgID string, ids []string) ([]User, error) {
	in, arg := tx.Dialect().In("$3", ids)
	rows, err := tx.Query(ctx, `
		SELECT `+userColumns+` FROM users
		WHERE org_id = $1 AND removed_at IS NULL AND (role = $2 OR id `+in+`)
		ORDER BY id`+tx.Dialect().ForUpdate(), orgID, access.Owner, arg)
	return store.All(rows, err, scanUser)
}

// updateRoles writes roles that were given to users who are locked.
func updateRoles(ctx context.Context, tx *store.Tx, given []roleChange) error {
	ids, roles := make([]string, len(given)), make([]string, len(given))
	for i, c := range given {
		ids[i], roles[i] = c.ID, string(c.to)
	}
	return store.BulkUpdate{
		Table: "users", Key: store.Col("id", ids), Set: []store.Column{store.Col("role", roles), store.Col("given_role", roles)},
	}.Run(ctx, tx)
}
