// Package hooks prepares the page of event webhooks.
package hooks

import (
	"context"
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/web/listing"
)

// shown is how many webhooks and deliveries the page lists.
const shown = 50

// Sorts are the fields that the webhooks can be sorted by.
var Sorts = []string{"-created_at", "url", "paused"}

// orders sort in memory: the URLs are encrypted in the database, and an organisation has
// few webhooks.
var orders = map[string]listing.Order[events.Webhook]{
	"created_at": listing.By(func(w events.Webhook) int64 { return w.CreatedAt.UnixMicro() }),
	"url":        listing.ByText(events.Webhook.MaskedURL),
	"paused": listing.By(func(w events.Webhook) int {
		if w.Paused {
			return 1
		}
		return 0
	}),
}

// A View is the page: all webhooks, and the deliveries of one of them.
type View struct {
	Webhooks   []events.Webhook
	Types      []events.Type
	Form       events.Webhook // the input
	Secret     string         // of a new webhook, or a new one; shown once
	Message    string         // what was done
	Selected   *events.Webhook
	Deliveries []Delivery
	Total      int // deliveries
}

// A Delivery is a row of the list.
type Delivery struct {
	events.Delivery
	Replayable bool
}

// Pages reads what the page shows.
type Pages struct{ Events *events.Service }

// Handle does what a form asks for, and returns the page. A problem is one of the
// input.
func (p Pages) Handle(ctx context.Context, c access.Caller, r *http.Request, l listing.Request) (view View, problem, err error) {
	selected := r.FormValue("webhook")
	if r.Method == http.MethodPost {
		if view, problem = p.do(ctx, c, r); problem != nil && !shows(problem) {
			return view, nil, problem
		}
		if r.FormValue("action") == "delete" && problem == nil {
			selected = ""
		}
	}
	if view.Webhooks, _, err = p.Events.Webhooks(ctx, c.OrgID, shown, 0); err != nil {
		return view, nil, err
	}
	listing.Sort(l, view.Webhooks, orders)
	view.Types = events.Types()
	if selected == "" {
		return view, problem, nil
	}
	w, err := p.Events.Webhook(ctx, c.OrgID, selected)
	if err != nil {
		return view, nil, err
	}
	all, total, err := p.Events.Deliveries(ctx, c.OrgID, w.ID, shown, 0)
	for _, d := range all {
		view.Deliveries = append(view.Deliveries, Delivery{d, d.EventID != nil && !d.Open() && !w.Paused})
	}
	view.Selected, view.Total = &w, total
	return view, problem, err
}

// shows reports whether the page can show a problem beside its forms.
func shows(err error) bool { return fault.Is(err, fault.Malformed) || fault.Is(err, fault.Conflict) }

func (p Pages) do(ctx context.Context, c access.Caller, r *http.Request) (view View, err error) {
	id, paused := r.FormValue("webhook"), true
	switch r.FormValue("action") {
	case "create":
		view.Form.URL = strings.TrimSpace(r.FormValue("url"))
		for _, t := range r.Form["events"] {
			view.Form.Events = append(view.Form.Events, events.Type(t))
		}
		w, err := p.Events.Create(ctx, c, view.Form.URL, view.Form.Events)
		if err != nil {
			return view, err
		}
		return View{Secret: w.Secret, Message: "Events are sent to " + w.MaskedURL() + " from now on."}, nil
	case "resume":
		paused = false
		fallthrough
	case "pause":
		w, err := p.Events.Update(ctx, c.OrgID, id, events.Change{Paused: &paused})
		if paused {
			view.Message = w.MaskedURL() + " is paused: events that happen meanwhile are not sent."
		} else {
			view.Message = "Events are sent to " + w.MaskedURL() + " again."
		}
		return view, err
	case "rotate":
		w, err := p.Events.RotateSecret(ctx, c.OrgID, id)
		return View{Secret: w.Secret, Message: "For a day the old secret signs, too."}, err
	case "test":
		d, err := p.Events.Test(ctx, c.OrgID, id)
		view.Message = "The test arrived."
		if d.Status != delivery.Delivered && d.Detail != nil {
			view.Message = "The test did not arrive: " + *d.Detail
		}
		return view, err
	case "replay":
		_, err := p.Events.Replay(ctx, c.OrgID, id, r.FormValue("delivery"))
		view.Message = "The event is sent again."
		return view, err
	case "delete":
		view.Message = "The webhook was deleted."
		return view, p.Events.Delete(ctx, c.OrgID, id)
	}
	return view, fault.Invalid("action", "action is not known")
}
