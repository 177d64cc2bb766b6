package alerts

import (
	"context"
	"errors"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/stats"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// An Event is the record of a transition, with the figures that caused it.
type Event struct {
	ID             string
	OrgID          string
	RuleID         string
	SkillID        string
	SkillName      string
	Type           Type
	Transition     Transition
	Threshold      float64
	PassRate       *float64
	Interval       *[2]float64 // Wilson, 95 %
	GradedSessions int64
	DaysSilent     *float64
	WindowFrom     time.Time
	WindowTo       time.Time
	LastSessionAt  *time.Time
	Sequence       int
	EpisodeID      string // the event that began the firing
	FiringSince    time.Time
	Version        *string // current in the registry at that time
	Note           *string
	OccurredAt     time.Time
}

// soon is how long the look at a skill waits after ingest, so that a burst of
// pushes causes one.
const soon = time.Second

// Changed makes the rules look at the organisation's skills soon. It is called
// in the transaction that changed their numbers.
func (s *Service) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	watched, err := hasRules(ctx, tx, orgID)
	if err != nil || !watched {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, evaluateOrg{OrgID: orgID, DueAt: time.Now().Add(soon)}, jobs.Unique(orgID))
}

// EvaluateAll evaluates every organisation that has rules. One that cannot be
// evaluated does not keep the others waiting.
func (s *Service) EvaluateAll(ctx context.Context) error {
	orgs, err := orgsWithRules(ctx, s.DB)
	if err != nil {
		return err
	}
	var failures []error
	for _, orgID := range orgs {
		failures = append(failures, s.Evaluate(ctx, orgID))
	}
	return errors.Join(failures...)
}

// Evaluate looks at all skills with all rules of an organisation. States,
// events and the jobs that deliver them are written together, so a crash
// neither loses a notice nor tells it twice.
func (s *Service) Evaluate(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "evaluate alerts of %s", orgID)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		rules, err := s.enabledRules(ctx, tx, orgID)
		if err != nil || len(rules) == 0 {
			return err
		}
		standings, err := s.Skills.Standings(ctx, tx, orgID, WindowDays)
		if err != nil {
			return err
		}
		states, err := statesOfOrg(ctx, tx, orgID)
		if err != nil {
			return err
		}
		look := look{service: s, tx: tx, states: states, now: store.Now()}
		for _, r := range rules {
			if err := look.rule(ctx, r, standings); err != nil {
				return err
			}
		}
		return upsertStates(ctx, tx, look.changed)
	})
}

// look is one evaluation on its way.
type look struct {
	service *Service
	tx      *store.Tx
	states  map[stateKey]State
	now     time.Time
	changed []State
}

type stateKey struct{ ruleID, skillID string }

func (l *look) rule(ctx context.Context, r Rule, standings map[string]skills.Standing) error {
	if r.SkillID != nil {
		return l.pair(ctx, r, standings[*r.SkillID])
	}
	for _, s := range standings {
		if err := l.pair(ctx, r, s); err != nil {
			return err
		}
	}
	return nil
}

func (l *look) pair(ctx context.Context, r Rule, skill skills.Standing) error {
	state, known := l.states[stateKey{r.ID, skill.ID}]
	if !known {
		state = State{RuleID: r.ID, SkillID: skill.ID, State: ok, Since: l.now}
	}
	since := state.Since
	next, transition, changed := state.next(r.judge(skill, l.now), l.now)
	if !changed {
		return nil
	}
	if transition == none {
		l.changed = append(l.changed, next)
		return nil
	}
	e := newEvent(r, skill, transition, l.now)
	if transition == Firing {
		since = l.now
		next.EpisodeID = &e.ID
	}
	e.Sequence, e.EpisodeID, e.FiringSince = next.Sequence, *next.EpisodeID, since
	l.changed = append(l.changed, next)
	var err error
	if e.Version, err = l.service.Registry.CurrentVersion(ctx, l.tx, r.OrgID, e.SkillID); err != nil {
		return err
	}
	if err := l.act(ctx, r, &e); err != nil {
		return err
	}
	if err := insertEvent(ctx, l.tx, e); err != nil {
		return err
	}
	return l.service.enqueueDelivery(ctx, l.tx, r, &e.ID)
}

// act does what the rule asks for when it starts firing.
func (l *look) act(ctx context.Context, r Rule, e *Event) error {
	if r.Action == nil || e.Transition != Firing {
		return nil
	}
	note, err := l.service.Registry.Revert(ctx, l.tx, skills.Revert{
		OrgID: r.OrgID, SkillID: e.SkillID, UserID: r.CreatedBy, Threshold: r.Threshold, Reason: "alert " + r.ID,
	})
	if note != "" {
		e.Note = &note
	}
	return err
}

func newEvent(r Rule, s skills.Standing, t Transition, now time.Time) Event {
	e := Event{
		ID: store.NewID(), OrgID: r.OrgID, RuleID: r.ID, SkillID: s.ID, SkillName: s.Name, Type: r.Type, Transition: t,
		Threshold: r.Threshold, GradedSessions: s.GradedSessions, LastSessionAt: s.LastSeenAt, OccurredAt: now,
		WindowFrom: now.Truncate(24*time.Hour).AddDate(0, 0, 1-WindowDays), WindowTo: now,
	}
	if r.Type == NoData {
		days := max(0, now.Sub(lastHeard(r, s)).Hours()/24) // a client's clock may run ahead
		e.DaysSilent = &days
		return e
	}
	e.PassRate = s.PassRate
	if s.PassRate != nil {
		low, high := stats.Wilson(*s.PassRate, int(s.GradedSessions))
		e.Interval = &[2]float64{low, high}
	}
	return e
}
