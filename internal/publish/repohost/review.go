package repohost

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Reviews looks at the reviews of pull requests.
type Reviews interface {
	// LookAt is called when reviews of pull requests into the repository of a connection
	// may have changed, or a version was published from one. What they say now, the code
	// host says.
	LookAt(ctx context.Context, tx *store.Tx, c Connection) error
}

// reviewActions are what may change what a review says; Gitea writes reviewed.
var reviewActions = []string{"submitted", "edited", "dismissed", "reviewed"}

// reviewed has the candidates of a pull request's connections looked at.
func (s *Service) reviewed(ctx context.Context, d Delivery, e host.Event) error {
	if _, err := s.followRepository(ctx, e); err != nil {
		return err
	}
	connections, err := connectionsOfEvent(ctx, s.DB, e, "")
	if err != nil {
		return err
	}
	if s.Reviews == nil || len(connections) == 0 {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "No connection is of this repository")
	}
	if err := s.lookAtReviews(ctx, connections...); err != nil {
		return err
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("Reviews of pull request %d of %d connections", e.Pull, len(connections)))
}

// lookAtReviews has the candidates of connections looked at.
func (s *Service) lookAtReviews(ctx context.Context, connections ...Connection) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, c := range connections {
			if err := s.Reviews.LookAt(ctx, tx, c); err != nil {
				return err
			}
		}
		return nil
	})
}
