package events

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service keeps webhooks and sends events to them.
type Service struct {
	DB     *store.DB
	Jobs   *jobs.Queue
	Sender *notify.Sender
	Seal   *seal.Keyring
	// PublicURL is the base of the links in events.
	PublicURL string
	// AllowPrivate says that private addresses are reached, for warnings.
	AllowPrivate bool
	Log          *slog.Logger

	testBackoff delivery.Backoff
}

// Create adds a webhook to the caller's organisation. Its secret is shown only now.
func (s *Service) Create(ctx context.Context, c access.Caller, url string, types []Type) (w Webhook, err error) {
	defer fault.Wrap(&err, "create event webhook")
	now := store.Now()
	w = Webhook{
		ID: store.NewID(), OrgID: c.OrgID, URL: url, Secret: notify.NewSecret(), Events: types, CreatedBy: c.UserID,
		CreatedAt: now, UpdatedAt: now,
	}
	if err := w.check(); err != nil {
		return w, err
	}
	w.Events = inOrder(types)
	return w, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if n, err := s.listed().Count(ctx, tx, c.OrgID); err != nil {
			return err
		} else if n >= maxWebhooks {
			return fault.New(fault.Conflict, "The organisation has %d event webhooks, the maximum; delete one first", n)
		}
		if err := insertWebhook(ctx, tx, s.sealed(w)); err != nil {
			return err
		}
		return w.record(ctx, tx, "events.webhook.create", audit.Detail{"events": w.Events})
	})
}

// Webhooks returns a page of the organisation's webhooks, newest first, and their number.
func (s *Service) Webhooks(ctx context.Context, orgID string, limit, offset int) ([]Webhook, int, error) {
	return s.listed().Page(ctx, s.DB, store.Page{Limit: limit, Offset: offset}, orgID)
}

// Webhook returns a webhook of the organisation.
func (s *Service) Webhook(ctx context.Context, orgID, id string) (Webhook, error) {
	return s.webhookByID(ctx, s.DB, orgID, id, "")
}

// Warnings says why events would not arrive with the current settings.
func (s *Service) Warnings(w Webhook) []string {
	if warning := outbound.LiteralWarning(w.URL); warning != "" && !s.AllowPrivate {
		return []string{warning}
	}
	return nil
}

// A Change is what a patch changes; nil leaves a field as it is.
type Change struct {
	URL    *string
	Events *[]Type
	Paused *bool
}

// Update changes a webhook. Events that happen while it is paused are not sent to it,
// not even later.
func (s *Service) Update(ctx context.Context, orgID, id string, c Change) (w Webhook, err error) {
	defer fault.Wrap(&err, "change event webhook %s", id)
	err = s.change(ctx, orgID, id, func(tx *store.Tx, found Webhook) error {
		w = found
		if c.URL != nil {
			w.URL = *c.URL
		}
		if c.Events != nil {
			w.Events = *c.Events
		}
		if c.Paused != nil {
			w.Paused, w.PausedReason = *c.Paused, nil
		}
		if err := w.check(); err != nil {
			return err
		}
		w.Events = inOrder(w.Events)
		if err := s.update(ctx, tx, &w); err != nil {
			return err
		}
		return w.record(ctx, tx, "events.webhook.change",
			audit.Detail{"events": c.Events, "paused": c.Paused, "target": c.URL != nil})
	})
	return w, err
}

// RotateSecret gives a webhook a new secret. For rotationGrace both sign.
func (s *Service) RotateSecret(ctx context.Context, orgID, id string) (w Webhook, err error) {
	defer fault.Wrap(&err, "rotate secret of event webhook %s", id)
	err = s.change(ctx, orgID, id, func(tx *store.Tx, found Webhook) error {
		w = found
		old, until := w.Secret, store.Now().Add(rotationGrace)
		w.OldSecret, w.OldSecretUntil, w.Secret = &old, &until, notify.NewSecret()
		if err := s.update(ctx, tx, &w); err != nil {
			return err
		}
		return w.record(ctx, tx, "events.webhook.rotate-secret", audit.Detail{})
	})
	return w, err
}

// Delete removes a webhook and its deliveries; those under way are not sent.
func (s *Service) Delete(ctx context.Context, orgID, id string) (err error) {
	defer fault.Wrap(&err, "delete event webhook %s", id)
	return s.change(ctx, orgID, id, func(tx *store.Tx, w Webhook) error {
		if _, err := tx.Exec(ctx, `DELETE FROM event_deliveries WHERE webhook_id = $1`, w.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM event_webhooks WHERE id = $1`, w.ID); err != nil {
			return err
		}
		return w.record(ctx, tx, "events.webhook.delete", audit.Detail{})
	})
}

// change calls fn with a webhook, which it locks.
func (s *Service) change(ctx context.Context, orgID, id string, fn func(tx *store.Tx, w Webhook) error) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		w, err := s.webhookByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		return fn(tx, w)
	})
}

func (s *Service) update(ctx context.Context, tx *store.Tx, w *Webhook) error {
	w.UpdatedAt = store.Now()
	return updateWebhook(ctx, tx, s.sealed(*w))
}

// record writes an action on a webhook to the audit log.
func (w Webhook) record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: w.OrgID, Action: action, Target: audit.Target{Kind: "event_webhook", ID: w.ID, Name: w.MaskedURL()}, Detail: d,
	})
}

// Reseal encrypts with the keyring's first key every value that another key
// encrypted, and returns their number.
func (s *Service) Reseal(ctx context.Context, tx *store.Tx) (count int, err error) {
	rows, err := tx.Query(ctx, `SELECT `+webhookColumns+` FROM event_webhooks ORDER BY id`+tx.Dialect().ForUpdate())
	all, err := store.All(rows, err, scanWebhook)
	if err != nil {
		return 0, err
	}
	for _, w := range all {
		n, err := s.Seal.RenewRow(w.sealedRow())
		if err == nil && n > 0 {
			err = updateWebhook(ctx, tx, w)
		}
		if count += n; err != nil {
			return count, err
		}
	}
	return count, nil
}

// retention is how long deliveries can be looked at and replayed.
const retention = 30 * 24 * time.Hour

// Sweep deletes events and deliveries that are older than the retention. It runs on a
// schedule.
func (s *Service) Sweep(ctx context.Context) error {
	before := store.Now().Add(-retention)
	for _, table := range []string{"event_deliveries", "event_records"} {
		if err := (store.Expiry{Table: table, Before: before}).Run(ctx, s.DB); err != nil {
			return err
		}
	}
	return nil
}

// message is the part of an error that may be shown.
func message(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	return "is not valid"
}
