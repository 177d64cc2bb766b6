package scim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Users are active while their user is a member. A copy of that would have to follow every removal
// elsewhere.
const userColumns = `id, org_id, user_id, user_name, external_id, profile, created_at, updated_at,
	COALESCE((SELECT users.removed_at IS NULL FROM users WHERE users.id = scim_users.user_id), FALSE)`

func scanUser(row store.Row) (u user, err error) {
	var kept string
	err = row.Scan(&u.ID, &u.OrgID, &u.UserID, &u.UserName, &u.ExternalID, &kept, store.Time(&u.CreatedAt),
		store.Time(&u.UpdatedAt),
		&u.Active)
	if err != nil {
		return u, err
	}
	return u, json.Unmarshal([]byte(kept), &u.profile)
}

func insertUser(ctx context.Context, tx *store.Tx, u user, email string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO scim_users (id, org_id, user_name, user_name_key, external_id, email, profile, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		u.ID, u.OrgID, u.UserName, key(u.UserName), u.ExternalID, email, u.encode(), store.Micros(u.CreatedAt),
		store.Micros(u.UpdatedAt))
	return err
}

func updateUser(ctx context.Context, tx *store.Tx, u user, email string) error {
	_, err := tx.Exec(ctx, `
		UPDATE scim_users SET user_name = $3, user_name_key = $4, external_id = $5, email = $6, profile = $7, updated_at = $8
		WHERE org_id = $1 AND id = $2`,
		u.OrgID, u.ID, u.UserName, key(u.UserName), u.ExternalID, email, u.encode(), store.Micros(u.UpdatedAt))
	return err
}

// linkUser stores which user a person is. It is a duplicate if another person of the provider is
// that user.
func linkUser(ctx context.Context, tx *store.Tx, u user) error {
	_, err := tx.Exec(ctx, `UPDATE scim_users SET user_id = $3 WHERE org_id = $1 AND id = $2`, u.OrgID, u.ID, u.UserID)
	return err
}

func deleteUser(ctx context.Context, tx *store.Tx, u user) error {
	_, err := tx.Exec(ctx, `DELETE FROM scim_users WHERE org_id = $1 AND id = $2`, u.OrgID, u.ID)
	return err
}

func userByID(ctx context.Context, q store.Querier, orgID, id, lock string) (user, error) {
	rows, err := q.Query(ctx, `SELECT `+userColumns+` FROM scim_users WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "User", scanUser)
}

// A condition is a WHERE clause and its arguments. Its text has only constants and placeholders.
type condition struct {
	text string
	args []any
}

func (c *condition) and(text string, value any) {
	c.args = append(c.args, value)
	c.text += " AND " + fmt.Sprintf(text, fmt.Sprintf("$%d", len(c.args)))
}

// userCondition only knows attributes with an index; anything else is refused instead of read
// through.
func userCondition(orgID string, f filter) (condition, error) {
	c := condition{`org_id = $1`, []any{orgID}}
	for name, value := range f {
		switch name {
		case "id":
			c.and("id = %s", value)
		case "username":
			c.and("user_name_key = %s", key(value))
		case "externalid":
			c.and("external_id = %s", value)
		case "emails.value":
			c.and("email = %s", key(value))
		default:
			return c, refuse(invalidFilter, "Users cannot be filtered by %s; %s", name, supported)
		}
	}
	return c, nil
}

func usersWhere(where condition) store.List[user] {
	return store.List[user]{Columns: userColumns, From: `FROM scim_users WHERE ` + where.text, Order: `id`, Scan: scanUser}
}

// formerAddress returns the address that a removed user had; "" for a member. It may be an address
// that the provider never had.
func formerAddress(ctx context.Context, q store.Querier, orgID, userID string) (string, error) {
	rows, err := q.Query(ctx, `SELECT COALESCE(former_email, '') FROM users WHERE org_id = $1 AND id = $2`, orgID, userID)
	return store.One(rows, err, "User", store.Value[string])
}

// moveIdentities gives a member the accounts at providers of the removed user that they
// were, but for those of a provider where they have one.
func moveIdentities(ctx context.Context, tx *store.Tx, orgID, from, to string) error {
	_, err := tx.Exec(ctx, `
		UPDATE identities SET user_id = $3
		WHERE org_id = $1 AND user_id = $2 AND issuer NOT IN (SELECT issuer FROM identities WHERE user_id = $3)`, orgID, from, to)
	return err
}
