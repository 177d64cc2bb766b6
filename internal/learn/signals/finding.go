package signals

import (
	"cmp"
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Finding is something that many contributors noticed about a skill, with the
// evidence for it. Suppressed figures are left out of it.
type Finding struct {
	SkillName    string
	Name         string // MissedTrigger, MissedSession or LowGrade
	Signals      int64  // that say so
	Total        int64  // of the skill
	Contributors int    // of the skill
	Buckets      map[string]int64
	FirstWeek    string // of those that are shown, "" if none is
	LastWeek     string
}

// The names of findings. MissedTrigger is also the type of the events that it
// counts.
const (
	MissedTrigger = "missed_trigger"
	MissedSession = "missed_session"
	LowGrade      = "low_grade"
)

// minContributors is how many contributors a finding must have, even where a
// lower k shows figures of fewer: what one person noticed is not a finding.
const minContributors = 3

// Findings returns what should change about an organisation's skills. Each
// finding is backed by at least ten signals of minContributors contributors, or
// of k if that is more. It reads the published figures and not the signals, so a proposal reveals
// nothing that the API withholds.
func (s *Service) Findings(ctx context.Context, orgID string) (all []Finding, err error) {
	defer fault.Wrap(&err, "findings")
	f, err := s.forest(ctx, orgID, "", skillLevel, kindLevel, weekLevel, stateLevel, gradeLevel, queryLevel)
	if err != nil {
		return nil, err
	}
	for _, skill := range f.skills {
		for _, kind := range skill.below[kindLevel] {
			all = append(all, kind.findings(skill)...)
		}
	}
	return all, nil
}

// findings returns those of one kind of signals. Events can only be missed triggers; the other
// findings need the outcome of a session.
func (n *node) findings(skill *node) []Finding {
	var all []Finding
	add := func(name string, signals int64, people int, buckets []*node) {
		if signals < actionable || people < minContributors {
			return
		}
		f := Finding{
			SkillName: n.skill, Name: name, Signals: signals, Total: skill.signals, Contributors: skill.contributors,
			Buckets: map[string]int64{},
		}
		for _, b := range buckets {
			if b.shown && b.class != none {
				f.Buckets[b.class] = b.signals
			}
		}
		for _, week := range n.below[weekLevel] { // oldest first
			if week.shown {
				f.FirstWeek, f.LastWeek = cmp.Or(f.FirstWeek, week.class), week.class
			}
		}
		all = append(all, f)
	}
	// The type of an event is free text; only this one is understood.
	if n.shown && n.form == event && n.kind == MissedTrigger {
		add(MissedTrigger, n.signals, n.contributors, nil)
	}
	for _, state := range n.below[stateLevel] {
		switch {
		case !state.shown:
		case state.class == string(Missed):
			add(MissedSession, state.signals, state.contributors, state.below[queryLevel])
		case state.class == string(Triggered):
			signals, people := lowGraded(state)
			add(LowGrade, signals, people, state.below[gradeLevel])
		}
	}
	return all
}

// lowGraded counts the shown sessions graded C or F, if they are at least a
// quarter of the shown graded ones. The contributors of the two grades may be the
// same people, so the larger of the two numbers is returned. Below a quarter, a few bad grades are
// normal.
func lowGraded(state *node) (low int64, people int) {
	var all int64
	for _, grade := range state.below[gradeLevel] {
		if !grade.shown || grade.class == none {
			continue
		}
		all += grade.signals
		if grade.class == "C" || grade.class == "F" {
			low += grade.signals
			people = max(people, grade.contributors)
		}
	}
	if low*4 < all {
		return 0, 0
	}
	return low, people
}
