package curate

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Mount adds the route.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleUpdate, httpapi.Route{
		Permission: access.Admin, Method: "PATCH", Path: "/v1/skills/{skill_id}",
		Summary: "Hide a skill, or merge it into another one",
	})
}

type updateInput struct {
	SkillID string `path:"skill_id" doc:"Id or name of the skill"`
	Body    struct {
		Hidden *bool `json:"hidden,omitempty" doc:"Leave it out of all lists and alerts"`
		// Raw, since null is not the same as leaving it out.
		MergedInto json.RawMessage `json:"merged_into,omitempty" doc:"Id of the skill that has all that is reported of this one; null takes that back"`
	}
}

func (s *Service) handleUpdate(ctx context.Context, in updateInput) (skills.Details, error) {
	c := Change{Hidden: in.Body.Hidden}
	if raw := in.Body.MergedInto; len(raw) > 0 {
		var into *string
		if err := json.Unmarshal(raw, &into); err != nil || into != nil && *into == "" {
			return skills.Details{}, fault.Invalid("merged_into", "merged_into must be the id of a skill, or null")
		}
		c.MergedInto = new(string)
		if into != nil {
			c.MergedInto = into
		}
	}
	if err := s.Update(ctx, access.From(ctx).OrgID, in.SkillID, c); err != nil {
		return skills.Details{}, err
	}
	return s.Skills.Details(ctx, in.SkillID)
}
