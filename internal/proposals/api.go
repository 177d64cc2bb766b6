package proposals

import (
	"context"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
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
	httpapi.Add(a, s.handlePatch, httpapi.Route{
		Permission: access.Write, Method: "PATCH", Path: "/api/v1/proposals/{id}",
		Summary: "Approve, reject or mark a proposal as applied",
	})
	httpapi.Add(a, s.handleListCreator, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/creator-signals/proposals",
		Summary: "List the proposals that contributors' signals gave rise to",
	})
}

type proposalOutput struct {
	ID                string          `json:"id" format:"uuid"`
	SkillID           string          `json:"skill_id" format:"uuid"`
	SkillName         string          `json:"skill_name"`
	Type              Type            `json:"proposal_type" enum:"description,body"`
	Finding           string          `json:"finding" example:"missed_trigger" doc:"What it answers; once for each skill"`
	CurrentValue      *string         `json:"current_value"`
	ProposedValue     *string         `json:"proposed_value" doc:"Null where only the reason is known"`
	Reason            string          `json:"reason"`
	Confidence        *float64        `json:"confidence" doc:"From 0 to 1"`
	PassRateBefore    *float64        `json:"pass_rate_before"`
	ProjectedPassRate *float64        `json:"projected_pass_rate"`
	Evidence          json.RawMessage `json:"evidence" doc:"Counts, buckets and period"`
	Status            Status          `json:"status" enum:"pending,approved,rejected,applied"`
	ProposedBy        string          `json:"proposed_by" example:"contributor_aggregate"`
	ReviewedBy        *string         `json:"reviewed_by"`
	ReviewedAt        *httpapi.Time   `json:"reviewed_at"`
	AppliedAt         *httpapi.Time   `json:"applied_at"`
	CreatedAt         httpapi.Time    `json:"created_at"`
}

func newProposalOutput(p Proposal) proposalOutput {
	return proposalOutput{
		ID: p.ID, SkillID: p.SkillID, SkillName: p.SkillName, Type: p.Type, Finding: p.Finding, CurrentValue: p.CurrentValue,
		ProposedValue: p.ProposedValue, Reason: p.Reason, Confidence: p.Confidence, PassRateBefore: p.PassRateBefore,
		ProjectedPassRate: p.ProjectedPassRate, Evidence: p.Evidence, Status: p.Status, ProposedBy: p.ProposedBy,
		ReviewedBy: p.ReviewedBy, ReviewedAt: httpapi.NullTime(p.ReviewedAt), AppliedAt: httpapi.NullTime(p.AppliedAt),
		CreatedAt: httpapi.Time(p.CreatedAt),
	}
}

type listInput struct {
	httpapi.Page
	Status    Status `query:"status" enum:"pending,approved,rejected,applied" doc:"Only those that stand here"`
	SkillName string `query:"skill_name" maxLength:"200" doc:"Only of this skill"`
	Hidden    bool   `query:"hidden" doc:"true: also pending ones of hidden skills"`
}

type listOutput struct {
	Proposals  []proposalOutput   `json:"proposals" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	return s.page(ctx, in, "")
}

func (s *Service) handleListCreator(ctx context.Context, in listInput) (listOutput, error) {
	return s.page(ctx, in, Contributors)
}

func (s *Service) page(ctx context.Context, in listInput, by string) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		Status: in.Status, SkillName: in.SkillName, ProposedBy: by, Hidden: in.Hidden, Limit: in.PerPage, Offset: in.Offset(),
	})
	out := listOutput{Proposals: make([]proposalOutput, len(all)), Pagination: in.Of(total)}
	for i, p := range all {
		out.Proposals[i] = newProposalOutput(p)
	}
	return out, err
}

// ProposalPath names a proposal in a path.
type ProposalPath struct {
	ID string `path:"id" doc:"Id of the proposal"`
}

type getOutput struct {
	Proposal proposalOutput `json:"proposal"`
}

func (s *Service) handleGet(ctx context.Context, in ProposalPath) (getOutput, error) {
	p, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	return getOutput{newProposalOutput(p)}, err
}

type patchInput struct {
	ProposalPath
	Body struct {
		Status Status `json:"status" enum:"pending,approved,rejected,applied"`
	}
}

func (s *Service) handlePatch(ctx context.Context, in patchInput) (getOutput, error) {
	p, err := s.Move(ctx, access.From(ctx), in.ID, in.Body.Status)
	return getOutput{newProposalOutput(p)}, err
}
