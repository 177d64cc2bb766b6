package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/identity/auth/secrets"
)

// Secret returns the installation's secret of that name; see secrets.Service.
func (s *Service) Secret(ctx context.Context, name string) ([]byte, error) {
	return (&secrets.Service{DB: s.DB, Seal: s.Seal}).Secret(ctx, name)
}
