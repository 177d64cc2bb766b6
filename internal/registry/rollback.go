package registry

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// NewRollback says what to roll back to, and for whom.
type NewRollback struct {
	OrgID, UserID string
	Target        string // a version; empty: the one that was current before
	Reason        *string
	// RollForward publishes the target's content as the next patch.
	RollForward bool
	At          time.Time // as in Publication
}

// RollbackResult is the entry after a rollback, its current version, and the
// version that was current before.
type RollbackResult struct {
	Entry   Entry
	Version Version
	From    string
}

// Rollback makes another version current and records it. Without a target and
// without an earlier version it is a conflict.
func (s *Service) Rollback(ctx context.Context, entryID string, r NewRollback) (result RollbackResult, err error) {
	defer fault.Wrap(&err, "roll back entry %s", entryID)
	if r.Reason != nil && utf8.RuneCountInString(*r.Reason) > maxReason {
		return result, fault.Invalid("reason", "reason must have at most %d characters", maxReason)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := lockEntry(ctx, tx, r.OrgID, entryID)
		if err != nil {
			return err
		}
		result, err = s.RollBackIn(ctx, tx, e, r)
		return err
	})
	return result, err
}

// RollBackIn is Rollback in a transaction that has locked the entry.
func (s *Service) RollBackIn(ctx context.Context, tx *store.Tx, e Entry, r NewRollback) (result RollbackResult, err error) {
	from, err := versionByID(ctx, tx, e, e.CurrentVersionID)
	if fault.Is(err, fault.NotFound) {
		return result, fault.New(fault.Conflict, "Nothing to roll back: no version of %s is current yet", e.Name)
	}
	if err != nil {
		return result, err
	}
	to, err := rollbackTarget(ctx, tx, e, from, r.Target)
	if err != nil {
		return result, err
	}
	return s.rollBack(ctx, tx, e, from, to, r)
}

func rollbackTarget(ctx context.Context, tx *store.Tx, e Entry, current Version, target string) (Version, error) {
	if target == "" {
		v, err := currentBefore(ctx, tx, e)
		if !fault.Is(err, fault.NotFound) {
			return v, err
		}
		if _, err := versionBefore(ctx, tx, current); fault.Is(err, fault.NotFound) {
			return v, fault.New(fault.Conflict, "Nothing to roll back to: %s is the first version", current.Version)
		}
		return v, fault.New(fault.Conflict, "Nothing to roll back to: no version that was current before %s is left;"+
			" each is rolled back or withdrawn. Name one to make it current all the same", current.Version)
	}
	v, err := versionByName(ctx, tx, e, target)
	if err != nil {
		return v, err
	}
	switch {
	case v.ID == current.ID:
		err = fault.New(fault.Conflict, "Version %s is current already", target)
	case v.State != Published:
		err = fault.New(fault.Conflict, "Version %s is %s: promote or restore it first", target, v.State)
	}
	return v, err
}

// rollBack makes a version current in place of another, or its content as a new
// version. The entry is locked.
func (s *Service) rollBack(
	ctx context.Context, tx *store.Tx, e Entry, from, to Version, r NewRollback,
) (result RollbackResult, err error) {
	record := Rollback{From: from.Version, To: to.Version, Reason: r.Reason, By: r.UserID}
	if r.RollForward {
		if to, err = s.rollForward(ctx, tx, e, to, r); err != nil {
			return result, err
		}
		record.Published = &to.Version
	}
	if err := markRolledBack(ctx, tx, from.ID, to.ID); err != nil {
		return result, err
	}
	to.RolledBack = false
	e.setCurrent(to, after(e.UpdatedAt, r.At))
	if err := updateCurrent(ctx, tx, e); err != nil {
		return result, err
	}
	err = e.Record(ctx, tx, "registry.version.rollback", audit.Detail{
		"from": from.Version, "to": record.To, "published": record.Published, "reason": r.Reason,
	})
	if err != nil {
		return result, err
	}
	result = RollbackResult{Entry: e, Version: to, From: from.Version}
	record.At = e.UpdatedAt
	return result, insertRollback(ctx, tx, e.ID, record)
}

// minGraded is how many graded sessions say something about a version: a single
// bad session must not roll back.
const minGraded = 5

// Revert rolls a skill's entry back to the version before, if its current
// version is below the threshold and the one before was not. It does so once
// for each version, and returns a note for people; "" if it did nothing.
func (s *Service) Revert(ctx context.Context, tx *store.Tx, r skills.Revert) (note string, err error) {
	defer fault.Wrap(&err, "revert skill %s", r.SkillID)
	// The lock keeps a push from making a version current that was not judged.
	e, err := lockEntryOfSkill(ctx, tx, r.OrgID, r.SkillID)
	if fault.Is(err, fault.NotFound) {
		return "", nil // a skill need not be in the registry
	}
	if err != nil {
		return "", err
	}
	current, err := versionByID(ctx, tx, e, e.CurrentVersionID)
	if err != nil {
		return "", err
	}
	before, err := currentBefore(ctx, tx, e)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	quality, err := s.Skills.Quality(ctx, tx, []string{before.ID, current.ID})
	if err != nil {
		return "", err
	}
	was, is := quality[before.ID], quality[current.ID]
	if was.GradedSessions < minGraded || is.GradedSessions < minGraded ||
		skills.Below(*was.PassRate, r.Threshold) || !skills.Below(*is.PassRate, r.Threshold) {
		return "", nil
	}
	// A person who made the version current again after a rollback has decided.
	if reverted, err := wasRolledBack(ctx, tx, current); err != nil || reverted {
		return "", err
	}
	result, err := s.rollBack(ctx, tx, e, current, before, NewRollback{OrgID: r.OrgID, UserID: r.UserID, Reason: &r.Reason})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Rolled back from version %s to %s.", result.From, result.Version.Version), nil
}
