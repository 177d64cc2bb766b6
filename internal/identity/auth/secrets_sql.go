package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// insertSecret does nothing if there is a secret of that name: replacing one would make what was
// derived from it invalid.
func insertSecret(ctx context.Context, q store.Querier, name string, value []byte) error {
	_, err := q.Exec(ctx, `
		INSERT INTO service_secrets (name, value, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO NOTHING`, name, value, store.Micros(store.Now()))
	return err
}

func updateSecret(ctx context.Context, q store.Querier, name string, value []byte) error {
	_, err := q.Exec(ctx, `UPDATE service_secrets SET value = $2 WHERE name = $1`, name, value)
	return err
}

func secretByName(ctx context.Context, q store.Querier, name string) ([]byte, error) {
	rows, err := q.Query(ctx, `SELECT value FROM service_secrets WHERE name = $1`, name)
	return store.One(rows, err, "Secret", store.Value[[]byte])
}

type storedSecret struct {
	name  string
	value []byte
}

// allSecrets is in the order of the names, which is the lock order.
func allSecrets(ctx context.Context, q store.Querier, lock string) ([]storedSecret, error) {
	rows, err := q.Query(ctx, `SELECT name, value FROM service_secrets ORDER BY name`+lock)
	return store.All(rows, err, func(row store.Row) (s storedSecret, err error) {
		err = row.Scan(&s.name, &s.value)
		return s, err
	})
}
