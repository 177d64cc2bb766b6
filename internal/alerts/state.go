package alerts

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/stats"
)

// State is the state machine of a rule for one skill:
//
//	state   verdict                  next    notification
//	ok      breached                 firing  firing
//	firing  breached for a day more  firing  reminder
//	firing  healthy twice in a row   ok      resolved
//
// It deduplicates notifications: a skill that stays below the threshold is
// reported once, then once a day. Too little data moves nothing. A pair of rule
// and skill without a stored state is ok.
type State struct {
	RuleID, SkillID string
	State           string
	Since           time.Time
	GoodStreak      int // healthy evaluations in a row while firing
	Sequence        int // number of the last notification
	EpisodeID       *string
	LastNoticeAt    *time.Time
}

// The states that are stored.
const (
	ok     = "ok"
	firing = "firing"
)

// A verdict is the result of evaluating one skill.
type verdict int

const (
	insufficient verdict = iota // too few graded sessions
	healthy
	breached
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
func (r Rule) evaluate(s skills.WindowStats, now time.Time) verdict {
	if r.Type == NoData {
		last := lastData(r, s)
		silent := now.Sub(last) >= time.Duration(r.Threshold*24*float64(time.Hour))
		if r.Threshold == 0 { // no session today
			silent = last.Before(now.UTC().Truncate(24 * time.Hour))
		}
		if silent {
			return breached
		}
		return healthy
	}
	if s.GradedSessions < minGraded {
		return insufficient
	}
	value := *s.PassRate
	if r.Sensitivity == Confident {
		_, value = stats.Wilson(*s.PassRate, int(s.GradedSessions))
	}
	if skills.Below(value, r.Threshold) {
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
// notify of, if any, and whether the state changed and must be stored.
func (s State) next(v verdict, now time.Time) (_ State, _ Transition, changed bool) {
	switch {
	case s.State != firing && v == breached:
		return s.enter(firing, now), Firing, true
	case s.State != firing || v == insufficient:
		return s, none, false
	case v == breached:
		changed := s.GoodStreak > 0
		s.GoodStreak = 0
		if s.LastNoticeAt != nil && now.Sub(*s.LastNoticeAt) < remindEvery {
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
	s.Sequence++
	s.LastNoticeAt = &now
	return s
}

// A Sample is a skill's figures at a time; its pass rate is over WindowDays.
type Sample struct {
	At time.Time
	skills.WindowStats
}

// Replay runs the state machine over past samples of a skill, oldest first, and
// reports for each whether the rule would have been firing. Rules are evaluated
// more often than samples are taken, so each sample counts resolveAfter times.
func (r Rule) Replay(samples []Sample) []bool {
	state := State{State: ok}
	fired := make([]bool, len(samples))
	for i, sample := range samples {
		v := r.evaluate(sample.WindowStats, sample.At)
		for range resolveAfter {
			state, _, _ = state.next(v, sample.At)
		}
		fired[i] = state.State == firing
	}
	return fired
}
