package schedules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// Service keeps schedules, starts their runs and records them.
type Service struct {
	DB   *store.DB
	Jobs *jobs.Queue
	Runs *runs.Service
	Log  *slog.Logger
}

// Create makes a schedule. What can't run now is refused: an unknown suite, skill, agent or price.
func (s *Service) Create(ctx context.Context, c access.Caller, sch Schedule) (_ Schedule, err error) {
	defer fault.Wrap(&err, "create schedule")
	now := store.Now()
	sch.ID, sch.OrgID, sch.CreatedBy, sch.CreatedAt, sch.UpdatedAt = store.NewID(), c.OrgID, c.UserID, now, now
	if sch.Every == "" && sch.Cron == "" {
		sch.Every = DefaultEvery
	}
	if err := sch.check(); err != nil {
		return sch, err
	}
	run, err := s.Runs.Plan(ctx, c, sch.SuiteID, sch.run(sch.MaxMonthMicros))
	if err != nil {
		return sch, err
	}
	// The agent's model is pinned: the default of the server may change.
	sch.Skill, sch.Agent = run.Subject.Name, run.Terms.Agent
	if err := sch.restart(now); err != nil {
		return sch, err
	}
	return sch, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertSchedule(ctx, tx, sch); err != nil {
			return err
		}
		return sch.audit(ctx, tx, "evals.schedule.create", audit.Detail{})
	})
}

// restart counts due times from now on.
func (s *Schedule) restart(now time.Time) error {
	s.PausedReason, s.NextAt = nil, nil
	if !s.Enabled {
		return nil
	}
	next, err := s.after(now, now)
	s.NextAt = &next
	return err
}

func (s Schedule) audit(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	d["suite"], d["enabled"] = s.SuiteID, s.Enabled
	if s.Cron != "" {
		d["cron"] = s.Cron
	} else {
		d["every"] = s.Every
	}
	if most := spend.USD(s.MaxMonthMicros); most != nil {
		d["max_cost_usd_month"] = *most
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: s.OrgID, Action: action, Target: audit.Target{Kind: "schedule", ID: s.ID, Name: s.Skill}, Detail: d,
	})
}

// A Change is what a patch changes; nil leaves a field as it is.
type Change struct {
	SuiteID                   *string
	Agent                     *suites.Agent
	Trials                    *int
	Baseline                  *runs.Baseline
	Every, Cron               *string
	MaxMicros, MaxMonthMicros *int64
	Enabled                   *bool
	// These are taken away.
	NoAgent, NoMax, NoMonthMax bool
}

// apply changes a schedule, and reports whether its runs are to be others.
func (c Change) apply(s *Schedule) (others bool) {
	set(&s.SuiteID, c.SuiteID)
	set(&s.Trials, c.Trials)
	set(&s.Baseline, c.Baseline)
	set(&s.Enabled, c.Enabled)
	switch {
	case c.Every != nil && c.Cron != nil: // refused by check
		s.Timing = Timing{*c.Every, *c.Cron}
	case c.Every != nil:
		s.Timing = Timing{Every: *c.Every}
	case c.Cron != nil:
		s.Timing = Timing{Cron: *c.Cron}
	}
	if c.Agent != nil || c.NoAgent {
		s.Agent = c.Agent
	}
	if c.MaxMicros != nil || c.NoMax {
		s.MaxMicros = c.MaxMicros
	}
	if c.MaxMonthMicros != nil || c.NoMonthMax {
		s.MaxMonthMicros = c.MaxMonthMicros
	}
	return c.SuiteID != nil || c.Agent != nil || c.Baseline != nil || c.MaxMicros != nil || c.MaxMonthMicros != nil
}

func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

// Update changes a schedule of the caller's organisation.
func (s *Service) Update(ctx context.Context, by access.Caller, id string, c Change) (sch Schedule, err error) {
	defer fault.Wrap(&err, "update schedule %s", id)
	if sch, err = scheduleByID(ctx, s.DB, by.OrgID, id, ""); err != nil {
		return sch, err
	}
	others := c.apply(&sch)
	if err := sch.check(); err != nil {
		return sch, err
	}
	if others {
		run, err := s.Runs.Plan(ctx, by, sch.SuiteID, sch.run(sch.MaxMonthMicros))
		// Of a suite or skill that is gone, the rest can be changed all the same.
		if err != nil && (!fault.Is(err, fault.NotFound) || c.SuiteID != nil) {
			return sch, err
		}
		if err == nil && c.Agent != nil {
			c.Agent = run.Terms.Agent
		}
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if sch, err = scheduleByID(ctx, tx, by.OrgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		before := sch
		c.apply(&sch)
		sch.PausedReason, sch.UpdatedAt = nil, store.Now()
		if before.Timing != sch.Timing || before.Enabled != sch.Enabled {
			if err := sch.restart(sch.UpdatedAt); err != nil {
				return err
			}
		}
		if err := updateSchedule(ctx, tx, sch); err != nil {
			return err
		}
		return sch.audit(ctx, tx, "evals.schedule.change", audit.Detail{"trials": sch.Trials, "baseline": sch.Baseline})
	})
	return sch, err
}

// Delete removes a schedule. Its runs stay.
func (s *Service) Delete(ctx context.Context, orgID, id string) (err error) {
	defer fault.Wrap(&err, "delete schedule %s", id)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		sch, err := scheduleByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		if err := deleteSchedule(ctx, tx, id); err != nil {
			return err
		}
		return sch.audit(ctx, tx, "evals.schedule.delete", audit.Detail{})
	})
}

// Run starts a run now, beside those that are due.
func (s *Service) Run(ctx context.Context, c access.Caller, id string) (r runs.Run, err error) {
	defer fault.Wrap(&err, "run schedule %s", id)
	sch, err := scheduleByID(ctx, s.DB, c.OrgID, id, "")
	if err != nil {
		return r, err
	}
	left, err := s.left(ctx, s.DB, sch, store.Now())
	if err != nil {
		return r, err
	}
	if left != nil && *left <= 0 {
		return r, fault.New(fault.Conflict, "%s", sch.spentReason())
	}
	if r, err = s.Runs.Plan(ctx, c, sch.SuiteID, sch.run(left)); err != nil {
		return r, err
	}
	return r, s.DB.InTx(ctx, func(tx *store.Tx) error {
		locked, err := scheduleByID(ctx, tx, c.OrgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		// What another start has reserved meanwhile is not there any more.
		if now, err := s.left(ctx, tx, locked, store.Now()); err != nil || now != nil && (left == nil || *now < *left) {
			return errors.Join(err, fault.New(fault.Conflict, "Another run was started at the same moment. Try again."))
		}
		if err := s.start(ctx, tx, &locked, r, nil); err != nil {
			return err
		}
		if err := updateSchedule(ctx, tx, locked); err != nil {
			return err
		}
		return locked.audit(ctx, tx, "evals.schedule.run", audit.Detail{"run": r.ID})
	})
}

// start stores a planned run of a schedule, whose row is locked, with its job: a crash leaves all of
// them or none.
func (s *Service) start(ctx context.Context, tx *store.Tx, sch *Schedule, r runs.Run, due *time.Time) error {
	if err := s.Runs.Add(ctx, tx, r); err != nil {
		return err
	}
	sch.LastRunID, sch.Skill, sch.PausedReason = &r.ID, r.Subject.Name, nil
	return insertRun(ctx, tx, Run{
		ID: r.ID, ScheduleID: sch.ID, DueAt: due, Status: runs.Running, MaxMicros: r.Terms.MaxMicros, StartedAt: r.CreatedAt,
	})
}

// left is what the schedule may still cost in the month of now; nil without a limit.
func (s *Service) left(ctx context.Context, q store.Querier, sch Schedule, now time.Time) (unlimited *int64, err error) {
	if sch.MaxMonthMicros == nil {
		return unlimited, nil
	}
	spent, err := spentSince(ctx, q, monthOf(now), sch.ID)
	left := *sch.MaxMonthMicros - spent[sch.ID]
	return &left, err
}

// spentReason says that the month's budget is spent.
func (s Schedule) spentReason() string {
	return fmt.Sprintf("The month's budget of $%.2f is spent.", pricing.Dollars(*s.MaxMonthMicros))
}

// StartDue starts the run of a schedule that is due at a time, or notes why there is none. Called
// twice, or by two replicas at once, it starts one.
func (s *Service) StartDue(ctx context.Context, orgID, id string, now time.Time) (err error) {
	defer fault.Wrap(&err, "schedule %s", id)
	if err := s.settle(ctx, orgID, id); err != nil {
		return err
	}
	sch, err := scheduleByID(ctx, s.DB, orgID, id, "")
	if fault.Is(err, fault.NotFound) || err == nil && (sch.NextAt == nil || sch.NextAt.After(now)) {
		return nil
	}
	if err != nil {
		return err
	}
	run, reason, err := s.planDue(ctx, sch, now)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		locked, err := scheduleByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		// Another process was faster, or the schedule was changed: what was planned is out of date.
		if locked.NextAt == nil || !locked.NextAt.Equal(*sch.NextAt) || !locked.UpdatedAt.Equal(sch.UpdatedAt) {
			return nil
		}
		due := *locked.NextAt
		next, err := locked.after(due, now)
		if err != nil {
			return err
		}
		locked.NextAt, locked.PausedReason = &next, reason
		if run != nil {
			err = s.start(ctx, tx, &locked, *run, &due)
			if text, known := whyNot(err); known { // the suite was deleted at the same moment
				locked.PausedReason, err = &text, nil
			}
		}
		if err != nil {
			return err
		}
		return updateSchedule(ctx, tx, locked)
	})
}

// planDue plans the run of a schedule that is due. Without a run, reason says why, or is nil
// where the last one is still under way: a run that takes longer than the time between two is
// not made twice at once.
func (s *Service) planDue(ctx context.Context, sch Schedule, now time.Time) (run *runs.Run, reason *string, err error) {
	underWay, err := runningOf(ctx, s.DB, sch.ID)
	if err != nil || len(underWay) > 0 {
		return nil, sch.PausedReason, err
	}
	left, err := s.left(ctx, s.DB, sch, now)
	if err != nil {
		return nil, nil, err
	}
	if left != nil && *left <= 0 {
		spent := sch.spentReason()
		return nil, &spent, nil
	}
	planned, err := s.Runs.Plan(ctx, access.Caller{OrgID: sch.OrgID, UserID: sch.CreatedBy}, sch.SuiteID, sch.run(left))
	if text, known := whyNot(err); known {
		return nil, &text, nil
	}
	if err != nil {
		return nil, nil, err
	}
	// With what is left, a run would end without a result. The first one of a month is made.
	if cost := planned.Terms.Estimate; left != nil && cost != nil && *cost > *left && *left < *sch.MaxMonthMicros {
		short := fmt.Sprintf("A run costs about $%.2f, and $%.2f of the month's budget are left.",
			pricing.Dollars(*cost), pricing.Dollars(*left))
		return nil, &short, nil
	}
	return &planned, nil, nil
}

// whyNot says why a run can't be started, if that is for people to mend.
func whyNot(err error) (reason string, known bool) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || !slices.Contains([]fault.Kind{fault.NotFound, fault.Conflict, fault.Malformed, fault.Denied}, f.Kind) {
		return "", false
	}
	return "The run can't start: " + strings.TrimSuffix(f.Message, ".") + ".", true
}

// settle records runs that ended without it: in a process of an older version, or together with
// their suite.
func (s *Service) settle(ctx context.Context, orgID, id string) error {
	open, err := runningOf(ctx, s.DB, id)
	if err != nil || len(open) == 0 {
		return err
	}
	found, err := runs.ByID(ctx, s.DB, orgID, open)
	if err != nil {
		return err
	}
	for _, runID := range open {
		r, ok := found[runID]
		if ok && !r.Status.Over() {
			continue
		}
		if !ok {
			r = runs.Run{ID: runID, OrgID: orgID, Status: Deleted}
		}
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			_, err := s.RunEnded(ctx, tx, r)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RunEnded records a run in the transaction that ends it, if it is one of a schedule.
func (s *Service) RunEnded(ctx context.Context, tx *store.Tx, r runs.Run) (recorded bool, err error) {
	defer fault.Wrap(&err, "record run %s", r.ID)
	row, err := runByID(ctx, tx, r.ID)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	sch, err := scheduleByID(ctx, tx, r.OrgID, row.ScheduleID, tx.Dialect().ForUpdate())
	if err != nil {
		return false, err
	}
	// Again, under the lock: another process may have recorded it.
	if row, err = runByID(ctx, tx, r.ID); err != nil || row.Status != runs.Running {
		return false, err
	}
	at := store.Now()
	if r.Status == Deleted {
		row.Status, row.EndedAt = Deleted, &at
		return true, updateRun(ctx, tx, row)
	}
	before, err := lastConditions(ctx, tx, sch.ID)
	if err != nil {
		return false, err
	}
	traits, err := runs.TraitsOf(ctx, tx, r.ID)
	if err != nil {
		return false, err
	}
	row.end(r, traits, before, at)
	sch.add(&row)
	if err := updateRun(ctx, tx, row); err != nil {
		return false, err
	}
	return true, updateSchedule(ctx, tx, sch)
}

// Get returns a schedule of the organisation.
func (s *Service) Get(ctx context.Context, orgID, id string) (Schedule, error) {
	return scheduleByID(ctx, s.DB, orgID, id, "")
}

// A Filter chooses schedules.
type Filter struct {
	SuiteID, EntryID string // "" for all
	Before           string // cursor: the id of the last one of the page before
	Limit            int
}

// List returns at most Limit schedules, newest first, and whether there are more.
func (s *Service) List(ctx context.Context, orgID string, f Filter) (_ []Schedule, more bool, err error) {
	defer fault.Wrap(&err, "schedules")
	f.Limit++
	all, err := schedulesBefore(ctx, s.DB, orgID, f)
	if len(all) < f.Limit {
		return all, false, err
	}
	return all[:f.Limit-1], true, err
}

// History returns the newest runs of a schedule, newest first.
func (s *Service) History(ctx context.Context, sch Schedule, limit int) ([]Run, error) {
	return runsOf(ctx, s.DB, sch.ID, limit)
}

// Spent returns what the runs of this month cost, in millionths of a dollar, by schedule.
func (s *Service) Spent(ctx context.Context, all ...Schedule) (map[string]int64, error) {
	ids := make([]string, len(all))
	for i, sch := range all {
		ids[i] = sch.ID
	}
	return spentSince(ctx, s.DB, monthOf(store.Now()), ids...)
}
