package events

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of event webhooks.
func (s *Service) Mount(a *httpapi.API) {
	const path = "/api/v1/event-webhooks"
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: path, Status: http.StatusCreated,
		Also:    []int{http.StatusConflict},
		Summary: "Send events of the organisation to a webhook",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: path,
		Summary: "List event webhooks, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: path + "/{id}",
		Summary: "Get an event webhook",
	})
	httpapi.Add(a, s.handleUpdate, httpapi.Route{
		Permission: access.Admin, Method: "PATCH", Path: path + "/{id}",
		Summary: "Change an event webhook",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Admin, Method: "DELETE", Path: path + "/{id}", Status: http.StatusNoContent,
		Summary: "Delete an event webhook and its deliveries",
	})
	httpapi.Add(a, s.handleTest, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: path + "/{id}/test",
		Summary: "Send a test to an event webhook now",
	})
	httpapi.Add(a, s.handleRotate, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: path + "/{id}/rotate-secret",
		Summary: "Give an event webhook a new signing secret",
	})
	httpapi.Add(a, s.handleDeliveries, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: path + "/{id}/deliveries",
		Summary: "List the deliveries of an event webhook, newest first",
	})
	httpapi.Add(a, s.handleReplay, httpapi.Route{
		Permission: access.Admin, Method: "POST", Path: path + "/{id}/deliveries/{delivery_id}/replay",
		Status:  http.StatusAccepted,
		Also:    []int{http.StatusConflict},
		Summary: "Send the event of a delivery again",
	})
}

func (s *Service) newWebhookOutput(w Webhook) api.EventWebhook {
	out := api.EventWebhook{
		ID: w.ID, URL: w.MaskedURL(), Events: make([]string, len(w.Events)), Paused: w.Paused, PausedReason: w.PausedReason,
		CreatedBy: w.CreatedBy,
		CreatedAt: httpapi.Time(w.CreatedAt), UpdatedAt: httpapi.Time(w.UpdatedAt), Warnings: s.Warnings(w),
	}
	for i, e := range w.Events {
		out.Events[i] = string(e)
	}
	return out
}

type createInput struct {
	Body struct {
		URL    string `json:"url" example:"https://ci.example.org/hooks/whetstone"`
		Events []Type `json:"events" nullable:"false" doc:"Of version.published, version.candidate, version.rolled_back, version.withdrawn, gate.decided, alert.fired, alert.resolved, proposal.applied and member.removed"`
	}
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (api.NewEventWebhook, error) {
	w, err := s.Create(ctx, access.From(ctx), in.Body.URL, in.Body.Events)
	if err != nil {
		return api.NewEventWebhook{}, err
	}
	return api.NewEventWebhook{EventWebhook: s.newWebhookOutput(w), SigningSecret: w.Secret}, nil
}

type listOutput struct {
	Webhooks   []api.EventWebhook `json:"event_webhooks" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in struct{ httpapi.Page }) (listOutput, error) {
	all, total, err := s.Webhooks(ctx, access.From(ctx).OrgID, in.PerPage, in.Offset())
	out := listOutput{Webhooks: make([]api.EventWebhook, len(all)), Pagination: in.Of(total)}
	for i, w := range all {
		out.Webhooks[i] = s.newWebhookOutput(w)
	}
	return out, err
}

// WebhookPath names an event webhook in a path.
type WebhookPath struct {
	ID string `path:"id" doc:"Id of the event webhook"`
}

func (s *Service) handleGet(ctx context.Context, in WebhookPath) (api.EventWebhook, error) {
	w, err := s.Webhook(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return api.EventWebhook{}, err
	}
	return s.newWebhookOutput(w), nil
}

type updateInput struct {
	WebhookPath
	Body struct {
		URL    *string `json:"url,omitempty"`
		Events *[]Type `json:"events,omitempty" doc:"All that it shall get"`
		Paused *bool   `json:"paused,omitempty" doc:"Events that happen meanwhile are not sent"`
	}
}

func (s *Service) handleUpdate(ctx context.Context, in updateInput) (api.EventWebhook, error) {
	w, err := s.Update(ctx, access.From(ctx).OrgID, in.ID,
		Change{URL: in.Body.URL, Events: in.Body.Events, Paused: in.Body.Paused})
	if err != nil {
		return api.EventWebhook{}, err
	}
	return s.newWebhookOutput(w), nil
}

func (s *Service) handleDelete(ctx context.Context, in WebhookPath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx).OrgID, in.ID)
}

type rotateOutput struct {
	SigningSecret  string        `json:"signing_secret" doc:"Not shown again"`
	OldSecretUntil *httpapi.Time `json:"old_secret_until" doc:"Until when the old secret signs, too"`
}

func (s *Service) handleRotate(ctx context.Context, in WebhookPath) (rotateOutput, error) {
	w, err := s.RotateSecret(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return rotateOutput{}, err
	}
	return rotateOutput{w.Secret, httpapi.NullTime(w.OldSecretUntil)}, nil
}

func newDeliveryOutput(d Delivery) api.EventDelivery {
	return api.EventDelivery{
		ID: d.ID, WebhookID: d.SourceID, EventID: d.EventID, EventType: string(d.EventType), ReplayOf: d.ReplayOf,
		Status: string(d.Status), Attempts: d.Attempts, ResponseStatus: d.ResponseStatus, Detail: d.Detail,
		CreatedAt:   httpapi.Time(d.CreatedAt),
		AttemptedAt: httpapi.NullTime(d.AttemptedAt), NextAttemptAt: httpapi.NullTime(d.NextAttemptAt),
	}
}

type oneDeliveryOutput struct {
	Delivery api.EventDelivery `json:"delivery"`
}

func (s *Service) handleTest(ctx context.Context, in WebhookPath) (oneDeliveryOutput, error) {
	d, err := s.Test(ctx, access.From(ctx).OrgID, in.ID)
	return oneDeliveryOutput{newDeliveryOutput(d)}, err
}

type replayInput struct {
	WebhookPath
	DeliveryID string `path:"delivery_id" doc:"Id of the delivery"`
}

func (s *Service) handleReplay(ctx context.Context, in replayInput) (oneDeliveryOutput, error) {
	d, err := s.Replay(ctx, access.From(ctx).OrgID, in.ID, in.DeliveryID)
	return oneDeliveryOutput{newDeliveryOutput(d)}, err
}

type deliveriesInput struct {
	WebhookPath
	httpapi.Page
}

type deliveriesOutput struct {
	Deliveries []api.EventDelivery `json:"deliveries" nullable:"false"`
	Pagination httpapi.Pagination  `json:"pagination"`
}

func (s *Service) handleDeliveries(ctx context.Context, in deliveriesInput) (deliveriesOutput, error) {
	all, total, err := s.Deliveries(ctx, access.From(ctx).OrgID, in.ID, in.PerPage, in.Offset())
	out := deliveriesOutput{Deliveries: make([]api.EventDelivery, len(all)), Pagination: in.Of(total)}
	for i, d := range all {
		out.Deliveries[i] = newDeliveryOutput(d)
	}
	return out, err
}
