package release

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
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

type releaseOutput struct {
	Entry   registry.EntryOutput   `json:"entry"`
	Version registry.VersionOutput `json:"version"`
}

// newOutput shows the entry with the version that was acted on, which need not be
// current.
func newOutput(e registry.Entry, v registry.Version) releaseOutput {
	return releaseOutput{registry.NewEntryOutput(e), registry.NewVersionOutput(e, v)}
}

func (s *Service) handlePromote(ctx context.Context, in reasonInput) (releaseOutput, error) {
	e, v, err := s.Promote(ctx, access.From(ctx), in.ID, in.Version, in.Body.Reason)
	return newOutput(e, v), err
}

func (s *Service) handleWithdraw(ctx context.Context, in reasonInput) (releaseOutput, error) {
	e, v, err := s.Withdraw(ctx, access.From(ctx), in.ID, in.Version, in.Body.Reason)
	return newOutput(e, v), err
}

func (s *Service) handleRestore(ctx context.Context, in restoreInput) (releaseOutput, error) {
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

type rollbackOutput struct {
	Entry          registry.EntryOutput   `json:"entry"`
	Version        registry.VersionOutput `json:"version"`
	RolledBackFrom string                 `json:"rolled_back_from"`
	Reason         *string                `json:"reason"`
}

func (s *Service) handleRollback(ctx context.Context, in rollbackInput) (rollbackOutput, error) {
	c := access.From(ctx)
	r, err := s.Rollback(ctx, in.ID, NewRollback{
		OrgID: c.OrgID, UserID: c.UserID, ByOwner: byOwner(c), Target: in.Body.TargetVersion, Reason: in.Body.Reason,
		RollForward: in.Body.RollForward,
	})
	return rollbackOutput{
		registry.NewEntryOutput(r.Entry), registry.NewVersionOutput(r.Entry, r.Version), r.From.Version, in.Body.Reason,
	}, err
}

type choicesOutput struct {
	Current       *choiceOutput  `json:"current" doc:"null while no version is current"`
	Targets       []choiceOutput `json:"targets" nullable:"false" doc:"Published versions that are not current, newest push first; at most 100"`
	DefaultTarget *string        `json:"default_target" doc:"What a rollback without target_version makes current; null: it would be refused"`
	Undo          *undoOutput    `json:"undo" doc:"The rollback that can be undone; null if there is none"`
	ForwardOnly   bool           `json:"forward_only_clients" doc:"The entry is installed by clients that never go down to a lower version: only roll_forward reaches them"`
}

// choiceOutput is a version in the dialog of a rollback, with what speaks for or against
// it.
type choiceOutput struct {
	Version          string         `json:"version" example:"1.2.0"`
	State            registry.State `json:"state" enum:"candidate,published,withdrawn"`
	RolledBack       bool           `json:"rolled_back"`
	PassRate         *float64       `json:"pass_rate"`
	PassRateInterval *[2]float64    `json:"pass_rate_interval" doc:"Wilson, 95 %"`
	PassRateBasis    *basis.Basis   `json:"pass_rate_basis" enum:"judge,person,outcome,pushed,mixed"`
	GradedSessions   int64          `json:"graded_sessions" doc:"That the pass rate is the mean of"`
	Sessions         int64          `json:"sessions"`
	Cost             *pricing.Cost  `json:"cost" doc:"null without a model request"`
	PushedAt         httpapi.Time   `json:"pushed_at"`
	CurrentSince     *httpapi.Time  `json:"current_since" doc:"When it was current last; null if it never was"`
	CurrentUntil     *httpapi.Time  `json:"current_until" doc:"null while it is current"`
}

type undoOutput struct {
	From string       `json:"from_version" doc:"Would be current again"`
	To   string       `json:"to_version"`
	At   httpapi.Time `json:"rolled_back_at"`
}

// newChoiceOutput shows a version with the figures by which people choose.
func newChoiceOutput(c Choice) choiceOutput {
	out := choiceOutput{
		Version: c.Version.Version, State: c.State, RolledBack: c.RolledBack, PassRate: c.Quality.PassRate,
		PassRateInterval: c.Interval,
		PassRateBasis:    c.Quality.PassRates.Basis, GradedSessions: c.Quality.GradedSessions, Sessions: c.Quality.Sessions,
		Cost: c.Quality.Cost, PushedAt: httpapi.Time(c.PushedAt),
	}
	if c.Tenure != nil {
		out.CurrentSince, out.CurrentUntil = httpapi.NullTime(&c.Tenure.Since), httpapi.NullTime(c.Tenure.Until)
	}
	return out
}

func (s *Service) handleChoices(ctx context.Context, in registry.EntryPath) (out choicesOutput, err error) {
	c, err := s.Choices(ctx, access.From(ctx).OrgID, in.ID)
	if err != nil {
		return out, err
	}
	out.ForwardOnly, out.Targets = c.ForwardOnly, make([]choiceOutput, len(c.Targets))
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
		out.Undo = &undoOutput{c.Undo.From, c.Undo.To, httpapi.Time(c.Undo.At)}
	}
	return out, nil
}

type undoInput struct {
	registry.EntryPath
	Body struct {
		Reason string `json:"reason,omitempty" example:"the alert was wrong"`
	}
}

func (s *Service) handleUndo(ctx context.Context, in undoInput) (rollbackOutput, error) {
	r, err := s.Undo(ctx, access.From(ctx), in.ID, in.Body.Reason)
	out := rollbackOutput{
		Entry: registry.NewEntryOutput(r.Entry), Version: registry.NewVersionOutput(r.Entry, r.Version),
		RolledBackFrom: r.From.Version,
	}
	if in.Body.Reason != "" {
		out.Reason = &in.Body.Reason
	}
	return out, err
}
