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

// agentChoices are the agents that can be run here with each of their models, and
// what a run of a suite with one trial of each case would probably cost.
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

// setAgent reads the agent and the budget of the form.
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

// maxRunCost is the most dollars that the form takes, as the API does.
const maxRunCost = 100_000

// CostParts are what the arms of a run cost.
func (r runView) CostParts() []choice { return armCosts(r.AllTrials) }

// CostParts are what the arms of a case cost.
func (c runCase) CostParts() []choice { return armCosts(c.Trials) }

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

// EstimateUSD is what the run would probably cost; nil if that is not known.
func (r runView) EstimateUSD() *float64 { return spend.USD(r.Terms.Estimate) }

// MaxUSD is the most that the run may cost; nil if there is no limit.
func (r runView) MaxUSD() *float64 { return spend.USD(r.Terms.MaxMicros) }
