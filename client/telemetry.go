package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A PushResult is the result of a push.
type PushResult struct {
	PushID       string      `json:"push_id"`
	Duplicate    bool        `json:"duplicate"` // the push_id is known, so the push was ignored
	Accepted     int         `json:"accepted"`
	Unattributed int         `json:"unattributed"` // accepted, of a skill whose name is redacted
	Rejected     []Rejection `json:"rejected"`
	Status       string      `json:"status"` // accepted
	// Content is what became of the transcripts, nil without any.
	Content *PushedContent `json:"content,omitempty"`
}

// PushedContent is how much of what was said the server keeps.
type PushedContent struct {
	Kept    int    `json:"kept"`
	Dropped int    `json:"dropped"`
	Message string `json:"message"` // why some was dropped
}

// A Rejection is a rejected record of a push.
type Rejection struct {
	Kind    string `json:"kind"`
	Index   int    `json:"index"` // among the records of its kind
	Message string `json:"message"`
}

// Push reports sessions: body is a push of the canonical schema 2.0, with a
// unique push_id. It is idempotent: the server deduplicates by the push_id.
func (c *Client) Push(ctx context.Context, body []byte) (out PushResult, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/push", body: jsonBody(body), idempotent: true}, &out)
	return out, err
}

// A ListedSkill is the health of a skill. Rates are nil while nothing is known.
type ListedSkill struct {
	ID                 string     `json:"skill_id"`
	Name               string     `json:"name"`
	Status             string     `json:"status"` // healthy, warning, critical or unknown
	UniqueSessions     int64      `json:"unique_sessions"`
	HasEvidence        bool       `json:"has_evidence"`
	TriggerRate        *float64   `json:"trigger_rate"`
	TriggerRateBasis   *string    `json:"trigger_rate_basis"` // offered or considered
	OfferedSessions    int64      `json:"offered_sessions"`
	AvgConfidence      *float64   `json:"avg_confidence"`
	ConfidenceCoverage *float64   `json:"confidence_coverage"`
	PassRate           *float64   `json:"pass_rate"`
	PassRateBasis      *string    `json:"pass_rate_basis"` // person, pushed, judge, outcome or mixed
	LastSeenAt         *time.Time `json:"last_seen_at"`
	Cost               *Cost      `json:"cost"`        // nil without a model request
	Confirmed          bool       `json:"confirmed"`   // a real use of the name was reported
	Hidden             bool       `json:"hidden"`      // by a person
	MergedInto         *string    `json:"merged_into"` // the id of the skill that has what is reported of this one
	// PassRateInterval is the 95 % confidence interval. A server may omit it from
	// lists.
	PassRateInterval *[2]float64 `json:"pass_rate_interval,omitempty"`
	// PassRatesByBasis tells the grades apart.
	PassRatesByBasis map[string]float64 `json:"pass_rates_by_basis"`
	CostPerUse       *float64           `json:"cost_per_use"` // the median, in dollars
}

// A Skill is the health of a skill in detail.
type Skill struct {
	ListedSkill
	FirstSeenAt       *time.Time `json:"first_seen_at"`
	SeenSessions      int64      `json:"seen_sessions"`      // the denominator of TriggerRate
	TriggeredSessions int64      `json:"triggered_sessions"` // its numerator
	GradedSessions    int64      `json:"graded_sessions"`
	// GradedByBasis tells the grades apart, by basis.
	GradedByBasis map[string]int64 `json:"graded_sessions_by_basis"`
}

// A SkillDay has the figures of one day, in UTC.
type SkillDay struct {
	Date           string   `json:"date"`
	Sessions       int64    `json:"sessions"`
	Checks         int64    `json:"checks"`
	Triggers       int64    `json:"triggers"`
	TriggerRate    *float64 `json:"trigger_rate"`
	AvgConfidence  *float64 `json:"avg_confidence"`
	GradedSessions int64    `json:"graded_sessions"`
	PassRate       *float64 `json:"pass_rate"`
}

// SkillDetail is a skill with its last days, oldest first.
type SkillDetail struct {
	Skill Skill      `json:"skill"`
	Days  []SkillDay `json:"daily_stats"`
}

// A SkillFilter selects and orders skills; its zero value is all that are confirmed,
// not hidden and not merged, by name.
type SkillFilter struct {
	Query       string // text in the name
	Status      string
	Sort        string // a field; a leading - reverses the order, e.g. "-pass_rate"
	Unconfirmed bool   // names without a real use instead
	Hidden      bool   // hidden ones instead
	Merged      bool   // those merged into others instead
}

// Skills lists the skills of the caller's organisation.
func (c *Client) Skills(ctx context.Context, f SkillFilter) ([]ListedSkill, error) {
	query := newQuery(map[string]string{"q": f.Query, "status": f.Status, "sort": f.Sort})
	if f.Unconfirmed {
		query.Set("confirmed", "false")
	}
	if f.Hidden {
		query.Set("hidden", "true")
	}
	if f.Merged {
		query.Set("merged", "true")
	}
	return List[ListedSkill](ctx, c, "/v1/skills", "skills", query)
}

// Skill returns a skill by its id or name, with its last days: 30 when days is 0.
// An unknown one is an *Error with the status 404.
func (c *Client) Skill(ctx context.Context, idOrName string, days int) (out SkillDetail, err error) {
	query := url.Values{}
	if days > 0 {
		query.Set("days", strconv.Itoa(days))
	}
	err = c.get(ctx, skillPath(idOrName), query, &out)
	return out, err
}

func skillPath(idOrName string) string { return "/v1/skills/" + url.PathEscape(idOrName) }

// HideSkill leaves a skill, by its id or name, out of lists and alerts, or shows it
// again. It needs the permission admin.
func (c *Client) HideSkill(ctx context.Context, idOrName string, hidden bool) (SkillDetail, error) {
	return c.changeSkill(ctx, idOrName, map[string]any{"hidden": hidden})
}

// MergeSkill lets another skill, by its id or name, have all that is and was reported
// of this one. It needs the permission admin.
func (c *Client) MergeSkill(ctx context.Context, idOrName, into string) (SkillDetail, error) {
	return c.changeSkill(ctx, idOrName, map[string]any{"merged_into": into})
}

// UnmergeSkill takes a merge back. It needs the permission admin.
func (c *Client) UnmergeSkill(ctx context.Context, idOrName string) (SkillDetail, error) {
	return c.changeSkill(ctx, idOrName, map[string]any{"merged_into": nil})
}

func (c *Client) changeSkill(ctx context.Context, idOrName string, change map[string]any) (out SkillDetail, err error) {
	_, err = c.do(ctx, call{method: http.MethodPatch, path: skillPath(idOrName), body: encode(change), idempotent: true}, &out)
	return out, err
}
