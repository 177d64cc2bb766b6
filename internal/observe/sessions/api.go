package sessions

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of sessions.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/sessions",
		Summary: "List the sessions of agents, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/sessions/{session_id}",
		Summary: "Get a session, or a trial by its session id, with its events and grades",
	})
}

// listInput has the filter and the page of a list. Activated and Graded are texts,
// since a query's boolean could not be left out.
type listInput struct {
	Skill     string  `query:"skill" maxLength:"200" doc:"Id or name of a skill: only sessions that were offered it, considered it or activated it"`
	Activated string  `query:"activated" enum:"true,false" doc:"Whether the skill was activated"`
	Version   string  `query:"version" maxLength:"200" doc:"Id of a version that was activated, or with skill its name, e.g. 1.2.0"`
	Outcome   Outcome `query:"outcome" enum:"pass,fail,tool_errors" doc:"Graded with a pass rate of at least 0.5, or below; or a tool call failed"`
	Graded    string  `query:"graded" enum:"true,false" doc:"Whether there is a grade"`
	Agent     string  `query:"agent" maxLength:"128" example:"claude-code"`
	User      string  `query:"user" maxLength:"36" doc:"me, or the id of a user, which needs the permission admin"`
	Since     string  `query:"since" example:"2026-01-02" doc:"Only sessions that began at this time or day, or later"`
	Until     string  `query:"until" example:"2026-01-02T03:04:05Z" doc:"Only sessions that began before this time or day"`
	Cursor    string  `query:"cursor" maxLength:"200" doc:"The next_cursor of an answer, for the sessions after it"`
	Limit     int     `query:"limit" default:"50" minimum:"1" maximum:"200" doc:"Sessions in an answer"`
}

type listOutput struct {
	Sessions   []api.Session `json:"sessions" nullable:"false"`
	NextCursor *string       `json:"next_cursor" doc:"Where the next answer begins; null at the end. An answer with several filters may have fewer sessions than limit, or none, before it"`
}

// handleList returns a page of sessions, newest first. A cursor is bound to no
// filter: with other filters it only means "older than".
func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	c := access.From(ctx)
	f := Filter{
		Skill: in.Skill, Activated: flag(in.Activated), Version: in.Version, Outcome: in.Outcome, Graded: flag(in.Graded),
		Agent: in.Agent, UserID: in.User, Cursor: in.Cursor, Limit: in.Limit,
	}
	var err error
	if f.Since, f.Until, err = httpapi.Between(in.Since, in.Until); err != nil {
		return listOutput{}, err
	}
	all, next, err := s.List(ctx, c, f)
	return listOutput{
		Sessions: columnsOf(all, newSessionOutput), NextCursor: orNull(next),
	}, err
}

// flag parses an optional boolean of a query. The schema allows "true" and "false"
// only.
func flag(text string) *bool {
	if text == "" {
		return nil
	}
	value := text == "true"
	return &value
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// newSessionOutput converts a session for lists and details. Whether a session has
// ended depends on now, so it is computed and not stored.
func newSessionOutput(s Session) api.Session {
	known := s.Figures()
	out := api.Session{
		SessionID: s.SessionID, Agent: s.Agent, StartedAt: httpapi.Time(s.StartedAt),
		EndedAt: httpapi.NullTime(s.End(time.Now())),
		Turns:   known.Turns, ToolCalls: known.ToolCalls, ToolErrors: known.ToolErrors, CostUSD: dollars(s.Micros),
		HasContent: s.HasContent,
		Skills: columnsOf(s.Skills, func(k Skill) api.SessionSkill {
			return api.SessionSkill{Name: k.Name, Activated: k.Activated, Offered: k.Offered, Version: orNull(k.Version)}
		}),
	}
	if s.PassRate != nil {
		out.Grade = &api.SessionGrade{PassRate: float64(*s.PassRate) / billion, Basis: string(s.Basis)}
	}
	return out
}

// dollars converts millionths of a dollar.
func dollars(micros *int64) *float64 {
	if micros == nil {
		return nil
	}
	usd := float64(*micros) / 1_000_000
	return &usd
}

type getInput struct {
	SessionID string `path:"session_id" maxLength:"200" doc:"As the agent calls it"`
	Cursor    string `query:"cursor" maxLength:"200" doc:"The next_cursor of an answer, for the events after it"`
	Limit     int    `query:"limit" default:"1000" minimum:"1" maximum:"1000" doc:"Events in an answer"`
}

// NewGradeOutput returns a grade of a session, which is called as the agent does,
// and of a skill with its name.
func NewGradeOutput(sessionID, skill string, g Grade) api.Grade {
	return api.Grade{
		ID: g.ID, SessionID: sessionID, Skill: skill, PassRate: float64(g.PassRate) / billion, Basis: string(g.Basis),
		Judge: orNull(g.Judge), Reason: orNull(g.Reason), GradedBy: orNull(g.GradedBy), GradedAt: httpapi.Time(g.At),
		Evidence: columnsOf(g.Evidence, func(e Evidence) api.Evidence {
			return api.Evidence{Expectation: e.Expectation, Passed: e.Passed, Quotation: orNull(e.Quotation)}
		}),
	}
}

type getOutput struct {
	Session    api.SessionDetail `json:"session"`
	NextCursor *string           `json:"next_cursor" doc:"Where the next page of events begins; null at the end"`
}

func (s *Service) handleGet(ctx context.Context, in getInput) (getOutput, error) {
	d, err := s.Open(ctx, access.From(ctx), in.SessionID, in.Cursor, in.Limit)
	if err != nil {
		return getOutput{}, err
	}
	return getOutput{NewDetailOutput(d), orNull(d.Next)}, nil
}

// NewDetailOutput returns a session with a page of its events. Trials of eval runs
// are shown in the same form.
func NewDetailOutput(d Detail) api.SessionDetail {
	return api.SessionDetail{
		Session: newSessionOutput(d.Session), Truncated: d.Truncated,
		Events: columnsOf(d.Steps, func(e Step) api.SessionEvent {
			out := api.SessionEvent{
				At: httpapi.Time(e.At), Kind: string(e.Kind), Name: e.Name, OK: e.OK, Tokens: e.Tokens,
				CostUSD: dollars(e.Micros),
				Text:    e.Text,
			}
			if e.Duration != nil {
				ms := e.Duration.Milliseconds()
				out.DurationMS = &ms
			}
			return out
		}),
		Grades: columnsOf(d.Grades, func(g Grade) api.Grade { return NewGradeOutput(d.SessionID, d.SkillName(g.SkillID), g) }),
	}
}
