package keyrules

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service serves the API of key policies.
type Service struct {
	DB *store.DB
}

// Mount adds the routes of the organisation's key policy.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Admin, Method: "GET", Path: "/api/v1/key-policy",
		Summary: "Get the policy for new API keys",
	})
	httpapi.Add(a, s.handlePut, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: "/api/v1/key-policy",
		Summary: "Set the policy for new API keys; existing keys keep working",
	})
}

func (s *Service) handleGet(ctx context.Context, _ struct{}) (out api.KeyPolicy, err error) {
	orgID := access.From(ctx).OrgID
	p, err := Load(ctx, s.DB, orgID)
	if err != nil {
		return out, err
	}
	return s.output(ctx, orgID, p)
}

type putInput struct {
	Body struct {
		MaxDays           *int `json:"max_days,omitempty" nullable:"true" minimum:"1" maximum:"3650" example:"90" doc:"Keys made without expires_at get it; null or omitted: keys need not expire"`
		RequireAllowedIPs bool `json:"require_allowed_ips,omitempty"`
	}
}

// handlePut changes the policy, which revokes nothing, which is why the answer counts the keys that
// violate it.
func (s *Service) handlePut(ctx context.Context, in putInput) (out api.KeyPolicy, err error) {
	c := access.From(ctx)
	p, err := Save(ctx, s.DB, c, Policy{MaxDays: in.Body.MaxDays, RequireAllowedIPs: in.Body.RequireAllowedIPs})
	if err != nil {
		return out, err
	}
	return s.output(ctx, c.OrgID, p)
}

func (s *Service) output(ctx context.Context, orgID string, p Policy) (api.KeyPolicy, error) {
	n, err := CountViolating(ctx, s.DB, orgID, p)
	return api.KeyPolicy{
		MaxDays: p.MaxDays, RequireAllowedIPs: p.RequireAllowedIPs, UpdatedAt: httpapi.NullTime(p.UpdatedAt), ViolatingKeys: n,
	}, err
}
