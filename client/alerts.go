package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// An Alert is a rule that watches skills.
type Alert struct {
	ID             string            `json:"id"`
	SkillID        *string           `json:"skill_id"` // nil: all skills
	Type           string            `json:"type"`
	Threshold      float64           `json:"threshold"`
	Sensitivity    string            `json:"sensitivity"` // point, confident or sequential
	Action         *string           `json:"action"`      // rollback, or nil
	Channel        string            `json:"channel"`
	Config         map[string]string `json:"config"` // with secrets masked
	Enabled        bool              `json:"enabled"`
	DisabledReason *string           `json:"disabled_reason"`
	SnoozedUntil   *time.Time        `json:"snoozed_until,omitempty"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`
	Warnings       []string          `json:"warnings,omitempty"`
	SigningSecret  *string           `json:"signing_secret,omitempty"` // of a new webhook; not shown again
	States         []AlertState      `json:"states"`                   // by skill
}

// An AlertState is how an alert is for a skill.
type AlertState struct {
	SkillID        string         `json:"skill_id"`
	State          string         `json:"state"` // ok or firing
	Since          time.Time      `json:"since"`
	AcknowledgedBy *string        `json:"acknowledged_by"`
	AcknowledgedAt *time.Time     `json:"acknowledged_at"`
	SnoozedUntil   *time.Time     `json:"snoozed_until"`
	Rollback       *AlertRollback `json:"rollback"` // nil as long as nothing had to be done
}

// An AlertRollback is a version that an alert took back and when, or why it took none
// back: too_few_sessions (so many that Needs says), no_good_version or
// already_rolled_back.
type AlertRollback struct {
	Version   string     `json:"version,omitempty"`
	At        *time.Time `json:"at,omitempty"`
	BlockedBy string     `json:"blocked_by,omitempty"`
	Needs     *int64     `json:"needs,omitempty"` // graded sessions still missing
}

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

// A Notification is one on its way.
type Notification struct {
	ID             string     `json:"id"`
	AlertID        string     `json:"alert_id"`
	EventID        *string    `json:"event_id"` // nil for a test
	Channel        string     `json:"channel"`
	Status         string     `json:"status"` // pending, retrying, delivered or failed
	Attempts       int        `json:"attempts"`
	ResponseStatus *int       `json:"response_status"`
	Detail         *string    `json:"detail"`
	RecipientID    *string    `json:"recipient_id"` // the member whom a mail to owners is for
	CreatedAt      time.Time  `json:"created_at"`
	AttemptedAt    *time.Time `json:"attempted_at"`
	NextAttemptAt  *time.Time `json:"next_attempt_at"`
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

// An AlertEvent is something that an alert noticed.
type AlertEvent struct {
	ID             string   `json:"id"`
	AlertID        string   `json:"alert_id"`
	SkillID        string   `json:"skill_id"`
	SkillName      string   `json:"skill_name"`
	Type           string   `json:"type"`
	Transition     string   `json:"transition"` // firing, resolved or reminder
	Threshold      float64  `json:"threshold"`
	PassRate       *float64 `json:"pass_rate"`
	GradedSessions int64    `json:"graded_sessions"`
	Measured       *float64 `json:"measured"`
	Reference      *float64 `json:"reference"`
	Version        *string  `json:"version"`
	// ReferenceVersion is the one that Version is compared with.
	ReferenceVersion *string     `json:"reference_version"`
	PassRateInterval *[2]float64 `json:"pass_rate_interval"` // Wilson, 95 %
	// Evidence is that of a sequential alert, which fires at EvidenceLimit.
	Evidence            *float64     `json:"evidence"`
	EvidenceLimit       *float64     `json:"evidence_limit"`
	DaysWithoutSessions *float64     `json:"days_without_sessions"`
	WindowFrom          time.Time    `json:"window_from"`
	WindowTo            time.Time    `json:"window_to"`
	LastGradedAt        *time.Time   `json:"last_graded_at"`
	LastSessionAt       *time.Time   `json:"last_session_at"`
	FiringSince         time.Time    `json:"firing_since"`
	Sequence            int64        `json:"sequence"` // of the events of its skill and alert
	Note                *string      `json:"note"`
	OccurredAt          time.Time    `json:"occurred_at"`
	States              []AlertState `json:"states"` // of its skill, as it is now
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

// An Incident is a rollback by an alert, followed until no installation has the bad
// version.
type Incident struct {
	ID                string          `json:"id"` // of the alert event, too
	State             string          `json:"state"`
	Outcome           *string         `json:"outcome"` // resolved or undone; nil while it is open
	AlertID           string          `json:"alert_id"`
	SkillID           string          `json:"skill_id"`
	Skill             string          `json:"skill"`
	EntryID           string          `json:"entry_id"`
	Version           string          `json:"version"` // that was rolled back
	GoodVersion       string          `json:"good_version"`
	Evidence          string          `json:"evidence"`
	Commit            *IncidentCommit `json:"commit"` // nil: the version came from none
	Issue             *IncidentIssue  `json:"issue"`
	InstallationsLeft int64           `json:"installations_left"`
	OpenedAt          time.Time       `json:"opened_at"`
	ClosedAt          *time.Time      `json:"closed_at"`
	Devices           []string        `json:"devices,omitempty"`  // of Incident only
	Timeline          []Moment        `json:"timeline,omitempty"` // of Incident only
}

// An IncidentCommit is the commit that a bad version came from.
type IncidentCommit struct {
	ConnectionID string `json:"connection_id"`
	SHA          string `json:"sha"`
	Status       string `json:"status"`
	Detail       string `json:"detail"`
}

// An IncidentIssue is the issue on the code host.
type IncidentIssue struct {
	Status string  `json:"status"`
	Number *int64  `json:"number"`
	URL    *string `json:"url"`
	Detail string  `json:"detail"`
}

// A Moment is one line of a timeline.
type Moment struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	Text string    `json:"text"`
}

// Incidents lists the incidents, newest first; the state, if not empty, chooses the
// open or the closed ones.
func (c *Client) Incidents(ctx context.Context, state string) ([]Incident, error) {
	query := newQuery(map[string]string{"state": state})
	return List[Incident](ctx, c, "/api/v1/incidents", "incidents", query)
}

// Incident returns an incident with its timeline.
func (c *Client) Incident(ctx context.Context, id string) (Incident, error) {
	var out struct {
		Incident Incident `json:"incident"`
	}
	err := c.get(ctx, "/api/v1/incidents/"+url.PathEscape(id), nil, &out)
	return out.Incident, err
}
