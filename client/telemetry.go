package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A PushResult is what became of a push.
type PushResult struct {
	PushID       string      `json:"push_id"`
	Duplicate    bool        `json:"duplicate"` // it was there already, and nothing was done
	Accepted     int         `json:"accepted"`
	Unattributed int         `json:"unattributed"` // accepted, of a skill whose name is hidden
	Rejected     []Rejection `json:"rejected"`
}

// A Rejection is a record of a push that was not taken.
type Rejection struct {
	Kind    string `json:"kind"`
	Index   int    `json:"index"` // among the records of its kind
	Message string `json:"message"`
}

// Push reports sessions: body is a push of the canonical schema 2.0, with a
// push_id of its own. It may be made again: the server knows the id.
func (c *Client) Push(ctx context.Context, body []byte) (out PushResult, err error) {
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/push", body: jsonBody(body), repeatable: true}, &out)
	return out, err
}

// A ListedSkill is how a skill does. The shares are nil while nothing is known.
type ListedSkill struct {
	ID                 string     `json:"skill_id"`
	Name               string     `json:"name"`
	Status             string     `json:"status"` // healthy, warning, critical or unknown
	UniqueSessions     int64      `json:"unique_sessions"`
	HasEvidence        bool       `json:"has_evidence"`
	TriggerRate        *float64   `json:"trigger_rate"`
	AvgConfidence      *float64   `json:"avg_confidence"`
	ConfidenceCoverage *float64   `json:"confidence_coverage"`
	PassRate           *float64   `json:"pass_rate"`
	LastSeenAt         *time.Time `json:"last_seen_at"`
	// PassRateInterval is that of 95 %. A server may leave it out of a list.
	PassRateInterval *[2]float64 `json:"pass_rate_interval,omitempty"`
}

// A Skill is all that is known of how a skill does.
type Skill struct {
	ListedSkill
	FirstSeenAt    *time.Time `json:"first_seen_at"`
	GradedSessions int64      `json:"graded_sessions"`
}

// A SkillDay is what a skill did on one day, UTC.
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

// A SkillFilter chooses and orders skills; its zero value is all, by name.
type SkillFilter struct {
	Query  string // text in the name
	Status string
	Sort   string // a field, with a leading - for the other way round
}

const skillPageSize = 100

// Skills lists the skills of the caller's organisation.
func (c *Client) Skills(ctx context.Context, f SkillFilter) ([]ListedSkill, error) {
	query := url.Values{"per_page": {strconv.Itoa(skillPageSize)}}
	for name, value := range map[string]string{"q": f.Query, "status": f.Status, "sort": f.Sort} {
		if value != "" {
			query.Set(name, value)
		}
	}
	all := []ListedSkill{}
	for page := 1; ; page++ {
		query.Set("page", strconv.Itoa(page))
		var out struct {
			Skills     []ListedSkill `json:"skills"`
			Pagination struct {
				Total int `json:"total"`
			} `json:"pagination"`
		}
		if _, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/skills", query: query, repeatable: true}, &out); err != nil {
			return nil, err
		}
		all = append(all, out.Skills...)
		if len(out.Skills) == 0 || len(all) >= out.Pagination.Total {
			return all, nil
		}
	}
}

// Skill returns a skill by its id or name, with its last days: 30 when days
// is 0. None is an *Error with the status 404.
func (c *Client) Skill(ctx context.Context, idOrName string, days int) (out SkillDetail, err error) {
	query := url.Values{}
	if days > 0 {
		query.Set("days", strconv.Itoa(days))
	}
	path := "/v1/skills/" + url.PathEscape(idOrName)
	_, err = c.do(ctx, call{method: http.MethodGet, path: path, query: query, repeatable: true}, &out)
	return out, err
}
