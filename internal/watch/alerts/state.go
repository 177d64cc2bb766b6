package alerts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// State is the state machine of a rule for one skill:
//
//	state   verdict                  next    notification
//	ok      breached                 firing  firing
//	firing  not healthy for a day    firing  reminder, unless acknowledged
//	firing  healthy twice in a row   ok      resolved
//
// It deduplicates notifications: a skill that stays below the threshold is
// reported once, then once a day. Too little data does not change the state. A pair
// of rule and skill without a stored state is ok.
type State struct {
	RuleID, SkillID string
	State           string
	Since           time.Time
	GoodStreak      int // healthy evaluations in a row while firing
	Sequence        int // number of the last notification
	EpisodeID       *string
	LastNoticeAt    *time.Time // nil if the firing was not reported, e.g. while the rule was snoozed
	AcknowledgedAt  *time.Time // by a person: no more reminders of this firing
	AcknowledgedBy  *string
	Evidence        Evidence // of a sequential rule
	Rollback        Outcome  // of a rule that rolls back
}

// statesByKey reads the states of rules.
func statesByKey(ctx context.Context, q store.Querier, rules []Rule) (map[stateKey]State, error) {
	ids := make([]string, len(rules))
	for i, r := range rules {
		ids[i] = r.ID
	}
	all, err := statesOf(ctx, q, ids)
	states := make(map[stateKey]State, len(all))
	for _, s := range all {
		states[stateKey{s.RuleID, s.SkillID}] = s
	}
	return states, err
}

// The states that are stored.
const (
	ok     = "ok"
	firing = "firing"
)

// Fires reports whether the rule fires for the skill.
func (s State) Fires() bool { return s.State == firing }

// A verdict is the result of evaluating one skill.
type verdict int

const (
	insufficient verdict = iota // too few graded sessions
	healthy
	breached
	undecided // neither so bad as to fire nor so good as to resolve
)

// A Transition is a change of the state machine that causes a notification.
type Transition string

// The transitions.
const (
	Firing   Transition = "firing"
	Resolved Transition = "resolved"
	Reminder Transition = "reminder"
	none     Transition = ""
)

// WindowDays is the window over which a rule's pass rate is computed, today
// included.
const WindowDays = 7

const (
	minGraded    = 5 // graded sessions; fewer are too noisy to fire on
	resolveAfter = 2 // healthy evaluations in a row; one alone would flap
	remindEvery  = 24 * time.Hour
)

// evaluate applies the rule to a skill's figures.
func (r Rule) evaluate(f figures, now time.Time) verdict {
	switch r.Type {
	case NoData:
		last := lastData(r, f.WindowStats)
		silent := now.Sub(last) >= time.Duration(r.Threshold*24*float64(time.Hour))
		if r.Threshold == 0 { // no session today
			silent = last.Before(now.UTC().Truncate(24 * time.Hour))
		}
		if silent {
			return breached
		}
		return healthy
	case CostAbove:
		return r.evaluateCost(f)
	case SilentFall:
		return r.evaluateOffers(f)
	case PassRateBelow, WorseThanPrevious:
	}
	if r.Type == WorseThanPrevious && f.lineage.BeforeID == "" {
		return healthy // nothing is left that the version could be worse than, e.g. after a rollback
	}
	if r.Sensitivity == Sequential {
		return f.evidence.verdict()
	}
	if r.Type == WorseThanPrevious {
		return r.evaluateVersion(f)
	}
	return r.evaluateRate(f.PassRate, f.GradedSessions, r.Threshold)
}

// evaluateRate compares the pass rate of so many graded sessions with a threshold.
func (r Rule) evaluateRate(rate *float64, graded int64, threshold float64) verdict {
	if rate == nil || graded < minGraded {
		return insufficient
	}
	value := *rate
	if r.Sensitivity == Confident {
		_, value = stats.Wilson(value, int(graded))
	}
	if skills.Below(value, threshold) {
		return breached
	}
	return healthy
}

// lastData returns when a skill last sent data. One that never did counts from
// its creation or the rule's, whichever is later: a new rule does not fire at
// once.
func lastData(r Rule, s skills.WindowStats) time.Time {
	if s.LastSeenAt != nil {
		return *s.LastSeenAt
	}
	if s.CreatedAt.After(r.CreatedAt) {
		return s.CreatedAt
	}
	return r.CreatedAt
}

// next advances the state machine by one verdict. It returns the transition to
// notify of, if any, and whether the state changed and must be stored. While the
// rule is snoozed, a firing is not reported: that is left for a reminder.
func (s State) next(v verdict, now time.Time, snoozed bool) (_ State, _ Transition, changed bool) {
	switch {
	case s.State != firing && v == breached:
		s = s.enter(firing, now)
		if snoozed {
			s.LastNoticeAt = nil
		}
		return s, Firing, true
	case s.State != firing:
		return s, none, false
	case v != healthy:
		changed := s.GoodStreak > 0 && v != insufficient
		if changed {
			s.GoodStreak = 0
		}
		recently := s.LastNoticeAt != nil && now.Sub(*s.LastNoticeAt) < remindEvery
		if recently || snoozed || s.AcknowledgedAt != nil {
			return s, none, changed
		}
		s.Sequence++
		s.LastNoticeAt = &now
		return s, Reminder, true
	}
	s.GoodStreak++
	if s.GoodStreak < resolveAfter {
		return s, none, true
	}
	return s.enter(ok, now), Resolved, true
}

// enter moves to a state, which is worth a notification.
func (s State) enter(state string, now time.Time) State {
	s.State, s.Since, s.GoodStreak = state, now, 0
	s.AcknowledgedAt, s.AcknowledgedBy = nil, nil
	if state == firing || s.Rollback.BlockedBy != "" {
		s.Rollback = Outcome{}
	}
	s.Sequence++
	s.LastNoticeAt = &now
	return s
}
