package alerts

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// maxSnooze is how long an alert can be snoozed: longer is turning it off.
const maxSnooze = 366 * day

// Acknowledge ends the reminders of a firing alert: until it is resolved nothing
// more is sent. It returns the states of the skills that it fires for, which may
// be none: it may have been resolved meanwhile.
func (s *Service) Acknowledge(ctx context.Context, c access.Caller, id string) (r Rule, firing []State, err error) {
	defer fault.Wrap(&err, "acknowledge alert %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = s.ruleByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if err := acknowledgeStates(ctx, tx, id, c.UserID, store.Now()); err != nil {
			return err
		}
		all, err := statesOf(ctx, tx, []string{id})
		if err != nil {
			return err
		}
		firing = slices.DeleteFunc(all, func(s State) bool { return s.State != "firing" })
		return r.recordAudit(ctx, tx, "alerts.rule.acknowledge", audit.Detail{"skills": len(firing)})
	})
	return r, firing, err
}

// Snooze sends nothing about an alert until a time; nil ends that. The alert is
// still evaluated, and does what it does besides notifying. If it fires at the
// end, that is reported then.
func (s *Service) Snooze(ctx context.Context, c access.Caller, id string, until *time.Time) (r Rule, err error) {
	defer fault.Wrap(&err, "snooze alert %s", id)
	now := store.Now()
	if until != nil && (!until.After(now) || until.After(now.Add(maxSnooze))) {
		return r, fault.Invalid("until", "until must be in the future, and at most a year ahead")
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if r, err = s.ruleByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		r.SnoozedUntil, r.UpdatedAt = until, now
		if err := s.updateRule(ctx, tx, r); err != nil {
			return err
		}
		return r.recordAudit(ctx, tx, "alerts.rule.snooze", audit.Detail{"until": until})
	})
	return r, err
}
