package auth

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

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

// unprovisionedMembers also looks at the addresses of identities, under which people have signed
// in.
func unprovisionedMembers(ctx context.Context, q store.Querier, orgID string, addresses []string) ([]string, error) {
	in, arg := q.Dialect().In("$2", addresses)
	rows, err := q.Query(ctx, `
		SELECT id FROM users
		WHERE org_id = $1 AND removed_at IS NULL AND kind = 'person'
			AND (email`+in+` OR id IN (SELECT user_id FROM identities WHERE org_id = $1 AND email`+in+`))
			AND NOT EXISTS (SELECT 1 FROM scim_users s WHERE s.user_id = users.id)
		ORDER BY id`, orgID, arg)
	return store.All(rows, err, store.Value[string])
}
