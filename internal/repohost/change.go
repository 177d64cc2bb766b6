package repohost

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/repohost/refs"
	"github.com/whetstone-dev/whetstone/internal/store"
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

// enqueueReconcileOf reconciles the connections of an installation, for commits
// that were pushed while it had no access.
func (s *Service) enqueueReconcileOf(ctx context.Context, tx *store.Tx, installationID int64) error {
	ids, err := connectionsOfInstallation(ctx, tx, installationID)
	if err != nil {
		return err
	}
	return s.enqueueReconcile(ctx, tx, ids)
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

// repositoryChanged applies a new name, owner or default branch of a repository
// to its connections.
func (s *Service) repositoryChanged(ctx context.Context, d Delivery, e host.Event) error {
	changed := 0
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		changed = 0
		// Locked, so that a change by a user at the same time is not lost.
		connections, err := connectionsOfEvent(ctx, tx, e, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		for _, c := range connections {
			before := c
			if e.Repository.OldName != "" {
				c.RepoFullName = e.Repository.FullName
			}
			if e.OldDefault != "" && e.OldDefault == c.DefaultBranch && refs.ValidBranch(e.Repository.DefaultBranch) {
				c.DefaultBranch = e.Repository.DefaultBranch
			}
			if c == before {
				continue
			}
			c.UpdatedAt = store.Now()
			c.ConfiguredAt = c.UpdatedAt
			changed++
			if err := updateConnection(ctx, tx, c); err != nil {
				return err
			}
			if err := c.recordAudit(ctx, tx, "repohost.connection.follow"); err != nil {
				return err
			}
			if err := s.enqueueReconcile(ctx, tx, []string{c.ID}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if changed == 0 {
		return s.finishDelivery(ctx, d, DeliveryIgnored, "No connection is changed by this")
	}
	return s.finishDelivery(ctx, d, DeliveryDone, fmt.Sprintf("%d connections follow the repository", changed))
}
