package scim

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// tokenColumns has no hash: nothing needs it after the lookup.
const tokenColumns = `id, org_id, name, prefix, created_by, created_at, last_used_at, expires_at`

func scanToken(row store.Row) (t Token, err error) {
	err = row.Scan(&t.ID, &t.OrgID, &t.Name, &t.Prefix, &t.CreatedBy, store.Time(&t.CreatedAt),
		store.NullTime(&t.LastUsedAt), store.NullTime(&t.ExpiresAt))
	return t, err
}

func insertToken(ctx context.Context, tx *store.Tx, t Token, hash string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO scim_tokens (id, org_id, name, prefix, hash, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.OrgID, t.Name, t.Prefix, hash, t.CreatedBy, store.Micros(t.CreatedAt), store.NullMicros(t.ExpiresAt))
	return err
}

func tokenByHash(ctx context.Context, q store.Querier, hash string) (Token, error) {
	rows, err := q.Query(ctx, `
		SELECT `+tokenColumns+` FROM scim_tokens
		WHERE hash = $1 AND org_id IN (SELECT id FROM organisations WHERE deleted_at IS NULL)`, hash)
	return store.One(rows, err, "SCIM token", scanToken)
}

func countTokens(ctx context.Context, q store.Querier, orgID string) (int, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*) FROM scim_tokens WHERE org_id = $1`, orgID)
	return store.One(rows, err, "Tokens", store.Value[int])
}

func tokensOfOrg(ctx context.Context, q store.Querier, orgID string) ([]Token, error) {
	rows, err := q.Query(ctx, `SELECT `+tokenColumns+` FROM scim_tokens WHERE org_id = $1 ORDER BY id DESC`, orgID)
	return store.All(rows, err, scanToken)
}

// touchToken writes the last use, unless another request has since before. The condition makes
// concurrent requests write it once.
func touchToken(ctx context.Context, q store.Querier, id string, at, before time.Time) error {
	_, err := q.Exec(ctx, `
		UPDATE scim_tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)`,
		id, store.Micros(at), store.Micros(before))
	return err
}

func deleteToken(ctx context.Context, tx *store.Tx, orgID, id string) (Token, error) {
	rows, err := tx.Query(ctx, `DELETE FROM scim_tokens WHERE org_id = $1 AND id = $2 RETURNING `+tokenColumns, orgID, id)
	return store.One(rows, err, "SCIM token", scanToken)
}
