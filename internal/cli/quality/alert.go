package quality

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// alertCommands are the commands `whetstone alert`.
type alertCommands struct {
	List    alertList    `cmd:"" help:"List alerts, newest first."`
	Show    alertShow    `cmd:"" help:"Show an alert and its events."`
	Create  alertCreate  `cmd:"" help:"Create an alert."`
	Test    alertTest    `cmd:"" help:"Send a test notification now."`
	Ack     alertAck     `cmd:"" help:"Acknowledge a firing alert: no more reminders until it is resolved."`
	Snooze  alertSnooze  `cmd:"" help:"Mute an alert for a while."`
	Enable  alertEnable  `cmd:"" help:"Turn an alert on."`
	Disable alertDisable `cmd:"" help:"Turn an alert off."`
	Delete  alertDelete  `cmd:"" help:"Delete an alert with its history."`
}

// alertList lists alerts.
type alertList struct {
	server.Flags `embed:""`
}

// Run lists the alerts of the organisation, newest first. The names are a second
// request; ids alone would tell a person little.
func (c *alertList) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		all, err := s.Alerts(ctx)
		if err != nil {
			return err
		}
		names, err := skillNames(ctx, s)
		if err != nil {
			return err
		}
		return term.List[client.Alert]{
			None: "No alerts; `whetstone alert create --help` shows how to make one.",
			Head: "ID\tSKILL\tFIRES WHEN\tSENSITIVITY\tACTION\tCHANNEL\tSTATE",
			Row: func(a client.Alert) []any {
				return []any{
					a.ID, watchedSkill(a, names), alertCondition(a), a.Sensitivity, term.OrDash(a.Action),
					term.Plain(a.Channel), alertState(a),
				}
			},
		}.Print(p, all)
	})
}

// skillNames returns the names of the organisation's skills by id: alerts have only
// ids.
func skillNames(ctx context.Context, s *server.Session) (map[string]string, error) {
	all, err := s.Skills(ctx, client.SkillFilter{})
	names := make(map[string]string, len(all))
	for _, k := range all {
		names[k.SkillID] = k.Name
	}
	return names, err
}

// watchedSkill returns the name of the skill that an alert watches, "all" if it watches
// all, or the id if the skill is not among names, e.g. because it is hidden.
func watchedSkill(a client.Alert, names map[string]string) string {
	if a.SkillID == nil {
		return "all"
	}
	if name, ok := names[*a.SkillID]; ok {
		return term.Plain(name)
	}
	return *a.SkillID
}

// alertCondition formats when an alert fires. A type that this client does not know is
// printed with its number.
func alertCondition(a client.Alert) string {
	number := strconv.FormatFloat(a.Threshold, 'g', -1, 64)
	switch a.Type {
	case "pass_rate_below":
		return "the pass rate is below " + term.Percent(&a.Threshold)
	case "no_data":
		return "no session for " + number + " days"
	case "worse_than_previous":
		return "the pass rate is " + term.Percent(&a.Threshold) + " below that of the version before"
	case "cost_above":
		return "a use costs over " + term.Dollars(&a.Threshold)
	case "silent_fall":
		return "uses per offer fall by " + term.Percent(&a.Threshold)
	}
	return term.Plain(a.Type) + " " + number
}

// alertState formats whether an alert is evaluated and notifies. The server's clock
// decides about a snooze; this one only shows it.
func alertState(a client.Alert) string {
	switch {
	case !a.Enabled:
		return "off"
	case a.SnoozedUntil != nil && time.Time(*a.SnoozedUntil).After(time.Now()):
		return "snoozed until " + term.Minute(*a.SnoozedUntil)
	}
	return "on"
}

// alertID is the argument of the commands about one alert: its id, or its skill.
// Commands embed it, and find the resolved id in ID.
type alertID struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"alert" help:"Id of the alert, or the skill that it watches if that has one alert; all for the alert on all skills."`
}

// with resolves the alert to its id, and calls do. The names of skills are only read if
// the argument is not an id.
func (c *alertID) with(ctx context.Context, p *term.Program, do func(s *server.Session) error) error {
	return c.WithSession(p, func(s *server.Session) (err error) {
		var names map[string]string
		c.ID, err = server.ID("alert", "alert list", c.ID, func() (all []client.Alert, err error) {
			if all, err = s.Alerts(ctx); err == nil {
				names, err = skillNames(ctx, s)
			}
			return all, err
		}, func(a client.Alert) (string, []string) { return a.ID, []string{watchedSkill(a, names)} })
		if err != nil {
			return err
		}
		return do(s)
	})
}

// change resolves the alert, calls do, and prints the changed alert as JSON or done for
// people.
func (c *alertID) change(
	ctx context.Context, p *term.Program, done string, do func(s *server.Session) (client.Alert, error),
) error {
	return c.with(ctx, p, func(s *server.Session) error {
		a, err := do(s)
		if err != nil {
			return err
		}
		return p.Print(a, func(w io.Writer) { fmt.Fprintln(w, done) })
	})
}

// alertShow shows one alert.
type alertShow struct {
	alertID `embed:""`
}

// Run shows an alert, the skills for which it fires, and its last events.
func (c *alertShow) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		a, err := s.Alert(ctx, c.ID)
		if err != nil {
			return err
		}
		events, err := s.AlertEvents(ctx, c.ID)
		if err != nil {
			return err
		}
		names, err := skillNames(ctx, s)
		if err != nil {
			return err
		}
		// The alert and its events in one object, since --json prints one value.
		out := struct {
			client.Alert
			Events []client.AlertEvent `json:"events"`
		}{a, events}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintf(w, "Skill\t%s\nFires when\t%s (%s)\nAction\t%s\nChannel\t%s\nState\t%s\n", watchedSkill(a, names),
				alertCondition(a), a.Sensitivity, term.OrDash(a.Action), term.Plain(a.Channel), alertState(a))
			for _, warning := range a.Warnings {
				fmt.Fprintf(w, "Warning\t%s\n", term.Cell(warning))
			}
			for _, s := range a.States {
				if s.State == "firing" {
					fmt.Fprintf(w, "Firing\t%s since %s%s\n", term.Plain(cmp.Or(names[s.SkillID], s.SkillID)),
						term.Minute(s.Since), alertAnswers(s))
				}
			}
			for _, e := range events {
				fmt.Fprintf(w, "%s\t%s %s %s\n", term.Minute(e.OccurredAt), e.Transition, term.Plain(e.SkillName),
					term.Cell(term.OrDash(e.Note)))
			}
		})
	})
}

// alertAnswers formats what people and the alert did about a firing, e.g. ",
// acknowledged 2026-03-01 12:00, rolled back version 2.0". A rollback that did not
// happen has its reason.
func alertAnswers(s client.AlertState) (text string) {
	if s.AcknowledgedAt != nil {
		text = ", acknowledged " + term.Minute(*s.AcknowledgedAt)
	}
	switch b := s.Rollback; {
	case b == nil:
	case b.Version != "":
		text += ", rolled back version " + term.Plain(b.Version)
	case b.BlockedBy == "too_few_sessions" && b.Needs != nil:
		text += fmt.Sprintf(", not rolled back yet: graded sessions still missing: %d", *b.Needs)
	default:
		text += ", not rolled back: " + term.Plain(b.BlockedBy)
	}
	return text
}

// alertCreate has the fields of a new alert. Threshold is a pointer, since 0 is a
// threshold and no flag means the type's default.
type alertCreate struct {
	server.Flags `embed:""`
	Skill        string   `env:"-" placeholder:"NAME" help:"Name or id of the skill; all skills when empty."`
	Type         string   `env:"-" default:"pass_rate_below" enum:"pass_rate_below,no_data,worse_than_previous,cost_above,silent_fall" help:"pass_rate_below, no_data, worse_than_previous, cost_above or silent_fall."`
	Threshold    *float64 `env:"-" placeholder:"N" help:"A share (0.8), days, or dollars; the default of the type when empty."`
	Sensitivity  string   `env:"-" default:"sequential" enum:"point,confident,sequential" help:"point, confident or sequential."`
	Rollback     bool     `env:"-" help:"Roll bad versions of the skill back while it fires; not with the sensitivity point."`
	Email        string   `env:"-" placeholder:"ADDRESS" help:"Notify this address."`
	Webhook      string   `env:"-" placeholder:"URL" help:"Notify this webhook."`
	ChatA        string   `env:"-" name:"chat-a" placeholder:"URL" help:"Notify this Slack webhook."`
	ChatB        string   `env:"-" name:"chat-b" placeholder:"URL" help:"Notify this Discord webhook."`
}

// Help is shown below the description of the command.
func (alertCreate) Help() string {
	return "Sequential alerts gather evidence since the version became current: about one false alarm in " +
		"1,000 weeks of a skill that is ten points above its threshold. " +
		"Without an address, the owners of the skill are notified by e-mail."
}

// channel returns the channel that the flags name, with its configuration; without a
// flag that is the owners of the skill. Two flags are an error.
func (c *alertCreate) channel() (name string, config map[string]string, err error) {
	named := 0
	for _, target := range []struct{ channel, field, value string }{
		{"email", "email", c.Email},
		{"webhook", "webhook_url", c.Webhook},
		{"chat_a", "chat_a_webhook_url", c.ChatA},
		{"chat_b", "chat_b_webhook_url", c.ChatB},
	} {
		if target.value != "" {
			name, config = target.channel, map[string]string{target.field: target.value}
			named++
		}
	}
	switch named {
	case 0:
		return "owners", map[string]string{}, nil
	case 1:
		return name, config, nil
	}
	return "", nil, fault.Invalid("channel",
		"name one channel: --email, --webhook, --chat-a or --chat-b; none for the owners of the skill")
}

// Run creates an alert, and prints the signing secret of a webhook, which is not shown
// again. Warnings tell why notifications would not arrive; they are not errors.
func (c *alertCreate) Run(ctx context.Context, p *term.Program) error {
	channel, config, err := c.channel()
	if err != nil {
		return err
	}
	return c.WithSession(p, func(s *server.Session) error {
		n := client.NewAlert{
			Type: c.Type, Threshold: c.Threshold, Sensitivity: c.Sensitivity, Channel: channel, Config: config,
		}
		if c.Rollback {
			n.Action = "rollback"
		}
		if c.Skill != "" {
			// The API takes ids only; 0 days, since the daily figures are not
			// needed.
			skill, err := s.Skill(ctx, c.Skill, 0)
			if err != nil {
				return err
			}
			n.SkillID = skill.Skill.SkillID
		}
		a, err := s.CreateAlert(ctx, n)
		if err != nil {
			return err
		}
		return p.Print(a, func(w io.Writer) {
			fmt.Fprintf(w, "Created the alert %s: it fires when %s (%s).\n", a.ID, alertCondition(a), a.Sensitivity)
			if a.SigningSecret != nil {
				fmt.Fprintf(w, "Signing secret, not shown again: %s\n", *a.SigningSecret)
			}
			for _, warning := range a.Warnings {
				fmt.Fprintf(w, "Warning: %s\n", term.Cell(warning))
			}
			fmt.Fprintf(w, "`whetstone alert test %s` sends a test notification.\n", a.ID)
		})
	})
}

// alertTest tests the channel of an alert.
type alertTest struct {
	alertID `embed:""`
}

// Run sends a test notification now, and fails unless it was delivered.
func (c *alertTest) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		d, err := s.TestAlert(ctx, c.ID)
		if err != nil {
			return err
		}
		err = p.Print(d, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", d.Status, term.Cell(term.OrDash(d.Detail))) })
		if err != nil {
			return err
		}
		// What went wrong was printed already.
		if d.Status != "delivered" {
			return term.ErrPrinted
		}
		return nil
	})
}

// alertAck acknowledges an alert.
type alertAck struct {
	alertID `embed:""`
}

// Run acknowledges a firing alert: it stays firing, but sends no more reminders.
func (c *alertAck) Run(ctx context.Context, p *term.Program) error {
	return c.change(ctx, p, "Acknowledged; no more reminders until it is resolved.",
		func(s *server.Session) (client.Alert, error) {
			return s.AcknowledgeAlert(ctx, c.ID)
		})
}

// alertSnooze snoozes an alert.
type alertSnooze struct {
	alertID `embed:""`
	For     time.Duration `env:"-" default:"24h" help:"How long, e.g. 4h; 0 ends it."`
}

// Run mutes an alert until a time, or with --for 0 ends that.
func (c *alertSnooze) Run(ctx context.Context, p *term.Program) error {
	var until *time.Time
	done := "It is no longer snoozed."
	if c.For > 0 {
		// The API takes a time, so that a repeated request does not snooze for
		// longer.
		at := time.Now().Add(c.For).UTC()
		until, done = &at, "Snoozed until "+term.Minute(at)+" UTC."
	}
	return c.change(ctx, p, done, func(s *server.Session) (client.Alert, error) { return s.SnoozeAlert(ctx, c.ID, until) })
}

// alertEnable turns an alert on.
type alertEnable struct {
	alertID `embed:""`
}

// Run turns an alert on.
func (c *alertEnable) Run(ctx context.Context, p *term.Program) error {
	return c.change(ctx, p, "The alert is on.",
		func(s *server.Session) (client.Alert, error) { return s.EnableAlert(ctx, c.ID, true) })
}

// alertDisable turns an alert off.
type alertDisable struct {
	alertID `embed:""`
}

// Run turns an alert off, which keeps its history.
func (c *alertDisable) Run(ctx context.Context, p *term.Program) error {
	return c.change(ctx, p, "The alert is off.",
		func(s *server.Session) (client.Alert, error) { return s.EnableAlert(ctx, c.ID, false) })
}

// alertDelete deletes an alert.
type alertDelete struct {
	alertID `embed:""`
	Yes     bool `env:"-" help:"Do not ask."`
}

// Run deletes an alert with its history. It asks for a confirmation on a terminal only,
// so scripts need no --yes.
func (c *alertDelete) Run(ctx context.Context, p *term.Program) error {
	if p.Interactive && !p.JSON && !c.Yes && !p.Confirm(ctx, "Delete the alert with its history?") {
		return fault.New(fault.Conflict, "Nothing was changed")
	}
	return c.with(ctx, p, func(s *server.Session) error {
		if err := s.DeleteAlert(ctx, c.ID); err != nil {
			return err
		}
		return p.Print(map[string]string{"id": c.ID, "status": "deleted"}, func(w io.Writer) { fmt.Fprintln(w, "Deleted.") })
	})
}
