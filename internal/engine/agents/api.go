package agents

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the route of agents.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/agents",
		Summary: "List coding agents, whether they are installed on this machine, and their models",
	})
}

type listOutput struct {
	Agents []Agent `json:"agents"`
}

func (s *Service) handleList(ctx context.Context, _ struct{}) (listOutput, error) {
	return listOutput{s.List(ctx)}, nil
}
