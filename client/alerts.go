package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
)

type (
	// An Alert is a rule that watches skills, with its signing secret if that is new: when it
	// is created, and after a change that makes a new one, e.g. to another channel.
	Alert = api.Alert
	// An AlertEvent is a transition of an alert. It has the figures of its time: an event is a
	// record, and is not computed again. Which fields are set depends on the type.
	AlertEvent = api.AlertEvent
	// An AlertRollback has either what an alert took back and when, or why it took nothing back.
	AlertRollback = api.AlertRollback
	// An AlertRule is an alert. Config never has a secret in clear: an address of a chat is one,
	// too.
	AlertRule = api.AlertRule
	// An AlertState is how an alert is for a skill. SnoozedUntil is that of the alert, repeated
	// so that a state can be shown by itself.
	AlertState = api.AlertState
	// An Incident is a rollback by an alert, followed until no installation has the bad version.
	// Evidence is text of its time; figures may have changed since.
	Incident = api.Incident
	// An IncidentCommit is the commit that a bad version came from. Detail says why marking it
	// failed, or why nothing is written.
	IncidentCommit = api.IncidentCommit
	// IncidentDetail is an incident with its timeline. Devices are counted anew for each request,
	// unlike InstallationsLeft in a list.
	IncidentDetail = api.IncidentDetail
	// An IncidentIssue is the issue on the code host.
	IncidentIssue = api.IncidentIssue
	// A Moment is an entry of the timeline. What is for programs, Text for people.
	Moment = api.Moment
	// A Notification is one on its way. Detail is what the channel answered, in words; attempts
	// go on as long as NextAttemptAt is set.
	Notification = api.Notification
)

// A NewAlert is the input of CreateAlert.
type NewAlert struct {
	SkillID     string            `json:"skill_id,omitempty"` // empty: all skills
	Type        string            `json:"type"`
	Threshold   *float64          `json:"threshold,omitempty"`   // nil: the default of the type
	Sensitivity string            `json:"sensitivity,omitempty"` // empty: sequential with a rollback or of worse_than_previous, else point
	Action      string            `json:"action,omitempty"`
	Channel     string            `json:"channel"`
	Config      map[string]string `json:"config"`
}

// Alerts lists the alerts, newest first.
func (c *Client) Alerts(ctx context.Context) ([]Alert, error) {
	return List[Alert](ctx, c, "/api/v1/alerts", "alerts", nil)
}

// Alert returns an alert.
func (c *Client) Alert(ctx context.Context, id string) (out Alert, err error) {
	err = c.get(ctx, alertPath(id), nil, &out)
	return out, err
}

// CreateAlert creates an alert. The call is not idempotent.
func (c *Client) CreateAlert(ctx context.Context, n NewAlert) (out Alert, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/alerts", body: encode(n)}, &out)
	return out, err
}

// EnableAlert turns an alert on or off.
func (c *Client) EnableAlert(ctx context.Context, id string, on bool) (out Alert, err error) {
	body := encode(map[string]bool{"enabled": on})
	_, err = c.do(ctx, call{method: http.MethodPatch, path: alertPath(id), body: body, idempotent: true}, &out)
	return out, err
}

// DeleteAlert deletes an alert with its history.
func (c *Client) DeleteAlert(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: alertPath(id), idempotent: true}, nil)
	return err
}

// TestAlert sends a test notification now.
func (c *Client) TestAlert(ctx context.Context, id string) (Notification, error) {
	var out struct {
		Delivery Notification `json:"delivery"`
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: alertPath(id) + "/test"}, &out)
	return out.Delivery, err
}

// AcknowledgeAlert stops the reminders of a firing alert until it is resolved.
func (c *Client) AcknowledgeAlert(ctx context.Context, id string) (out Alert, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: alertPath(id) + "/ack", idempotent: true}, &out)
	return out, err
}

// SnoozeAlert sends nothing about an alert until a time; nil ends it.
func (c *Client) SnoozeAlert(ctx context.Context, id string, until *time.Time) (out Alert, err error) {
	body := encode(map[string]*time.Time{"until": until})
	_, err = c.do(ctx, call{method: http.MethodPost, path: alertPath(id) + "/snooze", body: body, idempotent: true}, &out)
	return out, err
}

// AlertEvents lists the last events of an alert, newest first.
func (c *Client) AlertEvents(ctx context.Context, alertID string) ([]AlertEvent, error) {
	var out struct {
		Events []AlertEvent `json:"events"`
	}
	err := c.get(ctx, "/api/v1/alert-events", newQuery(map[string]string{"alert_id": alertID}), &out)
	return out.Events, err
}

func alertPath(id string) string { return "/api/v1/alerts/" + url.PathEscape(id) }

// Incidents lists the incidents, newest first; the state, if not empty, chooses the
// open or the closed ones.
func (c *Client) Incidents(ctx context.Context, state string) ([]Incident, error) {
	query := newQuery(map[string]string{"state": state})
	return List[Incident](ctx, c, "/api/v1/incidents", "incidents", query)
}

// Incident returns an incident with its timeline.
func (c *Client) Incident(ctx context.Context, id string) (IncidentDetail, error) {
	var out struct {
		Incident IncidentDetail `json:"incident"`
	}
	err := c.get(ctx, "/api/v1/incidents/"+url.PathEscape(id), nil, &out)
	return out.Incident, err
}
