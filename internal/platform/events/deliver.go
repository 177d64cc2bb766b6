package events

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Delivery is an event on its way to a webhook.
type Delivery struct {
	ID        string
	OrgID     string
	WebhookID string
	EventID   *string // nil for a test
	EventType Type
	ReplayOf  *string // the delivery that a person sent again
	CreatedAt time.Time
	delivery.Progress

	queued bool // it has a job
}

func newDelivery(r record, webhookID string) Delivery {
	return Delivery{
		ID: store.NewID(), OrgID: r.OrgID, WebhookID: webhookID, EventID: &r.ID, EventType: r.Type, CreatedAt: store.Now(),
		Progress: delivery.Progress{Status: delivery.Pending},
	}
}

// deliver makes one attempt to send an event when it is due. It is idempotent for
// deliveries that have ended. A crash between sending and recording repeats the
// attempt: receivers deduplicate by the event's id.
func (s *Service) deliver(ctx context.Context, id string) error {
	d, err := deliveryByID(ctx, s.DB, id)
	if fault.Is(err, fault.NotFound) || err == nil && !d.Open() {
		return nil
	}
	if err != nil {
		return err
	}
	w, err := s.webhookByID(ctx, s.DB, d.OrgID, d.WebhookID, "")
	if fault.Is(err, fault.NotFound) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	if w.Paused {
		return s.abandon(ctx, d, "not sent: the webhook is paused")
	}
	if early := d.Early(); early > 0 {
		return jobs.Snooze(early)
	}
	r, err := recordByID(ctx, s.DB, d.OrgID, *d.EventID)
	if fault.Is(err, fault.NotFound) {
		return s.abandon(ctx, d, "not sent: the event is too old")
	}
	if err != nil {
		return err
	}
	result, err := s.send(ctx, w, r, false)
	if err != nil {
		return err
	}
	if result.Throttled { // rate limited before anything was sent: not an attempt
		return jobs.Snooze(result.RetryAfter)
	}
	return s.recordAttempt(ctx, w, d, result)
}

func (s *Service) abandon(ctx context.Context, d Delivery, reason string) error {
	d.Progress = d.Abandoned(reason)
	return updateDelivery(ctx, s.DB, d)
}

func (s *Service) send(ctx context.Context, w Webhook, r record, immediate bool) (notify.Result, error) {
	raw, err := s.body(r)
	if err != nil {
		return notify.Result{}, err
	}
	return s.Sender.Post(ctx, w.target(time.Now()), notify.Message{ID: r.ID, Body: raw, Immediate: immediate}), nil
}

// recordAttempt writes the result of an attempt. A target that is gone for good (410)
// pauses the webhook, unless it got another address since.
func (s *Service) recordAttempt(ctx context.Context, sent Webhook, d Delivery, result notify.Result) error {
	d.Progress = d.After(result, s.backoff())
	if result.Outcome == notify.Gone {
		err := s.change(ctx, sent.OrgID, sent.ID, func(tx *store.Tx, w Webhook) error {
			if w.URL != sent.URL || w.Paused {
				return nil
			}
			reason := "The target answered that it is gone (410)"
			w.Paused, w.PausedReason = true, &reason
			if err := s.update(ctx, tx, &w); err != nil {
				return err
			}
			return w.record(ctx, tx, "events.webhook.pause", audit.Detail{"reason": reason})
		})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	if err := updateDelivery(ctx, s.DB, d); err != nil {
		return err
	}
	return d.Again()
}

func (s *Service) backoff() delivery.Backoff {
	if s.testBackoff != nil {
		return s.testBackoff
	}
	return delivery.DefaultBackoff()
}

// Test sends a test now, whether the webhook is paused or not, and returns the finished
// delivery.
func (s *Service) Test(ctx context.Context, orgID, id string) (d Delivery, err error) {
	defer fault.Wrap(&err, "test event webhook %s", id)
	w, err := s.Webhook(ctx, orgID, id)
	if err != nil {
		return d, err
	}
	d = Delivery{ID: store.NewID(), OrgID: orgID, WebhookID: id, EventType: test, CreatedAt: store.Now(), queued: true}
	data, err := json.Marshal(Data{"actor": newActor(ctx)})
	if err != nil {
		return d, err
	}
	result, err := s.send(ctx, w, record{ID: d.ID, OrgID: orgID, Type: test, Data: data, OccurredAt: d.CreatedAt}, true)
	if err != nil {
		return d, err
	}
	d.Progress = d.After(result, nil)
	return d, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertDelivery(ctx, tx, d); err != nil {
			return err
		}
		return w.record(ctx, tx, "events.webhook.test", audit.Detail{"status": d.Status})
	})
}

// Replay sends the event of an ended delivery once more, with the same id.
func (s *Service) Replay(ctx context.Context, orgID, id, deliveryID string) (d Delivery, err error) {
	defer fault.Wrap(&err, "replay delivery %s", deliveryID)
	err = s.change(ctx, orgID, id, func(tx *store.Tx, w Webhook) error {
		before, err := deliveryByID(ctx, tx, deliveryID)
		if err == nil && (before.OrgID != orgID || before.WebhookID != w.ID) {
			err = fault.New(fault.NotFound, "Delivery not found")
		}
		switch {
		case err != nil:
			return err
		case before.EventID == nil:
			return fault.New(fault.Conflict, "A test has no event to send again; send another test")
		case before.Open():
			return fault.New(fault.Conflict, "The delivery is %s: it is attempted again by itself", before.Status)
		case w.Paused:
			return fault.New(fault.Conflict, "The webhook is paused: resume it first")
		}
		r, err := recordByID(ctx, tx, orgID, *before.EventID)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.Conflict, "The event is no longer kept")
		}
		if err != nil {
			return err
		}
		d = newDelivery(r, w.ID)
		d.ReplayOf = &before.ID
		if err := enqueue(ctx, tx, s.Jobs, d); err != nil {
			return err
		}
		return w.record(ctx, tx, "events.delivery.replay", audit.Detail{"delivery": before.ID, "event": r.ID, "type": r.Type})
	})
	return d, err
}

// Deliveries returns a page of a webhook's deliveries, newest first, and their number.
func (s *Service) Deliveries(ctx context.Context, orgID, id string, limit, offset int) ([]Delivery, int, error) {
	if _, err := s.Webhook(ctx, orgID, id); err != nil {
		return nil, 0, err
	}
	return deliveriesOfWebhook(ctx, s.DB, id, limit, offset)
}
