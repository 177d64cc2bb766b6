// Package schedules runs a suite on a fixed subject at fixed times, and records with each run
// what it was made with: when a score falls while nobody pushed, the schedule says what changed.
// It owns the tables eval_schedules and eval_schedule_runs.
package schedules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// A Schedule runs a suite at fixed times.
type Schedule struct {
	ID      string
	OrgID   string
	SuiteID string // may be deleted
	Subject subject.Ref
	Skill   string // its name, as of the last run
	Agent   *suites.Agent
	Trials  int // of each case in each run
	Timing
	Baseline       runs.Baseline
	MaxMicros      *int64 // that one run may cost; nil for no limit
	MaxMonthMicros *int64 // that the runs of a calendar month may cost
	Enabled        bool
	PausedReason   *string    // why the last due time had no run
	NextAt         *time.Time // nil unless Enabled
	LastRunID      *string
	Reference      *Reference // nil until there are enough runs
	CreatedBy      string
	CreatedAt      time.Time
	UpdatedAt      time.Time

	// building is the reference that follows a change of skill or suite, or the first one;
	// nil if the reference is of what runs now.
	building *Reference
}

// Limits of a schedule; the API's schema states them, too.
const (
	DefaultTrials = 3
	DefaultEvery  = "24h"
	MinEvery      = time.Hour
	MaxEvery      = 30 * 24 * time.Hour
	// Current is the version of an entry that is current at each time.
	Current = "current"
)

// Timing says when a schedule is due. One of the fields is set.
type Timing struct {
	Every string // e.g. "24h" or "7d"
	Cron  string // see ParseCron
}

// check validates what people wrote.
func (t Timing) check() error {
	switch {
	case t.Every != "" && t.Cron != "":
		return fault.Invalid("cron", "cron and every exclude each other: give one of them")
	case t.Cron != "":
		if _, err := ParseCron(t.Cron); err != nil {
			return fault.Invalid("cron", "cron can't be used: %v", err)
		}
		return nil
	}
	if d, err := parseEvery(t.Every); err != nil || d < MinEvery || d > MaxEvery {
		return fault.Invalid("every", "every must be 1h to 30d, e.g. 24h or 7d")
	}
	return nil
}

// parseEvery reads a duration that may be in days.
func parseEvery(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(s)
}

// after returns the first due time after now, where the one before was at due. Times that were
// missed, e.g. while the server was down, are left out.
func (t Timing) after(due, now time.Time) (time.Time, error) {
	if t.Cron != "" {
		c, err := ParseCron(t.Cron)
		return c.Next(now), err
	}
	every, err := parseEvery(t.Every)
	if err != nil || every <= 0 {
		return now, fmt.Errorf("every %q of a stored schedule: %w", t.Every, err)
	}
	if due = due.Add(every); !due.After(now) {
		due = due.Add((now.Sub(due)/every + 1) * every)
	}
	return due, nil
}

// monthOf is the beginning of a time's calendar month.
func monthOf(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// check validates everything that a user can set, but for what it names.
func (s Schedule) check() error {
	r := s.Subject
	switch {
	case s.SuiteID == "":
		return fault.Invalid("suite_id", "suite_id is needed: the suite to run")
	case (r.EntryID == "") == (r.SourceID == ""):
		return fault.Invalid("entry_id", "exactly one of entry_id and source_id is needed: the skill to try")
	case r.Version != "" && r.EntryID == "":
		return fault.Invalid("version", "version is of an entry: give its entry_id")
	case s.Trials < 1 || s.Trials > runs.MaxTrials:
		return fault.Invalid("trials", "trials must be 1 to %d", runs.MaxTrials)
	case !slices.Contains([]runs.Baseline{runs.NoBaseline, runs.NoSkill, runs.PreviousBaseline}, s.Baseline):
		return fault.Invalid("baseline", "baseline must be none, no_skill or previous")
	case s.MaxMicros != nil && *s.MaxMicros <= 0:
		return fault.Invalid("max_cost_usd", "max_cost_usd must be above 0")
	case s.MaxMonthMicros != nil && *s.MaxMonthMicros <= 0:
		return fault.Invalid("max_cost_usd_month", "max_cost_usd_month must be above 0")
	}
	return s.Timing.check()
}

// run is what each run of the schedule is to be, where left is what its month may still cost.
func (s Schedule) run(left *int64) runs.NewRun {
	n := runs.NewRun{Subject: s.Subject, Trials: s.Trials, Baseline: s.Baseline, Agent: s.Agent, MaxMicros: s.MaxMicros}
	if left != nil && (n.MaxMicros == nil || *left < *n.MaxMicros) {
		n.MaxMicros = left
	}
	return n
}

// pause notes why there is no run.
func (s *Schedule) pause(reason string) { s.PausedReason = &reason }
