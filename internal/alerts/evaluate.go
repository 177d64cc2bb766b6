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
	EpisodeID      string // id of the event that started the firing
	FiringSince    time.Time
	Version        *string // current in the registry at that time
	Note           *string
	OccurredAt     time.Time
}

// debounce is how long an evaluation waits after ingest, so that a burst of
// pushes causes one evaluation.
const debounce = time.Second

// Changed schedules an evaluation of the organisation's rules. It is called in
// the transaction that changed the figures of its skills.
func (s *Service) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	exists, err := hasRules(ctx, tx, orgID)
	if err != nil || !exists {
		return err
	}
	// Unique: while an evaluation waits, further pushes enqueue none.
	return s.Jobs.Enqueue(ctx, tx, evaluateOrg{OrgID: orgID, DueAt: time.Now().Add(debounce)}, jobs.Unique(orgID))
}

// EvaluateAll evaluates every organisation that has rules. An organisation that
// fails does not keep back the others.
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

// Evaluate applies all rules of an organisation to its skills. States, events
// and the jobs that deliver them commit together, so that a crash neither
// loses a notification nor enqueues it twice. Evaluations of one organisation
// are serialised by the lock on its rules.
func (s *Service) Evaluate(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "evaluate alerts of %s", orgID)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		rules, err := s.lockEnabledRules(ctx, tx, orgID)
		if err != nil || len(rules) == 0 {
			return err
		}
		all, err := s.Skills.WindowStats(ctx, tx, orgID, WindowDays)
		if err != nil {
			return err
		}
		states, err := statesOfOrg(ctx, tx, orgID)
		if err != nil {
			return err
		}
		e := evaluation{service: s, tx: tx, states: states, now: store.Now()}
		for _, r := range rules {
			watched := all
			if r.SkillID != nil {
				skill, listed := all[*r.SkillID]
				if !listed { // e.g. it was hidden
					continue
				}
				watched = map[string]skills.WindowStats{*r.SkillID: skill}
			}
			for _, skill := range watched {
				if err := e.evaluate(ctx, r, skill); err != nil {
					return err
				}
			}
		}
		return upsertStates(ctx, tx, e.changed)
	})
}

// evaluation is one run of Evaluate.
type evaluation struct {
	service *Service
	tx      *store.Tx
	states  map[stateKey]State
	now     time.Time
	changed []State
}

type stateKey struct{ ruleID, skillID string }

// evaluate advances the state machine of a rule and a skill. A transition is
// written as an event with its delivery.
func (e *evaluation) evaluate(ctx context.Context, r Rule, skill skills.WindowStats) error {
	state, known := e.states[stateKey{r.ID, skill.ID}]
	if !known {
		state = State{RuleID: r.ID, SkillID: skill.ID, State: ok, Since: e.now}
	}
	next, transition, changed := state.next(r.evaluate(skill, e.now), e.now)
	if !changed {
		return nil
	}
	if transition == none {
		e.changed = append(e.changed, next)
		return nil
	}
	event := newEvent(r, skill, transition, e.now)
	event.FiringSince = state.Since
	if transition == Firing {
		event.FiringSince = e.now
		next.EpisodeID = &event.ID
	}
	event.Sequence, event.EpisodeID = next.Sequence, *next.EpisodeID
	e.changed = append(e.changed, next)
	registry := e.service.Registry
	var err error
	if event.Version, err = registry.CurrentVersion(ctx, e.tx, r.OrgID, event.SkillID); err != nil {
		return err
	}
	// The rollback commits with the event: once for each episode, whatever crashes.
	// Reminders do not roll back again.
	if r.Action != nil && transition == Firing {
		note, err := registry.Revert(ctx, e.tx, skills.Revert{
			OrgID: r.OrgID, SkillID: event.SkillID, UserID: r.CreatedBy, Threshold: r.Threshold, Reason: "alert " + r.ID,
		})
		if err != nil {
			return err
		}
		if note != "" {
			event.Note = &note
		}
	}
	if e.service.testTransition != nil {
		e.service.testTransition()
	}
	if err := insertEvent(ctx, e.tx, event); err != nil {
		return err
	}
	return e.service.enqueueDelivery(ctx, e.tx, r, event.ID)
}

func newEvent(r Rule, s skills.WindowStats, t Transition, now time.Time) Event {
	e := Event{
		ID: store.NewID(), OrgID: r.OrgID, RuleID: r.ID, SkillID: s.ID, SkillName: s.Name, Type: r.Type, Transition: t,
		Threshold: r.Threshold, GradedSessions: s.GradedSessions, LastSessionAt: s.LastSeenAt, OccurredAt: now,
		WindowFrom: now.Truncate(24*time.Hour).AddDate(0, 0, 1-WindowDays), WindowTo: now,
	}
	if r.Type == NoData {
		days := max(0, now.Sub(lastData(r, s)).Hours()/24) // a client's clock may run ahead
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
