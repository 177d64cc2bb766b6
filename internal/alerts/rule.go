// Package alerts lets people say which skill's trouble should reach them, and
// decides when it does. It owns the tables alert_rules, alert_states,
// alert_events and alert_deliveries.
package alerts

import (
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/notify"
)

// A Rule is an alert that somebody set up.
type Rule struct {
	ID             string
	OrgID          string
	SkillID        *string // nil: every skill of the organisation
	Type           Type
	Threshold      float64
	Sensitivity    Sensitivity
	Action         *Action
	Channel        notify.Channel
	Address        string // a secret: a webhook's URL lets anybody post
	Secret         *string
	OldSecret      *string
	OldSecretUntil *time.Time
	Enabled        bool
	DisabledReason *string
	CreatedBy      string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// A Type is what a rule looks at.
type Type string

// The types.
const (
	PassRateBelow Type = "pass_rate_below"
	NoData        Type = "no_data"
)

// A Sensitivity says how sure a rule must be.
type Sensitivity string

// The sensitivities.
const (
	Point     Sensitivity = "point"     // the rate itself is below the threshold
	Confident Sensitivity = "confident" // so is the upper end of its interval
)

// An Action is what a rule does beside telling.
type Action string

// Rollback returns the registry entry to the version before.
const Rollback Action = "rollback"

// The thresholds of rules that name none.
const (
	defaultPassRate = 0.8
	defaultSilence  = 7
	maxSilence      = 90
)

func defaultThreshold(t Type) float64 {
	if t == NoData {
		return defaultSilence
	}
	return defaultPassRate
}

func (r Rule) checkThreshold() []fault.Issue {
	if r.Type == NoData && !(r.Threshold >= 0 && r.Threshold <= maxSilence) {
		return []fault.Issue{fault.At("threshold", "threshold must be between 0 and 90 days")}
	}
	if r.Type == PassRateBelow && !(r.Threshold >= 0 && r.Threshold <= 1) {
		return []fault.Issue{fault.At("threshold", "threshold must be between 0 and 1")}
	}
	return nil
}

func (r Rule) checkAction() []fault.Issue {
	if r.Action != nil && (r.Type != PassRateBelow || r.SkillID == nil) {
		return []fault.Issue{fault.At("action", "action rollback needs an alert of type pass_rate_below on one skill")}
	}
	return nil
}

// Config is where a rule's notices go: the field of its channel counts.
type Config struct {
	ChatA         string
	ChatB         string
	Email         string
	Webhook       string
	WebhookSecret string // the caller's own; made by us when empty
}

// addressField is the name of the channel's field, and its value.
func (c Config) addressField(channel notify.Channel) (field, value string) {
	switch channel {
	case notify.ChatA:
		return "chat_a_webhook_url", c.ChatA
	case notify.ChatB:
		return "chat_b_webhook_url", c.ChatB
	case notify.Email:
		return "email", c.Email
	case notify.Webhook:
	}
	return "webhook_url", c.Webhook
}

// checkAddress wants the field of the channel.
func (c Config) checkAddress(channel notify.Channel) []fault.Issue {
	field, value := c.addressField(channel)
	path := "config." + field
	if value == "" {
		return []fault.Issue{fault.At(path, "config.%s is required for the channel %s", field, channel)}
	}
	if notify.CheckAddress(channel, value) == nil {
		return nil
	}
	wanted := "an http or https URL with a host, of at most 2048 characters"
	if channel == notify.Email {
		wanted = "one e-mail address"
	}
	return []fault.Issue{fault.At(path, "config.%s must be %s", field, wanted)}
}

// checkSecret looks at the caller's own secret, if there is one.
func (c Config) checkSecret(channel notify.Channel) []fault.Issue {
	if channel != notify.Webhook || c.WebhookSecret == "" || notify.CheckSecret(c.WebhookSecret) == nil {
		return nil
	}
	return []fault.Issue{fault.At("config.webhook_secret", "config.webhook_secret must be whsec_ and the base64 of 24 to 64 bytes")}
}

// setTarget points the rule at a channel. A webhook gets a secret of its own.
func (r *Rule) setTarget(channel notify.Channel, c Config) []fault.Issue {
	if issues := slices.Concat(c.checkAddress(channel), c.checkSecret(channel)); len(issues) > 0 {
		return issues
	}
	r.Channel = channel
	_, r.Address = c.addressField(channel)
	switch {
	case channel != notify.Webhook:
		r.Secret, r.OldSecret, r.OldSecretUntil = nil, nil, nil
	case c.WebhookSecret != "":
		r.Secret = &c.WebhookSecret
	case r.Secret == nil:
		secret := notify.NewSecret()
		r.Secret = &secret
	}
	return nil
}

// secrets are what a webhook is signed with now: for a day after a rotation
// the old secret signs, too.
func (r Rule) secrets(now time.Time) []string {
	var all []string
	if r.Secret != nil {
		all = append(all, *r.Secret)
	}
	if r.OldSecret != nil && r.OldSecretUntil != nil && now.Before(*r.OldSecretUntil) {
		all = append(all, *r.OldSecret)
	}
	return all
}

// rotationGrace is how long an old secret signs beside the new one.
const rotationGrace = 24 * time.Hour
