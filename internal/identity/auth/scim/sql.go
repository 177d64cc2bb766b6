package scim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
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

const groupColumns = `id, org_id, name, external_id, role, created_at, updated_at`

func scanGroup(row store.Row) (g Group, err error) {
	err = row.Scan(&g.ID, &g.OrgID, &g.Name, &g.ExternalID, &g.Role, store.Time(&g.CreatedAt), store.Time(&g.UpdatedAt))
	return g, err
}

// key is how names are compared. SCIM compares names without case; the column name_key has the
// result, for the unique index.
func key(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

func insertGroup(ctx context.Context, tx *store.Tx, g Group) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO scim_groups (id, org_id, name, name_key, external_id, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		g.ID, g.OrgID, g.Name, key(g.Name), g.ExternalID, store.Micros(g.CreatedAt), store.Micros(g.UpdatedAt))
	return err
}

func updateGroup(ctx context.Context, tx *store.Tx, g Group) error {
	_, err := tx.Exec(ctx, `
		UPDATE scim_groups SET name = $3, name_key = $4, external_id = $5, role = $6, updated_at = $7
			WHERE org_id = $1 AND id = $2`,
		g.OrgID, g.ID, g.Name, key(g.Name), g.ExternalID, g.Role, store.Micros(g.UpdatedAt))
	return err
}

func removeGroup(ctx context.Context, tx *store.Tx, g Group) error {
	_, err := tx.Exec(ctx, `DELETE FROM scim_groups WHERE org_id = $1 AND id = $2`, g.OrgID, g.ID)
	return err
}

func groupByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Group, error) {
	rows, err := q.Query(ctx, `SELECT `+groupColumns+` FROM scim_groups WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Group", scanGroup)
}

// groupCondition is called with values of the provider, so they are arguments and never part of the
// SQL.
func groupCondition(orgID string, f filter) (condition, error) {
	c := condition{`org_id = $1`, []any{orgID}}
	for name, value := range f {
		switch name {
		case "id":
			c.and("id = %s", value)
		case "displayname":
			c.and("name_key = %s", key(value))
		case "externalid":
			c.and("external_id = %s", value)
		case "members.value":
			c.and("id IN (SELECT group_id FROM scim_group_members WHERE member_id = %s)", value)
		default:
			return c, refuse(invalidFilter, "Groups cannot be filtered by %s; %s", name, supported)
		}
	}
	return c, nil
}

func groupsWhere(where condition) store.List[Group] {
	return store.List[Group]{
		Columns: groupColumns, From: `FROM scim_groups WHERE ` + where.text, Order: `id`, Scan: scanGroup,
		Sorts: store.Sorting{"created_at": "created_at", "name": "name_key", "role": "role"},
	}
}

// memberCounts returns how many members groups have, by the id of the group.
func memberCounts(ctx context.Context, q store.Querier, orgID string, groupIDs []string) (map[string]int, error) {
	in, arg := q.Dialect().In("$2", groupIDs)
	rows, err := q.Query(ctx, `
		SELECT group_id, COUNT(*) FROM scim_group_members WHERE org_id = $1 AND group_id`+in+` GROUP BY group_id`, orgID, arg)
	counts := map[string]int{}
	return counts, store.Each(rows, err, func(row store.Row) error {
		var id string
		var n int
		err := row.Scan(&id, &n)
		counts[id] = n
		return err
	})
}

// A member is a user in a group. The user name is for display in the provider.
type member struct{ groupID, id, userName string }

func membersOf(ctx context.Context, q store.Querier, orgID string, groupIDs []string) ([]member, error) {
	in, arg := q.Dialect().In("$2", groupIDs)
	rows, err := q.Query(ctx, `
		SELECT m.group_id, m.member_id, u.user_name
		FROM scim_group_members m JOIN scim_users u ON u.id = m.member_id
		WHERE m.org_id = $1 AND m.group_id`+in+` ORDER BY m.group_id, m.member_id`, orgID, arg)
	return store.All(rows, err, func(row store.Row) (m member, err error) {
		err = row.Scan(&m.groupID, &m.id, &m.userName)
		return m, err
	})
}

func memberIDs(ctx context.Context, q store.Querier, g Group) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT member_id FROM scim_group_members WHERE org_id = $1 AND group_id = $2 ORDER BY member_id`, g.OrgID, g.ID)
	return store.All(rows, err, store.Value[string])
}

// lockUsersByID locks users in the order of their ids, and returns the ids of those that
// exist. The order prevents deadlocks between two groups that are pushed at once.
func lockUsersByID(ctx context.Context, tx *store.Tx, orgID string, ids []string) ([]string, error) {
	in, arg := tx.Dialect().In("$2", ids)
	rows, err := tx.Query(ctx, `
		SELECT id FROM scim_users WHERE org_id = $1 AND id`+in+` ORDER BY id`+tx.Dialect().ForUpdate(), orgID, arg)
	return store.All(rows, err, store.Value[string])
}

func removeMembers(ctx context.Context, tx *store.Tx, g Group, ids []string) error {
	in, arg := tx.Dialect().In("$3", ids)
	_, err := tx.Exec(ctx, `DELETE FROM scim_group_members WHERE org_id = $1 AND group_id = $2 AND member_id`+in,
		g.OrgID, g.ID, arg)
	return err
}

// rolesByGroups returns the roles that groups give, by user. Users without any are in
// the map, too. A user without any keeps an entry, as their role may have to go back to the
// default.
func rolesByGroups(ctx context.Context, tx *store.Tx, orgID string, ids []string) (map[string][]access.Role, error) {
	in, arg := tx.Dialect().In("$2", ids)
	rows, err := tx.Query(ctx, `
		SELECT u.user_id, g.role
		FROM scim_users u
			LEFT JOIN scim_group_members m ON m.member_id = u.id
			LEFT JOIN scim_groups g ON g.id = m.group_id AND g.role IS NOT NULL
		WHERE u.org_id = $1 AND u.user_id IS NOT NULL AND u.id`+in, orgID, arg)
	found := map[string][]access.Role{}
	return found, store.Each(rows, err, func(row store.Row) error {
		var id string
		var role *access.Role
		if err := row.Scan(&id, &role); err != nil {
			return err
		}
		all := found[id]
		if role != nil {
			all = append(all, *role)
		}
		found[id] = all
		return nil
	})
}

// roleByGroups is the highest role that the groups of a user give; "" if none does.
func roleByGroups(ctx context.Context, tx *store.Tx, orgID, id string) (access.Role, error) {
	rows, err := tx.Query(ctx, `
		SELECT g.role FROM scim_group_members m JOIN scim_groups g ON g.id = m.group_id
		WHERE m.org_id = $1 AND m.member_id = $2 AND g.role IS NOT NULL`, orgID, id)
	roles, err := store.All(rows, err, store.Value[access.Role])
	return highest(roles), err
}
