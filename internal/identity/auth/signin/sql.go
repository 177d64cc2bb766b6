package signin

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// An identity is who a member is at a provider.
type identity struct {
	id, orgID, userID string
	keyID             *string     // that the sessions hang on; nil before it is stored
	role              access.Role // that the provider gives now; "" if none
}

// identityOf finds the identity of a member; that of one who was removed is not found. Issuer and
// subject are unique within an organisation.
func identityOf(ctx context.Context, q store.Querier, orgID string, who person) (identity, error) {
	rows, err := q.Query(ctx, `
		SELECT i.id, i.org_id, i.user_id, i.key_id FROM identities i JOIN users u ON u.id = i.user_id
		WHERE i.org_id = $1 AND i.issuer = $2 AND i.subject = $3 AND u.removed_at IS NULL`, orgID, who.issuer, who.subject)
	return store.One(rows, err, "Identity", func(row store.Row) (i identity, err error) {
		err = row.Scan(&i.id, &i.orgID, &i.userID, &i.keyID)
		return i, err
	})
}

// providersOf returns the providers at which a member has an account: their issuers, with
// the names in the settings. The names are those of the last sign-in.
func providersOf(ctx context.Context, q store.Querier, orgID, userID string) (map[string]string, error) {
	rows, err := q.Query(ctx, `SELECT issuer, provider FROM identities WHERE org_id = $1 AND user_id = $2`, orgID, userID)
	names := map[string]string{}
	return names, store.Each(rows, err, func(row store.Row) error {
		var issuer, name string
		err := row.Scan(&issuer, &name)
		names[issuer] = name
		return err
	})
}

// deleteFormer forgets the identity of a removed member, and returns who they were; "" if
// there is none. The person may sign in again as somebody new; see RefuseInactiveFormer.
func deleteFormer(ctx context.Context, tx *store.Tx, orgID string, who person) (userID string, err error) {
	rows, err := tx.Query(ctx, `
		DELETE FROM identities WHERE org_id = $1 AND issuer = $2 AND subject = $3
			AND user_id IN (SELECT id FROM users WHERE org_id = $1 AND removed_at IS NOT NULL)
		RETURNING user_id`, orgID, who.issuer, who.subject)
	userID, err = store.One(rows, err, "Identity", store.Value[string])
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return userID, err
}

// identityByID finds an identity of the caller, with the person and the provider's name.
func identityByID(
	ctx context.Context, q store.Querier, c access.Caller, id string,
) (i identity, who person, provider string, err error) {
	rows, err := q.Query(ctx, `
		SELECT id, org_id, user_id, key_id, issuer, subject, email, provider FROM identities
		WHERE org_id = $1 AND user_id = $2 AND id = $3`, c.OrgID, c.UserID, id)
	i, err = store.One(rows, err, "Account", func(row store.Row) (i identity, err error) {
		err = row.Scan(&i.id, &i.orgID, &i.userID, &i.keyID, &who.issuer, &who.subject, &who.email, &provider)
		return i, err
	})
	return i, who, provider, err
}

func deleteIdentity(ctx context.Context, tx *store.Tx, i identity) error {
	_, err := tx.Exec(ctx, `DELETE FROM identities WHERE org_id = $1 AND id = $2`, i.orgID, i.id)
	return err
}

// Accounts returns a member's accounts at providers, oldest first.
func (s *Service) Accounts(ctx context.Context, c access.Caller) ([]Account, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT id, provider, email, issuer, created_at, last_used_at FROM identities
		WHERE org_id = $1 AND user_id = $2 ORDER BY id`, c.OrgID, c.UserID)
	return store.All(rows, err, func(row store.Row) (a Account, err error) {
		var name string
		err = row.Scan(&a.ID, &name, &a.Email, &a.Issuer, store.Time(&a.CreatedAt), store.Time(&a.LastUsedAt))
		a.Provider = Provider{Name: name}.Title()
		return a, err
	})
}

// upsertIdentity also refreshes what the provider says now. A role is only replaced by another one,
// never by none.
func upsertIdentity(ctx context.Context, tx *store.Tx, i identity, provider string, who person) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO identities (id, org_id, user_id, issuer, subject, provider, email, key_id, role, created_at, last_used_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULLIF($9, ''), $10, $10)
		ON CONFLICT (id) DO UPDATE SET provider = excluded.provider, email = excluded.email, key_id = excluded.key_id,
			role = COALESCE(excluded.role, identities.role), last_used_at = excluded.last_used_at`,
		i.id, i.orgID, i.userID, who.issuer, who.subject, provider, who.email, *i.keyID, i.role, store.Micros(store.Now()))
	return err
}

// providerOfSession returns the name of the provider that a session was signed in to with.
func providerOfSession(ctx context.Context, q store.Querier, orgID, sessionID string) (string, error) {
	rows, err := q.Query(ctx, `
		SELECT i.provider FROM sessions s JOIN identities i ON i.id = s.identity_id
		WHERE s.org_id = $1 AND s.id = $2`, orgID, sessionID)
	return store.One(rows, err, "Provider", store.Value[string])
}

// use reports false if a state was used before, on any replica. The insert decides between two
// requests with one answer. Only a hash of the state is stored.
func use(ctx context.Context, q store.Querier, orgID, state string, until time.Time) (bool, error) {
	n, err := q.Exec(ctx, `
		INSERT INTO used_sign_ins (state, org_id, expires_at) VALUES ($1, $2, $3) ON CONFLICT (state) DO NOTHING`,
		hash(state), orgID, store.Micros(until))
	return n == 1, err
}

// Sweep deletes what was used and has expired. It runs on a schedule.
func (s *Service) Sweep(ctx context.Context) error {
	// Clocks differ: wait for an hour more.
	_, err := s.DB.Exec(ctx, `DELETE FROM used_sign_ins WHERE expires_at < $1`, store.Micros(store.Now().Add(-time.Hour)))
	return err
}

// rolesBeside returns the roles that a person, and providers other than the issuer, gave a
// member.
func rolesBeside(ctx context.Context, q store.Querier, u auth.User, issuer string) ([]access.Role, error) {
	rows, err := q.Query(ctx, `
		SELECT given_role FROM users WHERE org_id = $1 AND id = $2 AND given_role IS NOT NULL
		UNION SELECT role FROM identities
		WHERE org_id = $1 AND user_id = $2 AND issuer <> $3 AND role IS NOT NULL`, u.OrgID, u.ID, issuer)
	return store.All(rows, err, store.Value[access.Role])
}

// updateRole writes a role that a provider's groups gave. given_role stays: it's what people gave.
func updateRole(ctx context.Context, tx *store.Tx, u auth.User) error {
	_, err := tx.Exec(ctx, `UPDATE users SET role = $3 WHERE org_id = $1 AND id = $2`, u.OrgID, u.ID, u.Role)
	return err
}

// countKeys counts the keys with which a member can sign in. Nobody has those of
// identities, and some keys only report sessions or push versions of one entry. It errs on the low
// side: with none, a member would be locked out.
func countKeys(ctx context.Context, q store.Querier, orgID, userID string) (int, error) {
	return store.Count(ctx, q, `
		FROM api_keys
		WHERE org_id = $1 AND user_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)
			AND entry_id IS NULL AND COALESCE(permissions, '') <> $4
			AND id NOT IN (SELECT key_id FROM identities WHERE org_id = $1 AND user_id = $2)`,
		orgID, userID, store.Micros(store.Now()), access.TelemetryWrite)
}

// markRoleAssigned notes that no person gave a new member their role.
func markRoleAssigned(ctx context.Context, tx *store.Tx, u auth.User) error {
	_, err := tx.Exec(ctx, `UPDATE users SET given_role = NULL WHERE org_id = $1 AND id = $2`, u.OrgID, u.ID)
	return err
}

// isLastOwner reports whether the organisation has no other owner. It locks the owners.
func isLastOwner(ctx context.Context, tx *store.Tx, u auth.User) (bool, error) {
	n, err := store.Count(ctx, tx, `
		FROM users WHERE org_id = $1 AND id <> $2 AND role = $3 AND removed_at IS NULL`, u.OrgID, u.ID, access.Owner)
	return u.Role == access.Owner && n == 0, err
}
