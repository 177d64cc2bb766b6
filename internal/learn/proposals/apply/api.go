package apply

import (
	"context"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the route.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleApply, httpapi.Route{
		Permission: access.RegistryPush, Plan: access.Pro, Method: "POST", Path: "/api/v1/proposals/{id}/apply",
		Status: http.StatusAccepted, Also: []int{http.StatusOK},
		Summary: "Apply a proposal as a version, a pull request or a patch",
	})
}

type applyInput struct {
	proposals.ProposalPath
	Body struct {
		As proposals.Way `json:"as" enum:"version,pull_request,patch"`
	}
}

type applyOutput struct {
	Proposal api.Proposal `json:"proposal"`
	Patch    *string      `json:"patch,omitempty" doc:"Only as a patch: for git apply or patch -p1 in the folder of the skill"`
}

// HTTPStatus is 200 for a patch, which is done at once.
func (o applyOutput) HTTPStatus() int {
	if o.Patch != nil {
		return http.StatusOK
	}
	return http.StatusAccepted
}

func (s *Service) handleApply(ctx context.Context, in applyInput) (applyOutput, error) {
	p, patch, err := s.Apply(ctx, access.From(ctx), in.ID, in.Body.As)
	out := applyOutput{Proposal: proposals.NewOutput(p)}
	if in.Body.As == proposals.AsPatch {
		out.Patch = &patch
	}
	return out, err
}
