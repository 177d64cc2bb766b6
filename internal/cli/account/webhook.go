package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// webhookCommands are the commands `whetstone webhook`: events of the organisation that
// are posted to other systems. They need the permission admin.
type webhookCommands struct {
	Create     webhookCreate     `cmd:"" help:"Send events to a URL; the signing secret is printed once."`
	List       webhookList       `cmd:"" help:"List event webhooks."`
	Pause      webhookPause      `cmd:"" help:"Send nothing until it is resumed."`
	Resume     webhookResume     `cmd:"" help:"Send events again."`
	Delete     webhookDelete     `cmd:"" help:"Delete an event webhook and its deliveries."`
	Test       webhookTest       `cmd:"" help:"Send a test now."`
	Deliveries webhookDeliveries `cmd:"" help:"List what was sent, newest first."`
	Replay     webhookReplay     `cmd:"" help:"Send the event of a delivery again."`
}

// webhooks is the list of event webhooks, and how it is printed.
var webhooks = server.Resource[api.EventWebhook]{
	Path: "/api/v1/event-webhooks", Field: "event_webhooks", List: term.List[api.EventWebhook]{
		None: "No event webhooks. Make one: whetstone webhook create URL --events version.published",
		Head: "ID\tURL\tSTATUS\tEVENTS",
		Row: func(h api.EventWebhook) []any {
			status := "active"
			if h.Paused {
				status = "paused"
			}
			if h.Paused && h.PausedReason != nil {
				status += ": " + term.Plain(*h.PausedReason)
			}
			return []any{h.ID, term.Plain(h.URL), status, strings.Join(h.Events, ",")}
		},
	},
}

// webhookCreate has the fields of a new webhook.
type webhookCreate struct {
	server.Flags `embed:""`
	URL          string   `arg:"" help:"Where events are posted."`
	Events       []string `env:"-" required:"" placeholder:"TYPE,..." help:"Events to send: version.published, version.candidate, version.rolled_back, version.withdrawn, gate.decided, alert.fired, alert.resolved, proposal.applied, member.removed."`
}

// Run creates a webhook and prints its signing secret, with which the receiver verifies
// that deliveries are from this server.
func (c *webhookCreate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		var made api.NewEventWebhook
		body := map[string]any{"url": c.URL, "events": c.Events}
		if err := s.Call(ctx, http.MethodPost, webhooks.Path, body, &made); err != nil {
			return err
		}
		return p.Print(made, func(w io.Writer) {
			fmt.Fprintf(w, "Events are sent to %s (%s).\nSigning secret, not shown again: %s\n", term.Plain(made.URL),
				made.ID, made.SigningSecret)
			for _, warning := range made.Warnings {
				fmt.Fprintln(w, "Warning: "+term.Plain(warning))
			}
			fmt.Fprintf(w, "Try it: whetstone webhook test %s\n", made.ID)
		})
	})
}

// webhookList lists webhooks.
type webhookList struct {
	server.Flags `embed:""`
}

// Run lists the event webhooks of the organisation.
func (c *webhookList) Run(ctx context.Context, p *term.Program) error {
	return webhooks.Show(ctx, p, &c.Flags, nil)
}

// webhookID is the argument of the commands about one webhook: its host or its id.
type webhookID struct {
	server.Flags `embed:""`
	ID           string `arg:"" name:"webhook" help:"Host or id of the event webhook; see webhook list."`
}

// webhookHost returns the host of a URL, by which a webhook can be named. The path is a
// secret that the server does not send. Anything else, e.g. an id, is returned
// unchanged.
func webhookHost(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}

// with resolves the webhook to its id, and calls do.
func (c *webhookID) with(ctx context.Context, p *term.Program, do func(s *server.Session) error) error {
	return c.WithSession(p, func(s *server.Session) (err error) {
		c.ID, err = server.ID("event webhook", "webhook list", webhookHost(c.ID),
			func() ([]api.EventWebhook, error) { return webhooks.All(ctx, s, nil) },
			func(h api.EventWebhook) (string, []string) { return h.ID, []string{webhookHost(h.URL)} })
		if err != nil {
			return err
		}
		return do(s)
	})
}

// setPaused pauses or resumes the webhook. message has one %s, for the URL.
func (c *webhookID) setPaused(ctx context.Context, p *term.Program, paused bool, message string) error {
	return c.with(ctx, p, func(s *server.Session) error {
		var out api.EventWebhook
		if err := s.Call(ctx, http.MethodPatch, webhooks.At(c.ID), map[string]any{"paused": paused}, &out); err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) { fmt.Fprintf(w, message+"\n", term.Plain(out.URL)) })
	})
}

// webhookPause pauses a webhook.
type webhookPause struct {
	webhookID `embed:""`
}

// Run pauses a webhook. Events that happen meanwhile are not sent later either.
func (c *webhookPause) Run(ctx context.Context, p *term.Program) error {
	return c.setPaused(ctx, p, true, "%s is paused: events that happen meanwhile are not sent.")
}

// webhookResume resumes a webhook.
type webhookResume struct {
	webhookID `embed:""`
}

// Run resumes a webhook that a person or the server paused.
func (c *webhookResume) Run(ctx context.Context, p *term.Program) error {
	return c.setPaused(ctx, p, false, "Events are sent to %s again.")
}

// webhookDelete deletes a webhook.
type webhookDelete struct {
	webhookID `embed:""`
}

// Run deletes a webhook with its deliveries.
func (c *webhookDelete) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		return s.Delete(ctx, p, webhooks.At(c.ID), c.ID, "deleted", "Deleted.")
	})
}

// webhookTest tests a webhook.
type webhookTest struct {
	webhookID `embed:""`
}

// Run sends a test event and waits for the receiver's response.
func (c *webhookTest) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		var out struct {
			Delivery api.EventDelivery `json:"delivery"`
		}
		if err := s.Call(ctx, http.MethodPost, webhooks.At(c.ID)+"/test", nil, &out); err != nil {
			return err
		}
		return p.Print(out.Delivery, func(w io.Writer) { fmt.Fprintln(w, deliveryResult(out.Delivery)) })
	})
}

// deliveryResult formats the outcome of a delivery for a cell, e.g. "failed: 503".
func deliveryResult(d api.EventDelivery) string {
	if d.Detail == nil {
		return d.Status
	}
	return d.Status + ": " + term.Plain(*d.Detail)
}

// webhookDeliveries lists deliveries.
type webhookDeliveries struct {
	webhookID `embed:""`
	Limit     int `env:"-" default:"20" placeholder:"N" help:"How many, newest first; at most 100."`
}

// Run lists the newest deliveries of a webhook, for debugging a receiver.
func (c *webhookDeliveries) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		var out struct {
			Deliveries []api.EventDelivery `json:"deliveries"`
		}
		path := fmt.Sprintf("%s/deliveries?per_page=%d", webhooks.At(c.ID), c.Limit)
		if err := s.Call(ctx, http.MethodGet, path, nil, &out); err != nil {
			return err
		}
		return term.List[api.EventDelivery]{
			None: "Nothing was sent yet.",
			Head: "TIME\tDELIVERY\tEVENT\tATTEMPTS\tRESULT",
			Row: func(d api.EventDelivery) []any {
				at := time.Time(d.CreatedAt).Local().Format("2006-01-02 15:04:05")
				return []any{at, d.ID, d.EventType, d.Attempts, deliveryResult(d)}
			},
		}.Print(p, out.Deliveries)
	})
}

// webhookReplay replays a delivery.
type webhookReplay struct {
	webhookID `embed:""`
	Delivery  string `arg:"" help:"Id of the delivery; see webhook deliveries."`
}

// Run sends the event of a delivery again as a new delivery.
func (c *webhookReplay) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, p, func(s *server.Session) error {
		var out struct {
			Delivery api.EventDelivery `json:"delivery"`
		}
		path := webhooks.At(c.ID) + "/deliveries/" + url.PathEscape(c.Delivery) + "/replay"
		if err := s.Call(ctx, http.MethodPost, path, nil, &out); err != nil {
			return err
		}
		return p.Print(out.Delivery, func(w io.Writer) {
			fmt.Fprintf(w, "The event %s is sent again as delivery %s.\n", out.Delivery.EventType, out.Delivery.ID)
		})
	})
}
