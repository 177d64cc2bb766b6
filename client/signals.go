package client

import (
	"context"
	"net/http"
	"time"
)

// A Signal is one observation of a contributor's tool about a skill.
type Signal struct {
	SkillName  string  `json:"skill_name"`
	SignalType string  `json:"signal_type"`
	Confidence float64 `json:"confidence"`
	// SourceKey identifies the signal: the server deduplicates by it within the
	// organisation.
	SourceKey string `json:"source_key"`
	// UserCohort is the contributor, if the key is that of a relay; otherwise the
	// contributor is the caller.
	UserCohort string `json:"user_cohort,omitempty"`
}

// A SignalsResult is the result of a batch.
type SignalsResult struct {
	Accepted   int `json:"accepted"`
	Duplicates int `json:"duplicates"`
	// Warnings say what was not used, and what to do about it.
	Warnings []string `json:"warnings,omitempty"`
	Status   string   `json:"status"`
}

// SendSignals sends a batch of 1 to 1000 signals. It is idempotent: the server
// deduplicates by the source keys.
func (c *Client) SendSignals(ctx context.Context, signals []Signal) (out SignalsResult, err error) {
	body := encode(map[string]any{"signals": signals})
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/signals", body: body, idempotent: true}, &out)
	return out, err
}

// A SkillSignals summarises the contributors' signals about a skill. Figures of
// too few contributors are suppressed (k-anonymity): they are nil.
type SkillSignals struct {
	SkillName    string    `json:"skill_name"`
	Signals      *int64    `json:"signal_count"`
	Contributors *int      `json:"contributor_count"`
	TriggerRate  *float64  `json:"trigger_rate"`
	MissRate     *float64  `json:"miss_rate"`
	Actionable   bool      `json:"actionable"`
	LastSignalAt time.Time `json:"last_signal_at"` // the day
	Suppressed   bool      `json:"suppressed"`
	Reason       string    `json:"suppressed_reason"`
}

// A SignalsOverview summarises the contributors' signals about all skills.
type SignalsOverview struct {
	AsOf             *time.Time     `json:"as_of"` // the snapshot that the figures are of, nil before the first
	GeneratedAt      time.Time      `json:"generated_at"`
	CreatorID        string         `json:"creator_id"` // the user behind the key
	Source           string         `json:"source"`
	Signals          *int64         `json:"total_signals"`
	Contributors     *int           `json:"total_contributors"`
	ActiveSkills     int            `json:"active_skills"`
	PendingProposals int            `json:"pending_proposals"`
	Skills           []SkillSignals `json:"skills"`
	Suppressed       bool           `json:"suppressed"`
	Reason           string         `json:"suppressed_reason"`
}

// SignalsOverview returns the summary of the contributors' signals about the
// organisation's skills.
func (c *Client) SignalsOverview(ctx context.Context) (out SignalsOverview, err error) {
	err = c.get(ctx, "/api/v1/creator-signals/overview", nil, &out)
	return out, err
}
