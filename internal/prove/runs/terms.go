package runs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// setTerms checks the agent and the budget of a new run, and estimates its cost.
// Whether the agent is installed is not checked: another machine may run it.
func (s *Service) setTerms(ctx context.Context, r *Run, n NewRun, cases []suites.Case) (err error) {
	r.Terms.MaxMicros, r.Terms.Compared = n.MaxMicros, n.Compared
	if n.Agent != nil {
		agent := n.Agent.WithDefaults()
		if agent.Model, err = s.modelOf(agent); err != nil {
			return err
		}
		r.Terms.Agent = &agent
	}
	trials := s.agentTrials(*r, cases)
	if n.MaxMicros != nil {
		if err := s.checkPriced(ctx, *r, cases, trials); err != nil {
			return err
		}
	}
	r.Terms.Estimate, err = spend.Estimate(ctx, s.DB, r.OrgID, trials)
	return err
}

// Estimate returns how many trials of a run would have an agent, and what they
// would probably cost, in millionths of a dollar; nil if that is not known.
func (s *Service) Estimate(ctx context.Context, orgID, suiteID string, n NewRun) (trials int64, micros *int64, err error) {
	suite, err := s.Suites.Get(ctx, orgID, suiteID)
	if err != nil {
		return 0, nil, err
	}
	r := Run{OrgID: orgID, Trials: max(1, n.Trials), Baseline: n.Baseline, noSkill: suite.SupportsNoSkill}
	if err := s.setTerms(ctx, &r, NewRun{Agent: n.Agent}, suite.Cases); err != nil {
		return 0, nil, err
	}
	for _, count := range s.agentTrials(r, suite.Cases) {
		trials += count
	}
	return trials, r.Terms.Estimate, nil
}

// modelOf returns the model that an agent asks, by default the first of its models; ""
// if it has none.
func (s *Service) modelOf(a suites.Agent) (string, error) {
	var models, names []string
	known := false
	if s.Agents != nil {
		models, known = s.Agents.Models(a.Name)
		names = s.Agents.Names()
	}
	if !known {
		return "", fault.Invalid("agent.name", "agent.name must be one of %s; there is no agent %q", strings.Join(names, ", "), a.Name)
	}
	switch {
	case a.Model == "" && len(models) == 0:
		return "", nil
	case len(models) == 0:
		return "", fault.Invalid("agent.model", "agent.model cannot be asked by %s: %s", a.Name, agents.NoModel)
	case a.Model == "":
		return models[0], nil
	case !slices.Contains(models, a.Model):
		return "", fault.Invalid("agent.model", "agent.model must be a model that %s can ask: %s",
			a.Name, strings.Join(models, ", "))
	}
	return a.Model, nil
}

// agentTrials counts the trials of a run by agent and model, without those that are
// skipped.
func (s *Service) agentTrials(r Run, cases []suites.Case) map[spend.Model]int64 {
	all := map[spend.Model]int64{}
	for _, c := range cases {
		a := r.agentOf(c)
		if a == nil {
			continue
		}
		model := a.Model
		if model == "" && s.Agents != nil {
			model, _ = s.modelOf(*a) // of a case with an unknown agent, the trials are errors
		}
		for _, arm := range r.Baseline.Arms() {
			if r.skipReason(c, arm) == "" {
				all[spend.Model{Agent: a.Name, Model: model}] += int64(r.Trials)
			}
		}
	}
	return all
}

// checkPriced refuses a spending limit if the price of a model is unknown: the limit
// couldn't be enforced.
func (s *Service) checkPriced(ctx context.Context, r Run, cases []suites.Case, trials map[spend.Model]int64) (err error) {
	prices := pricing.Embedded()
	if s.Prices != nil {
		if prices, err = s.Prices.Table(ctx, r.OrgID); err != nil {
			return err
		}
	}
	var ids []string
	for m := range trials {
		if s.Agents == nil {
			break
		}
		if offer, err := s.Agents.Gateway.Offer(m.Model); err == nil {
			ids = append(ids, offer.ID)
		}
	}
	if about := s.Judge.Describe(); about.API != judge.Builtin && slices.ContainsFunc(cases, r.isJudged) {
		ids = append(ids, about.Model)
	}
	for _, id := range ids {
		if _, known := prices.Lookup(id, time.Now()); !known {
			return fault.Invalid("max_cost_usd",
				"max_cost_usd cannot be kept, since the price of %s is unknown; set it first", id)
		}
	}
	return nil
}
