package web

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// alertForm is the input of the form of a rule, as text. It has a field for the
// threshold of each type, so that the input of all survives when a person switches
// between types. Numbers stay text: what cannot be parsed is shown again as it was
// typed.
type alertForm struct {
	Type        alerts.Type        `form:"type,raw"`
	PassRate    string             `form:"pass_rate"` // threshold of pass_rate_below, in percent
	Days        string             `form:"days"`      // threshold of no_data
	Worse       string             `form:"worse"`     // threshold of worse_than_previous, in percentage points
	Cost        string             `form:"cost"`      // threshold of cost_above, in dollars
	Fall        string             `form:"fall"`      // threshold of silent_fall, in percent
	Sensitivity alerts.Sensitivity `form:"sensitivity,raw"`
	Skill       string             `form:"skill"` // its name or id; "" for all skills
	Action      string             `form:"action,raw"`
	Channel     notify.Channel     `form:"channel,raw"`
	Address     string             `form:"address"`
	Secret      string             `form:"secret"`
}

// condition parses the part of the form that describes when to fire, in the units of
// the API: a percentage becomes a share of 1. Errors name the field of the form. The
// preview needs this part only.
func (f alertForm) condition() (r alerts.Rule, err error) {
	r = alerts.Rule{Type: f.Type, Sensitivity: f.Sensitivity}
	var field, text string
	// Most is the upper limit of the field: 90 days by default.
	scale, most := 1.0, 90.0
	switch f.Type {
	case alerts.PassRateBelow:
		field, text, scale, most = "pass_rate", f.PassRate, 100, 100
	case alerts.NoData:
		field, text = "days", f.Days
	case alerts.WorseThanPrevious:
		field, text, scale, most = "worse", f.Worse, 100, 100
	case alerts.CostAbove:
		field, text, most = "cost", f.Cost, 10_000
	case alerts.SilentFall:
		field, text, scale, most = "fall", f.Fall, 100, 100
	default:
		return r, fault.Invalid("type", "Choose what to watch")
	}
	value, ok := formNumber(text, most)
	if !ok {
		return r, fault.Invalid(field, "The threshold must be a number from 0 to %.0f", most)
	}
	r.Threshold = value / scale
	if !slices.Contains([]alerts.Sensitivity{alerts.Point, alerts.Confident, alerts.Sequential}, f.Sensitivity) {
		return r, fault.Invalid("sensitivity", "Choose a sensitivity")
	}
	return r, nil
}

// config puts the address into the field of its channel. It does not check the address;
// the service does. It is one field on the page, and one per channel in the API.
func (f alertForm) config() (alerts.Config, error) {
	c := alerts.Config{WebhookSecret: f.Secret}
	switch f.Channel {
	case alerts.ToOwners:
	case notify.ChatA:
		c.ChatA = f.Address
	case notify.ChatB:
		c.ChatB = f.Address
	case notify.Email:
		c.Email = f.Address
	case notify.Webhook:
		c.Webhook = f.Address
	default:
		return c, fault.Invalid("channel", "Choose a channel")
	}
	return c, nil
}

// RollsBack reports whether the rule rolls back when it fires.
func (f alertForm) RollsBack() bool { return f.Action == string(alerts.Rollback) }

// newRule parses the whole form except the skill, whose id only the caller can look
// up. The address is checked by alerts.Create, whose errors inWords rephrases.
func (f alertForm) newRule() (n alerts.NewRule, err error) {
	r, err := f.condition()
	if err != nil {
		return n, err
	}
	n = alerts.NewRule{
		Type: r.Type, Threshold: &r.Threshold, Sensitivity: r.Sensitivity, Channel: f.Channel,
	}
	if n.Config, err = f.config(); err != nil {
		return n, err
	}
	if f.RollsBack() {
		action := alerts.Rollback
		n.Action = &action
	}
	return n, nil
}

// alertFormOf returns the form of an existing rule. Its address is a secret and is left
// out.
func alertFormOf(r alerts.Rule) alertForm {
	f := alertForm{Type: r.Type, Sensitivity: r.Sensitivity, Channel: r.Channel}
	// The factor is split to round away binary noise: 0.35 must show as 35, not
	// 35.000000000001.
	number, share := strconv.FormatFloat(r.Threshold, 'f', -1, 64),
		strconv.FormatFloat(math.Round(r.Threshold*1e8)/1e6, 'f', -1, 64)
	switch r.Type {
	case alerts.NoData:
		f.Days = number
	case alerts.CostAbove:
		f.Cost = number
	case alerts.WorseThanPrevious:
		f.Worse = share
	case alerts.SilentFall:
		f.Fall = share
	case alerts.PassRateBelow:
		f.PassRate = share
	}
	return f
}

// change returns the fields that differ from the rule. The destination stays unless
// there is a new address or another channel: the form shows it masked, so empty means
// unchanged.
func (f alertForm) change(r alerts.Rule) (c alerts.Change, err error) {
	condition, err := f.condition()
	if err != nil {
		return c, err
	}
	// Both are always sent: a value that has not changed changes nothing.
	c = alerts.Change{Threshold: &condition.Threshold, Sensitivity: &condition.Sensitivity}
	if f.Address == "" && f.Channel == r.Channel {
		return c, nil
	}
	config, err := f.config()
	c.Channel, c.Config = &f.Channel, &config
	return c, err
}

// addressPaths are the paths of the API's issues about an address.
var addressPaths = []string{
	"config.webhook_url", "config.chat_a_webhook_url", "config.chat_b_webhook_url",
	"config.email",
}

// inWords rephrases the API's issues about a rule in the words of the form, and moves
// them to its fields. Errors without issues are returned unchanged. Paths are those
// of the API, e.g. "config.webhook_url"; the form has one field "address".
func (f alertForm) inWords(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || len(e.Issues) == 0 {
		return err
	}
	issues := slices.Clone(e.Issues)
	for i, issue := range issues {
		switch path := strings.Join(issue.Path, "."); {
		case slices.Contains(addressPaths, path) && f.Address == "":
			issues[i] = fault.At("address", "Enter an address for the channel %s", channelName(f.Channel))
		case slices.Contains(addressPaths, path):
			// The rest of the message is for people, too, e.g. "an https URL".
			_, wanted, _ := strings.Cut(issue.Message, " must be ")
			issues[i] = fault.At("address", "The address must be %s", wanted)
		case path == "config.webhook_secret":
			issues[i] = fault.At("secret", "The signing secret must be whsec_ and the base64 of 24 to 64 bytes")
		case path == "sensitivity" && f.RollsBack():
			issues[i] = fault.At("sensitivity", "To roll back, choose a sensitivity that waits for proof: the "+
				"rate alone would take back harmless versions")
		case path == "action":
			issues[i] = fault.At("action", "Rolling back needs an alert on the pass rate of a single skill or of its versions")
		}
	}
	return fault.Issues(issues...)
}
