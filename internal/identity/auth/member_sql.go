package auth

import (
	"context"
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
