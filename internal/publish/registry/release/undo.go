package release

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Undo reverses the last rollback: the version before it becomes current again. It's
// fault.Conflict if another version has become current since, or if the version is
// withdrawn.
func (s *Service) Undo(ctx context.Context, c access.Caller, entryID, reason string) (result Result, err error) {
	defer fault.Wrap(&err, "undo the rollback of entry %s", entryID)
	if reason != "" {
		if err := CheckReason(reason); err != nil {
			return result, err
		}
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, c.OrgID, entryID)
		if err != nil {
			return err
		}
		last, bad, err := s.undoable(ctx, tx, e)
		if err != nil {
			return err
		}
		if err := s.checkBlock(ctx, tx, byOwner(c), e, bad); err != nil {
			return err
		}
		result.From, err = s.Registry.LastCurrent(ctx, tx, e)
		if err != nil {
			return err
		}
		if err := setRolledBack(ctx, tx, bad.ID, false); err != nil {
			return err
		}
		// Restore the mark that the rollback cleared.
		if last.unmarked {
			if err := setRolledBack(ctx, tx, result.From.ID, true); err != nil {
				return err
			}
		}
		bad.RolledBack = false
		result.Version = bad
		if result.Entry, err = s.Registry.MakeCurrent(ctx, tx, e, bad, e.Next(time.Time{})); err != nil {
			return err
		}
		if err := markUndone(ctx, tx, last, c.UserID, result.Entry.UpdatedAt); err != nil {
			return err
		}
		err = e.Record(ctx, tx, "registry.rollback.undo", audit.Detail{
			"from": result.From.Version, "to": bad.Version, "reason": reason,
		})
		if err != nil {
			return err
		}
		var why *string
		if reason != "" {
			why = &reason
		}
		err = s.Registry.Emit(ctx, tx, events.VersionRolledBack, e, bad, events.Data{
			"from": result.From.Version, "content_of": bad.Version, "reason": why, "undone": true,
		})
		if err != nil {
			return err
		}
		return s.tellRollback(ctx, tx, e)
	})
	return result, err
}

// undoable returns the last rollback and the version that it left. If it can't be undone,
// the error is fault.Conflict and explains why.
func (s *Service) undoable(
	ctx context.Context, q store.Querier, e registry.Entry,
) (last rollback, bad registry.Version, err error) {
	last, err = lastRollback(ctx, q, e.ID)
	if fault.Is(err, fault.NotFound) {
		return last, bad, fault.New(fault.Conflict, "Nothing to undo: %s was never rolled back", e.Name)
	}
	if err != nil {
		return last, bad, err
	}
	switch {
	case last.undone:
		return last, bad, fault.New(fault.Conflict, "The last rollback, from %s to %s, was undone already", last.from, last.to)
	case !last.standing:
		return last, bad, fault.New(fault.Conflict,
			"Version %s became current after the rollback. To make %s current all the same, roll back to it",
			e.CurrentVersion, last.from)
	}
	bad, err = s.Registry.VersionNamed(ctx, q, e, last.from)
	if err == nil && bad.State != registry.Published {
		err = fault.New(fault.Conflict, "Version %s is %s: restore it first", bad.Version, bad.State)
	}
	return last, bad, err
}
