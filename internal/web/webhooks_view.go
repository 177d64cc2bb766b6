package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
)

// webhooksShown is how many webhooks and deliveries the page lists.
const webhooksShown = 50

// webhookSorts are the fields that the webhooks can be sorted by.
var webhookSorts = []string{"-created_at", "url", "paused"}

// webhookOrders sort in memory: the URLs are encrypted in the database, and an organisation has
// few webhooks.
var webhookOrders = map[string]rowOrder[events.Webhook]{
	"created_at": orderBy(func(w events.Webhook) int64 { return w.CreatedAt.UnixMicro() }),
	"url":        orderByText(events.Webhook.MaskedURL),
	"paused": orderBy(func(w events.Webhook) int {
		if w.Paused {
			return 1
		}
		return 0
	}),
}

// A webhooksView is the page: all webhooks, and the deliveries of one of them. Form
// is what was typed into a refused form; an accepted one leaves it empty.
type webhooksView struct {
	Webhooks   []events.Webhook
	Types      []events.Type
	Form       events.Webhook // the input
	Secret     string         // of a new webhook, or a new one; shown once
	Message    string         // what was done
	Selected   *events.Webhook
	Deliveries []webhookDelivery
	Total      int // deliveries
}

// A webhookDelivery is a row of the list. A test, one that is still open, and one of
// a paused webhook cannot be sent again.
type webhookDelivery struct {
	events.Delivery
	Replayable bool
}

// webhooksPage does what a form asks for, and returns the page. A problem is one of the
// input. All forms are on one page, and their answers are this page again.
func (s *Service) webhooksPage(ctx context.Context, c access.Caller, r *http.Request, l tableRequest) (view webhooksView,
	problem, err error,
) {
	selected := r.FormValue("webhook")
	if r.Method == http.MethodPost {
		if view, problem = s.changeWebhooks(ctx, c, r); problem != nil && !isCorrectable(problem) {
			return view, nil, problem
		}
		if r.FormValue("action") == "delete" && problem == nil {
			selected = ""
		}
	}
	if view.Webhooks, _, err = s.Events.Webhooks(ctx, c.OrgID, webhooksShown, 0); err != nil {
		return view, nil, err
	}
	sortRows(l, view.Webhooks, webhookOrders)
	view.Types = events.Types()
	if selected == "" {
		return view, problem, nil
	}
	w, err := s.Events.Webhook(ctx, c.OrgID, selected)
	if err != nil {
		return view, nil, err
	}
	all, total, err := s.Events.Deliveries(ctx, c.OrgID, w.ID, webhooksShown, 0)
	for _, d := range all {
		view.Deliveries = append(view.Deliveries, webhookDelivery{d, d.EventID != nil && !d.Open() && !w.Paused})
	}
	view.Selected, view.Total = &w, total
	return view, problem, err
}

// isCorrectable reports whether the page can show a problem beside its forms.
func isCorrectable(err error) bool {
	return fault.Is(err, fault.Malformed) || fault.Is(err, fault.Conflict)
}

// changeWebhooks does what the button says. The secret of a new webhook is in the
// view: a redirect would have to carry it.
func (s *Service) changeWebhooks(ctx context.Context, c access.Caller, r *http.Request) (view webhooksView, err error) {
	id, paused := r.FormValue("webhook"), true
	switch r.FormValue("action") {
	case "create":
		view.Form.URL = strings.TrimSpace(r.FormValue("url"))
		for _, t := range r.Form["events"] {
			view.Form.Events = append(view.Form.Events, events.Type(t))
		}
		w, err := s.Events.Create(ctx, c, view.Form.URL, view.Form.Events)
		if err != nil {
			return view, err
		}
		return webhooksView{Secret: w.Secret, Message: "Events are sent to " + w.MaskedURL() + " from now on."}, nil
	case "resume":
		paused = false
		fallthrough
	case "pause":
		w, err := s.Events.Update(ctx, c.OrgID, id, events.Change{Paused: &paused})
		if paused {
			view.Message = w.MaskedURL() + " is paused: events that happen meanwhile are not sent."
		} else {
			view.Message = "Events are sent to " + w.MaskedURL() + " again."
		}
		return view, err
	case "rotate":
		w, err := s.Events.RotateSecret(ctx, c.OrgID, id)
		return webhooksView{Secret: w.Secret, Message: "For a day the old secret signs, too."}, err
	case "test":
		d, err := s.Events.Test(ctx, c.OrgID, id)
		view.Message = "The test arrived."
		if d.Status != delivery.Delivered && d.Detail != nil {
			view.Message = "The test did not arrive: " + *d.Detail
		}
		return view, err
	case "replay":
		_, err := s.Events.Replay(ctx, c.OrgID, id, r.FormValue("delivery"))
		view.Message = "The event is sent again."
		return view, err
	case "delete":
		view.Message = "The webhook was deleted."
		return view, s.Events.Delete(ctx, c.OrgID, id)
	}
	return view, fault.Invalid("action", "action is not known")
}
