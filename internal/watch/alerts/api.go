package alerts

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

// Mount adds the routes of alerts.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleCreate, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/alerts", Status: http.StatusCreated,
		Summary: "Create an alert",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/alerts",
		Summary: "List alerts, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/alerts/{id}",
		Summary: "Get an alert",
	})
	httpapi.Add(a, s.handleUpdate, httpapi.Route{
		Permission: access.Write, Method: "PATCH", Path: "/api/v1/alerts/{id}",
		Summary: "Change an alert",
	})
	httpapi.Add(a, s.handleDelete, httpapi.Route{
		Permission: access.Write, Method: "DELETE", Path: "/api/v1/alerts/{id}", Status: http.StatusNoContent,
		Summary: "Delete an alert",
	})
	httpapi.Add(a, s.handleTest, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/alerts/{id}/test",
		Summary: "Send a test notification now",
	})
	httpapi.Add(a, s.handleRotate, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/alerts/{id}/rotate-secret",
		Summary: "Give a webhook alert a new signing secret",
	})
	httpapi.Add(a, s.handleAcknowledge, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/alerts/{id}/ack",
		Summary: "Acknowledge a firing alert: no more reminders until it is resolved",
	})
	httpapi.Add(a, s.handleSnooze, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/alerts/{id}/snooze",
		Summary: "Mute an alert until a time",
	})
	httpapi.Add(a, s.handleDeliveries, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/alerts/{id}/deliveries",
		Summary: "List an alert's deliveries, newest first",
	})
	httpapi.Add(a, s.handleEvents, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/alert-events",
		Summary: "List alert events, newest first",
	})
}

// ConfigInput is where notices go.
type ConfigInput struct {
	ChatA         string `json:"chat_a_webhook_url,omitempty" doc:"For the channel chat_a"`
	ChatB         string `json:"chat_b_webhook_url,omitempty" doc:"For the channel chat_b"`
	Email         string `json:"email,omitempty" doc:"For the channel email"`
	Webhook       string `json:"webhook_url,omitempty" doc:"For the channel webhook"`
	WebhookSecret string `json:"webhook_secret,omitempty" doc:"Signs the webhook: whsec_ and the base64 of 24 to 64 bytes; made by the service when omitted"`
}

func (c ConfigInput) config() Config {
	return Config(c)
}

// createInput has the fields of a new alert. Threshold and Sensitivity are pointers
// or may be empty, since their defaults depend on the type, see Create.
type createInput struct {
	Body struct {
		SkillID     *string        `json:"skill_id,omitempty" format:"uuid" doc:"Omitted: all skills"`
		Type        Type           `json:"type" enum:"pass_rate_below,no_data,worse_than_previous,cost_above,silent_fall"`
		Threshold   *float64       `json:"threshold,omitempty" example:"0.75" doc:"pass_rate_below: 0 to 1, default 0.8; no_data: 0 to 90 days, default 7; worse_than_previous: by how much, 0 to 1, default 0.1; cost_above: USD for a use, required; silent_fall: by how much of the usual share, 0 to 1, default 0.5"`
		Sensitivity Sensitivity    `json:"sensitivity,omitempty" enum:"point,confident,sequential" doc:"Omitted: sequential for an alert that rolls back, which cannot be point, and for worse_than_previous, else point. For cost_above and silent_fall sequential is the same as confident"`
		Action      *Action        `json:"action,omitempty" enum:"rollback" doc:"What to do when it fires"`
		Channel     notify.Channel `json:"channel" enum:"chat_a,chat_b,email,owners,webhook" doc:"owners: a mail to each person who owns the skill; config is empty"`
		Config      ConfigInput    `json:"config"`
	}
}

// newStateOutputs returns the states of a rule that is snoozed until a time.
func newStateOutputs(states []State, snoozed *time.Time) []api.AlertState {
	all := make([]api.AlertState, len(states))
	for i, s := range states {
		all[i] = api.AlertState{
			SkillID: s.SkillID, State: s.State, Since: httpapi.Time(s.Since), AcknowledgedBy: s.AcknowledgedBy,
			AcknowledgedAt: httpapi.NullTime(s.AcknowledgedAt), SnoozedUntil: httpapi.NullTime(snoozed),
		}
		switch b := s.Rollback; {
		// Neither case: the rule does not roll back, or had no reason to.
		case b.BlockedBy != "":
			all[i].Rollback = &api.AlertRollback{BlockedBy: string(b.BlockedBy), Needs: &b.Needs}
		case b.Version != "":
			all[i].Rollback = &api.AlertRollback{Version: b.Version, At: httpapi.NullTime(&b.At)}
		}
	}
	return all
}

func (s *Service) newRuleOutput(ctx context.Context, r Rule) (api.AlertRule, error) {
	all, err := s.newRuleOutputs(ctx, r)
	if err != nil {
		return api.AlertRule{}, err
	}
	return all[0], nil
}

// newRuleOutputs converts rules, with their states. One query for the states of all
// rules, whatever their number.
func (s *Service) newRuleOutputs(ctx context.Context, rules ...Rule) ([]api.AlertRule, error) {
	states, err := s.States(ctx, rules...)
	all := make([]api.AlertRule, len(rules))
	for i, r := range rules {
		all[i] = s.ruleOutput(r, states[r.ID])
	}
	return all, err
}

// ruleOutput converts a rule. A new rule has no states yet: it is evaluated within
// the next minutes.
func (s *Service) ruleOutput(r Rule, states []State) api.AlertRule {
	config := map[string]string{}
	if field := addressField(r.Channel); field != "" {
		config[field] = notify.Mask(r.Channel, r.Address)
	}
	return api.AlertRule{
		ID: r.ID, SkillID: r.SkillID, Type: string(r.Type), Threshold: r.Threshold,
		Sensitivity: string(r.Sensitivity), Action: (*string)(r.Action), Channel: string(r.Channel), Config: config,
		Enabled: r.Enabled, DisabledReason: r.DisabledReason, SnoozedUntil: httpapi.NullTime(r.SnoozedUntil),
		CreatedAt: httpapi.Time(r.CreatedAt), UpdatedAt: httpapi.Time(r.UpdatedAt), Warnings: s.Warnings(r),
		States: newStateOutputs(states, r.SnoozedUntil),
	}
}

func (s *Service) handleCreate(ctx context.Context, in createInput) (api.Alert, error) {
	b := in.Body
	r, err := s.Create(ctx, access.From(ctx), NewRule{
		SkillID: b.SkillID, Type: b.Type, Threshold: b.Threshold, Sensitivity: b.Sensitivity, Action: b.Action,
		Channel: b.Channel, Config: b.Config.config(),
	})
	if err != nil {
		return api.Alert{}, err
	}
	return api.Alert{AlertRule: s.ruleOutput(r, nil), SigningSecret: r.Secret}, nil
}

// RulePath names an alert in a path.
type RulePath struct {
	ID string `path:"id" doc:"Id of the alert"`
}

type listOutput struct {
	Alerts     []api.AlertRule    `json:"alerts" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in struct{ httpapi.Page }) (listOutput, error) {
	rules, total, err := s.Rules(ctx, access.From(ctx).OrgID, in.Rows())
	if err != nil {
		return listOutput{}, err
	}
	all, err := s.newRuleOutputs(ctx, rules...)
	return listOutput{Alerts: all, Pagination: in.Of(total)}, err
}

func (s *Service) handleGet(ctx context.Context, in RulePath) (api.AlertRule, error) {
	r, err := s.Rule(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return api.AlertRule{}, err
	}
	return s.newRuleOutput(ctx, r)
}

// updateInput has the fields of an alert that can change. The type, the skill and
// the action cannot change: events of before would be read under another meaning.
type updateInput struct {
	RulePath
	Body struct {
		Threshold   *float64        `json:"threshold,omitempty"`
		Sensitivity *Sensitivity    `json:"sensitivity,omitempty" enum:"point,confident,sequential"`
		Channel     *notify.Channel `json:"channel,omitempty" enum:"chat_a,chat_b,email,owners,webhook"`
		Config      *ConfigInput    `json:"config,omitempty"`
		Enabled     *bool           `json:"enabled,omitempty"`
	}
}

func (s *Service) handleUpdate(ctx context.Context, in updateInput) (api.Alert, error) {
	c := Change{
		Threshold: in.Body.Threshold, Sensitivity: in.Body.Sensitivity, Channel: in.Body.Channel,
		Enabled: in.Body.Enabled,
	}
	if in.Body.Config != nil {
		config := in.Body.Config.config()
		c.Config = &config
	}
	r, made, err := s.Update(ctx, access.From(ctx), in.ID, c)
	if err != nil {
		return api.Alert{}, err
	}
	out, err := s.newRuleOutput(ctx, r)
	return api.Alert{AlertRule: out, SigningSecret: made}, err
}

func (s *Service) handleDelete(ctx context.Context, in RulePath) (httpapi.None, error) {
	return httpapi.None{}, s.Delete(ctx, access.From(ctx), in.ID)
}

type testOutput struct {
	Delivery api.Notification `json:"delivery"`
}

// handleTest sends a test notification and waits for it. A notification that fails
// is not an error of the request: the delivery says what happened.
func (s *Service) handleTest(ctx context.Context, in RulePath) (testOutput, error) {
	d, err := s.Test(ctx, access.From(ctx), in.ID)
	return testOutput{newDeliveryOutput(d)}, err
}

// rotateOutput has the new signing secret. The overlap gives a receiver the time to
// learn the new secret.
type rotateOutput struct {
	SigningSecret  *string       `json:"signing_secret" doc:"Not shown again"`
	OldSecretUntil *httpapi.Time `json:"old_secret_until" doc:"Until when the old secret signs, too"`
}

func (s *Service) handleRotate(ctx context.Context, in RulePath) (rotateOutput, error) {
	r, err := s.RotateSecret(ctx, access.From(ctx), in.ID)
	if err != nil {
		return rotateOutput{}, err
	}
	return rotateOutput{r.Secret, httpapi.NullTime(r.OldSecretUntil)}, nil
}

type acknowledgeOutput struct {
	api.AlertRule
	Acknowledged []acknowledgedOutput `json:"acknowledged" nullable:"false" doc:"The skills that it fires for"`
}

// acknowledgedOutput is a skill for which the alert fires. Only skills that fire now
// are in it; an acknowledgement ends with the firing.
type acknowledgedOutput struct {
	SkillID        string       `json:"skill_id" format:"uuid"`
	FiringSince    httpapi.Time `json:"firing_since"`
	AcknowledgedAt httpapi.Time `json:"acknowledged_at"`
	AcknowledgedBy string       `json:"acknowledged_by" format:"uuid"`
}

func (s *Service) handleAcknowledge(ctx context.Context, in RulePath) (acknowledgeOutput, error) {
	r, states, err := s.Acknowledge(ctx, access.From(ctx), in.ID)
	if err != nil {
		return acknowledgeOutput{}, err
	}
	rule, err := s.newRuleOutput(ctx, r)
	out := acknowledgeOutput{rule, make([]acknowledgedOutput, len(states))}
	for i, state := range states {
		out.Acknowledged[i] = acknowledgedOutput{
			state.SkillID, httpapi.Time(state.Since), httpapi.Time(*state.AcknowledgedAt), *state.AcknowledgedBy,
		}
	}
	return out, err
}

type snoozeInput struct {
	RulePath
	Body struct {
		Until *time.Time `json:"until" doc:"At most a year ahead; null ends it"`
	}
}

func (s *Service) handleSnooze(ctx context.Context, in snoozeInput) (api.AlertRule, error) {
	r, err := s.Snooze(ctx, access.From(ctx), in.ID, in.Body.Until)
	if err != nil {
		return api.AlertRule{}, err
	}
	return s.newRuleOutput(ctx, r)
}

func newDeliveryOutput(d Delivery) api.Notification {
	return api.Notification{
		ID: d.ID, AlertID: d.SourceID, EventID: d.EventID, Channel: string(d.Channel), RecipientID: d.RecipientID,
		Status: string(d.Status), Attempts: d.Attempts, ResponseStatus: d.ResponseStatus, Detail: d.Detail,
		CreatedAt:   httpapi.Time(d.CreatedAt),
		AttemptedAt: httpapi.NullTime(d.AttemptedAt), NextAttemptAt: httpapi.NullTime(d.NextAttemptAt),
	}
}

type deliveriesInput struct {
	RulePath
	httpapi.Page
}

type deliveriesOutput struct {
	Deliveries []api.Notification `json:"deliveries" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleDeliveries(ctx context.Context, in deliveriesInput) (deliveriesOutput, error) {
	all, total, err := s.Deliveries(ctx, access.From(ctx).OrgID, in.ID, in.PerPage, in.Offset())
	out := deliveriesOutput{Deliveries: make([]api.Notification, len(all)), Pagination: in.Of(total)}
	for i, d := range all {
		out.Deliveries[i] = newDeliveryOutput(d)
	}
	return out, err
}

type eventsInput struct {
	httpapi.Page
	AlertID string `query:"alert_id" doc:"Only of this alert"`
	SkillID string `query:"skill_id" doc:"Only about this skill"`
}

type eventsOutput struct {
	Events     []api.AlertEvent   `json:"events" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleEvents(ctx context.Context, in eventsInput) (eventsOutput, error) {
	all, total, err := s.Events(ctx, access.From(ctx).OrgID, EventFilter{
		RuleID: in.AlertID, SkillID: in.SkillID, Page: in.Rows(),
	})
	if err != nil {
		return eventsOutput{}, err
	}
	// The present beside the record, so that a list can tell what still fires.
	states, err := s.statesOfEvents(ctx, all)
	out := eventsOutput{Events: make([]api.AlertEvent, len(all)), Pagination: in.Of(total)}
	for i, e := range all {
		out.Events[i] = api.AlertEvent{
			ID: e.ID, AlertID: e.RuleID, SkillID: e.SkillID, SkillName: e.SkillName, Type: string(e.Type),
			Transition: string(e.Transition),
			Threshold:  e.Threshold, PassRate: e.PassRate, PassRateInterval: e.Interval, GradedSessions: e.GradedSessions,
			DaysWithoutSessions: e.DaysSilent, WindowFrom: httpapi.Time(e.WindowFrom), WindowTo: httpapi.Time(e.WindowTo),
			LastSessionAt: httpapi.NullTime(e.LastSessionAt), Sequence: e.Sequence, FiringSince: httpapi.Time(e.FiringSince),
			Version: e.Version, Note: e.Note, OccurredAt: httpapi.Time(e.OccurredAt),
			LastGradedAt: httpapi.NullTime(e.LastGradedAt), Measured: e.Measured, Reference: e.Reference,
			ReferenceVersion: e.ReferenceVersion, Evidence: e.Evidence, EvidenceLimit: e.EvidenceLimit,
			States: newStateOutputs(states[i].States, states[i].SnoozedUntil),
		}
	}
	return out, err
}
