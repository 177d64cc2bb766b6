package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A Session is a session of an agent.
type Session struct {
	SessionID  string         `json:"session_id"` // as the agent calls it
	Agent      string         `json:"agent"`      // e.g. "claude-code"; "" if unknown
	StartedAt  time.Time      `json:"started_at"`
	EndedAt    *time.Time     `json:"ended_at"` // nil while it may go on
	Turns      *int64         `json:"turns"`    // nil if no report says anything about them, as the next two
	ToolCalls  *int64         `json:"tool_calls"`
	ToolErrors *int64         `json:"tool_errors"`
	Skills     []SessionSkill `json:"skills"`
	Grade      *SessionGrade  `json:"grade"`    // nil without one
	CostUSD    *float64       `json:"cost_usd"` // nil if unknown
	HasContent bool           `json:"has_content"`
}

// A SessionSkill is a skill that a session was offered or activated.
type SessionSkill struct {
	Name      string  `json:"name"`
	Activated bool    `json:"activated"`
	Offered   bool    `json:"offered"`
	Version   *string `json:"version"`
}

// A SessionGrade is what the grades of a session come to.
type SessionGrade struct {
	PassRate float64 `json:"pass_rate"`
	Basis    string  `json:"basis"` // person, pushed, judge, outcome or mixed
}

// SessionDetail is a session with all its events, oldest first.
type SessionDetail struct {
	Session
	Events    []SessionEvent `json:"events"`
	Truncated bool           `json:"truncated"` // there were more events than are kept
	Grades    []Grade        `json:"grades"`
}

// A SessionEvent is something that happened in a session.
type SessionEvent struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"` // prompt, activation, tool, response, grade or error
	Name       string    `json:"name"` // of the tool, skill or model
	DurationMS *int64    `json:"duration_ms"`
	OK         *bool     `json:"ok"`
	Tokens     *int64    `json:"tokens"`
	CostUSD    *float64  `json:"cost_usd"`
	Text       *string   `json:"text"` // nil unless content is kept, and the caller may read it
}

// A Grade is a verdict on a session and a skill.
type Grade struct {
	ID        string     `json:"id"`
	SessionID string     `json:"session_id"`
	Skill     string     `json:"skill"`
	PassRate  float64    `json:"pass_rate"`
	Basis     string     `json:"basis"`
	Judge     *string    `json:"judge"`
	Evidence  []Evidence `json:"evidence"`
	Reason    *string    `json:"reason"`
	GradedBy  *string    `json:"graded_by"`
	GradedAt  time.Time  `json:"graded_at"`
}

// Evidence is one expectation that a session was held against.
type Evidence struct {
	Expectation string  `json:"expectation"`
	Passed      bool    `json:"passed"`
	Quotation   *string `json:"quotation"`
}

// A SessionFilter selects sessions; its zero value is all.
type SessionFilter struct {
	Skill   string // id or name
	Version string
	Outcome string // pass, fail or tool_errors
	Graded  string // true or false
	Agent   string
	User    string // me, or an id, which needs the permission admin
	Since   string // a time or a day
	Until   string
}

// Sessions lists the newest sessions of the caller's organisation, at most limit.
func (c *Client) Sessions(ctx context.Context, f SessionFilter, limit int) ([]Session, error) {
	query := newQuery(map[string]string{
		"skill": f.Skill, "version": f.Version, "outcome": f.Outcome, "graded": f.Graded, "agent": f.Agent, "user": f.User,
		"since": f.Since, "until": f.Until,
	})
	all := []Session{}
	for {
		var page struct {
			Sessions []Session `json:"sessions"`
			Next     *string   `json:"next_cursor"`
		}
		query.Set("limit", strconv.Itoa(min(limit-len(all), 200)))
		if err := c.get(ctx, "/v1/sessions", query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Sessions...)
		if page.Next == nil || len(all) >= limit {
			return all, nil
		}
		query.Set("cursor", *page.Next)
	}
}

// Session returns a session with all its events. An unknown one is an *Error with
// the status 404.
func (c *Client) Session(ctx context.Context, id string) (out SessionDetail, err error) {
	query := url.Values{}
	for {
		var page struct {
			Session SessionDetail `json:"session"`
			Next    *string       `json:"next_cursor"`
		}
		if err := c.get(ctx, sessionPath(id), query, &page); err != nil {
			return out, err
		}
		page.Session.Events = append(out.Events, page.Session.Events...)
		out = page.Session
		if page.Next == nil {
			return out, nil
		}
		query.Set("cursor", *page.Next)
	}
}

func sessionPath(id string) string { return "/v1/sessions/" + url.PathEscape(id) }

// A Verdict is what a person thinks of a session.
type Verdict struct {
	Skill   string `json:"skill"`   // id or name
	Verdict string `json:"verdict"` // pass or fail
	Reason  string `json:"reason,omitempty"`
}

// GradeSession grades a session. The same person's next verdict on the skill replaces
// it, so that it may be repeated.
func (c *Client) GradeSession(ctx context.Context, id string, v Verdict) (Grade, error) {
	var out struct {
		Grade Grade `json:"grade"`
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: sessionPath(id) + "/grades", body: encode(v), idempotent: true}, &out)
	return out.Grade, err
}

// A NewCase is a test case to make of a session; the server fills in empty fields.
type NewCase struct {
	Skill       string `json:"skill,omitempty"`       // id or name; the one that the session failed, or else used
	SourceID    string `json:"source_id,omitempty"`   // the newest of the skill
	SuiteID     string `json:"suite_id,omitempty"`    // without one the case is a draft
	Query       string `json:"query,omitempty"`       // the first prompt, if it is kept
	Expectation string `json:"expectation,omitempty"` // should_trigger or should_not_trigger
}

// A SessionCase is a test case that was made of a session.
type SessionCase struct {
	SuggestionID string  `json:"suggestion_id"`
	SessionID    string  `json:"session_id"`
	Skill        string  `json:"skill"`
	SourceID     string  `json:"source_id"`
	SuiteID      *string `json:"suite_id"` // nil for a draft
	Query        string  `json:"query"`
	Expectation  string  `json:"expectation"`
}

// CreateCase makes a test case of a session. The same case is made once, so that it
// may be repeated.
func (c *Client) CreateCase(ctx context.Context, sessionID string, in NewCase) (SessionCase, error) {
	var out struct {
		Case SessionCase `json:"case"`
	}
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: sessionPath(sessionID) + "/cases", body: encode(in), idempotent: true,
	}, &out)
	return out.Case, err
}

// A Grader is how the sessions of skills are graded.
type Grader struct {
	Enabled      bool     `json:"enabled"`
	Expectations []string `json:"expectations"`
	SamplePerDay *int     `json:"sample_per_day"`       // nil: all
	MaxCostUSD   *float64 `json:"max_cost_usd_per_day"` // nil: no limit
	Threshold    float64  `json:"threshold"`
	Inherited    bool     `json:"inherited,omitempty"` // the skill has none of its own: this is the organisation's
	Unusable     int      `json:"unusable,omitempty"`  // sessions in no pass rate, since the judge gave no usable verdict
}

// Grader returns the grader of the organisation.
func (c *Client) Grader(ctx context.Context) (Grader, error) {
	var out struct {
		Grader Grader `json:"grader"`
	}
	err := c.get(ctx, "/api/v1/settings/grader", nil, &out)
	return out.Grader, err
}

// WaitingSessions returns how many sessions of the organisation wait for its graders.
func (c *Client) WaitingSessions(ctx context.Context) (int, error) {
	var out struct {
		Waiting int `json:"waiting"`
	}
	err := c.get(ctx, "/api/v1/settings/grader", nil, &out)
	return out.Waiting, err
}

// SetGrader replaces the grader of the organisation. Enabled, it grades the sessions
// of the last days as well. It needs the permission admin.
func (c *Client) SetGrader(ctx context.Context, g Grader) error {
	_, err := c.do(ctx, call{method: http.MethodPut, path: "/api/v1/settings/grader", body: encode(g), idempotent: true}, nil)
	return err
}

// A FailureGroup is sessions of a skill that failed for the same reason.
type FailureGroup struct {
	Key        string    `json:"key"`
	Label      string    `json:"label"`
	LabelledBy *string   `json:"labelled_by"` // judge; nil: the label is the reason
	Reason     string    `json:"reason"`      // of one of them
	Count      int64     `json:"count"`
	Sessions   []string  `json:"sessions"` // the newest
	LastAt     time.Time `json:"last_at"`
}

// Failures returns why sessions of a skill failed in the last days, the most frequent
// reason first.
func (c *Client) Failures(ctx context.Context, idOrName string, days int) ([]FailureGroup, error) {
	var out struct {
		Groups []FailureGroup `json:"groups"`
	}
	err := c.get(ctx, skillPath(idOrName)+"/failures", newQuery(map[string]string{"days": strconv.Itoa(days)}), &out)
	return out.Groups, err
}

// A Calibration is how often the judge agrees with people on the sessions of a skill.
type Calibration struct {
	Pairs     int         `json:"pairs"`     // sessions that both have graded
	Agreement *float64    `json:"agreement"` // share of them with the same verdict; nil without any
	Interval  *[2]float64 `json:"interval"`
	// AgreementOnFails is the share of the pairs that people failed and the judge, too.
	AgreementOnFails *float64    `json:"agreement_on_fails"`
	Kappa            *float64    `json:"kappa"` // agreement beyond chance
	KappaInterval    *[2]float64 `json:"kappa_interval"`
}

// Calibration returns how often the judge agrees with people.
func (c *Client) Calibration(ctx context.Context, idOrName string) (out Calibration, err error) {
	err = c.get(ctx, skillPath(idOrName)+"/calibration", nil, &out)
	return out, err
}
