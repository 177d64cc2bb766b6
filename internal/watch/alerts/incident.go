package alerts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A RolledBack is a rollback that an alert has done.
type RolledBack struct {
	EventID            string // of the firing
	OrgID, RuleID      string
	SkillID, SkillName string
	EntryID            string
	VersionID, Version string // that was rolled back
	GoodVersion        string // current now
	Evidence           string // in words
	At                 time.Time
}

// OnRolledBack is a hook of rollbacks by alerts: the package incidents follows them to their end.
type OnRolledBack interface {
	// Open is called in the transaction of the rollback.
	Open(ctx context.Context, tx *store.Tx, r RolledBack) error
}

// Tell sends a further notification of a firing: a reminder with a note. It is
// not sent if the alert was deleted or turned off.
func (s *Service) Tell(ctx context.Context, tx *store.Tx, orgID, eventID, note string) (err error) {
	defer fault.Wrap(&err, "tell of event %s", eventID)
	e, err := eventByID(ctx, tx, eventID)
	if err != nil {
		return err
	}
	r, err := s.ruleByID(ctx, tx, orgID, e.RuleID, tx.Dialect().ForUpdate())
	if fault.Is(err, fault.NotFound) || err == nil && !r.Enabled {
		return nil
	}
	if err != nil {
		return err
	}
	if e.Sequence, err = nextSequence(ctx, tx, e); err != nil {
		return err
	}
	e.ID, e.Transition, e.Note, e.OccurredAt = store.NewID(), Reminder, &note, store.Now()
	if err := insertEvent(ctx, tx, e); err != nil {
		return err
	}
	return s.enqueueDeliveries(ctx, tx, r, e)
}
