package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// An Event is the record of a transition, with the figures that caused it. It is
// stored with the skill's name, so that it can be read after the skill is gone.
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
	LastGradedAt   *time.Time // of alerts on grades
	// Measured is the figure that the alert watches, and Reference what it is
	// compared with, where that is not the threshold: the pass rates of the current
	// version and of ReferenceVersion, the share of offers that lead to a use now and
	// before, the cost of a use.
	Measured, Reference     *float64
	ReferenceVersion        *string
	Evidence, EvidenceLimit *float64 // of a sequential alert
	Sequence                int
	EpisodeID               string // id of the event that started the firing
	FiringSince             time.Time
	Version                 *string // current in the registry at that time
	Note                    *string
	OccurredAt              time.Time
}

// debounce is how long an evaluation waits after ingest, so that a burst of
// pushes causes one evaluation.
const debounce = time.Second

// Changed schedules an evaluation of the organisation's rules. It is called in
// the transaction that changed the figures of its skills.
func (s *Service) Changed(ctx context.Context, tx *store.Tx, orgID string) error {
	// This runs for every push, so it must cost one index lookup at most.
	exists, err := hasRules(ctx, tx, orgID)
	if err != nil || !exists {
		return err
	}
	// Unique: while an evaluation waits, further pushes enqueue none.
	return s.Jobs.Enqueue(ctx, tx, evaluateOrg{OrgID: orgID, DueAt: time.Now().Add(debounce)}, jobs.Unique(orgID),
		jobs.For(orgID))
}

// Evaluate applies all rules of an organisation to its skills. States, events
// and the jobs that deliver them commit together, so that a crash neither
// loses a notification nor enqueues it twice. Evaluations of one organisation
// are serialised by the lock on its rules.
func (s *Service) Evaluate(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "evaluate alerts of %s", orgID)
	// Before the transaction: it may take longer than the rest, and need not be
	// consistent with it.
	costs, err := s.costs(ctx, orgID)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		rules, err := s.lockEnabledRules(ctx, tx, orgID)
		if err != nil || len(rules) == 0 {
			return err
		}
		all, err := s.readFigures(ctx, tx, orgID, rules, costs)
		if err != nil {
			return err
		}
		states, err := statesByKey(ctx, tx, rules)
		if err != nil {
			return err
		}
		e := evaluation{service: s, tx: tx, states: states, figures: all, now: store.Now()}
		for _, r := range rules {
			watched := all.windows
			if r.SkillID != nil {
				skill, listed := all.windows[*r.SkillID]
				// Its state stays as it is until the skill is listed again.
				if !listed { // e.g. it was hidden
					continue
				}
				watched = map[string]skills.WindowStats{*r.SkillID: skill}
			}
			for id := range watched {
				if err := e.evaluate(ctx, r, all.of(id)); err != nil {
					return err
				}
			}
		}
		if err := upsertStates(ctx, tx, e.changed); err != nil {
			return err
		}
		return schedule(ctx, tx, rules, e.now, e.due.at(orgID, e.now))
	})
}

// evaluation is one run of Evaluate. States are collected and written at the end, in
// one go.
type evaluation struct {
	service *Service
	tx      *store.Tx
	states  map[stateKey]State
	figures figuresOf
	now     time.Time
	changed []State
	due     due
}

type stateKey struct{ ruleID, skillID string }

// evaluate advances the state machine of a rule and a skill. A transition is
// written as an event with its delivery.
func (e *evaluation) evaluate(ctx context.Context, r Rule, skill figures) (err error) {
	state, known := e.states[stateKey{r.ID, skill.ID}]
	if !known {
		state = State{RuleID: r.ID, SkillID: skill.ID, State: ok, Since: e.now}
	}
	gathered := false
	if r.Sensitivity == Sequential && r.Type.onGrades() {
		before := state.Evidence.of
		if state.Evidence, err = e.figures.gather(ctx, e.tx, r, skill, state.Evidence, e.now); err != nil {
			return err
		}
		// Evidence is stored even if nothing else changed, or it would be computed
		// every time.
		skill.evidence, gathered = state.Evidence, state.Evidence.of != before
	}
	snoozed := r.SnoozedUntil != nil && e.now.Before(*r.SnoozedUntil)
	verdict := r.evaluate(skill, e.now)
	next, transition, changed := state.next(verdict, e.now, snoozed)
	var back *release.Result
	// Also while it fires already: a rollback that was blocked for too few sessions
	// may be possible by now.
	if r.Action != nil && next.State == firing {
		if next.Rollback, back, err = e.revert(ctx, r, skill, verdict, next.Rollback); err != nil {
			return err
		}
		changed = changed || next.Rollback != state.Rollback
	}
	if back != nil && transition == none { // it fires for longer already
		transition = Reminder
		next.Sequence++
		if !snoozed {
			next.LastNoticeAt = &e.now
		}
	}
	e.due.add(r, skill, next)
	if !changed && !gathered {
		return nil
	}
	// Changes without a notification, e.g. of the count of good evaluations in a
	// row.
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
	// Every transition belongs to an episode, which began with Firing.
	event.Sequence, event.EpisodeID = next.Sequence, *next.EpisodeID
	e.changed = append(e.changed, next)
	if back != nil { // the event is about the version that was taken back
		event.Version = &back.From.Version
		event.addNote(back.String())
		if err := e.openIncident(ctx, r, event, *back); err != nil {
			return err
		}
	} else {
		event.Version, err = e.service.Registry.CurrentVersion(ctx, e.tx, r.OrgID, event.SkillID)
		if err != nil {
			return err
		}
		if note := next.Rollback.note(skill.lineage.Current); note != "" && transition != Resolved {
			event.addNote(note)
		}
	}
	if r.Type.onGrades() {
		if event.LastGradedAt, err = skills.LastGradedAt(ctx, e.tx, event.SkillID); err != nil {
			return err
		}
		if note := staleNote(event.LastGradedAt, e.now); note != "" && transition != Resolved {
			event.addNote(note)
		}
	}
	if e.service.testTransition != nil {
		e.service.testTransition()
	}
	if err := insertEvent(ctx, e.tx, event); err != nil {
		return err
	}
	// The event is recorded either way. A resolution that follows a muted firing
	// would be the first that a person hears of it.
	if transition != Resolved && snoozed || transition == Resolved && state.LastNoticeAt == nil {
		return nil // the firing was not notified
	}
	if err := e.service.emit(ctx, e.tx, event); err != nil {
		return err
	}
	return e.service.enqueueDeliveries(ctx, e.tx, r, event)
}

// openIncident hands over what follows from a rollback.
func (e *evaluation) openIncident(ctx context.Context, r Rule, event Event, back release.Result) error {
	if e.service.OnRolledBack == nil {
		return nil
	}
	// addNote has set it: a rollback always leaves a note.
	evidence := *event.Note
	if event.PassRate != nil {
		evidence = fmt.Sprintf("The pass rate was %.1f %% over %d graded sessions. %s", *event.PassRate*100,
			event.GradedSessions, evidence)
	}
	return e.service.OnRolledBack.Open(ctx, e.tx, RolledBack{
		EventID: event.ID, OrgID: r.OrgID, RuleID: r.ID, SkillID: event.SkillID, SkillName: event.SkillName,
		EntryID: back.Entry.ID, VersionID: back.From.ID, Version: back.From.Version, GoodVersion: back.Version.Version,
		Evidence: evidence, At: e.now,
	})
}

func (e *Event) addNote(note string) {
	if e.Note != nil {
		note = *e.Note + " " + note
	}
	e.Note = &note
}

// staleAfter is the TTL of grades: an alert is marked stale when the newest one is older.
const staleAfter = 3 * day

// staleNote says how old the newest grade is, if it is old. Old grades are no reason
// to stay silent, but a reader must know that they are old.
func staleNote(last *time.Time, now time.Time) string {
	if last == nil {
		return "No session was graded yet."
	}
	if now.Sub(*last) < staleAfter {
		return ""
	}
	return "No session was graded since " + last.UTC().Format("2006-01-02 15:04 UTC") + ": this rests on older data."
}

// costs returns what uses of the organisation's skills cost over WindowDays, by
// skill, if a rule is about that.
func (s *Service) costs(ctx context.Context, orgID string) (map[string]pricing.Cost, error) {
	wanted, err := hasRuleOf(ctx, s.DB, orgID, CostAbove)
	if err != nil || !wanted || s.Skills.Costs == nil {
		return nil, err
	}
	return s.Skills.WindowCosts(ctx, orgID, WindowDays)
}

// newEvent records a transition with the figures that caused it. Its window begins
// at midnight UTC, as the figures do.
func newEvent(r Rule, f figures, t Transition, now time.Time) Event {
	s := f.WindowStats
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
	e.Evidence, e.EvidenceLimit = f.evidence.Sum, f.evidence.Limit
	switch r.Type {
	case CostAbove:
		if f.cost != nil {
			e.Measured = f.cost.PerUseP50
		}
		return e
	case SilentFall:
		now, before := f.offers.Share(), f.offers.ShareBefore()
		e.Measured, e.Reference = &now, &before
		return e
	case WorseThanPrevious:
		e.Measured, e.Reference = f.current.PassRate, f.before.PassRate
		if f.lineage.Before != "" {
			e.ReferenceVersion = &f.lineage.Before
		}
		// s is a copy: the interval below is of the current version alone.
		s.PassRate, s.GradedSessions = f.current.PassRate, f.current.GradedSessions
		e.GradedSessions = s.GradedSessions
	case PassRateBelow, NoData:
	}
	e.PassRate = s.PassRate
	if s.PassRate != nil {
		low, high := stats.Wilson(*s.PassRate, int(s.GradedSessions))
		e.Interval = &[2]float64{low, high}
	}
	return e
}
