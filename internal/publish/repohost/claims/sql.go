package claims

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Insert assigns an account to an organisation, unless it's claimed already. The primary
// key decides between concurrent claims.
func Insert(ctx context.Context, tx *store.Tx, account, orgID string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO repohost_claims (account_key, org_id, claimed_at) VALUES ($1, $2, $3)
		ON CONFLICT (account_key) DO NOTHING`, host.AccountKey(account), orgID, store.Micros(store.Now()))
	return err
}

// Holder returns the organisation that holds the claim on an account, and whether there
// is a claim. A contested claim has holder "".
func Holder(ctx context.Context, q store.Querier, account string) (holder string, found bool, err error) {
	rows, err := q.Query(ctx, `SELECT COALESCE(org_id, '') FROM repohost_claims WHERE account_key = $1`, host.AccountKey(account))
	holder, err = store.One(rows, err, "Claim", store.Value[string])
	if fault.Is(err, fault.NotFound) {
		return "", false, nil
	}
	return holder, err == nil, err
}

// around looks at the groups above and below an account: whether the organisation holds one
// above it, and whether others hold one of either.
func around(ctx context.Context, q store.Querier, orgID, account string) (mine, others bool, err error) {
	rows, err := q.Query(ctx, `
		SELECT account_key, COALESCE(org_id, '') FROM repohost_claims
		WHERE account_key <> $1 AND (`+OwnedBy("$1", "account_key")+` OR `+OwnedBy("account_key", "$1")+`)`,
		host.AccountKey(account))
	_, err = store.All(rows, err, func(row store.Row) (struct{}, error) {
		var key, holder string
		err := row.Scan(&key, &holder)
		mine = mine || holder == orgID && len(key) < len(account)
		others = others || holder != orgID
		return struct{}{}, err
	})
	return mine, others, err
}

// severalOrganisations stops counting at two.
func severalOrganisations(ctx context.Context, q store.Querier) (bool, error) {
	n, err := store.Count(ctx, q, `FROM (SELECT id FROM organisations WHERE deleted_at IS NULL LIMIT 2) AS two`)
	return n > 1, err
}

// moveClaim assigns an account to an organisation. It's fault.Conflict if the holder is
// no longer from ("" for none), because the operator decided about that one.
func moveClaim(ctx context.Context, tx *store.Tx, account, from, to string) error {
	n, err := tx.Exec(ctx, `
		INSERT INTO repohost_claims (account_key, org_id, claimed_at) VALUES ($1, $2, $3)
		ON CONFLICT (account_key) DO UPDATE SET org_id = excluded.org_id, claimed_at = excluded.claimed_at
		WHERE COALESCE(repohost_claims.org_id, '') = $4`, host.AccountKey(account), to, store.Micros(store.Now()), from)
	if err == nil && n == 0 {
		return fault.New(fault.Conflict,
			"Another organisation has just bound the account %s; look at `whetstone repohost claims`", account)
	}
	return err
}

// deleteClaim returns the former holder; "" for a contested account.
func deleteClaim(ctx context.Context, tx *store.Tx, account string) (holder string, err error) {
	rows, err := tx.Query(ctx, `
		DELETE FROM repohost_claims WHERE account_key = $1 RETURNING COALESCE(org_id, '')`, host.AccountKey(account))
	return store.One(rows, err, "Claim", store.Value[string])
}

// All returns all claims, sorted by account.
func All(ctx context.Context, q store.Querier) ([]Claim, error) {
	rows, err := q.Query(ctx, `SELECT account_key, COALESCE(org_id, ''), claimed_at FROM repohost_claims ORDER BY account_key`)
	all, err := store.All(rows, err, func(row store.Row) (c Claim, err error) {
		err = row.Scan(&c.Account, &c.OrgID, store.Time(&c.ClaimedAt))
		return c, err
	})
	if err != nil {
		return nil, err
	}
	rows, err = q.Query(ctx, `SELECT DISTINCT account_key, org_id FROM repohost_installations ORDER BY account_key, org_id`)
	bound := map[string][]string{}
	_, err = store.All(rows, err, func(row store.Row) (struct{}, error) {
		var account, orgID string
		err := row.Scan(&account, &orgID)
		bound[account] = append(bound[account], orgID)
		return struct{}{}, err
	})
	for i := range all {
		all[i].BoundBy = bound[all[i].Account]
	}
	return all, err
}

// Claimed is the SQL condition for installations i whose organisation holds the claim on
// their account and isn't deleted. If others hold a group above or below it, which two that
// claim at once can bring about, neither reads anything until the operator decides.
const Claimed = `(EXISTS (SELECT 1 FROM repohost_claims k WHERE k.account_key = i.account_key AND k.org_id = i.org_id)
	AND NOT EXISTS (SELECT 1 FROM repohost_claims k WHERE COALESCE(k.org_id, '') <> i.org_id
		AND (substr(i.account_key, 1, length(k.account_key) + 1) = k.account_key || '/'
			OR substr(k.account_key, 1, length(i.account_key) + 1) = i.account_key || '/'))
	AND EXISTS (SELECT 1 FROM organisations o WHERE o.id = i.org_id AND o.deleted_at IS NULL))`

// OwnedBy is the SQL condition that a repository key, e.g. "acme/skills", belongs to an
// account. It compares the owner exactly; in LIKE a _ would match any character.
func OwnedBy(repoKey, accountKey string) string {
	return `substr(` + repoKey + `, 1, length(` + accountKey + `) + 1) = ` + accountKey + ` || '/'`
}
