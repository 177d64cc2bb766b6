package alerts

import (
	"context"
	"time"
)

// SetPauses replaces the waits between the attempts of a delivery.
func (s *Service) SetPauses(pauses []time.Duration) { s.pauses = pauses }

// Deliver makes one attempt of a delivery, as its job does.
func (s *Service) Deliver(ctx context.Context, id string) error { return s.deliver(ctx, id) }

// Pause is the wait after an attempt.
func (s *Service) Pause(attempt int, asked time.Duration) time.Duration {
	return s.pause(attempt, asked)
}
