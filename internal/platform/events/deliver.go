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

// A Delivery is an event on its way to a webhook, its source.
type Delivery struct {
	delivery.Delivery
	EventType Type
	ReplayOf  *string // the delivery that a person sent again

	queued bool // it has a job
}

var deliveries = delivery.Table[Delivery]{
	Name: "event_deliveries", Source: "webhook_id", Own: "event_type, replay_of, queued",
	Fields: func(d *Delivery) (*delivery.Delivery, []any) {
		return &d.Delivery, []any{&d.EventType, &d.ReplayOf, &d.queued}
	},
	Job: func(id string) jobs.Args { return deliver{DeliveryID: id} },
}

func (s *Service) outbox() delivery.Outbox[Delivery] {
	// testBackoff is nil outside of tests: delivery.DefaultBackoff.
	return delivery.Outbox[Delivery]{Table: deliveries, DB: s.DB, Prepare: s.prepare, Backoff: s.testBackoff}
}

func newDelivery(r record, webhookID string) Delivery {
	return Delivery{Delivery: delivery.New(r.OrgID, webhookID, &r.ID), EventType: r.Type}
}

// prepare is delivery.Outbox's.
func (s *Service) prepare(ctx context.Context, d Delivery) (a delivery.Attempt, err error) {
	w, err := s.webhookByID(ctx, s.DB, d.OrgID, d.SourceID, "")
	if fault.Is(err, fault.NotFound) {
		return a, delivery.ErrDeleted
	}
	if err != nil {
		return a, err
	}
	if w.Paused {
		return delivery.Attempt{Refusal: "not sent: the webhook is paused"}, nil
	}
	if a.Wait = d.Early(); a.Wait > 0 {
		return a, nil
	}
	r, err := recordByID(ctx, s.DB, d.OrgID, *d.EventID)
	if fault.Is(err, fault.NotFound) {
		return delivery.Attempt{Refusal: "not sent: the event is too old"}, nil
	}
	return delivery.Attempt{
		Send: func(ctx context.Context) (notify.Result, error) { return s.send(ctx, w, r, false) },
		Gone: func(ctx context.Context, tx *store.Tx) error { return s.pauseGone(ctx, tx, w) },
	}, err
}

func (s *Service) send(ctx context.Context, w Webhook, r record, immediate bool) (notify.Result, error) {
	raw, err := s.body(r)
	if err != nil {
		return notify.Result{}, err
	}
	// The old secret signs, too, until it expires.
	t := notify.Target{Channel: notify.Webhook, Address: w.URL, Secrets: []string{w.Secret}}
	if w.OldSecret != nil && w.OldSecretUntil != nil && time.Now().Before(*w.OldSecretUntil) {
		t.Secrets = append(t.Secrets, *w.OldSecret)
	}
	return s.Sender.Post(ctx, t, notify.Message{ID: r.ID, Body: raw, Immediate: immediate}), nil
}

// pauseGone pauses a webhook whose target is gone for good (410), unless it was deleted
// or got another address since.
func (s *Service) pauseGone(ctx context.Context, tx *store.Tx, sent Webhook) error {
	w, err := s.webhookByID(ctx, tx, sent.OrgID, sent.ID, tx.Dialect().ForUpdate())
	if fault.Is(err, fault.NotFound) || err == nil && (w.URL != sent.URL || w.Paused) {
		return nil
	}
	if err != nil {
		return err
	}
	reason := "The target answered that it is gone (410)"
	w.Paused, w.PausedReason = true, &reason
	if err := s.update(ctx, tx, &w); err != nil {
		return err
	}
	return w.record(ctx, tx, "events.webhook.pause", audit.Detail{"reason": reason})
}

// Test sends a test now, whether the webhook is paused or not, and returns the finished
// delivery.
func (s *Service) Test(ctx context.Context, orgID, id string) (d Delivery, err error) {
	defer fault.Wrap(&err, "test event webhook %s", id)
	w, err := s.Webhook(ctx, orgID, id)
	if err != nil {
		return d, err
	}
	d = Delivery{Delivery: delivery.New(orgID, id, nil), EventType: test, queued: true}
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
		if err := deliveries.Insert(ctx, tx, d); err != nil {
			return err
		}
		return w.record(ctx, tx, "events.webhook.test", audit.Detail{"status": d.Status})
	})
}

// Replay sends the event of an ended delivery once more, with the same id.
func (s *Service) Replay(ctx context.Context, orgID, id, deliveryID string) (d Delivery, err error) {
	defer fault.Wrap(&err, "replay delivery %s", deliveryID)
	err = s.change(ctx, orgID, id, func(tx *store.Tx, w Webhook) error {
		before, err := deliveries.ByID(ctx, tx, deliveryID)
		if err == nil && (before.OrgID != orgID || before.SourceID != w.ID) {
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
	return deliveries.Page(ctx, s.DB, id, limit, offset)
}
