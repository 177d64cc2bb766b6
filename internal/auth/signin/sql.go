package signin

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// An identity is who a member is at a provider.
type identity struct {
	id, orgID, userID string
	keyID             *string // that the sessions hang on; nil before it is stored
}

// identityOf finds the identity of a member; that of one who was removed is not found.
func identityOf(ctx context.Context, q store.Querier, orgID string, who person) (identity, error) {
	rows, err := q.Query(ctx, `
		SELECT i.id, i.org_id, i.user_id, i.key_id FROM identities i JOIN users u ON u.id = i.user_id
		WHERE i.org_id = $1 AND i.issuer = $2 AND i.subject = $3 AND u.removed_at IS NULL`, orgID, who.issuer, who.subject)
	return store.One(rows, err, "Identity", func(row store.Row) (i identity, err error) {
		err = row.Scan(&i.id, &i.orgID, &i.userID, &i.keyID)
		return i, err
	})
}

// hasIdentity reports whether a member has an identity of the issuer.
func hasIdentity(ctx context.Context, q store.Querier, orgID, userID, issuer string) (bool, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*) FROM identities WHERE org_id = $1 AND user_id = $2 AND issuer = $3`, orgID, userID, issuer)
	n, err := store.One(rows, err, "Identities", store.Value[int])
	return n > 0, err
}

// deleteIdentity forgets a person's identity: that of a removed member.
func deleteIdentity(ctx context.Context, tx *store.Tx, orgID string, who person) error {
	_, err := tx.Exec(ctx, `
		DELETE FROM identities WHERE org_id = $1 AND issuer = $2 AND subject = $3
			AND user_id IN (SELECT id FROM users WHERE org_id = $1 AND removed_at IS NOT NULL)`, orgID, who.issuer, who.subject)
	return err
}

func upsertIdentity(ctx context.Context, tx *store.Tx, i identity, provider string, who person) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO identities (id, org_id, user_id, issuer, subject, provider, email, key_id, created_at, last_used_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
		ON CONFLICT (id) DO UPDATE SET provider = excluded.provider, email = excluded.email, key_id = excluded.key_id,
			last_used_at = excluded.last_used_at`,
		i.id, i.orgID, i.userID, who.issuer, who.subject, provider, who.email, *i.keyID, store.Micros(store.Now()))
	return err
}

// providerOfSession returns the name of the provider that a session was signed in to with.
func providerOfSession(ctx context.Context, q store.Querier, orgID, sessionID string) (string, error) {
	rows, err := q.Query(ctx, `
		SELECT i.provider FROM sessions s JOIN identities i ON i.id = s.identity_id
		WHERE s.org_id = $1 AND s.id = $2`, orgID, sessionID)
	return store.One(rows, err, "Provider", store.Value[string])
}

// use reports false if a state was used before, on any replica.
func use(ctx context.Context, q store.Querier, orgID, state string, until time.Time) (bool, error) {
	n, err := q.Exec(ctx, `
		INSERT INTO used_sign_ins (state, org_id, expires_at) VALUES ($1, $2, $3) ON CONFLICT (state) DO NOTHING`,
		hash(state), orgID, store.Micros(until))
	return n == 1, err
}

func deleteUsed(ctx context.Context, q store.Querier, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM used_sign_ins WHERE expires_at < $1`, store.Micros(before))
	return err
}
