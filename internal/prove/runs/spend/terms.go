package spend

import (
	"context"
	"math"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// Terms are the agent of a run, what it may cost, and the version of its suite. All fields
// may be nil.
type Terms struct {
	// SuiteVersion is that of the cases; 0 for runs from before it was kept.
	SuiteVersion int64 `json:"suite_version,omitempty"`

	Agent     *suites.Agent `json:"agent,omitempty"` // of the cases that name none
	MaxMicros *int64        `json:"max_micros,omitempty"`
	// Estimate is what the run will probably cost, in millionths of a dollar.
	Estimate *int64 `json:"estimate_micros,omitempty"`
	// Compared says that another run, which is compared with this one, has no skill.
	Compared bool `json:"compared,omitempty"`
	// After are the runs that share MaxMicros with this one: it starts when they are over, and may
	// cost what they have left.
	After []string `json:"after,omitempty"`
}

// isZero reports whether there is nothing to store; After only comes with MaxMicros.
func (t Terms) isZero() bool {
	return t.Agent == nil && t.MaxMicros == nil && t.Estimate == nil && !t.Compared && t.SuiteVersion == 0
}

// USD is an amount of millionths in dollars.
func USD(micros *int64) *float64 {
	if micros == nil {
		return nil
	}
	dollars := pricing.Dollars(*micros)
	return &dollars
}

// Micros converts dollars to millionths; nil stays nil.
func Micros(usd *float64) *int64 {
	if usd == nil {
		return nil
	}
	// A tiny limit must not round to 0, which the meter takes for no limit.
	micros := max(1, int64(math.Round(*usd*1e6)))
	return &micros
}

// A Model is an agent with the model that it asks.
type Model struct{ Agent, Model string }

// A Sum is what some trials cost together.
type Sum struct{ Trials, Micros int64 }

// Estimate returns what trials will probably cost, in millionths of a dollar, by the
// mean of the last trials of the same agents and models. It is nil if one of them has
// none yet, or if no trial has an agent.
func Estimate(ctx context.Context, q store.Querier, orgID string, trials map[Model]int64) (unknown *int64, err error) {
	if len(trials) == 0 {
		return unknown, nil
	}
	var total int64
	for m, n := range trials { // a run has one agent, or a few
		last, err := recent(ctx, q, orgID, m)
		if err != nil || last.Trials == 0 {
			return nil, err
		}
		total += n * last.Micros / last.Trials
	}
	return &total, nil
}
