package events

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
)

// SetBackoff replaces the waits between the attempts of a delivery.
func (s *Service) SetBackoff(waits delivery.Backoff) { s.testBackoff = waits }

// Deliver makes one attempt of a delivery, as its job does.
func (s *Service) Deliver(ctx context.Context, id string) error { return s.outbox().Deliver(ctx, id) }
