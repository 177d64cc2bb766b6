package skills

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
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

// A listItem is a skill in the list: detail without the fields that need more
// queries per skill. Rates are null, not zero, where there is nothing to divide by.
type listItem struct {
	SkillID            string        `json:"skill_id" format:"uuid"`
	Name               string        `json:"name" example:"pdf-tables"`
	Status             Status        `json:"status" enum:"healthy,warning,critical,unknown"`
	UniqueSessions     int64         `json:"unique_sessions"`
	HasEvidence        bool          `json:"has_evidence"`
	TriggerRate        *float64      `json:"trigger_rate"`
	TriggerRateBasis   *string       `json:"trigger_rate_basis" enum:"offered,considered" doc:"Whether agents reported which skills were on offer"`
	OfferedSessions    int64         `json:"offered_sessions" doc:"Sessions in the window that were offered the skill"`
	AvgConfidence      *float64      `json:"avg_confidence"`
	ConfidenceCoverage *float64      `json:"confidence_coverage"`
	PassRate           *float64      `json:"pass_rate"`
	PassRateBasis      *basis.Basis  `json:"pass_rate_basis" enum:"judge,person,outcome,pushed,mixed" doc:"What the grades rest on; null without any"`
	PassRatesByBasis   passRates     `json:"pass_rates_by_basis" nullable:"false" doc:"Pass rate of the sessions whose grade has that basis: judge, person, outcome or pushed"`
	LastSeenAt         *httpapi.Time `json:"last_seen_at"`
	CostPerUse         *float64      `json:"cost_per_use" doc:"The median, in dollars: per_use_p50 of cost"`
	Cost               *pricing.Cost `json:"cost" doc:"Of the model requests in the window; null without any"`
	Confirmed          bool          `json:"confirmed" doc:"Whether a real use of the name was reported"`
	Hidden             bool          `json:"hidden"`
	MergedInto         *string       `json:"merged_into" format:"uuid" doc:"The skill that has all that is reported of this one"`
}

// The maps have one entry per basis that occurs, so a client must expect any subset.
type (
	passRates    = map[basis.Basis]float64
	gradedCounts = map[basis.Basis]int64
)

type listOutput struct {
	Skills     []listItem         `json:"skills" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

// handleList returns a page of skills. Limit and offset come from httpapi.Page,
// which bounds both.
func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		Search: in.Q, Status: in.Status, Unconfirmed: !in.Confirmed, Hidden: in.Hidden, Merged: in.Merged,
		Sort: in.Sort, Limit: in.PerPage, Offset: in.Offset(),
	})
	items := columnsOf(all, func(p Performance) listItem {
		return listItem{
			SkillID: p.ID, Name: p.Name, Status: p.Status, UniqueSessions: p.UniqueSessions, HasEvidence: p.HasEvidence,
			TriggerRate: p.TriggerRate, TriggerRateBasis: p.TriggerRateBasis, OfferedSessions: p.OfferedSessions,
			AvgConfidence: p.AvgConfidence, ConfidenceCoverage: p.ConfidenceCoverage,
			PassRate: p.PassRate, PassRateBasis: p.Bases.Basis, PassRatesByBasis: p.Bases.PassRate,
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

// detail is the skill with the figures that its rates are computed from, so that a
// client can combine skills itself: rates do not add up, counts do.
type detail struct {
	SkillID            string        `json:"skill_id" format:"uuid"`
	Name               string        `json:"name" example:"pdf-tables"`
	Status             Status        `json:"status" enum:"healthy,warning,critical,unknown"`
	FirstSeenAt        *httpapi.Time `json:"first_seen_at"`
	LastSeenAt         *httpapi.Time `json:"last_seen_at"`
	UniqueSessions     int64         `json:"unique_sessions"`
	TriggerRate        *float64      `json:"trigger_rate"`
	TriggerRateBasis   *string       `json:"trigger_rate_basis" enum:"offered,considered" doc:"Whether agents reported which skills were on offer"`
	OfferedSessions    int64         `json:"offered_sessions" doc:"Sessions in the window that were offered the skill"`
	SeenSessions       int64         `json:"seen_sessions" doc:"Sessions in the window that were offered the skill, considered it or called it: the denominator of trigger_rate"`
	TriggeredSessions  int64         `json:"triggered_sessions" doc:"Sessions in the window in which it fired: the numerator of trigger_rate"`
	AvgConfidence      *float64      `json:"avg_confidence"`
	ConfidenceCoverage *float64      `json:"confidence_coverage"`
	PassRate           *float64      `json:"pass_rate"`
	PassRateBasis      *basis.Basis  `json:"pass_rate_basis" enum:"judge,person,outcome,pushed,mixed" doc:"What the grades rest on; null without any"`
	PassRatesByBasis   passRates     `json:"pass_rates_by_basis" nullable:"false" doc:"Pass rate of the sessions whose grade has that basis: judge, person, outcome or pushed"`
	PassRateInterval   *[2]float64   `json:"pass_rate_interval" doc:"Wilson interval of 95 %"`
	GradedSessions     int64         `json:"graded_sessions"`
	GradedByBasis      gradedCounts  `json:"graded_sessions_by_basis" nullable:"false" doc:"graded_sessions by the basis of their grade"`
	HasEvidence        bool          `json:"has_evidence"`
	Cost               *pricing.Cost `json:"cost" doc:"Of the model requests in the window; null without any"`
	Confirmed          bool          `json:"confirmed" doc:"Whether a real use of the name was reported"`
	Hidden             bool          `json:"hidden"`
	MergedInto         *string       `json:"merged_into" format:"uuid" doc:"The skill that has all that is reported of this one"`
}

// dayOutput has the fields of Day in the same order, which makes them convertible.
type dayOutput struct {
	Date           string   `json:"date" format:"date"`
	Sessions       int64    `json:"sessions"`
	Checks         int64    `json:"checks"`
	Triggers       int64    `json:"triggers"`
	TriggerRate    *float64 `json:"trigger_rate"`
	AvgConfidence  *float64 `json:"avg_confidence"`
	GradedSessions int64    `json:"graded_sessions"`
	PassRate       *float64 `json:"pass_rate"`
}

type getOutput struct {
	Skill      detail      `json:"skill"`
	DailyStats []dayOutput `json:"daily_stats" nullable:"false" doc:"Every day, oldest first"`
}

// Details is the API's answer about one skill.
type Details = getOutput

// Details answers a caller about a skill, by its id or name. Pages and the MCP
// server use it to show what the API shows.
func (s *Service) Details(ctx context.Context, idOrName string) (Details, error) {
	return s.handleGet(ctx, getInput{SkillID: idOrName, Days: 30})
}

// handleGet returns a skill with its days. The skill's figures cover the configured
// window; Days only sets how many daily rows follow, so the two may cover different
// periods.
func (s *Service) handleGet(ctx context.Context, in getInput) (getOutput, error) {
	p, err := s.Get(ctx, access.From(ctx).OrgID, in.SkillID)
	if err != nil {
		return getOutput{}, err
	}
	days, err := s.Daily(ctx, p.ID, in.Days)
	return getOutput{
		Skill: detail{
			SkillID: p.ID, Name: p.Name, Status: p.Status, UniqueSessions: p.UniqueSessions,
			FirstSeenAt: httpapi.NullTime(p.FirstSeenAt), LastSeenAt: httpapi.NullTime(p.LastSeenAt),
			TriggerRate: p.TriggerRate, TriggerRateBasis: p.TriggerRateBasis, OfferedSessions: p.OfferedSessions,
			SeenSessions: p.SeenSessions, TriggeredSessions: p.TriggeredSessions,
			AvgConfidence: p.AvgConfidence, ConfidenceCoverage: p.ConfidenceCoverage,
			PassRate: p.PassRate, PassRateInterval: p.PassRateInterval, GradedSessions: p.GradedSessions,
			PassRateBasis: p.Bases.Basis, PassRatesByBasis: p.Bases.PassRate, GradedByBasis: p.Bases.Sessions,
			HasEvidence: p.HasEvidence, Cost: p.Cost, Confirmed: p.Confirmed, Hidden: p.Hidden, MergedInto: p.MergedInto,
		},
		DailyStats: columnsOf(days, func(d Day) dayOutput { return dayOutput(d) }),
	}, err
}
