package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/auth/secrets"
	"github.com/whetstone-dev/whetstone/internal/store"
)

func (s *Service) secrets() *secrets.Service { return &secrets.Service{DB: s.DB, Seal: s.Seal} }

// Secret returns the installation's secret of that name; see secrets.Service.
func (s *Service) Secret(ctx context.Context, name string) ([]byte, error) {
	return s.secrets().Secret(ctx, name)
}

// Reseal re-encrypts the installation's secrets; see secrets.Service.
func (s *Service) Reseal(ctx context.Context, tx *store.Tx) (int, error) {
	return s.secrets().Reseal(ctx, tx)
}

// CheckSealed fails if the keyring cannot open one of the installation's secrets.
func (s *Service) CheckSealed(ctx context.Context) error { return s.secrets().CheckSealed(ctx) }

// HasSealed reports whether any of the installation's secrets is sealed.
func (s *Service) HasSealed(ctx context.Context) (bool, error) { return s.secrets().HasSealed(ctx) }
