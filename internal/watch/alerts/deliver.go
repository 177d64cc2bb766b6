package alerts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Delivery is a notification on its way to a channel. Its source is the rule.
type Delivery struct {
	delivery.Delivery
	Channel notify.Channel
	// RecipientID is the member whom a mail to owners is for; nil for other channels.
	RecipientID *string
}

var deliveries = delivery.Table[Delivery]{
	Name: "alert_deliveries", Source: "rule_id", Own: "channel, recipient_id",
	Fields: func(d *Delivery) (*delivery.Delivery, []any) { return &d.Delivery, []any{&d.Channel, &d.RecipientID} },
	Job:    func(id string) jobs.Args { return deliver{DeliveryID: id} },
}

// outbox is made for each use: it has no state besides the database.
func (s *Service) outbox() delivery.Outbox[Delivery] {
	// testBackoff is nil outside of tests: delivery.DefaultBackoff.
	return delivery.Outbox[Delivery]{Table: deliveries, DB: s.DB, Prepare: s.prepare, Backoff: s.testBackoff}
}

// enqueueDeliveries writes the deliveries of an event, one for each recipient, and the
// jobs that send them: what one mail server refuses is not sent again to the others.
func (s *Service) enqueueDeliveries(ctx context.Context, tx *store.Tx, r Rule, e Event) error {
	// nil stands for the rule's own address.
	recipients, err := s.recipients(ctx, tx, r, e.SkillID)
	if err != nil {
		return err
	}
	for _, recipient := range recipients {
		d := Delivery{delivery.New(r.OrgID, r.ID, &e.ID), r.Channel, recipient}
		if err := deliveries.Enqueue(ctx, tx, s.Jobs, d); err != nil {
			return err
		}
	}
	return nil
}

// emit tells other systems of a transition; a reminder is none. Subscribers also get
// events of rules whose own channel fails.
func (s *Service) emit(ctx context.Context, tx *store.Tx, e Event) error {
	kind := events.AlertFired
	switch e.Transition {
	case Firing:
	case Resolved:
		kind = events.AlertResolved
	default:
		return nil
	}
	return events.Emit(ctx, tx, s.Jobs, events.Event{OrgID: e.OrgID, Type: kind, Path: "/skills/" + e.SkillID, Data: events.Data{
		"alert_event_id": e.ID, "alert_id": e.RuleID, "alert_type": e.Type, "skill_id": e.SkillID, "skill": e.SkillName,
		"threshold": e.Threshold, "pass_rate": e.PassRate, "graded_sessions": e.GradedSessions,
		"days_without_sessions": e.DaysSilent,
		"measured":              e.Measured, "reference": e.Reference, "version": e.Version, "note": e.Note,
		"firing_since": httpapi.Time(e.FiringSince),
	}})
}

// prepare is delivery.Outbox's.
func (s *Service) prepare(ctx context.Context, d Delivery) (a delivery.Attempt, err error) {
	r, err := s.ruleByID(ctx, s.DB, d.OrgID, d.SourceID, "")
	if fault.Is(err, fault.NotFound) {
		return a, delivery.ErrDeleted
	}
	if err != nil {
		return a, err
	}
	// It was disabled after the event: the person wants no more of them.
	if !r.Enabled {
		return delivery.Attempt{Refusal: "not sent: the alert is disabled"}, nil
	}
	e, err := eventByID(ctx, s.DB, *d.EventID)
	if err != nil {
		return a, err
	}
	if a.Wait, err = s.waitTime(ctx, d, e); err != nil || a.Wait > 0 {
		return a, err
	}
	target, refusal, err := s.targetOf(ctx, r, d)
	return delivery.Attempt{
		Refusal: refusal,
		Send: func(ctx context.Context) (notify.Result, error) {
			return s.Sender.Send(ctx, target, s.notice(r, e)), nil
		},
		Gone: func(ctx context.Context, tx *store.Tx) error {
			return s.disable(ctx, tx, r, "The target answered that it is gone (410)")
		},
	}, err
}

const (
	// orderPoll is how often a delivery looks whether the one before has ended.
	orderPoll = time.Second
	// orderTimeout is how long after its due time an open delivery is given up
	// by the ones behind it, e.g. because its job was lost.
	orderTimeout = time.Hour
)

// waitTime returns how long a delivery must wait: for its next attempt, since a
// crash restarts a job early, and for the delivery before it, so that
// "resolved" never arrives before "firing".
func (s *Service) waitTime(ctx context.Context, d Delivery, e Event) (time.Duration, error) {
	if early := d.Early(); early > 0 {
		return early, nil
	}
	// The first one has none before it.
	if e.Sequence == 1 {
		return 0, nil
	}
	before, err := deliveryBefore(ctx, s.DB, e, d.RecipientID)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil || !before.Open() || time.Since(before.Due()) > orderTimeout {
		return 0, err
	}
	return max(orderPoll, time.Until(before.Due())), nil
}

// disable turns a rule off, unless it was deleted or got another address since
// the notification was sent. Evaluations skip it from now on, and its page says why.
func (s *Service) disable(ctx context.Context, tx *store.Tx, sent Rule, reason string) error {
	r, err := s.ruleByID(ctx, tx, sent.OrgID, sent.ID, tx.Dialect().ForUpdate())
	if fault.Is(err, fault.NotFound) || err == nil && r.Address != sent.Address {
		return nil
	}
	if err != nil {
		return err
	}
	r.Enabled, r.DisabledReason, r.UpdatedAt = false, &reason, store.Now()
	if err := s.updateRule(ctx, tx, r); err != nil {
		return err
	}
	return r.recordAudit(ctx, tx, "alerts.rule.disable", audit.Detail{"reason": reason})
}

// Test sends a test notification now, without a change of any state, and
// returns the finished delivery. That of a rule for owners is sent to the caller.
func (s *Service) Test(ctx context.Context, c access.Caller, id string) (d Delivery, err error) {
	defer fault.Wrap(&err, "test alert %s", id)
	r, err := s.Rule(ctx, c.OrgID, id)
	if err != nil {
		return d, err
	}
	d = Delivery{Delivery: delivery.New(c.OrgID, id, nil), Channel: r.Channel}
	if r.Channel == ToOwners {
		d.RecipientID = &c.UserID
	}
	target, refusal, err := s.targetOf(ctx, r, d)
	if err != nil {
		return d, err
	}
	n := notify.Notice{
		ID: d.ID, EpisodeID: d.ID, Status: notify.Test, Type: notify.Type(r.Type), AlertID: r.ID, Skill: "example-skill",
		Threshold: r.Threshold, WindowFrom: d.CreatedAt.AddDate(0, 0, -WindowDays), WindowTo: d.CreatedAt,
		TriggeredAt: d.CreatedAt,
		URL:         s.PublicURL,
	}
	if r.SkillID != nil {
		n.SkillID, n.URL = *r.SkillID, s.skillURL(*r.SkillID)
	}
	// Sent outside of a transaction: the network may take seconds.
	if d.Progress = d.Abandoned(refusal); refusal == "" {
		d.Progress = delivery.Progress{}.After(s.Sender.Send(ctx, target, n), nil)
	}
	return d, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := deliveries.Insert(ctx, tx, d); err != nil {
			return err
		}
		return r.recordAudit(ctx, tx, "alerts.rule.test", audit.Detail{"status": d.Status})
	})
}

// notice is the notification of an event. Its id is the event's and stays the
// same over all attempts, so that receivers can deduplicate.
func (s *Service) notice(r Rule, e Event) notify.Notice {
	n := notify.Notice{
		ID: e.ID, EpisodeID: e.EpisodeID, Status: notify.Status(e.Transition), Type: notify.Type(e.Type), AlertID: r.ID,
		Skill: e.SkillName, SkillID: e.SkillID, Threshold: e.Threshold, PassRate: e.PassRate, DaysSilent: e.DaysSilent,
		SampleSize: int(e.GradedSessions), Interval: e.Interval, WindowFrom: e.WindowFrom, WindowTo: e.WindowTo,
		WindowSessions: int(e.GradedSessions), LastSessionAt: e.LastSessionAt, TriggeredAt: e.OccurredAt, Since: &e.FiringSince,
		Sequence: e.Sequence, Version: e.Version, URL: s.skillURL(e.SkillID),
	}
	n.Measured, n.Reference = e.Measured, e.Reference
	if e.ReferenceVersion != nil {
		n.ReferenceVersion = *e.ReferenceVersion
	}
	if e.Note != nil {
		n.Note = *e.Note
	}
	return n
}

func (s *Service) skillURL(skillID string) string { return s.PublicURL + "/skills/" + skillID }

// Deliveries returns a page of a rule's deliveries, newest first, and their
// number.
func (s *Service) Deliveries(ctx context.Context, orgID, ruleID string, limit, offset int) ([]Delivery, int, error) {
	if _, err := s.Rule(ctx, orgID, ruleID); err != nil {
		return nil, 0, err
	}
	return deliveries.Page(ctx, s.DB, ruleID, limit, offset)
}

// A Tally counts the deliveries of an episode that have a status.
type Tally struct {
	Status delivery.Status
	Count  int64
	Detail string // why one of them failed, or ""
}

// Tallies counts the deliveries of an episode, of all its notifications, by status.
func (s *Service) Tallies(ctx context.Context, orgID, ruleID, episodeID string) ([]Tally, error) {
	return talliesOfEpisode(ctx, s.DB, orgID, ruleID, episodeID)
}

// eventState is how the rule of an event is now for its skill.
type eventState struct {
	States       []State // one, or none if the rule was deleted
	SnoozedUntil *time.Time
}

// statesOfEvents returns those of a page of events.
func (s *Service) statesOfEvents(ctx context.Context, events []Event) ([]eventState, error) {
	pairs := make([][2]string, len(events))
	for i, e := range events {
		pairs[i] = [2]string{e.RuleID, e.SkillID}
	}
	states, snoozed, err := statesOfPairs(ctx, s.DB, pairs)
	all := make([]eventState, len(events))
	for i, e := range events {
		if state, ok := states[stateKey{e.RuleID, e.SkillID}]; ok {
			all[i] = eventState{[]State{state}, snoozed[e.RuleID]}
		}
	}
	return all, err
}

// EventFilter selects events of a listing.
type EventFilter struct {
	RuleID, SkillID string // "" for all
	Transition      string // firing, resolved or reminder; "" for all
	Search          string // in the names of skills
	store.Page
}

// Events returns a page of the organisation's events, newest first, and their
// number.
func (s *Service) Events(ctx context.Context, orgID string, f EventFilter) ([]Event, int, error) {
	return listedEvents.Page(ctx, s.DB, f.Page, orgID, f.RuleID, f.SkillID, f.Transition, store.Like(f.Search))
}
