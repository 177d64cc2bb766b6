package unattended

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of policies.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handlePolicy, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/v1/skills/{skill_id}/improve-policy",
		Summary: "Whether a skill is improved at night without a person",
	})
	httpapi.Add(a, s.handleSetPolicy, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: "/v1/skills/{skill_id}/improve-policy",
		Summary: "Set whether a skill is improved at night without a person",
	})
}

// SkillPath names a skill in a path.
type SkillPath struct {
	SkillID string `path:"skill_id" doc:"Id or name of the skill"`
}

type improvePolicyOutput struct {
	Mode       Mode    `json:"mode" enum:"off,propose,publish" doc:"publish: a proved proposal becomes a version, which the gate lets pass or holds"`
	MonthlyUSD float64 `json:"monthly_usd" doc:"What its runs may cost in a calendar month (UTC)"`
	SpentUSD   float64 `json:"spent_usd" doc:"This month; a run under way counts with its limit"`
	LastNight  *string `json:"last_night" format:"date" doc:"When the skill was last looked at"`
	Note       *string `json:"note" doc:"What that night did, or why it did nothing"`
	RunID      *string `json:"run_id" format:"uuid" doc:"The improve run that is under way"`
}

func (s *Service) handlePolicy(ctx context.Context, in SkillPath) (out improvePolicyOutput, err error) {
	p, spent, err := s.PolicyOf(ctx, access.From(ctx).OrgID, in.SkillID)
	out = improvePolicyOutput{Mode: p.Mode, MonthlyUSD: p.MonthlyUSD, SpentUSD: spent, RunID: p.RunID}
	if p.Note != "" {
		out.LastNight, out.Note = &p.Date, &p.Note
	}
	return out, err
}

type setPolicyInput struct {
	SkillPath
	Body struct {
		Mode       Mode    `json:"mode" enum:"off,propose,publish"`
		MonthlyUSD float64 `json:"monthly_usd,omitempty" minimum:"0" maximum:"1000000" doc:"Required, and above 0, unless mode is off"`
	}
}

func (s *Service) handleSetPolicy(ctx context.Context, in setPolicyInput) (improvePolicyOutput, error) {
	p := Policy{Mode: in.Body.Mode, MonthlyUSD: in.Body.MonthlyUSD}
	if err := s.SetPolicy(ctx, access.From(ctx), in.SkillID, p); err != nil {
		return improvePolicyOutput{}, err
	}
	return s.handlePolicy(ctx, in.SkillPath)
}
