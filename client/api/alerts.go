package api

// An AlertRule is an alert. Config never has a secret in clear: an address of a chat is one,
// too.
type AlertRule struct {
	ID             string            `json:"id" format:"uuid"`
	SkillID        *string           `json:"skill_id"`
	Type           string            `json:"type" enum:"pass_rate_below,no_data,worse_than_previous,cost_above,silent_fall"`
	Threshold      float64           `json:"threshold" example:"0.75"`
	Sensitivity    string            `json:"sensitivity" enum:"point,confident,sequential"`
	Action         *string           `json:"action"`
	Channel        string            `json:"channel" enum:"chat_a,chat_b,email,owners,webhook"`
	Config         map[string]string `json:"config" nullable:"false" doc:"With secrets masked"`
	Enabled        bool              `json:"enabled"`
	DisabledReason *string           `json:"disabled_reason"`
	SnoozedUntil   *Time             `json:"snoozed_until,omitempty" doc:"Nothing is sent before, but that it is resolved"`
	CreatedAt      Time              `json:"created_at"`
	UpdatedAt      Time              `json:"updated_at"`
	Warnings       []string          `json:"warnings,omitempty" doc:"Why notices will not arrive as things are"`
	States         []AlertState      `json:"states" nullable:"false" doc:"Of each skill that was evaluated and is or was worth a note, by skill id"`
}

// An Alert is a rule that watches skills, with its signing secret if that is new: when it
// is created, and after a change that makes a new one, e.g. to another channel.
type Alert struct {
	AlertRule
	SigningSecret *string `json:"signing_secret,omitempty" doc:"Of a webhook; not shown again"`
}

// An AlertState is how an alert is for a skill. SnoozedUntil is that of the alert, repeated
// so that a state can be shown by itself.
type AlertState struct {
	SkillID        string         `json:"skill_id" format:"uuid"`
	State          string         `json:"state" enum:"ok,firing"`
	Since          Time           `json:"since"`
	AcknowledgedBy *string        `json:"acknowledged_by" format:"uuid"`
	AcknowledgedAt *Time          `json:"acknowledged_at"`
	SnoozedUntil   *Time          `json:"snoozed_until"`
	Rollback       *AlertRollback `json:"rollback" doc:"Of an alert that rolls back: what it did, or why it did nothing; null as long as nothing had to be done"`
}

// An AlertRollback has either what an alert took back and when, or why it took nothing back.
type AlertRollback struct {
	Version   string `json:"version,omitempty" doc:"That was taken back"`
	At        *Time  `json:"at,omitempty"`
	BlockedBy string `json:"blocked_by,omitempty" enum:"too_few_sessions,no_good_version,already_rolled_back"`
	Needs     *int64 `json:"needs,omitempty" doc:"With blocked_by: the graded sessions still missing"`
}

// A Notification is one on its way. Detail is what the channel answered, in words; attempts
// go on as long as NextAttemptAt is set.
type Notification struct {
	ID             string  `json:"id" format:"uuid"`
	AlertID        string  `json:"alert_id" format:"uuid"`
	EventID        *string `json:"event_id" doc:"Null for a test"`
	Channel        string  `json:"channel"`
	RecipientID    *string `json:"recipient_id" format:"uuid" doc:"The member whom a mail to owners is for; null for other channels"`
	Status         string  `json:"status" enum:"pending,retrying,delivered,failed"`
	Attempts       int     `json:"attempts"`
	ResponseStatus *int    `json:"response_status"`
	Detail         *string `json:"detail"`
	CreatedAt      Time    `json:"created_at"`
	AttemptedAt    *Time   `json:"attempted_at"`
	NextAttemptAt  *Time   `json:"next_attempt_at"`
}

// An AlertEvent is a transition of an alert. It has the figures of its time: an event is a
// record, and is not computed again. Which fields are set depends on the type.
type AlertEvent struct {
	ID                  string       `json:"id" format:"uuid"`
	AlertID             string       `json:"alert_id" format:"uuid"`
	SkillID             string       `json:"skill_id" format:"uuid"`
	SkillName           string       `json:"skill_name"`
	Type                string       `json:"type" enum:"pass_rate_below,no_data,worse_than_previous,cost_above,silent_fall"`
	Transition          string       `json:"transition" enum:"firing,resolved,reminder"`
	Threshold           float64      `json:"threshold"`
	PassRate            *float64     `json:"pass_rate"`
	PassRateInterval    *[2]float64  `json:"pass_rate_interval" doc:"Wilson interval of 95 %"`
	GradedSessions      int64        `json:"graded_sessions"`
	DaysWithoutSessions *float64     `json:"days_without_sessions"`
	WindowFrom          Time         `json:"window_from"`
	WindowTo            Time         `json:"window_to"`
	LastSessionAt       *Time        `json:"last_session_at"`
	LastGradedAt        *Time        `json:"last_graded_at" doc:"Of alerts on grades"`
	Measured            *float64     `json:"measured" doc:"What is compared with the reference: a pass rate, a share, dollars"`
	Reference           *float64     `json:"reference" doc:"What it was before"`
	ReferenceVersion    *string      `json:"reference_version"`
	Evidence            *float64     `json:"evidence" doc:"Of a sequential alert"`
	EvidenceLimit       *float64     `json:"evidence_limit" doc:"At which it fires"`
	Sequence            int          `json:"sequence"`
	FiringSince         Time         `json:"firing_since"`
	Version             *string      `json:"version" doc:"Current in the registry at that time"`
	Note                *string      `json:"note"`
	OccurredAt          Time         `json:"occurred_at"`
	States              []AlertState `json:"states" nullable:"false" doc:"How the alert is now for the skill of the event; empty if the alert was deleted"`
}

// An Incident is a rollback by an alert, followed until no installation has the bad version.
// Evidence is text of its time; figures may have changed since.
type Incident struct {
	ID                string          `json:"id" format:"uuid" doc:"Also the id of the alert event that it began with"`
	State             string          `json:"state" enum:"open,closed"`
	Outcome           *string         `json:"outcome" enum:"resolved,undone" doc:"null while it is open; undone: the version was made current again"`
	AlertID           string          `json:"alert_id" format:"uuid"`
	SkillID           string          `json:"skill_id" format:"uuid"`
	Skill             string          `json:"skill" example:"pdf-tables"`
	EntryID           string          `json:"entry_id" format:"uuid"`
	Version           string          `json:"version" doc:"That was rolled back" example:"1.3.0"`
	GoodVersion       string          `json:"good_version" doc:"That became current" example:"1.2.0"`
	Evidence          string          `json:"evidence" doc:"Why, in words"`
	Commit            *IncidentCommit `json:"commit" doc:"null: the version came from no commit"`
	Issue             *IncidentIssue  `json:"issue" doc:"null: the connection opens none"`
	InstallationsLeft int64           `json:"installations_left" doc:"That still have the version"`
	OpenedAt          Time            `json:"opened_at"`
	ClosedAt          *Time           `json:"closed_at"`
}

// IncidentDetail is an incident with its timeline. Devices are counted anew for each request,
// unlike InstallationsLeft in a list.
type IncidentDetail struct {
	Incident
	Devices  []string `json:"devices" nullable:"false" doc:"With installations that still have the version; at most 100"`
	Timeline []Moment `json:"timeline" nullable:"false" doc:"Oldest first"`
}

// An IncidentCommit is the commit that a bad version came from. Detail says why marking it
// failed, or why nothing is written.
type IncidentCommit struct {
	ConnectionID string `json:"connection_id" format:"uuid"`
	SHA          string `json:"sha"`
	Status       string `json:"status" enum:"none,pending,done,failed" doc:"Of marking it as failed"`
	Detail       string `json:"detail"`
}

// An IncidentIssue is the issue on the code host.
type IncidentIssue struct {
	Status string  `json:"status" enum:"pending,done,closed,failed" doc:"done: it is open"`
	Number *int64  `json:"number"`
	URL    *string `json:"url"`
	Detail string  `json:"detail"`
}

// A Moment is an entry of the timeline. What is for programs, Text for people.
type Moment struct {
	At   Time   `json:"at"`
	What string `json:"what" enum:"rolled_back,commit_marked,issue_opened,channel_notified,closed,issue_closed"`
	Text string `json:"text"`
}
