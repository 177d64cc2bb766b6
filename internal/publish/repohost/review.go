package repohost

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// OnReviews is a hook that counts reviews of pull requests as approvals.
type OnReviews interface {
	// LookAt is called when reviews of pull requests into a connection's repository may
	// have changed, or a version was published from it. The current reviews have to be
	// read from the code host.
	LookAt(ctx context.Context, tx *store.Tx, c Connection) error
}

// reviewActions may change the outcome of a review. "reviewed" is Gitea's name.
var reviewActions = []string{"submitted", "edited", "dismissed", "reviewed"}

// reviewed has the approvals of the connections' candidates re-evaluated.
func (s *Service) reviewed(ctx context.Context, d Delivery, e host.Event) error {
	if _, err := s.followRepository(ctx, e); err != nil {
		return err
	}
	connections, err := connectionsOfEvent(ctx, s.DB, e, "")
	if err != nil {
		return err
	}
	if s.OnReviews == nil || len(connections) == 0 {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "No connection is of this repository")
	}
	if err := s.lookAtReviews(ctx, connections...); err != nil {
		return err
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("Reviews of pull request %d of %d connections",
		e.Pull, len(connections)))
}

// lookAtReviews calls the hook for connections, in a transaction.
func (s *Service) lookAtReviews(ctx context.Context, connections ...Connection) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, c := range connections {
			if err := s.OnReviews.LookAt(ctx, tx, c); err != nil {
				return err
			}
		}
		return nil
	})
}
