package suites

import (
	"context"
	"time"
)

// Sweep removes environments that are unused and have the age.
func (s *Service) Sweep(ctx context.Context, age time.Duration) error { return s.sweep(ctx, age) }
