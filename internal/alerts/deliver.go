package alerts

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/notify"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Delivery is a notice on its way to a channel.
type Delivery struct {
	ID             string
	OrgID          string
	RuleID         string
	EventID        *string // nil for a test
	Channel        notify.Channel
	Status         DeliveryStatus
	Attempts       int
	ResponseStatus *int
	Detail         *string // safe to show
	CreatedAt      time.Time
	AttemptedAt    *time.Time
	NextAttemptAt  *time.Time
}

// A DeliveryStatus is how far a delivery has come.
type DeliveryStatus string

// The statuses of a delivery.
const (
	Pending   DeliveryStatus = "pending"
	Retrying  DeliveryStatus = "retrying"
	Delivered DeliveryStatus = "delivered"
	Failed    DeliveryStatus = "failed"
)

// evaluateOrg is the job that looks at one organisation after ingest. It waits
// for its time itself: jobs.At may start it seconds late.
type evaluateOrg struct {
	OrgID string    `json:"org_id"`
	DueAt time.Time `json:"due_at"`
}

// Kind names the job.
func (evaluateOrg) Kind() string { return "alerts.evaluate" }

// evaluateAll is the job that looks at all organisations on schedule.
type evaluateAll struct{}

// Kind names the job.
func (evaluateAll) Kind() string { return "alerts.evaluate-all" }

// deliver is the job that sends one notice.
type deliver struct {
	DeliveryID string `json:"delivery_id"`
}

// Kind names the job.
func (deliver) Kind() string { return "alerts.deliver" }

// schedule is the waits before the second and later attempts of a delivery.
var schedule = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
}

// maxRuns bounds how often a delivery's job is started. Crashes use runs, too,
// and must not use up the attempts, which the delivery counts itself.
const maxRuns = 100

// Register makes the queue run the jobs of alerts.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, s.evaluateSoon)
	jobs.Handle(s.Jobs, func(ctx context.Context, _ evaluateAll) error { return s.EvaluateAll(ctx) })
	jobs.Handle(s.Jobs, func(ctx context.Context, args deliver) error { return s.deliver(ctx, args.DeliveryID) },
		jobs.Timeout(time.Minute))
	s.Jobs.Every(s.Interval, evaluateAll{})
}

// evaluateSoon does not trust the clock of whoever enqueued the job with more
// than the wait that was meant.
func (s *Service) evaluateSoon(ctx context.Context, args evaluateOrg) error {
	if wait := time.Until(args.DueAt); wait > 0 && wait <= soon {
		return jobs.Snooze(wait)
	}
	return s.Evaluate(ctx, args.OrgID)
}

// enqueueDelivery writes a delivery and the job that sends it.
func (s *Service) enqueueDelivery(ctx context.Context, tx *store.Tx, r Rule, eventID *string) error {
	d := Delivery{
		ID: store.NewID(), OrgID: r.OrgID, RuleID: r.ID, EventID: eventID, Channel: r.Channel,
		Status: Pending, CreatedAt: store.Now(),
	}
	if err := insertDelivery(ctx, tx, d); err != nil {
		return err
	}
	return s.Jobs.Enqueue(ctx, tx, deliver{DeliveryID: d.ID}, jobs.Attempts(maxRuns))
}

// deliver sends a notice once, when its time has come. What is delivered or has
// failed for good is not sent again.
func (s *Service) deliver(ctx context.Context, id string) error {
	d, err := deliveryByID(ctx, s.DB, id)
	if fault.Is(err, fault.NotFound) || err == nil && !d.open() {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := s.ruleByID(ctx, s.DB, d.OrgID, d.RuleID, "")
	if fault.Is(err, fault.NotFound) {
		return nil // the rule was deleted: nobody wants to hear of it
	}
	if err != nil {
		return err
	}
	if !r.Enabled {
		return s.drop(ctx, d, "not sent: the alert is disabled")
	}
	e, err := eventByID(ctx, s.DB, *d.EventID)
	if err != nil {
		return err
	}
	wait, err := s.turn(ctx, d, e)
	if err != nil {
		return err
	}
	if wait > 0 {
		return jobs.Snooze(wait)
	}
	result := s.Sender.Send(ctx, r.target(time.Now()), s.notice(r, e))
	if result.Throttled {
		return jobs.Snooze(result.RetryAfter) // nothing was sent: not an attempt
	}
	return s.record(ctx, r, d, result)
}

// turn is how long a delivery must wait: for its next attempt, should a crash
// have started its job early, and for the notice before it. A receiver that
// heard of the end first would take the beginning for news.
func (s *Service) turn(ctx context.Context, d Delivery, e Event) (time.Duration, error) {
	if d.NextAttemptAt != nil && time.Until(*d.NextAttemptAt) > 0 {
		return time.Until(*d.NextAttemptAt), nil
	}
	if e.Sequence == 1 {
		return 0, nil
	}
	before, err := deliveryBefore(ctx, s.DB, e)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	if err != nil || !before.open() || time.Since(before.due()) > abandoned {
		return 0, err
	}
	return max(turnEvery, time.Until(before.due())), nil
}

const (
	turnEvery = time.Second // between looks at the notice before
	abandoned = time.Hour   // after its time nothing more comes of a notice
)

// open reports whether the delivery will still be tried.
func (d Delivery) open() bool { return d.Status == Pending || d.Status == Retrying }

// due is when the delivery is tried, or was to be.
func (d Delivery) due() time.Time {
	if d.NextAttemptAt != nil {
		return *d.NextAttemptAt
	}
	return d.CreatedAt
}

// drop ends a delivery without an attempt.
func (s *Service) drop(ctx context.Context, d Delivery, reason string) error {
	d.Status, d.Detail, d.NextAttemptAt = Failed, &reason, nil
	return updateDelivery(ctx, s.DB, d)
}

// record writes what came of an attempt, and says what the queue must do.
func (s *Service) record(ctx context.Context, r Rule, d Delivery, result notify.Result) error {
	d = d.after(result)
	if result.Outcome == notify.Retry && d.Attempts <= len(s.waits()) {
		next := d.AttemptedAt.Add(s.pause(d.Attempts, result.RetryAfter))
		d.Status, d.NextAttemptAt = Retrying, &next
	}
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		if result.Outcome == notify.Gone {
			if err := s.disable(ctx, tx, r, "The target answered that it is gone (410)"); err != nil {
				return err
			}
		}
		return updateDelivery(ctx, tx, d)
	})
	if err == nil && d.Status == Retrying {
		return jobs.RetryAfter(time.Until(*d.NextAttemptAt), errors.New(result.Detail))
	}
	return err
}

// disable turns a rule off, unless it was deleted or pointed elsewhere
// meanwhile.
func (s *Service) disable(ctx context.Context, tx *store.Tx, told Rule, reason string) error {
	r, err := s.ruleByID(ctx, tx, told.OrgID, told.ID, tx.Dialect().ForUpdate())
	if fault.Is(err, fault.NotFound) || err == nil && r.Address != told.Address {
		return nil
	}
	if err != nil {
		return err
	}
	r.Enabled, r.DisabledReason, r.UpdatedAt = false, &reason, store.Now()
	if err := s.updateRule(ctx, tx, r); err != nil {
		return err
	}
	return r.record(ctx, tx, "alerts.rule.disable", audit.Detail{"reason": reason})
}

// after is the delivery after one more attempt.
func (d Delivery) after(result notify.Result) Delivery {
	at := store.Now()
	d.Attempts++
	d.AttemptedAt, d.NextAttemptAt = &at, nil
	d.ResponseStatus, d.Detail = nil, nil
	if result.Status != 0 {
		d.ResponseStatus = &result.Status
	}
	if result.Detail != "" {
		d.Detail = &result.Detail
	}
	d.Status = Failed
	if result.Outcome == notify.Delivered {
		d.Status = Delivered
	}
	return d
}

// pause is the wait after an attempt: the schedule's, give or take a tenth,
// or longer if the target asks for it.
func (s *Service) pause(attempt int, asked time.Duration) time.Duration {
	planned := s.waits()[attempt-1]
	jitter := time.Duration((rand.Float64()*0.2 - 0.1) * float64(planned)) //nolint:gosec // no secret in it
	return max(planned+jitter, asked)
}

func (s *Service) waits() []time.Duration {
	if s.pauses != nil {
		return s.pauses
	}
	return schedule
}

// Test sends a notice now, without touching any state, and returns what came
// of it.
func (s *Service) Test(ctx context.Context, orgID, id string) (d Delivery, err error) {
	defer fault.Wrap(&err, "test alert %s", id)
	r, err := s.Rule(ctx, orgID, id)
	if err != nil {
		return d, err
	}
	d = Delivery{ID: store.NewID(), OrgID: orgID, RuleID: id, Channel: r.Channel, Status: Pending, CreatedAt: store.Now()}
	result := s.Sender.Send(ctx, r.target(time.Now()), s.testNotice(r, d.ID))
	d = d.after(result)
	return d, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertDelivery(ctx, tx, d); err != nil {
			return err
		}
		return r.record(ctx, tx, "alerts.rule.test", audit.Detail{"status": d.Status})
	})
}

func (r Rule) target(now time.Time) notify.Target {
	return notify.Target{Channel: r.Channel, Address: r.Address, Secrets: r.secrets(now)}
}

// notice is what a channel is told of an event. Its id stays the same over all
// attempts, so that a receiver can tell a repetition.
func (s *Service) notice(r Rule, e Event) notify.Notice {
	n := notify.Notice{
		ID: e.ID, EpisodeID: e.EpisodeID, Status: notify.Status(e.Transition), Type: notify.Type(e.Type), AlertID: r.ID,
		Skill: e.SkillName, SkillID: e.SkillID, Threshold: e.Threshold, PassRate: e.PassRate, DaysSilent: e.DaysSilent,
		SampleSize: int(e.GradedSessions), Interval: e.Interval, WindowFrom: e.WindowFrom, WindowTo: e.WindowTo,
		WindowSessions: int(e.GradedSessions), LastSessionAt: e.LastSessionAt, TriggeredAt: e.OccurredAt, Since: &e.FiringSince,
		Sequence: e.Sequence, Version: e.Version, URL: s.skillURL(e.SkillID),
	}
	if e.Note != nil {
		n.Note = *e.Note
	}
	return n
}

func (s *Service) testNotice(r Rule, id string) notify.Notice {
	now := store.Now()
	n := notify.Notice{
		ID: id, EpisodeID: id, Status: notify.Test, Type: notify.Type(r.Type), AlertID: r.ID, Skill: "example-skill",
		Threshold: r.Threshold, WindowFrom: now.AddDate(0, 0, -WindowDays), WindowTo: now, TriggeredAt: now, URL: s.PublicURL,
	}
	if r.SkillID != nil {
		n.SkillID = *r.SkillID
		n.URL = s.skillURL(*r.SkillID)
	}
	return n
}

func (s *Service) skillURL(skillID string) string { return s.PublicURL + "/skills/" + skillID }

// Deliveries lists a page of a rule's deliveries, newest first, and their number.
func (s *Service) Deliveries(ctx context.Context, orgID, ruleID string, limit, offset int) ([]Delivery, int, error) {
	if _, err := s.Rule(ctx, orgID, ruleID); err != nil {
		return nil, 0, err
	}
	return deliveriesOfRule(ctx, s.DB, ruleID, limit, offset)
}

// EventFilter chooses events of a listing.
type EventFilter struct {
	RuleID, SkillID string // "" for all
	Limit, Offset   int
}

// Events lists a page of the organisation's events, newest first, and their number.
func (s *Service) Events(ctx context.Context, orgID string, f EventFilter) ([]Event, int, error) {
	return eventsOfOrg(ctx, s.DB, orgID, f)
}
