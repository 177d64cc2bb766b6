package auth

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// lockUsers locks and returns the owners of an organisation and two of its members,
// without those who were removed. The order by id is the lock order of all transactions on users.
func lockUsers(ctx context.Context, tx *store.Tx, orgID, one, other string) ([]User, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+userColumns+` FROM users
		WHERE org_id = $1 AND removed_at IS NULL AND (role = $2 OR id = $3 OR id = $4)
		ORDER BY id`+tx.Dialect().ForUpdate(), orgID, access.Owner, one, other)
	return store.All(rows, err, scanUser)
}

// markUserRemoved keeps the name and the address of the member, and makes the address
// free for a new one. The unique address becomes "removed:" with the id.
func markUserRemoved(ctx context.Context, tx *store.Tx, u User) error {
	_, err := tx.Exec(ctx, `
		UPDATE users SET removed_at = $3, role = $4, former_email = email, email = 'removed:' || id
		WHERE org_id = $1 AND id = $2`, u.OrgID, u.ID, store.NullMicros(u.RemovedAt), u.Role)
	return err
}

func keysOfUser(ctx context.Context, q store.Querier, orgID, userID string) ([]Key, error) {
	rows, err := q.Query(ctx, `
		SELECT `+keyColumns+` FROM api_keys WHERE org_id = $1 AND user_id = $2 ORDER BY id`, orgID, userID)
	return store.All(rows, err, scanKey)
}

// lockKeysOfUser is lockLineage of all keys of a member. It repeats until it finds no
// more, as lockWholeLineage does. Their descendants, e.g. logins that they approved, are included.
func lockKeysOfUser(ctx context.Context, tx *store.Tx, orgID, userID string, e cascade) (doomed []Key, err error) {
	for {
		rows, err := tx.Query(ctx, `
			WITH RECURSIVE lineage (id) AS (
				SELECT id FROM api_keys WHERE org_id = $1 AND user_id = $2
				UNION
				SELECT k.id FROM api_keys k JOIN lineage l ON k.created_by_key = l.id WHERE k.org_id = $1 AND (k.login OR $3))
			SELECT `+keyColumns+` FROM api_keys
			WHERE org_id = $1 AND revoked_at IS NULL AND id IN (SELECT id FROM lineage)
			ORDER BY id`+tx.Dialect().ForUpdate(), orgID, userID, bool(e))
		found, err := store.All(rows, err, scanKey)
		if err != nil || len(found) <= len(doomed) {
			return found, err
		}
		doomed = found
	}
}

// denyDevicesOfUser denies the logins that a member approved and that have no key yet.
func denyDevicesOfUser(ctx context.Context, tx *store.Tx, u User) error {
	_, err := tx.Exec(ctx, `UPDATE device_codes SET status = $3 WHERE org_id = $1 AND user_id = $2 AND status = $4`,
		u.OrgID, u.ID, DeviceDenied, DeviceApproved)
	return err
}

func deleteSessionsOfUser(ctx context.Context, tx *store.Tx, u User) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM sessions WHERE org_id = $1 AND user_id = $2`, u.OrgID, u.ID)
}

func revokeInvitationsOfUser(ctx context.Context, tx *store.Tx, u User) (int64, error) {
	return tx.Exec(ctx, `
		UPDATE invitations SET revoked_at = $3
		WHERE org_id = $1 AND created_by = $2 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > $3`,
		u.OrgID, u.ID, store.NullMicros(u.RemovedAt))
}

func revokeInvitationsOfKey(ctx context.Context, tx *store.Tx, k Key, at time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE invitations SET revoked_at = $3
		WHERE org_id = $1 AND key_id = $2 AND accepted_at IS NULL AND revoked_at IS NULL`, k.OrgID, k.ID, store.Micros(at))
	return err
}

func countInvitationsOfUser(ctx context.Context, q store.Querier, orgID, userID string, now time.Time) (int, error) {
	return store.Count(ctx, q, `
		FROM invitations
		WHERE org_id = $1 AND created_by = $2 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > $3`,
		orgID, userID, store.Micros(now))
}

// lastSeen is computed from the keys, so that nothing has to maintain it.
const lastSeen = `(SELECT MAX(k.last_used_at) FROM api_keys k WHERE k.user_id = users.id)`

// Its parameters are the organisation, whether the members were removed, and a search pattern.
var listedMembers = store.List[Member]{
	Columns: userColumns + `, ` + lastSeen, Order: `id`, Scan: scanMember,
	From: `FROM users WHERE org_id = $1 AND kind = 'person' AND (removed_at IS NOT NULL) = $2
		AND ($3 = '' OR lower(name) LIKE lower($3) ESCAPE '\' OR email LIKE lower($3) ESCAPE '\')`,
	Sorts: store.Sorting{
		"name": "lower(name)", "email": "email", "role": "role", "created_at": "created_at", "last_seen_at": lastSeen,
	},
}

// Member returns a member, also one who was removed. Their name is on what they made.
func (s *Service) Member(ctx context.Context, orgID, id string) (Member, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+userColumns+`, `+lastSeen+` FROM users WHERE org_id = $1 AND id = $2 AND kind = 'person'`, orgID, id)
	return store.One(rows, err, "Member", scanMember)
}

func scanMember(row store.Row) (m Member, err error) {
	u := &m.User
	err = row.Scan(&u.ID, &u.OrgID, &u.Email, &u.Name, &u.Role, store.Time(&u.CreatedAt), store.NullTime(&u.RemovedAt),
		&u.ServiceAccount,
		store.NullTime(&m.LastSeenAt))
	return m, err
}

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

// lockOwners locks the owners of an organisation, as each removal of a member does. Taking the same
// locks in the same order makes the two wait for each other.
func lockOwners(ctx context.Context, tx *store.Tx, orgID string) error {
	rows, err := tx.Query(ctx, `
		SELECT id FROM users WHERE org_id = $1 AND role = $2 AND removed_at IS NULL
		ORDER BY id`+tx.Dialect().ForUpdate(), orgID, access.Owner)
	_, err = store.All(rows, err, store.Value[string])
	return err
}

// isProvisioned reports whether the provider lists a user. They are active there while they are a
// member.
func isProvisioned(ctx context.Context, q store.Querier, orgID, userID string) (bool, error) {
	n, err := store.Count(ctx, q, `FROM scim_users WHERE org_id = $1 AND user_id = $2`, orgID, userID)
	return n > 0, err
}

// hasInactive reports whether an inactive person has an address: any that the provider lists,
// their user name there, or the one that they had here. The profile is stored as JSON, in which an
// address is found as "value":"...".
func hasInactive(ctx context.Context, q store.Querier, orgID, address string) (bool, error) {
	quoted, err := json.Marshal(address) // as in the column profile
	if err != nil {
		return false, err
	}
	n, err := store.Count(ctx, q, `
		FROM scim_users s LEFT JOIN users u ON u.id = s.user_id
		WHERE s.org_id = $1 AND (s.user_id IS NULL OR u.removed_at IS NOT NULL)
			AND (s.email = $2 OR s.user_name_key = $2 OR u.former_email = $2 OR lower(s.profile) LIKE $3 ESCAPE '\')`,
		orgID, address, store.Like(`"value":`+string(quoted)))
	return n > 0, err
}

// MembersAtAddresses returns the ids of the members with one of the addresses, also of those whose
// account at a provider had one at the last sign-in. Members whom the provider lists under
// another of its users are left out. Nobody joins with one of the addresses until the
// transaction ends. Machines and service accounts have no addresses at a provider.
func MembersAtAddresses(ctx context.Context, tx *store.Tx, orgID string, addresses []string) ([]string, error) {
	if err := lockOwners(ctx, tx, orgID); err != nil {
		return nil, err
	}
	// People may have signed in under the address of an identity.
	in, arg := tx.Dialect().In("$2", addresses)
	rows, err := tx.Query(ctx, `
		SELECT id FROM users
		WHERE org_id = $1 AND removed_at IS NULL AND kind = 'person'
			AND (email`+in+` OR id IN (SELECT user_id FROM identities WHERE org_id = $1 AND email`+in+`))
			AND NOT EXISTS (SELECT 1 FROM scim_users s WHERE s.user_id = users.id)
		ORDER BY id`, orgID, arg)
	return store.All(rows, err, store.Value[string])
}

// OrgName returns the name of an organisation, also of a deleted one.
func OrgName(ctx context.Context, q store.Querier, orgID string) (string, error) {
	rows, err := q.Query(ctx, `SELECT name FROM organisations WHERE id = $1`, orgID)
	return store.One(rows, err, "Organisation", store.Value[string])
}

// SeveralOrgs reports whether there is more than one organisation. It stops counting at two.
func SeveralOrgs(ctx context.Context, q store.Querier) (bool, error) {
	n, err := store.Count(ctx, q, `FROM (SELECT id FROM organisations WHERE deleted_at IS NULL LIMIT 2) AS two`)
	return n > 1, err
}

// UserIDs returns the ids of an organisation's users, also of removed ones.
func UserIDs(ctx context.Context, q store.Querier, orgID string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT id FROM users WHERE org_id = $1`, orgID)
	return store.All(rows, err, store.Value[string])
}

// UsersByID returns users by id, also removed ones: check RemovedAt.
func UsersByID(ctx context.Context, q store.Querier, ids []string) (map[string]User, error) {
	users := map[string]User{}
	if len(ids) == 0 {
		return users, nil
	}
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `SELECT `+userColumns+` FROM users WHERE id`+in, list)
	err = store.Each(rows, err, func(row store.Row) error {
		u, err := scanUser(row)
		users[u.ID] = u
		return err
	})
	return users, err
}

// MembersByAccount finds the members who sign in with accounts of these issuers, by the
// account. One that two members have is left out: it proves neither of them.
func MembersByAccount(ctx context.Context, q store.Querier, orgID string, issuers, accounts []string) (map[string]User, error) {
	inIssuers, issuerList := q.Dialect().In("$2", issuers)
	inAccounts, accountList := q.Dialect().In("$3", accounts)
	rows, err := q.Query(ctx, `
		SELECT i.subject, u.id, u.email, u.role FROM identities i JOIN users u ON u.id = i.user_id
		WHERE i.org_id = $1 AND u.org_id = $1 AND i.issuer`+inIssuers+` AND i.subject`+inAccounts+` AND u.removed_at IS NULL`,
		orgID, issuerList, accountList)
	found, twice := map[string]User{}, map[string]bool{}
	err = store.Each(rows, err, func(row store.Row) error {
		var account string
		var u User
		err := row.Scan(&account, &u.ID, &u.Email, &u.Role)
		if before, ok := found[account]; ok && before.ID != u.ID {
			twice[account] = true
		}
		found[account] = u
		return err
	})
	for account := range twice {
		delete(found, account)
	}
	return found, err
}
