package repohost

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// installationChanged follows what happens to an installation on the host. One
// that is deleted there is suspended here: its connections stay to be read.
func (s *Service) installationChanged(ctx context.Context, d Delivery, e host.Event) error {
	var suspended bool
	switch e.Action {
	case "suspend", "deleted":
		suspended = true
	case "unsuspend", "created":
	default:
		return s.finish(ctx, d, DeliveryIgnored, "Nothing is done for this action")
	}
	found := false
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		i, err := suspend(ctx, tx, e.Installation, suspended)
		if found = err == nil; fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := i.record(ctx, tx, "repohost.installation.follow"); err != nil || suspended {
			return err
		}
		return s.catchUp(ctx, tx, e.Installation)
	})
	if err != nil {
		return err
	}
	if !found {
		return s.finish(ctx, d, DeliveryIgnored, "No organisation has bound the installation")
	}
	return s.finish(ctx, d, DeliveryDone, fmt.Sprintf("The installation is suspended: %t", suspended))
}

// catchUp publishes what was pushed while an installation could not see it.
func (s *Service) catchUp(ctx context.Context, tx *store.Tx, installationID int64) error {
	ids, err := connectionsOfInstallation(ctx, tx, installationID)
	if err != nil {
		return err
	}
	return s.enqueueReconcile(ctx, tx, ids)
}

// accessChanged catches up with repositories that can be seen again. Of those
// that no longer can there is nothing to do: publishing says so.
func (s *Service) accessChanged(ctx context.Context, d Delivery, e host.Event) error {
	err := s.DB.InTx(ctx, func(tx *store.Tx) error { return s.catchUp(ctx, tx, e.Installation) })
	if err != nil {
		return err
	}
	return s.finish(ctx, d, DeliveryDone, fmt.Sprintf("%d repositories were removed", len(e.Removed)))
}

// repositoryChanged follows a repository that got another name or owner, and
// its default branch where a connection uses it.
func (s *Service) repositoryChanged(ctx context.Context, d Delivery, e host.Event) error {
	connections, err := connectionsOfEvent(ctx, s.DB, e)
	if err != nil {
		return err
	}
	changed := 0
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		changed = 0
		for _, c := range connections {
			before := c
			if e.Repository.OldName != "" {
				c.RepoFullName = e.Repository.FullName
			}
			if e.OldDefault != "" && e.OldDefault == c.DefaultBranch && goodBranch(e.Repository.DefaultBranch) {
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
			if err := c.record(ctx, tx, "repohost.connection.follow"); err != nil {
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
		return s.finish(ctx, d, DeliveryIgnored, "No connection is changed by this")
	}
	return s.finish(ctx, d, DeliveryDone, fmt.Sprintf("%d connections follow the repository", changed))
}
