package costs

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const pricesColumns = `models, table_hash, reprice_after`

func scanPrices(row store.Row) (p orgPrices, err error) {
	var models string
	if err := row.Scan(&models, &p.tableHash, &p.repriceAfter); err != nil {
		return p, err
	}
	return p, json.Unmarshal([]byte(models), &p.models)
}

func pricesByOrg(ctx context.Context, q store.Querier, orgID string) (orgPrices, error) {
	rows, err := q.Query(ctx, `SELECT `+pricesColumns+` FROM cost_prices WHERE org_id = $1`, orgID)
	return store.One(rows, err, "Prices", scanPrices)
}

// sharePrices reads the prices, which cannot change until the transaction ends.
func sharePrices(ctx context.Context, tx *store.Tx, orgID string) (orgPrices, error) {
	rows, err := tx.Query(ctx, `SELECT `+pricesColumns+` FROM cost_prices WHERE org_id = $1`+tx.Dialect().ForShare(), orgID)
	return store.One(rows, err, "Prices", scanPrices)
}

// lockPrices reads the prices in order to change them.
func lockPrices(ctx context.Context, tx *store.Tx, orgID string) (orgPrices, error) {
	rows, err := tx.Query(ctx, `SELECT `+pricesColumns+` FROM cost_prices WHERE org_id = $1`+tx.Dialect().ForUpdate(), orgID)
	return store.One(rows, err, "Prices", scanPrices)
}

// ensurePrices creates the row of an organisation that has no requests yet.
func ensurePrices(ctx context.Context, tx *store.Tx, orgID, tableHash string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO cost_prices (org_id, models, table_hash) VALUES ($1, '[]', $2)
		ON CONFLICT (org_id) DO NOTHING`, orgID, tableHash)
	return err
}

func updatePrices(ctx context.Context, tx *store.Tx, orgID string, p orgPrices) error {
	models, err := json.Marshal(p.models)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE cost_prices SET models = $2, table_hash = $3, reprice_after = $4 WHERE org_id = $1`,
		orgID, string(models), p.tableHash, p.repriceAfter)
	return err
}

func orgsWithPrices(ctx context.Context, q store.Querier) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT org_id FROM cost_prices ORDER BY org_id`)
	return store.All(rows, err, store.Value[string])
}

// pricedAfter returns the next requests whose price was not reported, in the order
// of their ids, and their users, sorted.
func pricedAfter(ctx context.Context, q store.Querier, orgID, after string, limit int) (ids, users []string, err error) {
	return requestsWithUsers(q.Query(ctx, `
		SELECT id, user_id FROM cost_requests WHERE org_id = $1 AND id > $2 AND reported_micros IS NULL ORDER BY id LIMIT $3`,
		orgID, after, limit))
}

// requestsOfSkill returns the next requests that count for a skill in the same way.
func requestsOfSkill(
	ctx context.Context, q store.Querier, orgID, skillID, after string, limit int,
) (ids, users []string, err error) {
	return requestsWithUsers(q.Query(ctx, `
		SELECT id, user_id FROM cost_requests WHERE org_id = $1 AND skill_id = $2 AND id > $3 ORDER BY id LIMIT $4`,
		orgID, skillID, after, limit))
}

func requestsWithUsers(rows store.Rows, err error) (ids, users []string, _ error) {
	err = store.Each(rows, err, func(row store.Row) error {
		var id, user string
		err := row.Scan(&id, &user)
		ids, users = append(ids, id), append(users, user)
		return err
	})
	return ids, slices.Compact(slices.Sorted(slices.Values(users))), err
}
