package proposals

import (
	"context"
	"encoding/json"

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

// ProposalOutput is a proposal in an answer.
type ProposalOutput struct {
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

	Target      Target         `json:"target" enum:"description,body,both" doc:"What it rewrites"`
	EntryID     *string        `json:"entry_id" format:"uuid" doc:"The skill's entry in the registry"`
	BaseVersion *string        `json:"base_version" doc:"The version that it was made for"`
	Diff        *string        `json:"diff" doc:"Unified, of SKILL.md"`
	Edits       []Edit         `json:"edits" nullable:"false"`
	Proved      bool           `json:"proved" doc:"Better than the current words, on cases that nobody wrote it from or chose it by"`
	Proof       *Proof         `json:"proof"`
	Stale       bool           `json:"stale" doc:"The words that it was made for have changed since"`
	StaleReason *string        `json:"stale_reason"`
	RefreshedAt *httpapi.Time  `json:"refreshed_at"`
	Outcome     *outcomeOutput `json:"outcome" doc:"What became of it; null: it was not applied"`
}

type outcomeOutput struct {
	Kind             Way          `json:"kind" enum:"version,pull_request,patch"`
	State            State        `json:"state" enum:"queued,failed,candidate,blocked,published,rolled_back,withdrawn,open,merged,closed,given"`
	Message          *string      `json:"message" doc:"Why it is in this state"`
	Version          *string      `json:"version"`
	URL              *string      `json:"url" doc:"Of the pull request"`
	Branch           *string      `json:"branch"`
	ObservedPassRate *float64     `json:"observed_pass_rate" doc:"Of the version in production; to compare with projected_pass_rate"`
	UpdatedAt        httpapi.Time `json:"updated_at"`
}

// NewOutput shows a proposal.
func NewOutput(p Proposal) ProposalOutput {
	out := ProposalOutput{
		ID: p.ID, SkillID: p.SkillID, SkillName: p.SkillName, Type: p.Type, Finding: p.Finding, CurrentValue: p.CurrentValue,
		ProposedValue: p.ProposedValue, Reason: p.Reason, Confidence: p.Confidence, PassRateBefore: p.PassRateBefore,
		ProjectedPassRate: p.ProjectedPassRate, Evidence: p.Evidence, Status: p.Status, ProposedBy: p.ProposedBy,
		ReviewedBy: p.ReviewedBy, ReviewedAt: httpapi.NullTime(p.ReviewedAt), AppliedAt: httpapi.NullTime(p.AppliedAt),
		CreatedAt: httpapi.Time(p.CreatedAt),
		Target:    p.Target, EntryID: orNull(p.EntryID), BaseVersion: orNull(p.BaseVersion),
		Diff: orNull(p.Diff), Edits: p.Edits, Proved: p.Proved, Proof: p.Proof, Stale: p.Stale != "", StaleReason: orNull(p.Stale),
		RefreshedAt: httpapi.NullTime(p.RefreshedAt),
	}
	if o := p.Outcome; o != nil {
		out.Outcome = &outcomeOutput{
			Kind: o.Kind, State: o.State, Message: orNull(o.Message), Version: orNull(o.Version), URL: orNull(o.URL),
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
	Proposals  []ProposalOutput   `json:"proposals" nullable:"false"`
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
		Status: in.Status, SkillName: in.SkillName, ProposedBy: by, Hidden: in.Hidden, Limit: in.PerPage, Offset: in.Offset(),
	})
	out := listOutput{Proposals: make([]ProposalOutput, len(all)), Pagination: in.Of(total)}
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
	Proposal ProposalOutput `json:"proposal"`
}

func (s *Service) handleGet(ctx context.Context, in ProposalPath) (getOutput, error) {
	p, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	return getOutput{NewOutput(p)}, err
}

type patchInput struct {
	ProposalPath
	Body struct {
		Status        *Status `json:"status,omitempty" enum:"pending,approved,rejected,applied"`
		ProposedValue *string `json:"proposed_value,omitempty" maxLength:"65536" doc:"The whole description, or the whole body"`
	}
}

// handlePatch takes a status and a value together: the value is written first, so that one request
// writes and approves.
func (s *Service) handlePatch(ctx context.Context, in patchInput) (getOutput, error) {
	if in.Body.Status == nil && in.Body.ProposedValue == nil {
		return getOutput{}, fault.Invalid("status", "status or proposed_value is required")
	}
	p, err := s.Patch(ctx, access.From(ctx), in.ID, Patch{Status: in.Body.Status, Value: in.Body.ProposedValue})
	return getOutput{NewOutput(p)}, err
}

func (s *Service) handleRefresh(ctx context.Context, in ProposalPath) (getOutput, error) {
	p, err := s.Refresh(ctx, access.From(ctx), in.ID)
	return getOutput{NewOutput(p)}, err
}
