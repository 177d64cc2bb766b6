package tokens

import (
	"context"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// columns are those of Token. The hash is not among them: nothing needs it after the lookup.
func (k Kind) columns() string {
	replacedAt := "replaced_at"
	if k.RotatedAs == "" {
		replacedAt = "CAST(NULL AS BIGINT)"
	}
	sets := "sets"
	if !k.Binds {
		sets = "''"
	}
	return `id, org_id, name, prefix, created_by, created_at, last_used_at, expires_at, ` + replacedAt + `, ` + sets
}

func scan(row store.Row) (t Token, err error) { return scanWith(row) }

// scanWith reads more columns after those of a token.
func scanWith(row store.Row, more ...any) (t Token, err error) {
	var sets string
	err = row.Scan(append([]any{
		&t.ID, &t.OrgID, &t.Name, &t.Prefix, &t.CreatedBy, store.Time(&t.CreatedAt), store.NullTime(&t.LastUsedAt),
		store.NullTime(&t.ExpiresAt), store.NullTime(&t.ReplacedAt), &sets,
	}, more...)...)
	if sets != "" {
		t.Sets = strings.Split(sets, ",")
	}
	return t, err
}

// title is the name at the beginning of a message.
func (k Kind) title() string { return strings.ToUpper(k.Name[:1]) + k.Name[1:] }

func (k Kind) insert(ctx context.Context, q store.Querier, t Token, hash string) error {
	if len(t.Sets) > 0 {
		_, err := q.Exec(ctx, `
			INSERT INTO `+k.Table+` (id, org_id, name, prefix, hash, created_by, created_at, expires_at, sets)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			t.ID, t.OrgID, t.Name, t.Prefix, hash, t.CreatedBy, store.Micros(t.CreatedAt), store.NullMicros(t.ExpiresAt),
			strings.Join(t.Sets, ","))
		return err
	}
	_, err := q.Exec(ctx, `
		INSERT INTO `+k.Table+` (id, org_id, name, prefix, hash, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		t.ID, t.OrgID, t.Name, t.Prefix, hash, t.CreatedBy, store.Micros(t.CreatedAt), store.NullMicros(t.ExpiresAt))
	return err
}

// lock returns a token, whose row is locked.
func (k Kind) lock(ctx context.Context, tx *store.Tx, orgID, id string) (Token, error) {
	rows, err := tx.Query(ctx, `SELECT `+k.columns()+` FROM `+k.Table+` WHERE org_id = $1 AND id = $2`+tx.Dialect().ForUpdate(),
		orgID, id)
	return store.One(rows, err, k.title(), scan)
}

// byHash finds a token by the hashes that it may have.
func (k Kind) byHash(ctx context.Context, q store.Querier, open, bound string) (t Token, orgName string, err error) {
	rows, err := q.Query(ctx, `
		SELECT `+k.columns()+`, o.org_name FROM `+k.Table+`
		JOIN (SELECT id AS organisation, name AS org_name FROM organisations WHERE deleted_at IS NULL) o
			ON o.organisation = org_id
		WHERE hash IN ($1, $2)`, open, bound)
	t, err = store.One(rows, err, k.title(), func(row store.Row) (Token, error) { return scanWith(row, &orgName) })
	return t, orgName, err
}

func (k Kind) count(ctx context.Context, q store.Querier, orgID string) (int, error) {
	rows, err := q.Query(ctx, `SELECT COUNT(*) FROM `+k.Table+` WHERE org_id = $1`, orgID)
	return store.One(rows, err, "Tokens", store.Value[int])
}

var sorts = store.Sorting{
	"name": "lower(name)", "created_at": "created_at", "last_used_at": "last_used_at", "expires_at": "expires_at",
}

func (k Kind) ofOrg(ctx context.Context, q store.Querier, orgID string, p store.Page) ([]Token, error) {
	rows, err := q.Query(ctx, `
		SELECT `+k.columns()+` FROM `+k.Table+` WHERE org_id = $1
		`+sorts.By(p.Sort, `id DESC`)+` LIMIT $2 OFFSET $3`, orgID, p.Limit, p.Offset)
	return store.All(rows, err, scan)
}

func (k Kind) replace(ctx context.Context, q store.Querier, t Token) error {
	_, err := q.Exec(ctx, `UPDATE `+k.Table+` SET expires_at = $2, replaced_at = $3 WHERE id = $1`,
		t.ID, store.NullMicros(t.ExpiresAt), store.NullMicros(t.ReplacedAt))
	return err
}

// touch writes the last use, unless another request has since before. The condition makes
// concurrent requests write it once.
func (k Kind) touch(ctx context.Context, q store.Querier, id string, at, before time.Time) error {
	_, err := q.Exec(ctx, `
		UPDATE `+k.Table+` SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)`,
		id, store.Micros(at), store.Micros(before))
	return err
}

// Delete ends a token at once. What was done with it stays.
func (s *Service) Delete(ctx context.Context, orgID, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		rows, err := tx.Query(ctx, `DELETE FROM `+s.Kind.Table+` WHERE org_id = $1 AND id = $2 RETURNING `+s.Kind.columns(), orgID, id)
		t, err := store.One(rows, err, s.Kind.title(), scan)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, t, s.Kind.DeletedAs, audit.Detail{})
	})
}

func (k Kind) deleteExpired(ctx context.Context, q store.Querier, orgID string, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM `+k.Table+` WHERE org_id = $1 AND expires_at < $2`, orgID, store.Micros(before))
	return err
}
