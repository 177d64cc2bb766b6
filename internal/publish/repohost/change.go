package repohost

import (
	"cmp"
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// installationChanged applies a change of an installation on the code host. One
// that is deleted there is suspended here, so that its connections stay visible.
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
		if found = err == nil; fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
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

// enqueueReconcileOf reconciles the connections of an installation, for commits that were pushed while it had no access.
func (s *Service) enqueueReconcileOf(ctx context.Context, tx *store.Tx, installationID int64) error {
	all, err := connectionsOfInstallation(ctx, tx, installationID)
	if err != nil {
		return err
	}
	return s.enqueueReconcile(ctx, tx, all...)
}

// accessChanged reconciles repositories that became readable. Those that no
// longer are need nothing: the next attempt fails with a message.
func (s *Service) accessChanged(ctx context.Context, d Delivery, e host.Event) error {
	err := s.DB.InTx(ctx, func(tx *store.Tx) error { return s.enqueueReconcileOf(ctx, tx, e.Installation) })
	if err != nil {
		return err
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("%d repositories were removed", len(e.Removed)))
}

// repositoryChanged applies a new name, owner or default branch of a repository to its connections.
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

// followRepository applies what an event says of its repository to the
// connections, and returns how many of them read something else now.
func (s *Service) followRepository(ctx context.Context, e host.Event) (changed int, err error) {
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		changed = 0
		// Locked, so that a change by a user at the same time is not lost.
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

// followTo stores what follow changes. It reports whether the connection reads
// another repository or branch now. The connection is locked.
func (c *Connection) followTo(ctx context.Context, tx *store.Tx, r host.EventRepository, oldDefault string) (moved bool, err error) {
	before := *c
	if !c.follow(r, cmp.Or(oldDefault, c.HostDefault)) {
		return false, nil
	}
	moved = c.RepoFullName != before.RepoFullName || c.DefaultBranch != before.DefaultBranch
	if moved {
		c.UpdatedAt = store.Now()
		c.ConfiguredAt = c.UpdatedAt
		if err := c.recordAudit(ctx, tx, "repohost.connection.follow"); err != nil {
			return moved, err
		}
	}
	return moved, updateConnection(ctx, tx, *c)
}
