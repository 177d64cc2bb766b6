package serviceaccounts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// insertAccount leaves given_role empty: no provider ever assigns a role to a machine.
func insertAccount(ctx context.Context, tx *store.Tx, u auth.User) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO users (id, org_id, email, name, role, created_at, kind) VALUES ($1, $2, $3, $4, $5, $6, 'service')`,
		u.ID, u.OrgID, u.Email, u.Name, u.Role, store.Micros(u.CreatedAt))
	return err
}

func updateAccount(ctx context.Context, tx *store.Tx, u auth.User) error {
	_, err := tx.Exec(ctx, `UPDATE users SET email = $3, name = $4, role = $5 WHERE org_id = $1 AND id = $2`,
		u.OrgID, u.ID, u.Email, u.Name, u.Role)
	return err
}

// markDeleted keeps the name, for what the account made, and makes it free for a new one.
func markDeleted(ctx context.Context, tx *store.Tx, u auth.User, at time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE users SET removed_at = $3, former_email = email, email = 'removed:' || id WHERE org_id = $1 AND id = $2`,
		u.OrgID, u.ID, store.Micros(at))
	return err
}

func updateKey(ctx context.Context, tx *store.Tx, k auth.Key) error {
	_, err := tx.Exec(ctx, `UPDATE api_keys SET name = $3, allowed_ips = $4 WHERE org_id = $1 AND id = $2`,
		k.OrgID, k.ID, k.Name, k.AllowedIPs.Encode())
	return err
}

// columns has $1 for the current time, by which active keys are counted.
const columns = `id, org_id, COALESCE(former_email, email), name, role, created_at, removed_at,
	(SELECT MAX(k.last_used_at) FROM api_keys k WHERE k.user_id = users.id),
	(SELECT COUNT(*) FROM api_keys k WHERE k.user_id = users.id AND k.revoked_at IS NULL AND (k.expires_at IS NULL
		OR k.expires_at > $1))`

var sorts = store.Sorting{
	"name": "lower(name)", "role": "role", "created_at": "created_at",
	"last_used_at": "SELECT MAX(k.last_used_at) FROM api_keys k WHERE k.user_id = users.id",
}

func accountsOfOrg(ctx context.Context, q store.Querier, orgID string, p Page) ([]Account, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM users
		WHERE org_id = $2 AND kind = 'service' AND (removed_at IS NOT NULL) = $3
		`+sorts.By(p.Sort, `id`)+` LIMIT $4 OFFSET $5`, store.Micros(store.Now()), orgID, p.Deleted, p.Limit, p.Offset)
	return store.All(rows, err, scan)
}

// Get returns a service account, also one that was deleted.
func (s *Service) Get(ctx context.Context, orgID, id string) (Account, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT `+columns+` FROM users WHERE org_id = $2 AND id = $3 AND kind = 'service'`,
		store.Micros(store.Now()), orgID, id)
	return store.One(rows, err, "Service account", scan)
}

// List returns a page of an organisation's service accounts, oldest first, and their
// number.
func (s *Service) List(ctx context.Context, orgID string, p Page) ([]Account, int, error) {
	total, err := store.Count(ctx, s.DB, `
		FROM users WHERE org_id = $1 AND kind = 'service' AND (removed_at IS NOT NULL) = $2`, orgID, p.Deleted)
	if err != nil {
		return nil, 0, err
	}
	all, err := accountsOfOrg(ctx, s.DB, orgID, p)
	return all, total, err
}

func scan(row store.Row) (a Account, err error) {
	u := &a.User
	u.ServiceAccount = true
	err = row.Scan(&u.ID, &u.OrgID, &u.Email, &u.Name, &u.Role, store.Time(&u.CreatedAt), store.NullTime(&u.RemovedAt),
		store.NullTime(&a.LastUsedAt), &a.Keys)
	return a, err
}
