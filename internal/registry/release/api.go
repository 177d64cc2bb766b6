package release

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/registry"
)

// Mount adds the routes.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleRollback, httpapi.Route{
		Permission: access.RegistryRollback, Plan: access.Pro, Method: "POST", Path: "/api/v1/registry/{id}/rollback",
		Summary: "Make an earlier version current again",
	})
	httpapi.Add(a, s.handlePromote, httpapi.Route{
		Permission: access.RegistryRollback, Plan: access.Pro, Method: "POST",
		Path:    "/api/v1/registry/{id}/versions/{version}/promote",
		Summary: "Make a candidate current without the verdict of its gate",
	})
	httpapi.Add(a, s.handleWithdraw, httpapi.Route{
		Permission: access.RegistryRollback, Plan: access.Pro, Method: "POST",
		Path:    "/api/v1/registry/{id}/versions/{version}/withdraw",
		Summary: "Keep a version from being current; the current one is rolled back",
	})
	httpapi.Add(a, s.handleRestore, httpapi.Route{
		Permission: access.RegistryRollback, Plan: access.Pro, Method: "POST",
		Path:    "/api/v1/registry/{id}/versions/{version}/restore",
		Summary: "Undo the withdrawal of a version",
	})
}

type reasonInput struct {
	registry.VersionPath
	Body struct {
		Reason string `json:"reason" example:"the failing case is wrong"`
	}
}

type restoreInput struct {
	registry.VersionPath
	Body struct {
		Reason string `json:"reason,omitempty"`
	}
}

type releaseOutput struct {
	Entry   registry.EntryOutput   `json:"entry"`
	Version registry.VersionOutput `json:"version"`
}

func newOutput(e registry.Entry, v registry.Version) releaseOutput {
	return releaseOutput{registry.NewEntryOutput(e), registry.NewVersionOutput(e, v)}
}

func (s *Service) handlePromote(ctx context.Context, in reasonInput) (releaseOutput, error) {
	e, v, err := s.Promote(ctx, access.From(ctx).OrgID, in.ID, in.Version, in.Body.Reason)
	return newOutput(e, v), err
}

func (s *Service) handleWithdraw(ctx context.Context, in reasonInput) (releaseOutput, error) {
	e, v, err := s.Withdraw(ctx, access.From(ctx), in.ID, in.Version, in.Body.Reason)
	return newOutput(e, v), err
}

func (s *Service) handleRestore(ctx context.Context, in restoreInput) (releaseOutput, error) {
	e, v, err := s.Restore(ctx, access.From(ctx).OrgID, in.ID, in.Version, in.Body.Reason)
	return newOutput(e, v), err
}

type rollbackInput struct {
	registry.EntryPath
	Body struct {
		TargetVersion string  `json:"target_version,omitempty" example:"1.0.0" doc:"When omitted: the version that was current before, and is neither rolled back nor withdrawn"`
		Reason        *string `json:"reason,omitempty" example:"fails on empty input"`
		RollForward   bool    `json:"roll_forward,omitempty" default:"false" doc:"Publish the content as the next patch, for clients that never go down to a lower version"`
	}
}

type rollbackOutput struct {
	Entry          registry.EntryOutput   `json:"entry"`
	Version        registry.VersionOutput `json:"version"`
	RolledBackFrom string                 `json:"rolled_back_from"`
	Reason         *string                `json:"reason"`
}

func (s *Service) handleRollback(ctx context.Context, in rollbackInput) (rollbackOutput, error) {
	c := access.From(ctx)
	r, err := s.Rollback(ctx, in.ID, NewRollback{
		OrgID: c.OrgID, UserID: c.UserID, Target: in.Body.TargetVersion, Reason: in.Body.Reason,
		RollForward: in.Body.RollForward,
	})
	return rollbackOutput{
		registry.NewEntryOutput(r.Entry), registry.NewVersionOutput(r.Entry, r.Version), r.From.Version, in.Body.Reason,
	}, err
}
