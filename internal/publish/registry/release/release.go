// Package release decides which version of an entry is current: it rolls back, promotes a
// candidate before or against its gate's verdict, withdraws a version that must no longer
// be used, and restores it. It writes the registry's tables through registry.Service.
package release

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Service changes which version is current, and the states of versions.
type Service struct {
	DB       *store.DB
	Registry *registry.Service
	Owns     access.Owns // whether someone owns an entry; may be nil
	Clients  Clients     // may be nil
	Watcher  Watcher     // may be nil
	// Approvals knows which approvals a version lacks; nil requires none.
	Approvals Approvals
	Gates     Gates // may be nil
	// Rollbacks is notified of rollbacks; may be nil.
	Rollbacks Rollbacks
}

// Rollbacks is called in the transaction of every rollback, and of undoing one.
type Rollbacks interface {
	RolledBack(ctx context.Context, tx *store.Tx, e registry.Entry) error
}

// tellRollback calls the hook, if it's set.
func (s *Service) tellRollback(ctx context.Context, tx *store.Tx, e registry.Entry) error {
	if s.Rollbacks == nil {
		return nil
	}
	return s.Rollbacks.RolledBack(ctx, tx, e)
}

// A Watcher is called in the transaction when a person decides about a version. decision
// is "promoted", "withdrawn" or "restored".
type Watcher interface {
	VersionDecided(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, decision, reason string) error
}

// tell calls the Watcher, if it's set.
func (s *Service) tell(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, decision, reason string) error {
	if s.Watcher == nil {
		return nil
	}
	return s.Watcher.VersionDecided(ctx, tx, e, v, decision, reason)
}

// Approvals knows which versions people have approved.
type Approvals interface {
	// Missing describes the approvals that a version lacks, e.g. "it has 1 of 2
	// approvals"; "" if none. If the policy was relaxed while the version waited, only
	// admins benefit (byOwner is false).
	Missing(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version, byOwner bool) (string, error)
}

// Gates knows which versions a gate blocks.
type Gates interface {
	// Blocks describes why a gate keeps a version from becoming current, e.g. "its gate
	// blocked it"; "" if it doesn't.
	Blocks(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (string, error)
}

// blocks is Gates.Blocks for owners; admins may override a gate.
func (s *Service) blocks(ctx context.Context, tx *store.Tx, byOwner bool, e registry.Entry, v registry.Version) (string, error) {
	if s.Gates == nil || !byOwner {
		return "", nil
	}
	return s.Gates.Blocks(ctx, tx, e, v)
}

// checkBlock returns fault.Denied if a gate blocks the version: owning an entry isn't
// enough to override its gate.
func (s *Service) checkBlock(ctx context.Context, tx *store.Tx, byOwner bool, e registry.Entry, v registry.Version) error {
	why, err := s.blocks(ctx, tx, byOwner, e, v)
	if err == nil && why != "" {
		err = fault.New(fault.Denied, "Version %s cannot become current by an owner of the entry: %s. People "+
			"with the permission %s may decide so",
			v.Version, why, access.RegistryRollback)
	}
	return err
}

// byOwner reports whether the caller may act only as an owner, without the role's
// permission to roll back.
func byOwner(c access.Caller) bool { return !c.May(access.RegistryRollback) }

// missing is Approvals.Missing for a version that was never current. One that was needs
// no second approval: rolling back must not wait.
func (s *Service) missing(ctx context.Context, tx *store.Tx, byOwner bool, e registry.Entry, v registry.Version) (string, error) {
	if s.Approvals == nil {
		return "", nil
	}
	if was, err := s.Registry.WasCurrent(ctx, tx, v); err != nil || was {
		return "", err
	}
	return s.Approvals.Missing(ctx, tx, e, v, byOwner)
}

// maxReason is the longest reason, in characters.
const maxReason = 1_000

// CheckReason requires a reason for a decision; the audit log keeps it.
func CheckReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return fault.Invalid("reason", "reason is required: say why")
	case utf8.RuneCountInString(reason) > maxReason || strings.ContainsRune(reason, 0):
		return fault.Invalid("reason", "reason must have at most %d characters, and no NUL", maxReason)
	}
	return nil
}

// Promote makes a candidate current without its gate's verdict. It's fault.Conflict if
// the version isn't a candidate or lacks approvals, and fault.Denied to owners without
// the permission if the gate blocks it.
func (s *Service) Promote(
	ctx context.Context, c access.Caller, entryID, version, reason string,
) (e registry.Entry, v registry.Version, err error) {
	defer fault.Wrap(&err, "promote version %s of entry %s", version, entryID)
	if err := CheckReason(reason); err != nil {
		return e, v, err
	}
	err = s.change(ctx, c.OrgID, entryID, version, func(tx *store.Tx, e registry.Entry, v registry.Version) error {
		if v.State != registry.Candidate {
			return fault.New(fault.Conflict, "Version %s is %s, not a candidate", v.Version, v.State)
		}
		if err := s.checkBlock(ctx, tx, byOwner(c), e, v); err != nil {
			return err
		}
		if missing, err := s.missing(ctx, tx, byOwner(c), e, v); err != nil {
			return err
		} else if missing != "" {
			return fault.New(fault.Conflict, "Version %s cannot be promoted: %s", v.Version, missing)
		}
		e, v, err := s.Registry.Release(ctx, tx, e, v, audit.Detail{"version": v.Version, "reason": reason})
		if err != nil {
			return err
		}
		return s.tell(ctx, tx, e, v, "promoted", reason)
	})
	if err != nil {
		return e, v, err
	}
	return s.Registry.Version(ctx, c.OrgID, entryID, version)
}

// Withdraw keeps a version from becoming current and its content from being read. If it
// is current, the entry is rolled back, or has no current version if there is none to go
// back to.
func (s *Service) Withdraw(
	ctx context.Context, c access.Caller, entryID, version, reason string,
) (e registry.Entry, v registry.Version, err error) {
	defer fault.Wrap(&err, "withdraw version %s of entry %s", version, entryID)
	if err := CheckReason(reason); err != nil {
		return e, v, err
	}
	err = s.change(ctx, c.OrgID, entryID, version, func(tx *store.Tx, e registry.Entry, v registry.Version) error {
		if v.State == registry.Withdrawn {
			return fault.New(fault.Conflict, "Version %s is withdrawn already", v.Version)
		}
		if v.ID == e.CurrentVersionID {
			var err error
			if e, err = s.leaveCurrent(ctx, tx, e, v, NewRollback{
				OrgID: c.OrgID, UserID: c.UserID, ByOwner: byOwner(c), Reason: &reason,
			}); err != nil {
				return err
			}
		}
		v.State, v.WithdrawnReason = registry.Withdrawn, &reason
		if err := s.Registry.SetState(ctx, tx, e, v); err != nil {
			return err
		}
		if err := e.Record(ctx, tx, "registry.version.withdraw",
			audit.Detail{"version": v.Version, "reason": reason}); err != nil {
			return err
		}
		if err := s.Registry.Emit(ctx, tx, events.VersionWithdrawn, e, v, events.Data{"reason": reason}); err != nil {
			return err
		}
		return s.tell(ctx, tx, e, v, "withdrawn", reason)
	})
	if err != nil {
		return e, v, err
	}
	return s.Registry.Version(ctx, c.OrgID, entryID, version)
}

// leaveCurrent rolls back from the current version, or leaves the entry without one.
func (s *Service) leaveCurrent(
	ctx context.Context, tx *store.Tx, e registry.Entry, from registry.Version, r NewRollback,
) (registry.Entry, error) {
	to, err := s.before(ctx, tx, e)
	if fault.Is(err, fault.NotFound) {
		return s.Registry.ClearCurrent(ctx, tx, e)
	}
	if err != nil {
		return e, err
	}
	if err := s.checkBlock(ctx, tx, r.ByOwner, e, to); err != nil {
		return e, err
	}
	back, err := s.rollBack(ctx, tx, e, from, to, r)
	return back.Entry, err
}

// Restore undoes Withdraw, but not the rollback that came with it. A version that never
// passed its gate or approvals becomes a candidate again, as does one restored by an
// owner while a gate blocks it. One that was current before becomes current again if no
// other version is.
func (s *Service) Restore(
	ctx context.Context, c access.Caller, entryID, version, reason string,
) (e registry.Entry, v registry.Version, err error) {
	defer fault.Wrap(&err, "restore version %s of entry %s", version, entryID)
	if reason != "" {
		if err := CheckReason(reason); err != nil {
			return e, v, err
		}
	}
	err = s.change(ctx, c.OrgID, entryID, version, func(tx *store.Tx, e registry.Entry, v registry.Version) error {
		if v.State != registry.Withdrawn {
			return fault.New(fault.Conflict, "Version %s is not withdrawn", v.Version)
		}
		released, err := s.Registry.WasCurrent(ctx, tx, v)
		if err != nil {
			return err
		}
		missing, err := s.missing(ctx, tx, byOwner(c), e, v)
		if err != nil {
			return err
		}
		blocks, err := s.blocks(ctx, tx, byOwner(c), e, v)
		if err != nil {
			return err
		}
		v.State, v.WithdrawnReason = registry.Published, nil
		if !released && v.GateID != nil || missing != "" || blocks != "" {
			v.State = registry.Candidate
		}
		if err := s.Registry.SetState(ctx, tx, e, v); err != nil {
			return err
		}
		if released && v.State == registry.Published && e.CurrentVersionID == "" {
			if e, err = s.Registry.MakeCurrent(ctx, tx, e, v, e.Next(time.Time{})); err != nil {
				return err
			}
		}
		err = e.Record(ctx, tx, "registry.version.restore",
			audit.Detail{"version": v.Version, "state": v.State, "reason": reason})
		if err != nil {
			return err
		}
		return s.tell(ctx, tx, e, v, "restored", reason)
	})
	if err != nil {
		return e, v, err
	}
	return s.Registry.Version(ctx, c.OrgID, entryID, version)
}

// change runs fn in a transaction, with the entry locked and one of its versions.
func (s *Service) change(
	ctx context.Context, orgID, entryID, version string, fn func(tx *store.Tx, e registry.Entry, v registry.Version) error,
) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, orgID, entryID)
		if err != nil {
			return err
		}
		v, err := s.Registry.VersionNamed(ctx, tx, e, version)
		if err != nil {
			return err
		}
		return fn(tx, e, v)
	})
}
