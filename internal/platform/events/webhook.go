package events

import (
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
)

// A Webhook is where events of an organisation are sent.
type Webhook struct {
	ID             string
	OrgID          string
	URL            string // a secret: anyone who knows it can post to it
	Secret         string // signs
	OldSecret      *string
	OldSecretUntil *time.Time // until when OldSecret signs, too
	Events         []Type
	Paused         bool
	PausedReason   *string // nil: a person paused it
	CreatedBy      string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

const (
	maxWebhooks = 20
	// rotationGrace is for how long the old secret signs beside the new one.
	rotationGrace = 24 * time.Hour
)

// MaskedURL is the URL without its secret part, e.g. "https://ci.example.org/…".
func (w Webhook) MaskedURL() string { return notify.Mask(notify.Webhook, w.URL) }

// Wants reports whether the webhook gets events of a type.
func (w Webhook) Wants(t Type) bool { return slices.Contains(w.Events, t) }

func (w Webhook) check() error {
	var issues []fault.Issue
	if err := outbound.CheckURL(w.URL); err != nil {
		issues = append(issues, fault.At("url", "url %s", message(err)))
	}
	if len(w.Events) == 0 {
		issues = append(issues, fault.At("events", "events must name at least one of %s", typeNames()))
	}
	for _, t := range w.Events {
		if !slices.Contains(Types(), t) {
			issues = append(issues, fault.At("events", "events must be of %s", typeNames()))
			break
		}
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

func typeNames() string {
	var names []string
	for _, t := range Types() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// sealed returns the webhook with its URL and secrets encrypted, as they are stored.
func (s *Service) sealed(w Webhook) Webhook {
	if w.OldSecret != nil {
		old := *w.OldSecret
		w.OldSecret = &old
	}
	s.Seal.SealRow(w.sealedRow())
	return w
}

func (w *Webhook) sealedRow() seal.Row {
	return seal.Row{Table: "event_webhooks", ID: w.ID, Texts: map[string]*string{
		"url": &w.URL, "secret": &w.Secret, "old_secret": w.OldSecret,
	}}
}
