package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// Mount adds the routes of the performance API.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/skills",
		Summary: "List skills with their health",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/skills/{skill_id}",
		Summary: "Get a skill's performance and its daily numbers",
	})
}

// listInput selects a page of skills. Names that only occurred in failed calls and
// names built into agents are unconfirmed; they are listed on request so that a
// person can tell a typo from a skill that is really missing.
type listInput struct {
	httpapi.Page
	Q         string `query:"q" maxLength:"200" doc:"Text to find in the name"`
	Status    Status `query:"status" enum:"healthy,warning,critical,unknown" doc:"Only skills of this status"`
	Confirmed bool   `query:"confirmed" default:"true" doc:"false: names that were only called in vain or are built into agents"`
	Hidden    bool   `query:"hidden" doc:"true: skills that a person has hidden, confirmed or not"`
	Merged    bool   `query:"merged" doc:"true: skills that are merged into others, whatever else they are"`
	Sort      string `query:"sort" default:"name" enum:"name,-name,last_seen_at,-last_seen_at,unique_sessions,-unique_sessions,pass_rate,-pass_rate,trigger_rate,-trigger_rate,status,-status" doc:"Field to sort by; - turns the order round"`
}

// byName has one entry per basis that occurs, so a client must expect any subset.
func byName[V any](of map[basis.Basis]V) map[string]V {
	out := make(map[string]V, len(of))
	for b, v := range of {
		out[string(b)] = v
	}
	return out
}

type listOutput struct {
	Skills     []api.ListedSkill  `json:"skills" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

// handleList returns a page of skills. Limit and offset come from httpapi.Page,
// which bounds both.
func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		Search: in.Q, Status: in.Status, Unconfirmed: !in.Confirmed, Hidden: in.Hidden, Merged: in.Merged,
		Sort: in.Sort, Limit: in.PerPage, Offset: in.Offset(),
	})
	items := columnsOf(all, func(p Performance) api.ListedSkill {
		return api.ListedSkill{
			SkillID: p.ID, Name: p.Name, Status: string(p.Status), UniqueSessions: p.UniqueSessions, HasEvidence: p.HasEvidence,
			TriggerRate: p.TriggerRate, TriggerRateBasis: p.TriggerRateBasis, OfferedSessions: p.OfferedSessions,
			AvgConfidence: p.AvgConfidence, ConfidenceCoverage: p.ConfidenceCoverage,
			PassRate: p.PassRate, PassRateBasis: (*string)(p.Bases.Basis), PassRatesByBasis: byName(p.Bases.PassRate),
			LastSeenAt: httpapi.NullTime(p.LastSeenAt), CostPerUse: p.CostPerUse, Cost: p.Cost,
			Confirmed: p.Confirmed, Hidden: p.Hidden, MergedInto: p.MergedInto,
		}
	})
	return listOutput{Skills: items, Pagination: in.Of(total)}, err
}

// getInput names a skill by id or name: the CLI and people know names, other answers
// of the API carry ids.
type getInput struct {
	SkillID string `path:"skill_id" doc:"Id or name of the skill"`
	Days    int    `query:"days" default:"30" minimum:"1" maximum:"365" doc:"Days in daily_stats"`
}

// Details is the API's answer about one skill.
type Details = api.SkillDetail

// Details answers a caller about a skill, by its id or name. Pages and the MCP
// server use it to show what the API shows.
func (s *Service) Details(ctx context.Context, idOrName string) (Details, error) {
	return s.handleGet(ctx, getInput{SkillID: idOrName, Days: 30})
}

// handleGet returns a skill with its days. The skill's figures cover the configured
// window; Days only sets how many daily rows follow, so the two may cover different
// periods.
func (s *Service) handleGet(ctx context.Context, in getInput) (api.SkillDetail, error) {
	p, err := s.Get(ctx, access.From(ctx).OrgID, in.SkillID)
	if err != nil {
		return api.SkillDetail{}, err
	}
	days, err := s.Daily(ctx, p.ID, in.Days)
	return api.SkillDetail{
		Skill: api.Skill{
			SkillID: p.ID, Name: p.Name, Status: string(p.Status), UniqueSessions: p.UniqueSessions,
			FirstSeenAt: httpapi.NullTime(p.FirstSeenAt), LastSeenAt: httpapi.NullTime(p.LastSeenAt),
			TriggerRate: p.TriggerRate, TriggerRateBasis: p.TriggerRateBasis, OfferedSessions: p.OfferedSessions,
			SeenSessions: p.SeenSessions, TriggeredSessions: p.TriggeredSessions,
			AvgConfidence: p.AvgConfidence, ConfidenceCoverage: p.ConfidenceCoverage,
			PassRate: p.PassRate, PassRateInterval: p.PassRateInterval, GradedSessions: p.GradedSessions,
			PassRateBasis:    (*string)(p.Bases.Basis),
			PassRatesByBasis: byName(p.Bases.PassRate), GradedByBasis: byName(p.Bases.Sessions),
			HasEvidence: p.HasEvidence, Cost: p.Cost, Confirmed: p.Confirmed, Hidden: p.Hidden, MergedInto: p.MergedInto,
		},
		Days: columnsOf(days, func(d Day) api.SkillDay { return api.SkillDay(d) }),
	}, err
}
