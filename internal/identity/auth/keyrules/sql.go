package keyrules

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

func policyOf(ctx context.Context, q store.Querier, orgID string) (Policy, error) {
	rows, err := q.Query(ctx, `
		SELECT max_days, require_allowed_ips, updated_at FROM key_policies WHERE org_id = $1`, orgID)
	return store.One(rows, err, "Key policy", func(row store.Row) (p Policy, err error) {
		err = row.Scan(&p.MaxDays, &p.RequireAllowedIPs, store.NullTime(&p.UpdatedAt))
		return p, err
	})
}

func upsertPolicy(ctx context.Context, tx *store.Tx, orgID string, p Policy) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO key_policies (org_id, max_days, require_allowed_ips, updated_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org_id) DO UPDATE SET max_days = excluded.max_days,
			require_allowed_ips = excluded.require_allowed_ips, updated_at = excluded.updated_at`,
		orgID, p.MaxDays, p.RequireAllowedIPs, store.NullMicros(p.UpdatedAt))
	return err
}

// CountViolating counts the active keys of an organisation that do not follow the
// policy, as Violations says. Counting in SQL avoids reading all keys of a large organisation.
func CountViolating(ctx context.Context, q store.Querier, orgID string, p Policy) (int, error) {
	days := 0
	if p.MaxDays != nil {
		days = *p.MaxDays
	}
	life := time.Duration(days)*day + clockSkew
	return store.Count(ctx, q, `
		FROM api_keys
		WHERE org_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) AND entry_id IS NULL
			AND ($3 AND (expires_at IS NULL OR expires_at > created_at + $4) OR $5 AND allowed_ips IS NULL AND NOT login)`,
		orgID, store.Micros(store.Now()), p.MaxDays != nil, life.Microseconds(), p.RequireAllowedIPs)
}

// record writes to the audit log, unless another replica has done so within

// refusalInterval. The database decides between replicas.
func (u Use) record(ctx context.Context) error {
	return u.DB.InTx(ctx, func(tx *store.Tx) error {
		// One record per key and refusalInterval, on all replicas together.
		now := store.Now()
		n, err := tx.Exec(ctx, `
			UPDATE api_keys SET refused_at = $3
			WHERE org_id = $1 AND id = $2 AND (refused_at IS NULL OR refused_at <= $4)`,
			u.Caller.OrgID, u.Caller.KeyID, store.Micros(now), store.Micros(now.Add(-refusalInterval)))
		if err != nil || n == 0 {
			return err
		}
		return audit.Record(access.With(ctx, u.Caller), tx, audit.Entry{
			OrgID: u.Caller.OrgID, Action: "auth.key.refuse",
			Target: audit.Target{Kind: "key", ID: u.Caller.KeyID, Name: u.KeyName},
			Detail: audit.Detail{"address": httpapi.ClientAddr(ctx).String()},
		})
	})
}
