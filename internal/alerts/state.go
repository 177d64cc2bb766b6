package alerts

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/stats"
)

// State is where a rule stands with one skill. A pair without a stored state
// has never fired.
type State struct {
	RuleID, SkillID string
	State           string
	Since           time.Time
	GoodStreak      int
	Sequence        int
	EpisodeID       *string
	LastNoticeAt    *time.Time
}

// The states that are stored.
const (
	ok     = "ok"
	firing = "firing"
)

// A verdict is what one look at a skill finds.
type verdict int

const (
	insufficient verdict = iota // too little to say anything
	fine
	bad
)

// A Transition is what a look changed, and what is told of it.
type Transition string

// The transitions.
const (
	Firing   Transition = "firing"
	Resolved Transition = "resolved"
	Reminder Transition = "reminder"
	none     Transition = ""
)

// WindowDays is how far the pass rate of a rule looks back.
const WindowDays = 7

const (
	enoughGraded  = 5 // sessions; fewer never fire
	goodToResolve = 2 // looks in a row
	remindEvery   = 24 * time.Hour
)

// judge looks at a skill with a rule's eyes.
func (r Rule) judge(s skills.Standing, now time.Time) verdict {
	if r.Type == NoData {
		if silentFor(r, s, now) {
			return bad
		}
		return fine
	}
	if s.GradedSessions < enoughGraded {
		return insufficient
	}
	value := *s.PassRate
	if r.Sensitivity == Confident {
		_, value = stats.Wilson(*s.PassRate, int(s.GradedSessions))
	}
	if skills.Below(value, r.Threshold) {
		return bad
	}
	return fine
}

// silentFor reports whether the skill's last session is too long ago. A skill
// that was never seen is silent since it or the rule was made.
func silentFor(r Rule, s skills.Standing, now time.Time) bool {
	last := lastHeard(r, s)
	if r.Threshold == 0 {
		return last.Before(now.UTC().Truncate(24 * time.Hour))
	}
	return now.Sub(last) >= time.Duration(r.Threshold*24*float64(time.Hour))
}

func lastHeard(r Rule, s skills.Standing) time.Time {
	if s.LastSeenAt != nil {
		return *s.LastSeenAt
	}
	if s.CreatedAt.After(r.CreatedAt) {
		return s.CreatedAt
	}
	return r.CreatedAt
}

// next moves the state by one verdict. It tells what must be told, and
// whether anything changed that must be stored.
func (s State) next(v verdict, now time.Time) (State, Transition, bool) {
	switch {
	case s.State != firing && v == bad:
		return s.notice(firing, now), Firing, true
	case s.State != firing || v == insufficient:
		return s, none, false
	case v == bad:
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
	if s.GoodStreak < goodToResolve {
		return s, none, true
	}
	return s.notice(ok, now), Resolved, true
}

func (s State) notice(state string, now time.Time) State {
	s.State, s.Since, s.GoodStreak = state, now, 0
	s.Sequence++
	s.LastNoticeAt = &now
	return s
}
