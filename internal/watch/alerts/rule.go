// Package alerts notifies people when a skill's pass rate falls, a use of it costs
// too much, or it is no longer used. Users set up rules; each rule keeps
// a state machine per skill (ok, firing), and each transition becomes an event
// and a notification. It owns the tables alert_rules, alert_states,
// alert_events and alert_deliveries.
package alerts

import (
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

// A Rule is an alert that a user has set up.
type Rule struct {
	ID             string
	OrgID          string
	SkillID        *string // nil: every skill of the organisation
	Type           Type
	Threshold      float64 // in the unit of the type
	Sensitivity    Sensitivity
	Action         *Action // nil: only notify
	Channel        notify.Channel
	Address        string  // a secret: anyone who knows a webhook's URL can post to it; "" for owners
	Secret         *string // signs webhooks; nil for other channels
	OldSecret      *string // signs beside Secret until OldSecretUntil
	OldSecretUntil *time.Time
	Enabled        bool
	DisabledReason *string
	SnoozedUntil   *time.Time // nothing is sent before
	CreatedBy      string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// A Type is the condition that a rule watches.
type Type string

// The types.
const (
	PassRateBelow     Type = "pass_rate_below"     // threshold: a share from 0 to 1
	NoData            Type = "no_data"             // days
	WorseThanPrevious Type = "worse_than_previous" // by how much of the pass rate, from 0 to 1
	CostAbove         Type = "cost_above"          // US dollars for a use
	SilentFall        Type = "silent_fall"         // by how much of its usual share, from 0 to 1
)

var types = []Type{PassRateBelow, NoData, WorseThanPrevious, CostAbove, SilentFall}

// onGrades reports whether the type is about graded sessions.
func (t Type) onGrades() bool { return t == PassRateBelow || t == WorseThanPrevious }

// A Sensitivity is the certainty that a rule needs to fire.
type Sensitivity string

// The sensitivities.
const (
	Point     Sensitivity = "point"     // the pass rate itself is below the threshold
	Confident Sensitivity = "confident" // the upper end of its Wilson interval is
	// Sequential gathers evidence session by session, with a known rate of false
	// alarms; see cusum.
	Sequential Sensitivity = "sequential"
)

var sensitivities = []Sensitivity{Point, Confident, Sequential}

// An Action is what a rule does when it fires, besides notifying.
type Action string

// Rollback makes an earlier version of the registry entry current again: the last that was
// current and holds (release.Service.Revert, and holds in rollback.go).
const Rollback Action = "rollback"

const (
	defaultPassRate = 0.8
	defaultSilence  = 7   // days
	maxSilence      = 90  // days
	defaultWorse    = 0.1 // of the pass rate
	defaultFall     = 0.5 // of the usual share
	maxCost         = 10_000
)

// defaultThreshold returns the threshold of a type. A cost has none. What a use may
// cost depends on the skill, so it must be given.
func defaultThreshold(t Type) float64 {
	return map[Type]float64{
		PassRateBelow: defaultPassRate, NoData: defaultSilence, WorseThanPrevious: defaultWorse, SilentFall: defaultFall,
	}[t]
}

// defaultSensitivity is that of a rule that names none.
func defaultSensitivity(t Type, a *Action) Sensitivity {
	if a != nil || t == WorseThanPrevious {
		return Sequential // of harmless versions, point would find two in five worse
	}
	return Point
}

// rotationGrace is how long an old secret signs beside the new one, so that a
// receiver can change over without losing a notification.
const rotationGrace = 24 * time.Hour

// Check validates everything that a user can set.
func (r Rule) Check() error {
	if issues := r.issues(); len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// issues returns all that is wrong, in the order of the form.
func (r Rule) issues() (all []fault.Issue) {
	issue := func(path, format string, args ...any) { all = append(all, fault.At(path, format, args...)) }
	if !slices.Contains(types, r.Type) {
		issue("type", "type must be %s", oneOf(types))
	}
	// The comparisons are negated so that NaN is refused.
	if r.Type == NoData && !(r.Threshold >= 0 && r.Threshold <= maxSilence) {
		issue("threshold", "threshold must be between 0 and %d days", maxSilence)
	}
	if r.Type == CostAbove && !(r.Threshold > 0 && r.Threshold <= maxCost) {
		issue("threshold", "threshold must be US dollars for a use, above 0 and at most %d", maxCost)
	}
	if r.Type != NoData && r.Type != CostAbove && !(r.Threshold >= 0 && r.Threshold <= 1) {
		issue("threshold", "threshold must be between 0 and 1")
	}
	if !slices.Contains(sensitivities, r.Sensitivity) {
		issue("sensitivity", "sensitivity must be %s", oneOf(sensitivities))
	}
	switch {
	case r.Action == nil:
	case *r.Action != Rollback:
		issue("action", "action must be %s", Rollback)
	// A rollback needs evidence against one version of one skill.
	case !r.Type.onGrades() || r.SkillID == nil:
		issue("action", "action rollback needs an alert of type %s or %s on one skill", PassRateBelow, WorseThanPrevious)
	case r.Sensitivity == Point:
		issue("sensitivity", "sensitivity must be %s or %s with action rollback: %s would take back harmless versions",
			Confident, Sequential, Point)
	}
	return append(all, r.targetIssues()...)
}

// oneOf lists the values of an enumeration, e.g. "a, b or c".
func oneOf[T ~string](values []T) string {
	var list strings.Builder
	for i, v := range values {
		switch i {
		case 0:
		case len(values) - 1:
			list.WriteString(" or ")
		default:
			list.WriteString(", ")
		}
		list.WriteString(string(v))
	}
	return list.String()
}

// targetIssues validates the channel, its address and its secret.
func (r Rule) targetIssues() (all []fault.Issue) {
	if r.Channel == ToOwners {
		return nil
	}
	field := addressField(r.Channel)
	if field == "" {
		return []fault.Issue{fault.At("channel", "channel must be one of chat_a, chat_b, email, owners, webhook")}
	}
	path := "config." + field
	wanted := "an http or https URL with a host, of at most 2048 characters"
	if r.Channel == notify.Email {
		wanted = "one e-mail address"
	}
	if r.Address == "" {
		all = append(all, fault.At(path, "%s is required for the channel %s", path, r.Channel))
	} else if notify.CheckAddress(r.Channel, r.Address) != nil {
		all = append(all, fault.At(path, "%s must be %s", path, wanted))
	}
	if r.Secret != nil && notify.CheckSecret(*r.Secret) != nil {
		path = "config.webhook_secret"
		all = append(all, fault.At(path, "%s must be whsec_ and the base64 of 24 to 64 bytes", path))
	}
	return all
}

// Config is the target of a rule's notifications. Only the field of the rule's
// channel is used.
type Config struct {
	ChatA         string
	ChatB         string
	Email         string
	Webhook       string
	WebhookSecret string // "": the service generates one
}

// addressField returns the name of the channel's field in the API, "" for an
// unknown channel.
func addressField(channel notify.Channel) string {
	return map[notify.Channel]string{
		notify.ChatA: "chat_a_webhook_url", notify.ChatB: "chat_b_webhook_url",
		notify.Email: "email", notify.Webhook: "webhook_url",
	}[channel]
}

// setTarget points the rule at a channel. A webhook gets a secret if it has
// none. The address of another channel is of no use, and is not kept.
func (r *Rule) setTarget(channel notify.Channel, c Config) {
	r.Channel = channel
	r.Address = map[notify.Channel]string{
		notify.ChatA: c.ChatA, notify.ChatB: c.ChatB, notify.Email: c.Email, notify.Webhook: c.Webhook,
	}[channel]
	switch {
	case channel != notify.Webhook:
		r.Secret, r.OldSecret, r.OldSecretUntil = nil, nil, nil
	case c.WebhookSecret != "":
		r.Secret = &c.WebhookSecret
	case r.Secret == nil:
		secret := notify.NewSecret()
		r.Secret = &secret
	}
}

// target returns where a notification is sent and what signs it: during
// rotationGrace the old secret signs beside the new one.
func (r Rule) target(now time.Time) notify.Target {
	t := notify.Target{Channel: r.Channel, Address: r.Address}
	if r.Secret != nil {
		t.Secrets = append(t.Secrets, *r.Secret)
	}
	if r.OldSecret != nil && r.OldSecretUntil != nil && now.Before(*r.OldSecretUntil) {
		t.Secrets = append(t.Secrets, *r.OldSecret)
	}
	return t
}
