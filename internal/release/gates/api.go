package gates

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Mount adds the routes of gates.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handlePolicy, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/gate-policy",
		Summary: "How versions of an entry are gated",
	})
	httpapi.Add(a, s.handleSetPolicy, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: "/api/v1/registry/{id}/gate-policy",
		Summary: "Set how versions of an entry are gated",
	})
	httpapi.Add(a, s.handleDefaultPolicy, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/settings/gate-policy",
		Summary: "How versions of entries without a policy of their own are gated",
	})
	httpapi.Add(a, s.handleSetDefaultPolicy, httpapi.Route{
		Permission: access.Admin, Method: "PUT", Path: "/api/v1/settings/gate-policy",
		Summary: "Set how versions of entries without a policy of their own are gated",
	})
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/gates",
		Summary: "List gates, newest first",
	})
	httpapi.Add(a, s.handleGet, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/gates/{id}",
		Summary: "Get a gate",
	})
	httpapi.Add(a, s.handleAsk, httpapi.Route{
		// Accepted, not Created: the verdict comes later, and clients poll the gate.
		Permission: access.Write, Method: "POST", Path: "/api/v1/registry/{id}/gates", Status: http.StatusAccepted,
		Summary: "Gate a snapshot of a cloud source as a push of it would be, without publishing it",
	})
	httpapi.Add(a, s.handleRerun, httpapi.Route{
		Permission: access.Write, Method: "POST", Path: "/api/v1/gates/{id}/rerun", Status: http.StatusAccepted,
		Summary: "Gate the same version again",
	})
	httpapi.Add(a, s.handleOverride, httpapi.Route{
		// An override is worth as much as a rollback: it makes a version current by a person's
		// will.
		Permission: access.RegistryRollback, Plan: access.Pro, Method: "POST", Path: "/api/v1/gates/{id}/override",
		Summary: "Make a candidate current despite the verdict of its gate",
	})
}

type policyOutput struct {
	Policy    Policy `json:"policy"`
	Inherited bool   `json:"inherited" doc:"The entry has no policy of its own, and this is the organisation's"`
}

// policyFields are a policy in a request: what is left out has its default. Pointers and raw
// JSON tell what is left out from what is zero or null.
type policyFields struct {
	Mode           Mode            `json:"mode,omitempty" enum:"off,report,enforce"`
	Suites         []string        `json:"suites,omitempty" doc:"Ids of suites; empty: those of the skill's cloud sources"`
	Agent          json.RawMessage `json:"agent,omitempty" doc:"The agent and model of the trials; null: what the cases say"`
	Trials         *int            `json:"trials,omitempty" doc:"Of each case on each version; 3 when omitted"`
	MinCases       *int            `json:"min_cases,omitempty" doc:"8 when omitted"`
	OnInconclusive string          `json:"on_inconclusive,omitempty" enum:"pass,hold" doc:"hold when omitted"`
	MaxCostUSD     json.RawMessage `json:"max_cost_usd,omitempty" doc:"A number; null: no limit"`
	MaxMinutes     *int            `json:"max_minutes,omitempty" doc:"30 when omitted"`
	Approvals      int             `json:"approvals,omitempty" doc:"0 when omitted"`
	SelfApproval   bool            `json:"self_approval,omitempty" doc:"false when omitted"`
	HostReviews    bool            `json:"host_reviews,omitempty" doc:"false when omitted"`
	Floors         Floors          `json:"floors,omitempty"`
}

// policy fills in the defaults. SetPolicy validates.
func (f policyFields) policy() (p Policy, err error) {
	p = DefaultPolicy()
	p.Mode, p.Suites, p.Agent, p.Floors = f.Mode, f.Suites, f.Agent, f.Floors
	p.Approvals, p.SelfApproval, p.HostReviews = f.Approvals, f.SelfApproval, f.HostReviews
	p.OnInconclusive = cmp.Or(f.OnInconclusive, p.OnInconclusive)
	for field, given := range map[*int]*int{&p.Trials: f.Trials, &p.MinCases: f.MinCases, &p.MaxMinutes: f.MaxMinutes} {
		if given != nil {
			*field = *given
		}
	}
	if len(f.MaxCostUSD) > 0 && json.Unmarshal(f.MaxCostUSD, &p.MaxCostUSD) != nil {
		return p, fault.Invalid("max_cost_usd", "max_cost_usd must be a number or null")
	}
	return p, nil
}

// policyBody takes a policy as the answer shows it, or its fields alone. So a client may send
// back what it got from GET.
type policyBody struct {
	policyFields
	Policy *policyFields `json:"policy,omitempty" doc:"The policy; its fields may also stand beside it"`
}

func (b policyBody) policy() (Policy, error) {
	if b.Policy != nil {
		return b.Policy.policy()
	}
	return b.policyFields.policy()
}

func (s *Service) handlePolicy(ctx context.Context, in registry.EntryPath) (policyOutput, error) {
	p, inherited, err := s.PolicyOf(ctx, access.From(ctx).OrgID, in.ID)
	return policyOutput{p, inherited}, err
}

type setPolicyInput struct {
	registry.EntryPath
	Body policyBody
}

func (s *Service) handleSetPolicy(ctx context.Context, in setPolicyInput) (policyOutput, error) {
	p, err := in.Body.policy()
	if err != nil {
		return policyOutput{}, err
	}
	p, err = s.SetPolicy(ctx, access.From(ctx), in.ID, p)
	return policyOutput{p, false}, err
}

func (s *Service) handleDefaultPolicy(ctx context.Context, _ httpapi.None) (policyOutput, error) {
	p, _, err := s.PolicyOf(ctx, access.From(ctx).OrgID, "")
	return policyOutput{p, false}, err
}

type setDefaultInput struct {
	Body policyBody
}

func (s *Service) handleSetDefaultPolicy(ctx context.Context, in setDefaultInput) (policyOutput, error) {
	p, err := in.Body.policy()
	if err != nil {
		return policyOutput{}, err
	}
	p, err = s.SetPolicy(ctx, access.From(ctx), "", p)
	return policyOutput{p, false}, err
}

type listInput struct {
	EntryID string `query:"entry_id" doc:"Only of this entry"`
	Verdict string `query:"verdict" enum:"pass,block,inconclusive,skipped" doc:"Only with this verdict"`
	httpapi.Page
}

type listOutput struct {
	Gates      []api.Gate         `json:"gates" nullable:"false"`
	Pagination httpapi.Pagination `json:"pagination"`
}

func (s *Service) handleList(ctx context.Context, in listInput) (listOutput, error) {
	all, total, err := s.List(ctx, access.From(ctx).OrgID, Filter{
		EntryID: in.EntryID, Verdict: in.Verdict, Page: in.Rows(),
	})
	out := listOutput{Gates: make([]api.Gate, len(all)), Pagination: in.Of(total)}
	for i, g := range all {
		out.Gates[i] = g.Output()
	}
	return out, err
}

type askInput struct {
	registry.EntryPath
	Body struct {
		SnapshotID string   `json:"snapshot_id" format:"uuid" doc:"Of a cloud source"`
		Version    string   `json:"version,omitempty" doc:"What it is called in the answer; snapshot when omitted"`
		Against    string   `json:"against,omitempty" doc:"Version to compare with; the current one when omitted"`
		Suites     []string `json:"suites,omitempty" doc:"Ids of suites; those of the policy when omitted"`
		Trials     *int     `json:"trials,omitempty" doc:"As the policy says when omitted"`
		MinCases   *int     `json:"min_cases,omitempty" doc:"As the policy says when omitted"`
	}
}

func (s *Service) handleAsk(ctx context.Context, in askInput) (gateOutput, error) {
	b := in.Body
	g, err := s.Ask(ctx, access.From(ctx), Question{
		EntryID: in.ID, SnapshotID: b.SnapshotID, Version: b.Version, Against: b.Against, Suites: b.Suites, Trials: b.Trials,
		MinCases: b.MinCases,
	})
	return gateOutput{g.Output()}, err
}

// GatePath names a gate in a path.
type GatePath struct {
	ID string `path:"id" doc:"Id of the gate"`
}

type gateOutput struct {
	Gate api.Gate `json:"gate"`
}

func (s *Service) handleGet(ctx context.Context, in GatePath) (gateOutput, error) {
	g, err := s.Get(ctx, access.From(ctx).OrgID, in.ID)
	return gateOutput{g.Output()}, err
}

func (s *Service) handleRerun(ctx context.Context, in GatePath) (gateOutput, error) {
	g, err := s.Rerun(ctx, access.From(ctx), in.ID)
	return gateOutput{g.Output()}, err
}

type overrideInput struct {
	GatePath
	Body struct {
		Reason string `json:"reason" example:"the failing case is wrong"`
	}
}

func (s *Service) handleOverride(ctx context.Context, in overrideInput) (gateOutput, error) {
	g, err := s.Override(ctx, access.From(ctx), in.ID, in.Body.Reason)
	return gateOutput{g.Output()}, err
}
