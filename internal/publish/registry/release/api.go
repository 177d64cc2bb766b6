package release

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Mount adds the routes that change which version is current.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleRollback, httpapi.Route{
		Permission: access.RegistryRollback, Owns: s.Owns, Plan: access.Pro, Method: "POST",
		Path:    "/api/v1/registry/{id}/rollback",
		Summary: "Make an earlier version current again",
	})
	httpapi.Add(a, s.handleChoices, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/rollback",
		Summary: "List the versions to roll back to, with their figures",
	})
	httpapi.Add(a, s.handleUndo, httpapi.Route{
		Permission: access.RegistryRollback, Owns: s.Owns, Plan: access.Pro, Method: "POST",
		Path:    "/api/v1/registry/{id}/rollback/undo",
		Summary: "Undo the last rollback",
	})
	httpapi.Add(a, s.handlePromote, httpapi.Route{
		Permission: access.RegistryRollback, Owns: s.Owns, Plan: access.Pro, Method: "POST",
		Path:    "/api/v1/registry/{id}/versions/{version}/promote",
		Summary: "Make a candidate current without the verdict of its gate",
	})
	httpapi.Add(a, s.handleWithdraw, httpapi.Route{
		Permission: access.RegistryRollback, Owns: s.Owns, Plan: access.Pro, Method: "POST",
		Path:    "/api/v1/registry/{id}/versions/{version}/withdraw",
		Summary: "Take a version back: it is not current, in no catalog, and not downloaded",
	})
	httpapi.Add(a, s.handleRestore, httpapi.Route{
		Permission: access.RegistryRollback, Owns: s.Owns, Plan: access.Pro, Method: "POST",
		Path:    "/api/v1/registry/{id}/versions/{version}/restore",
		Summary: "Undo the withdrawal of a version",
	})
}

// reasonInput is for decisions that need a reason; a restored version doesn't.
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

// newOutput shows the entry with the version that was acted on, which need not be
// current.
func newOutput(e registry.Entry, v registry.Version) api.Released {
	return api.Released{Entry: registry.NewEntryOutput(e), Version: registry.NewVersionOutput(e, v)}
}

func (s *Service) handlePromote(ctx context.Context, in reasonInput) (api.Released, error) {
	e, v, err := s.Promote(ctx, access.From(ctx), in.ID, in.Version, in.Body.Reason)
	return newOutput(e, v), err
}

func (s *Service) handleWithdraw(ctx context.Context, in reasonInput) (api.Released, error) {
	e, v, err := s.Withdraw(ctx, access.From(ctx), in.ID, in.Version, in.Body.Reason)
	return newOutput(e, v), err
}

func (s *Service) handleRestore(ctx context.Context, in restoreInput) (api.Released, error) {
	e, v, err := s.Restore(ctx, access.From(ctx), in.ID, in.Version, in.Body.Reason)
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

func (s *Service) handleRollback(ctx context.Context, in rollbackInput) (api.RollbackResult, error) {
	c := access.From(ctx)
	r, err := s.Rollback(ctx, in.ID, NewRollback{
		OrgID: c.OrgID, UserID: c.UserID, ByOwner: byOwner(c), Target: in.Body.TargetVersion, Reason: in.Body.Reason,
		RollForward: in.Body.RollForward,
	})
	return api.RollbackResult{
		Entry: registry.NewEntryOutput(r.Entry), Version: registry.NewVersionOutput(r.Entry, r.Version),
		RolledBackFrom: r.From.Version, Reason: in.Body.Reason,
	}, err
}

// newChoiceOutput shows a version with the figures by which people choose.
func newChoiceOutput(c Choice) api.Choice {
	out := api.Choice{
		Version: c.Version.Version, State: string(c.State), RolledBack: c.RolledBack, PassRate: c.Quality.PassRate,
		PassRateInterval: c.Interval,
		PassRateBasis:    (*string)(c.Quality.PassRates.Basis), GradedSessions: c.Quality.GradedSessions,
		Sessions: c.Quality.Sessions,
		Cost:     c.Quality.Cost, PushedAt: httpapi.Time(c.PushedAt),
	}
	if c.Tenure != nil {
		out.CurrentSince, out.CurrentUntil = httpapi.NullTime(&c.Tenure.Since), httpapi.NullTime(c.Tenure.Until)
	}
	return out
}

func (s *Service) handleChoices(ctx context.Context, in registry.EntryPath) (out api.Choices, err error) {
	c, err := s.Choices(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return out, err
	}
	out.ForwardOnlyClients, out.Targets = c.ForwardOnly, make([]api.Choice, len(c.Targets))
	for i, t := range c.Targets {
		out.Targets[i] = newChoiceOutput(t)
	}
	if c.Current != nil {
		current := newChoiceOutput(*c.Current)
		out.Current = &current
	}
	if c.Default != "" {
		out.DefaultTarget = &c.Default
	}
	if c.Undo != nil {
		out.Undo = &api.Undoable{FromVersion: c.Undo.From, ToVersion: c.Undo.To, RolledBackAt: httpapi.Time(c.Undo.At)}
	}
	return out, nil
}

type undoInput struct {
	registry.EntryPath
	Body struct {
		Reason string `json:"reason,omitempty" example:"the alert was wrong"`
	}
}

func (s *Service) handleUndo(ctx context.Context, in undoInput) (api.RollbackResult, error) {
	r, err := s.Undo(ctx, access.From(ctx), in.ID, in.Body.Reason)
	out := api.RollbackResult{
		Entry: registry.NewEntryOutput(r.Entry), Version: registry.NewVersionOutput(r.Entry, r.Version),
		RolledBackFrom: r.From.Version,
	}
	if in.Body.Reason != "" {
		out.Reason = &in.Body.Reason
	}
	return out, err
}
