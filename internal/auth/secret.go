package auth

import (
	"context"
	"crypto/rand"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Secret returns the installation's secret of that name, 32 random bytes made
// when first asked for. All replicas get the same one.
func (s *Service) Secret(ctx context.Context, name string) (value []byte, err error) {
	defer fault.Wrap(&err, "secret %s", name)
	fresh := make([]byte, 32)
	if _, err := rand.Read(fresh); err != nil {
		return nil, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `
			INSERT INTO service_secrets (name, value, created_at) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO NOTHING`, name, fresh, store.Micros(store.Now())); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT value FROM service_secrets WHERE name = $1`, name)
		value, err = store.One(rows, err, "Secret", store.Value[[]byte])
		return err
	})
	return value, err
}
