package proposals

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Mount adds the routes of proposals.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/proposals",
		Summary: "List proposals",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/proposals/{id}",
		Summary: "Get a proposal",
	})
	// Owns lets the owners of an entry answer its proposals, although they may not write otherwise.
	httpapi.Add(a, s.handlePatch, httpapi.Route{
		Permission: access.Write, Owns: s.MayAnswer, Method: "PATCH", Path: "/api/v1/proposals/{id}",
		Summary: "Write the value of a proposal; approve, reject or mark it as applied",
	})
	httpapi.Add(a, s.handleRefresh, httpapi.Route{
		Permission: access.Write, Owns: s.MayAnswer, Method: "POST", Path: "/api/v1/proposals/{id}/refresh",
		Summary: "Regenerate a proposal from signals for the current text",
	})
	httpapi.Add(a, s.handleListCreator, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/creator-signals/proposals",
		Summary: "List the proposals from contributors' signals",
	})
}

// NewOutput shows a proposal.
func NewOutput(p Proposal) api.Proposal {
	out := api.Proposal{
		ID: p.ID, SkillID: p.SkillID, SkillName: p.SkillName, Type: string(p.Type), Finding: p.Finding,
		CurrentValue:  p.CurrentValue,
		ProposedValue: p.ProposedValue, Reason: p.Reason, Confidence: p.Confidence, PassRateBefore: p.PassRateBefore,
		ProjectedPassRate: p.ProjectedPassRate, Evidence: p.Evidence, Status: string(p.Status), ProposedBy: p.ProposedBy,
		ReviewedBy: p.ReviewedBy, ReviewedAt: httpapi.NullTime(p.ReviewedAt), AppliedAt: httpapi.NullTime(p.AppliedAt),
		CreatedAt: httpapi.Time(p.CreatedAt),
		Target:    string(p.Target), EntryID: orNull(p.EntryID), BaseVersion: orNull(p.BaseVersion),
		Diff: orNull(p.Diff), Edits: p.Edits, Proved: p.Proved, Proof: p.Proof, Stale: p.Stale != "",
		StaleReason: orNull(p.Stale),
		RefreshedAt: httpapi.NullTime(p.RefreshedAt),
	}
	if o := p.Outcome; o != nil {
		out.Outcome = &api.ProposalOutcome{
			Kind: string(o.Kind), State: string(o.State), Message: orNull(o.Message), Version: orNull(o.Version),
			URL:    orNull(o.URL),
			Branch: orNull(o.Branch), ObservedPassRate: o.ObservedPassRate, UpdatedAt: httpapi.Time(o.UpdatedAt),
		}
	}
	return out
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type listInput struct {
	httpapi.Page
	Status    Status `query:"status" enum:"pending,approved,rejected,applied" doc:"Only those that stand here"`
	SkillName string `query:"skill_name" maxLength:"200" doc:"Only of this skill"`
	Hidden    bool   `query:"hidden" doc:"true: also pending ones of hidden skills"`
}

type listOutput struct {
	Proposals  []api.Proposal     `json:"proposals" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	return s.page(ctx, in, "")
}

func (s *Service) handleListCreator(ctx context.Context, in listInput) (listOutput, error) {
	return s.page(ctx, in, Contributors)
}

// page is both lists: that of creators has only proposals from contributors' signals, which are the
// ones that clients list and apply.
func (s *Service) page(ctx context.Context, in listInput, by string) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		Status: in.Status, SkillName: in.SkillName, ProposedBy: by, Hidden: in.Hidden, Page: in.Rows(),
	})
	out := listOutput{Proposals: make([]api.Proposal, len(all)), Pagination: in.Of(total)}
	for i, p := range all {
		out.Proposals[i] = NewOutput(p)
	}
	return out, err
}

// ProposalPath names a proposal in a path.
type ProposalPath struct {
	ID string `path:"id" doc:"Id of the proposal"`
}

type getOutput struct {
	Proposal api.Proposal `json:"proposal"`
}

func (s *Service) handleGet(ctx context.Context, in ProposalPath) (getOutput, error) {
	p, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	return getOutput{NewOutput(p)}, err
}

type patchInput struct {
	ProposalPath
	Body api.ProposalChange
}

// handlePatch takes a status and a value together: the value is written first, so that one request
// writes and approves.
func (s *Service) handlePatch(ctx context.Context, in patchInput) (getOutput, error) {
	if in.Body.Status == nil && in.Body.ProposedValue == nil {
		return getOutput{}, fault.Invalid("status", "status or proposed_value is required")
	}
	p, err := s.Patch(ctx, access.From(ctx), in.ID, Patch{Status: (*Status)(in.Body.Status), Value: in.Body.ProposedValue})
	return getOutput{NewOutput(p)}, err
}

func (s *Service) handleRefresh(ctx context.Context, in ProposalPath) (getOutput, error) {
	p, err := s.Refresh(ctx, access.From(ctx), in.ID)
	return getOutput{NewOutput(p)}, err
}
