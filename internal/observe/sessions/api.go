package sessions

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
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

// SessionOutput is a session in a list. It is exported because a detail embeds it.
type SessionOutput struct {
	SessionID  string        `json:"session_id" doc:"As the agent calls it"`
	Agent      string        `json:"agent" example:"claude-code" doc:"Empty if unknown"`
	StartedAt  httpapi.Time  `json:"started_at"`
	EndedAt    *httpapi.Time `json:"ended_at" doc:"Null while it may go on: nothing reported the end, and the last event is less than an hour ago"`
	Turns      *int64        `json:"turns" doc:"Prompts of the person; null if no report says anything about them"`
	ToolCalls  *int64        `json:"tool_calls" doc:"Null if no report says anything about them"`
	ToolErrors *int64        `json:"tool_errors" doc:"Likewise"`
	Skills     []skillOutput `json:"skills" nullable:"false" doc:"Activated ones first"`
	Grade      *gradeSummary `json:"grade"`
	CostUSD    *float64      `json:"cost_usd" doc:"Null if no cost is known"`
	HasContent bool          `json:"has_content" doc:"Whether the words of prompts and responses are kept"`
}

// skillOutput is a skill of a session. Version is null if none is known.
type skillOutput struct {
	Name      string  `json:"name" example:"pdf-tables"`
	Activated bool    `json:"activated"`
	Offered   bool    `json:"offered"`
	Version   *string `json:"version" example:"1.2.0" doc:"Version in the registry that was activated last"`
}

// gradeSummary is the grade of a session in a list. The single grades are in the
// detail only.
type gradeSummary struct {
	PassRate float64     `json:"pass_rate" doc:"Mean over the skills that were graded"`
	Basis    basis.Basis `json:"basis" enum:"judge,person,outcome,pushed,mixed"`
}

type listOutput struct {
	Sessions   []SessionOutput `json:"sessions" nullable:"false"`
	NextCursor *string         `json:"next_cursor" doc:"Where the next answer begins; null at the end. An answer with several filters may have fewer sessions than limit, or none, before it"`
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
func newSessionOutput(s Session) SessionOutput {
	known := s.Figures()
	out := SessionOutput{
		SessionID: s.SessionID, Agent: s.Agent, StartedAt: httpapi.Time(s.StartedAt),
		EndedAt: httpapi.NullTime(s.End(time.Now())),
		Turns:   known.Turns, ToolCalls: known.ToolCalls, ToolErrors: known.ToolErrors, CostUSD: dollars(s.Micros),
		HasContent: s.HasContent,
		Skills: columnsOf(s.Skills, func(k Skill) skillOutput {
			return skillOutput{k.Name, k.Activated, k.Offered, orNull(k.Version)}
		}),
	}
	if s.PassRate != nil {
		out.Grade = &gradeSummary{PassRate: float64(*s.PassRate) / billion, Basis: s.Basis}
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

// eventOutput is an event of the timeline. Kind is never a fact: those are not
// listed.
type eventOutput struct {
	At         httpapi.Time `json:"at"`
	Kind       Kind         `json:"kind" enum:"prompt,activation,tool,response,grade,error"`
	Name       string       `json:"name" example:"Bash" doc:"Of the tool, skill or model; empty if there is none"`
	DurationMS *int64       `json:"duration_ms"`
	OK         *bool        `json:"ok"`
	Tokens     *int64       `json:"tokens" doc:"All tokens of the request, cached ones included"`
	CostUSD    *float64     `json:"cost_usd"`
	Text       *string      `json:"text" doc:"What was said; null unless the organisation keeps content"`
}

// GradeOutput is a grade as the API shows it.
type GradeOutput struct {
	ID        string           `json:"id"`
	SessionID string           `json:"session_id"`
	Skill     string           `json:"skill" example:"pdf-tables"`
	PassRate  float64          `json:"pass_rate"`
	Basis     basis.Basis      `json:"basis" enum:"judge,person,outcome,pushed"`
	Judge     *string          `json:"judge" doc:"The model, of a judge's grade"`
	Evidence  []evidenceOutput `json:"evidence" nullable:"false"`
	Reason    *string          `json:"reason"`
	GradedBy  *string          `json:"graded_by" doc:"The id of the person, of a person's grade"`
	GradedAt  httpapi.Time     `json:"graded_at"`
}

// evidenceOutput is one expectation of a grade, and whether it was met. Quotation is
// null without permission, so that the rest of a grade can be shown.
type evidenceOutput struct {
	Expectation string  `json:"expectation" doc:"Or the name of an outcome, e.g. tool_errors"`
	Passed      bool    `json:"passed"`
	Quotation   *string `json:"quotation" doc:"From the session; null for those who may not read what was said"`
}

// NewGradeOutput returns a grade of a session, which is called as the agent does,
// and of a skill with its name.
func NewGradeOutput(sessionID, skill string, g Grade) GradeOutput {
	return GradeOutput{
		ID: g.ID, SessionID: sessionID, Skill: skill, PassRate: float64(g.PassRate) / billion, Basis: g.Basis,
		Judge: orNull(g.Judge), Reason: orNull(g.Reason), GradedBy: orNull(g.GradedBy), GradedAt: httpapi.Time(g.At),
		Evidence: columnsOf(g.Evidence, func(e Evidence) evidenceOutput {
			return evidenceOutput{e.Expectation, e.Passed, orNull(e.Quotation)}
		}),
	}
}

// DetailOutput is a session with its events in an answer.
type DetailOutput struct {
	SessionOutput
	Events    []eventOutput `json:"events" nullable:"false" doc:"Oldest first; the first page, or the one after cursor"`
	Truncated bool          `json:"truncated" doc:"There were more events than are kept, and the figures are of those that are"`
	Grades    []GradeOutput `json:"grades" nullable:"false"`
}

type getOutput struct {
	Session    DetailOutput `json:"session"`
	NextCursor *string      `json:"next_cursor" doc:"Where the next page of events begins; null at the end"`
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
func NewDetailOutput(d Detail) DetailOutput {
	return DetailOutput{
		SessionOutput: newSessionOutput(d.Session), Truncated: d.Truncated,
		Events: columnsOf(d.Steps, func(e Step) eventOutput {
			out := eventOutput{
				At: httpapi.Time(e.At), Kind: e.Kind, Name: e.Name, OK: e.OK, Tokens: e.Tokens, CostUSD: dollars(e.Micros),
				Text: e.Text,
			}
			if e.Duration != nil {
				ms := e.Duration.Milliseconds()
				out.DurationMS = &ms
			}
			return out
		}),
		Grades: columnsOf(d.Grades, func(g Grade) GradeOutput { return NewGradeOutput(d.SessionID, d.SkillName(g.SkillID), g) }),
	}
}
