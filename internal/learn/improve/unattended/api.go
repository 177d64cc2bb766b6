package unattended

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
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

func (s *Service) handlePolicy(ctx context.Context, in SkillPath) (out api.ImprovePolicy, err error) {
	p, spent, err := s.PolicyOf(ctx, access.From(ctx).OrgID, in.SkillID)
	out = api.ImprovePolicy{Mode: string(p.Mode), MonthlyUSD: p.MonthlyUSD, SpentUSD: spent, RunID: p.RunID}
	if p.Note != "" {
		out.LastNight, out.Note = &p.Date, &p.Note
	}
	return out, err
}

type setPolicyInput struct {
	SkillPath
	Body api.NewImprovePolicy
}

func (s *Service) handleSetPolicy(ctx context.Context, in setPolicyInput) (api.ImprovePolicy, error) {
	p := Policy{Mode: Mode(in.Body.Mode), MonthlyUSD: in.Body.MonthlyUSD}
	if err := s.SetPolicy(ctx, access.From(ctx), in.SkillID, p); err != nil {
		return api.ImprovePolicy{}, err
	}
	return s.handlePolicy(ctx, in.SkillPath)
}
