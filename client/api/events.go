package api

// An EventWebhook is an address that events are sent to.
type EventWebhook struct {
	ID           string   `json:"id" format:"uuid"`
	URL          string   `json:"url" example:"https://ci.example.org/…" doc:"Without its path, which is a secret"`
	Events       []string `json:"events" nullable:"false"`
	Paused       bool     `json:"paused"`
	PausedReason *string  `json:"paused_reason" doc:"Why the service paused it; null if a person did"`
	CreatedBy    string   `json:"created_by" format:"uuid"`
	CreatedAt    Time     `json:"created_at"`
	UpdatedAt    Time     `json:"updated_at"`
	Warnings     []string `json:"warnings,omitempty" doc:"Why events will not arrive as things are"`
}

// A NewEventWebhook is an event webhook with its signing secret, which is not shown again.
type NewEventWebhook struct {
	EventWebhook
	SigningSecret string `json:"signing_secret" doc:"Not shown again"`
}

// An EventDelivery is an event on its way to a webhook.
type EventDelivery struct {
	ID             string  `json:"id" format:"uuid"`
	WebhookID      string  `json:"webhook_id" format:"uuid"`
	EventID        *string `json:"event_id" doc:"Null for a test"`
	EventType      string  `json:"event_type" example:"version.published"`
	ReplayOf       *string `json:"replay_of" doc:"The delivery that a person sent again"`
	Status         string  `json:"status" enum:"pending,retrying,delivered,failed"`
	Attempts       int     `json:"attempts"`
	ResponseStatus *int    `json:"response_status"`
	Detail         *string `json:"detail" doc:"With the beginning of the answer"`
	CreatedAt      Time    `json:"created_at"`
	AttemptedAt    *Time   `json:"attempted_at"`
	NextAttemptAt  *Time   `json:"next_attempt_at"`
}
