package repohost

import (
	"cmp"
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// installationChanged follows a change of an installation (the app on the code host). One
// that was deleted there is only suspended here, so that people still see its connections
// and why they stopped.
func (s *Service) installationChanged(ctx context.Context, d Delivery, e host.Event) error {
	var suspended bool
	switch e.Action {
	case "suspend", "deleted":
		suspended = true
	case "unsuspend", "created":
	default:
		return s.finishDelivery(ctx, d, DeliveryIgnored, "Nothing is done for this action")
	}
	found := false
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		i, err := setSuspended(ctx, tx, e.Installation, suspended)
		// Webhooks arrive for every installation of the app, bound here or not.
		if found = err == nil; fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		// After an unsuspension, catch up on the pushes that were missed.
		if err := i.recordAudit(ctx, tx, "repohost.installation.follow"); err != nil || suspended {
			return err
		}
		return s.enqueueReconcileOf(ctx, tx, e.Installation)
	})
	if err != nil {
		return err
	}
	if !found {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "No organisation has bound the installation")
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("The installation is suspended: %t", suspended))
}

// enqueueReconcileOf reconciles an installation's connections, for commits pushed while
// it had no access.
func (s *Service) enqueueReconcileOf(ctx context.Context, tx *store.Tx, installationID int64) error {
	all, err := connectionsOfInstallation(ctx, tx, installationID)
	if err != nil {
		return err
	}
	return s.enqueueReconcile(ctx, tx, all...)
}

// accessChanged reconciles the connections of an installation after the code host granted
// or revoked access to repositories. Revoked ones need nothing: the next attempt fails
// with a message.
func (s *Service) accessChanged(ctx context.Context, d Delivery, e host.Event) error {
	err := s.DB.InTx(ctx, func(tx *store.Tx) error { return s.enqueueReconcileOf(ctx, tx, e.Installation) })
	if err != nil {
		return err
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("%d repositories were removed", len(e.Removed)))
}

// repositoryChanged follows a rename, a transfer or a new default branch of a repository.
func (s *Service) repositoryChanged(ctx context.Context, d Delivery, e host.Event) error {
	if e.Repository.OldName == "" && e.OldDefault == "" {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "No connection is changed by this")
	}
	changed, err := s.followRepository(ctx, e)
	if err != nil {
		return err
	}
	if changed == 0 {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "No connection is changed by this")
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("%d connections follow the repository", changed))
}

// followRepository applies the repository's current name and default branch to its
// connections, and reconciles those that now read from somewhere else. It returns their
// number.
func (s *Service) followRepository(ctx context.Context, e host.Event) (changed int, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		changed = 0
		// Locked, so that a concurrent change by a user isn't lost.
		connections, err := connectionsOfEvent(ctx, tx, e, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		for _, c := range connections {
			moved, err := c.followTo(ctx, tx, e.Repository, e.OldDefault)
			if err != nil {
				return err
			}
			if !moved {
				continue
			}
			changed++
			if err := s.enqueueReconcile(ctx, tx, key{c.ID, c.OrgID}); err != nil {
				return err
			}
		}
		return nil
	})
	return changed, err
}

// followTo applies and stores what follow changes. moved: the connection reads another
// repository or branch now. The caller has locked the connection.
func (c *Connection) followTo(ctx context.Context, tx *store.Tx, r host.EventRepository,
	oldDefault string,
) (moved bool, err error) {
	before := *c
	if !c.follow(r, cmp.Or(oldDefault, c.HostDefault)) {
		return false, nil
	}
	moved = c.RepoFullName != before.RepoFullName || c.DefaultBranch != before.DefaultBranch
	// Only then does the audit log care; HostDefault alone is bookkeeping.
	if moved {
		c.UpdatedAt = store.Now()
		c.ConfiguredAt = c.UpdatedAt
		if err := c.recordAudit(ctx, tx, "repohost.connection.follow"); err != nil {
			return moved, err
		}
	}
	return moved, updateConnection(ctx, tx, *c)
}
