package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

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
