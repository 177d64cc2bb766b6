package gates

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// A Mode says what a gate may do.
type Mode string

// The modes.
const (
	Off     Mode = "off"
	Report  Mode = "report"  // the version becomes current at once, and the gate says what it thinks
	Enforce Mode = "enforce" // the version is a candidate until the gate lets it pass
)

// What an inconclusive verdict does to a candidate.
const (
	PassInconclusive = "pass"
	HoldInconclusive = "hold"
)

// A Policy says how versions of an entry are gated. It is stored as the API shows
// it. Fields missing in the database have the value of DefaultPolicy, so that a new one needs
// no migration.
type Policy struct {
	Mode           Mode            `json:"mode" enum:"off,report,enforce"`
	Suites         []string        `json:"suites" nullable:"false" doc:"Ids of suites; empty: those of the skill's cloud sources"`
	Agent          json.RawMessage `json:"agent" doc:"The agent and model of the trials; null: what the cases say"`
	Trials         int             `json:"trials" doc:"Of each case on each version"`
	MinCases       int             `json:"min_cases" doc:"With fewer decided cases the verdict is inconclusive"`
	OnInconclusive string          `json:"on_inconclusive" enum:"pass,hold"`
	MaxCostUSD     *float64        `json:"max_cost_usd" doc:"Cost limit, beyond which the gate is inconclusive; null: no limit"`
	MaxMinutes     int             `json:"max_minutes" doc:"Time limit, after which the gate is inconclusive"`
	Approvals      int             `json:"approvals" doc:"People who must approve a version before it becomes current, in every mode"`
	SelfApproval   bool            `json:"self_approval" doc:"The approval of the person who published the version counts"`
	HostReviews    bool            `json:"host_reviews" doc:"Approving reviews of the merged pull request on the code host count as approvals"`
	Floors         Floors          `json:"floors"`
}

// Floors are absolute demands: a version below one is blocked. A nil floor isn't checked. They
// hold for the first version, too, which has nothing to compare with.
type Floors struct {
	Validation    *string  `json:"validation,omitempty" enum:"pass,warn" doc:"The worst allowed status of the validation"`
	PassRate      *float64 `json:"pass_rate,omitempty" doc:"At most the lower bound of the pass rate's 95 % interval (Wilson)"`
	TriggerRecall *float64 `json:"trigger_recall,omitempty" doc:"Share of the queries that should trigger the skill and do"`
	SkillTokens   *int     `json:"skill_md_tokens,omitempty" doc:"At most so many tokens in SKILL.md"`
}

// needTrials reports whether a floor is about the outcome of trials.
func (f Floors) needTrials() bool { return f.PassRate != nil || f.TriggerRecall != nil }

// DefaultPolicy is the policy of organisations that set none. Gates cost money, so they are off
// until somebody asks for them.
func DefaultPolicy() Policy {
	return Policy{Mode: Off, Suites: []string{}, Trials: 3, MinCases: 8, OnInconclusive: HoldInconclusive, MaxMinutes: 30}
}

// Limits of a policy. validate enforces them.
const (
	maxSuites = 20
	// MaxApprovals is how many approvals a policy may ask for.
	MaxApprovals = 20
	maxMinCases  = 500
	maxMinutes   = 24 * 60
	maxCost      = 1_000_000 // USD
	maxAgent     = 10_000    // bytes
)

// agent returns the agent of the trials, as a run takes it; nil for none. It is stored as raw
// JSON because the API returns it as it was given.
func (p Policy) agent() (none *suites.Agent, err error) {
	if len(p.Agent) == 0 || string(p.Agent) == "null" {
		return none, nil // as in most policies
	}
	a := &suites.Agent{}
	d := json.NewDecoder(bytes.NewReader(p.Agent))
	d.DisallowUnknownFields()
	if err := d.Decode(a); err != nil || a.Name == "" {
		return nil, fault.Invalid("agent", "agent must have the name of an agent, and may have a model")
	}
	return a, nil
}

// validate returns everything that is wrong, by field. Whether suites exist is checkSuites'
// business.
func (p Policy) validate() (issues []fault.Issue) {
	refuse := func(bad bool, field, format string, args ...any) {
		if bad {
			issues = append(issues, fault.At(field, format, args...))
		}
	}
	within := func(field string, value, low, high int) {
		refuse(value < low || value > high, field, "%s must be %d to %d", field, low, high)
	}
	refuse(!slices.Contains([]Mode{Off, Report, Enforce}, p.Mode), "mode", "mode must be off, report or enforce")
	refuse(p.OnInconclusive != PassInconclusive && p.OnInconclusive != HoldInconclusive,
		"on_inconclusive", "on_inconclusive must be pass or hold")
	within("trials", p.Trials, 1, runs.MaxTrials)
	within("min_cases", p.MinCases, 0, maxMinCases)
	within("max_minutes", p.MaxMinutes, 1, maxMinutes)
	within("approvals", p.Approvals, 0, MaxApprovals)
	refuse(p.MaxCostUSD != nil && (*p.MaxCostUSD <= 0 || *p.MaxCostUSD > maxCost), "max_cost_usd",
		"max_cost_usd must be above 0 and at most %d, or null", maxCost)
	refuse(len(p.Suites) > maxSuites, "suites", "suites must be at most %d", maxSuites)
	_, err := p.agent()
	refuse(err != nil || len(p.Agent) > maxAgent, "agent", "agent must have the name of an agent, and may have a model")
	f := p.Floors
	refuse(f.Validation != nil && *f.Validation != lint.StatusPass && *f.Validation != lint.StatusWarn,
		"floors.validation", "floors.validation must be pass or warn")
	share := func(field string, v *float64) {
		refuse(v != nil && (*v < 0 || *v > 1), field, "%s must be 0 to 1", field)
	}
	share("floors.pass_rate", f.PassRate)
	share("floors.trigger_recall", f.TriggerRecall)
	refuse(f.SkillTokens != nil && *f.SkillTokens < 1, "floors.skill_md_tokens", "floors.skill_md_tokens must be at least 1")
	return issues
}

// PolicyIn returns the policy of an entry, or else the organisation's default.
func PolicyIn(ctx context.Context, q store.Querier, e registry.Entry) (Policy, error) {
	p, _, err := policyOf(ctx, q, e.OrgID, e.ID)
	return p, err
}

// PolicyOf returns the policy of an entry of the organisation, and whether it is
// the organisation's default. Without an entry it is that default.
func (s *Service) PolicyOf(ctx context.Context, orgID, entryID string) (p Policy, inherited bool, err error) {
	if entryID != "" {
		if _, err := s.Registry.Own(ctx, orgID, entryID); err != nil {
			return p, false, err
		}
	}
	return policyOf(ctx, s.DB, orgID, entryID)
}

// SetPolicy sets the policy of an entry or, without one, the organisation's
// default. Lowering it needs more than the permission to set it; see mayLower. What waits by
// then goes on waiting for what was asked before.
func (s *Service) SetPolicy(ctx context.Context, c access.Caller, entryID string, p Policy) (_ Policy, err error) {
	defer fault.Wrap(&err, "set the gate policy of %s", entryID)
	if _, _, err := s.PolicyOf(ctx, c.OrgID, entryID); err != nil {
		return p, err // whose entry it is comes before what the policy says
	}
	if string(p.Agent) == "null" {
		p.Agent = nil
	}
	// Sorted and without duplicates, so that equal policies are stored equally.
	p.Suites = append([]string{}, p.Suites...)
	slices.Sort(p.Suites)
	p.Suites = slices.Compact(p.Suites)
	issues := p.validate()
	if len(issues) == 0 {
		if issues, err = s.checkSuites(ctx, c.OrgID, p.Suites); err != nil {
			return p, err
		}
	}
	if len(issues) > 0 {
		return p, fault.Issues(issues...)
	}
	return p, s.DB.InTx(ctx, func(tx *store.Tx) error {
		target := audit.Target{Kind: "organisation", ID: c.OrgID, Name: c.OrgName}
		if entryID != "" {
			// A push of the same entry waits: its version is gated by the policy before or
			// after, not by a mixture.
			e, err := s.Registry.Lock(ctx, tx, c.OrgID, entryID)
			if err != nil {
				return err
			}
			target = audit.Target{Kind: "entry", ID: e.ID, Name: e.Name}
		}
		// Read again under the lock: somebody else may have raised it since.
		before, _, err := policyOf(ctx, tx, c.OrgID, entryID)
		if err != nil {
			return err
		}
		lowered := p.lowers(before)
		if len(lowered) > 0 {
			if err := mayLower(c, lowered); err != nil {
				return err
			}
			if err := keepRequirements(ctx, tx, c.OrgID, entryID, before); err != nil {
				return err
			}
		}
		if err := upsertPolicy(ctx, tx, c, entryID, p); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "gates.policy.change", Target: target,
			Detail: audit.Detail{
				"mode": p.Mode, "suites": len(p.Suites), "on_inconclusive": p.OnInconclusive, "approvals": p.Approvals,
				"self_approval": p.SelfApproval, "host_reviews": p.HostReviews, "lowered": lowered,
			},
		})
	})
}

// checkSuites refuses suites that do not exist or cannot be run.
func (s *Service) checkSuites(ctx context.Context, orgID string, ids []string) (issues []fault.Issue, err error) {
	for _, id := range ids {
		suite, err := s.Suites.Get(ctx, orgID, id)
		switch {
		case fault.Is(err, fault.NotFound):
			issues = append(issues, fault.At("suites", "suites must name eval suites of the organisation, and %s is none", id))
		case err != nil:
			return nil, err
		case !suite.Runnable():
			issues = append(issues, fault.At("suites", "suite %s cannot be run: %s", suite.Name, suites.IssueText(suite.Issues)))
		}
	}
	return issues, nil
}
