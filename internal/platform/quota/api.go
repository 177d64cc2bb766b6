package quota

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the route of usage.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleUsage, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/usage",
		Summary: "How much the organisation stores, and how much it may",
	})
}

type usageOutput struct {
	BytesUsed  int64  `json:"bytes_used" example:"52428800"`
	BytesLimit *int64 `json:"bytes_limit" example:"1073741824" doc:"Null: no limit"`
}

func (s *Service) handleUsage(ctx context.Context, _ struct{}) (usageOutput, error) {
	u, err := s.Usage(ctx, access.From(ctx).OrgID)
	return usageOutput{u.Used, u.Limit}, err
}
