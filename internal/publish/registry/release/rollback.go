package release

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// NewRollback is the input of Rollback.
type NewRollback struct {
	OrgID, UserID string
	ByOwner       bool   // the person may do it only as an owner: see Service.Gates
	Target        string // name of a version; "": the one that was current before
	Reason        *string
	// RollForward publishes the target's content as the next patch version.
	RollForward bool
	At          time.Time // as in registry.Publication
}

// A Result is what a rollback did: the entry afterwards, and both versions.
type Result struct {
	Entry   registry.Entry
	Version registry.Version
	From    registry.Version
	Content string // name of the version whose content is current now; differs from Version if it was rolled forward
}

// String describes the result in a sentence, for people.
func (r Result) String() string {
	if r.Content != r.Version.Version {
		return fmt.Sprintf("Rolled back from version %s: version %s has the content of %s.",
			r.From.Version, r.Version.Version, r.Content)
	}
	return fmt.Sprintf("Rolled back from version %s to %s.", r.From.Version, r.Version.Version)
}

// Rollback makes another version current and records it. It's fault.Conflict without a
// target if no earlier version is left.
func (s *Service) Rollback(ctx context.Context, entryID string, r NewRollback) (result Result, err error) {
	defer fault.Wrap(&err, "roll back entry %s", entryID)
	if r.Reason != nil && utf8.RuneCountInString(*r.Reason) > maxReason {
		return result, fault.Invalid("reason", "reason must have at most %d characters", maxReason)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, r.OrgID, entryID)
		if err != nil {
			return err
		}
		result, err = s.rollBackIn(ctx, tx, e, r)
		return err
	})
	return result, err
}

// rollBackIn is Rollback inside a transaction that holds the entry's lock.
func (s *Service) rollBackIn(ctx context.Context, tx *store.Tx, e registry.Entry, r NewRollback) (result Result, err error) {
	from, err := s.Registry.LastCurrent(ctx, tx, e)
	if fault.Is(err, fault.NotFound) {
		return result, fault.New(fault.Conflict, "Nothing to roll back: no version of %s is current yet", e.Name)
	}
	if err != nil {
		return result, err
	}
	to, err := s.target(ctx, tx, e, from, r)
	if err != nil {
		return result, err
	}
	if err := s.checkBlock(ctx, tx, r.ByOwner, e, to); err != nil {
		return result, err
	}
	return s.rollBack(ctx, tx, e, from, to, r)
}

// target finds the version that a person rolls back to, or explains why there is none. An
// automatic rollback has other candidates: earlierIDs.
func (s *Service) target(
	ctx context.Context, tx *store.Tx, e registry.Entry, current registry.Version, r NewRollback,
) (registry.Version, error) {
	target := r.Target
	if target == "" {
		v, err := s.before(ctx, tx, e)
		if !fault.Is(err, fault.NotFound) {
			return v, err
		}
		if _, err := s.Registry.Before(ctx, tx, current); fault.Is(err, fault.NotFound) {
			return v, fault.New(fault.Conflict, "Nothing to roll back to: %s is the first version", current.Version)
		}
		return v, fault.New(fault.Conflict, "Nothing to roll back to: no version that was current before %s is left;"+
			" each is rolled back or withdrawn. Name one to make it current all the same", current.Version)
	}
	v, err := s.Registry.VersionNamed(ctx, tx, e, target)
	if err != nil {
		return v, err
	}
	switch {
	case v.ID == e.CurrentVersionID:
		err = fault.New(fault.Conflict, "Version %s is current already", target)
	case v.State != registry.Published:
		err = fault.New(fault.Conflict, "Version %s is %s: promote or restore it first", target, v.State)
	}
	if err != nil {
		return v, err
	}
	// A published version that was never current, e.g. one that is Apart, may still lack
	// approvals.
	missing, err := s.missing(ctx, tx, r.ByOwner, e, v)
	if err == nil && missing != "" {
		err = fault.New(fault.Conflict, "Version %s was never current, and %s: push its content as a new version",
			target, missing)
	}
	return v, err
}

// before finds the version that a rollback without a target chooses.
func (s *Service) before(ctx context.Context, tx *store.Tx, e registry.Entry) (v registry.Version, err error) {
	id, _, err := idBefore(ctx, tx, e)
	if err != nil {
		return v, err
	}
	return s.Registry.VersionByID(ctx, tx, e, id)
}

// rollBack makes a version current instead of another, or publishes its content again.
// The caller has locked the entry.
func (s *Service) rollBack(
	ctx context.Context, tx *store.Tx, e registry.Entry, from, to registry.Version, r NewRollback,
) (result Result, err error) {
	record := registry.Rollback{From: from.Version, To: to.Version, Reason: r.Reason, By: r.UserID}
	if r.RollForward {
		if to, err = s.rollForward(ctx, tx, e, to, r); err != nil {
			return result, err
		}
		record.Published = &to.Version
	}
	// The target may have been rolled back from earlier; undoing this rollback restores
	// the mark.
	unmarked := to.RolledBack
	if unmarked {
		if err := setRolledBack(ctx, tx, to.ID, false); err != nil {
			return result, err
		}
	}
	if err := setRolledBack(ctx, tx, from.ID, true); err != nil {
		return result, err
	}
	to.RolledBack = false
	if e, err = s.Registry.MakeCurrent(ctx, tx, e, to, e.Next(r.At)); err != nil {
		return result, err
	}
	err = e.Record(ctx, tx, "registry.version.rollback", audit.Detail{
		"from": from.Version, "to": record.To, "published": record.Published, "reason": r.Reason,
	})
	if err != nil {
		return result, err
	}
	result = Result{Entry: e, Version: to, From: from, Content: record.To}
	record.At = e.UpdatedAt
	if err := insertRollback(ctx, tx, e.ID, record, unmarked); err != nil {
		return result, err
	}
	err = s.Registry.Emit(ctx, tx, events.VersionRolledBack, e, to, events.Data{
		"from": from.Version, "content_of": record.To, "reason": r.Reason, "undone": false,
	})
	if err != nil {
		return result, err
	}
	return result, s.tellRollback(ctx, tx, e)
}

// A Revert asks to roll back a bad version automatically.
type Revert struct {
	OrgID, SkillID string
	UserID         string // on whose behalf, for the records
	VersionID      string // the version that was judged bad
	Reason         string
	// Holds reports whether an earlier version is good enough to be current again.
	Holds func(registry.Version) (bool, error)
}

// A Reverted is the outcome of a Revert: the rollback, or why there was none. Both fields
// are zero if another version has become current since the judgement.
type Reverted struct {
	Result  *Result
	Blocked Blocked
}

// Blocked is a reason for not rolling back.
type Blocked string

// Reasons for not rolling back.
const (
	NoGoodVersion     Blocked = "no_good_version"
	AlreadyRolledBack Blocked = "already_rolled_back"
)

// Revert is the automatic rollback, by an alert: it rolls a skill's entry back from a bad
// version to the last current one that holds. It does so at most once per version.
func (s *Service) Revert(ctx context.Context, tx *store.Tx, r Revert) (done Reverted, err error) {
	defer fault.Wrap(&err, "revert skill %s", r.SkillID)
	// The lock keeps a push from making current a version that wasn't judged.
	e, err := s.Registry.LockOfSkill(ctx, tx, r.OrgID, r.SkillID)
	if fault.Is(err, fault.NotFound) || err == nil && e.CurrentVersionID != r.VersionID {
		return done, nil
	}
	if err != nil {
		return done, err
	}
	current, err := s.Registry.VersionByID(ctx, tx, e, e.CurrentVersionID)
	if fault.Is(err, fault.NotFound) {
		return done, nil // no current version
	}
	if err != nil {
		return done, err
	}
	// Someone made the version current again after a rollback: a person's decision
	// stands.
	if reverted, err := wasRolledBack(ctx, tx, current); err != nil || reverted {
		return Reverted{Blocked: AlreadyRolledBack}, err
	}
	earlier, err := earlierIDs(ctx, tx, e)
	if err != nil {
		return done, err
	}
	for _, id := range earlier {
		v, err := s.Registry.VersionByID(ctx, tx, e, id)
		if err != nil {
			return done, err
		}
		holds, err := r.Holds(v)
		if err != nil {
			return done, err
		}
		if !holds {
			continue
		}
		back := NewRollback{OrgID: r.OrgID, UserID: r.UserID, Reason: &r.Reason}
		if back.RollForward, err = s.mustRollForward(ctx, tx, e, v); err != nil {
			return done, err
		}
		result, err := s.rollBack(ctx, tx, e, current, v, back)
		return Reverted{Result: &result}, err
	}
	return Reverted{Blocked: NoGoodVersion}, nil
}
