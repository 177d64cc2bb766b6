package repohost

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// SetBackoff replaces the waits after failures of the code host.
func (s *Service) SetBackoff(waits []time.Duration) { s.Backoff = waits }

// SetSyncTimeout replaces the timeout of a sync.
func (s *Service) SetSyncTimeout(d time.Duration) { s.syncTimeout = d }

// PublishNext publishes one attempt, as its job does.
func (s *Service) PublishNext(ctx context.Context, a publication.Attempt) error {
	return s.publishNext(ctx, a)
}

// ProcessDelivery processes a delivery, as its job does.
func (s *Service) ProcessDelivery(ctx context.Context, id string) error {
	return s.processDelivery(ctx, id)
}

// OldestQueued reads the attempt that a worker publishes next.
func (s *Service) OldestQueued(ctx context.Context, connectionID string) (publication.Attempt, error) {
	return publication.OldestQueued(ctx, s.DB, connectionID)
}

// WriteBack reports an attempt, as its job does.
func (s *Service) WriteBack(ctx context.Context, attemptID string) error {
	return s.writeBack(ctx, attemptID)
}

// TakeDue takes the connections whose reconciliation is due.
func TakeDue(ctx context.Context, db *store.DB, now time.Time, interval time.Duration) error {
	return db.InTx(ctx, func(tx *store.Tx) error {
		_, err := takeDue(ctx, tx, now, interval)
		return err
	})
}
