package web

import (
	"context"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

// agentChoices returns the agents that can be run here with each of their models, and
// the estimated cost of a run of the suite, if one is given, with one trial of each case. It
// is empty if the server runs no agents.
func (s *Service) agentChoices(ctx context.Context, orgID, suiteID string) ([]choice, error) {
	if s.Runs.Agents == nil {
		return nil, nil
	}
	var all []choice
	for _, a := range s.Runs.Agents.Usable(ctx) {
		for _, model := range a.Models {
			label := a.Name
			if a.Version != nil {
				label += " " + *a.Version
			}
			label += ", " + model
			if suiteID == "" {
				all = append(all, choice{a.Name + " " + model, label})
				continue
			}
			_, micros, err := s.Runs.Estimate(ctx, orgID, suiteID, runs.NewRun{Agent: &suites.Agent{Name: a.Name, Model: model}})
			if err != nil {
				return nil, err
			}
			if micros != nil {
				label += ", about " + pricing.Format(pricing.Dollars(*micros)) + " for one trial of each case"
			}
			all = append(all, choice{a.Name + " " + model, label})
		}
	}
	return all, nil
}

// setAgent sets the agent and the spending limit from the form. The agent is an option
// of agentChoices: "NAME MODEL".
func (f runForm) setAgent(n *runs.NewRun) error {
	if name, model, _ := strings.Cut(f.Agent, " "); name != "" {
		n.Agent = &suites.Agent{Name: name, Model: model}
	}
	if f.MaxCost == "" {
		return nil
	}
	usd, ok := formNumber(f.MaxCost, maxRunCost)
	if !ok || usd <= 0 {
		return fault.Invalid("max_cost_usd", "the most that the run may cost must be dollars, like 1.50")
	}
	n.MaxMicros = spend.Micros(&usd)
	return nil
}

// maxRunCost is the highest spending limit that the form accepts, in dollars, as in the
// API.
const maxRunCost = 100_000

// CostParts returns the costs of the arms of a run.
func (r runView) CostParts() []choice { return armCosts(r.AllTrials) }

// CostParts returns the costs of the arms of a case.
func (c runCase) CostParts() []choice { return armCosts(c.Trials) }

// armCosts returns the formatted costs of the arms that have trials, in a fixed order.
func armCosts(trials []runs.Trial) (all []choice) {
	costs := runs.CostsByArm(trials)
	for _, arm := range []choice{
		{string(runs.WithSkill), "with the skill"},
		{string(runs.WithoutSkill), "without the skill"},
		{string(runs.WithPrevious), "with the previous version"},
	} {
		if cost, ok := costs[runs.Arm(arm.Value)]; ok {
			all = append(all, choice{format.Money(cost.USD()), arm.Label})
		}
	}
	return all
}

// EstimateUSD is the estimated cost of the run; nil if it is unknown.
func (r runView) EstimateUSD() *float64 { return spend.USD(r.Terms.Estimate) }

// MaxUSD is the spending limit of the run; nil if there is none.
func (r runView) MaxUSD() *float64 { return spend.USD(r.Terms.MaxMicros) }
