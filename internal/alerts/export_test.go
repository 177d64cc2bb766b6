package alerts

import (
	"context"
	"time"
)

// SetBackoff replaces the waits between the attempts of a delivery.
func (s *Service) SetBackoff(waits []time.Duration) { s.testBackoff = waits }

// OnTransition calls f in the transaction of every transition.
func (s *Service) OnTransition(f func()) { s.testTransition = f }

// Deliver makes one attempt of a delivery, as its job does.
func (s *Service) Deliver(ctx context.Context, id string) error { return s.deliver(ctx, id) }

// RetryWait is the wait after an attempt.
func (s *Service) RetryWait(attempt int, retryAfter time.Duration) time.Duration {
	return s.backoff().Wait(attempt, retryAfter)
}
