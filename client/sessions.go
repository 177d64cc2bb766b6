package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
)

type (
	// A Calibration is how often the judge agrees with people on the sessions of a skill. Two
	// fields are the same for clients of an earlier version.
	Calibration = api.Calibration
	// Evidence is one expectation of a grade, and whether it was met. Quotation is null without
	// permission, so that the rest of a grade can be shown.
	Evidence = api.Evidence
	// A FailureGroup is sessions of a skill that failed for the same reason.
	FailureGroup = api.FailureGroup
	// A Grade is a verdict on a session and a skill.
	Grade = api.Grade
	// A Grader is how the sessions of skills are graded.
	Grader = api.Grader
	// A Session is a session of an agent, in a list.
	Session = api.Session
	// SessionDetail is a session with a page of its events.
	SessionDetail = api.SessionDetail
	// A SessionEvent is an event of the timeline.
	SessionEvent = api.SessionEvent
	// A SessionGrade is the grade of a session in a list. The single grades are in the
	// detail only.
	SessionGrade = api.SessionGrade
	// A SessionSkill is a skill of a session. Version is null if none is known.
	SessionSkill = api.SessionSkill
)

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

// CreateCase makes a test case of a session. The same case is made once, so that it
// may be repeated, unless it asks for a new suite.
func (c *Client) CreateCase(ctx context.Context, sessionID string, in api.NewCase) (out api.CreatedCase, err error) {
	_, err = c.do(ctx, call{
		method: http.MethodPost, path: sessionPath(sessionID) + "/cases", body: encode(in), idempotent: in.NewSuite == nil,
	}, &out)
	return out, err
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

// Failures returns why sessions of a skill failed in the last days, the most frequent
// reason first.
func (c *Client) Failures(ctx context.Context, idOrName string, days int) ([]FailureGroup, error) {
	var out struct {
		Groups []FailureGroup `json:"groups"`
	}
	err := c.get(ctx, skillPath(idOrName)+"/failures", newQuery(map[string]string{"days": strconv.Itoa(days)}), &out)
	return out.Groups, err
}

// Calibration returns how often the judge agrees with people.
func (c *Client) Calibration(ctx context.Context, idOrName string) (out Calibration, err error) {
	err = c.get(ctx, skillPath(idOrName)+"/calibration", nil, &out)
	return out, err
}
