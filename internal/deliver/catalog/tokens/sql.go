package tokens

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const columns = `t.id, t.org_id, t.name, t.prefix, t.created_by, t.created_at, t.last_used_at, t.expires_at, t.replaced_at`

func targets(t *Token) []any {
	return []any{
		&t.ID, &t.OrgID, &t.Name, &t.Prefix, &t.CreatedBy, store.Time(&t.CreatedAt), store.NullTime(&t.LastUsedAt),
		store.NullTime(&t.ExpiresAt), store.NullTime(&t.ReplacedAt),
	}
}

func scan(row store.Row) (t Token, err error) {
	err = row.Scan(targets(&t)...)
	return t, err
}

func insertToken(ctx context.Context, q store.Querier, t Token, hash string) error {
	_, err := q.Exec(ctx, `
		INSERT INTO catalog_tokens (id, org_id, name, prefix, hash, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.OrgID, t.Name, t.Prefix, hash, t.CreatedBy, store.Micros(t.CreatedAt), store.NullMicros(t.ExpiresAt))
	return err
}

func tokenByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Token, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM catalog_tokens t WHERE t.org_id = $1 AND t.id = $2`+lock, orgID, id)
	return store.One(rows, err, "Catalog token", scan)
}

func tokenByHash(ctx context.Context, q store.Querier, hash string) (t Token, orgName string, err error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+`, o.name FROM catalog_tokens t JOIN organisations o ON o.id = t.org_id
		WHERE t.hash = $1 AND o.deleted_at IS NULL`, hash)
	_, err = store.One(rows, err, "Catalog token", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(append(targets(&t), &orgName)...)
	})
	return t, orgName, err
}

func countTokens(ctx context.Context, q store.Querier, orgID string) (int, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*) FROM catalog_tokens WHERE org_id = $1`, orgID)
	return store.One(rows, err, "Tokens", store.Value[int])
}

var sorts = store.Sorting{
	"name": "lower(t.name)", "created_at": "t.created_at", "last_used_at": "t.last_used_at", "expires_at": "t.expires_at",
}

func tokensOfOrg(ctx context.Context, q store.Querier, orgID string, p store.Page) ([]Token, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM catalog_tokens t WHERE t.org_id = $1
		`+sorts.By(p.Sort, `t.id DESC`)+` LIMIT $2 OFFSET $3`, orgID, p.Limit, p.Offset)
	return store.All(rows, err, scan)
}

func replaceToken(ctx context.Context, q store.Querier, t Token) error {
	_, err := q.Exec(ctx, `UPDATE catalog_tokens SET expires_at = $2, replaced_at = $3 WHERE id = $1`,
		t.ID, store.NullMicros(t.ExpiresAt), store.NullMicros(t.ReplacedAt))
	return err
}

// touchToken writes the last use, unless another request has since before.
func touchToken(ctx context.Context, q store.Querier, id string, at, before time.Time) error {
	_, err := q.Exec(ctx, `
		UPDATE catalog_tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)`,
		id, store.Micros(at), store.Micros(before))
	return err
}

func deleteToken(ctx context.Context, q store.Querier, t Token) error {
	_, err := q.Exec(ctx, `DELETE FROM catalog_tokens WHERE id = $1`, t.ID)
	return err
}

func deleteExpired(ctx context.Context, q store.Querier, orgID string, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM catalog_tokens WHERE org_id = $1 AND expires_at < $2`, orgID, store.Micros(before))
	return err
}
