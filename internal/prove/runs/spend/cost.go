// Package spend knows what runs cost: what their trials have cost, what they may
// cost, and what they will probably cost. It writes the tables eval_run_costs,
// eval_run_terms and eval_agent_costs of package runs.
package spend

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

// A Cost is what the models that took part in a trial or a run cost.
type Cost struct {
	// Micros are millionths of a dollar, of the requests whose price is known.
	Micros int64 `json:"micros"`
	// Unpriced are the requests whose price is unknown.
	Unpriced int64              `json:"unpriced_requests,omitempty"`
	Requests int64              `json:"requests"` // failed ones included
	Tokens   pricing.CostTokens `json:"tokens"`
}

// USD is the cost in dollars, and nil if a part of it is unknown: a sum that lacks
// requests looks like a low price.
func (c Cost) USD() *float64 {
	if c.Unpriced > 0 {
		return nil
	}
	dollars := pricing.Dollars(c.Micros)
	return &dollars
}

// Add adds another cost.
func (c *Cost) Add(more Cost) {
	c.Micros += more.Micros
	c.Unpriced += more.Unpriced
	c.Requests += more.Requests
	c.Tokens.Input += more.Tokens.Input
	c.Tokens.Output += more.Tokens.Output
	c.Tokens.CacheRead += more.Tokens.CacheRead
	c.Tokens.CacheWrite += more.Tokens.CacheWrite
}

// Prices has the prices of models for an organisation.
type Prices interface {
	Table(ctx context.Context, orgID string) (pricing.Table, error)
}

// OfUsage is what the requests of an agent cost.
func OfUsage(u gateway.Usage) Cost {
	return Cost{Micros: u.Micros, Unpriced: u.Unpriced, Requests: u.Requests, Tokens: pricing.CostTokens{
		Input: u.Tokens.Input, Output: u.Tokens.Output, CacheRead: u.Tokens.CacheRead, CacheWrite: u.Tokens.CacheWrite,
	}}
}

// OfRecord returns what the requests of a judge's record cost. Requests without any
// answer are free. An answer without token counts comes from a server that doesn't
// report them, so its price is unknown.
func OfRecord(r judge.Record, prices pricing.Table, at time.Time) Cost {
	u := r.Usage
	// Judges report cached tokens as part of the input; they have prices of their own.
	c := Cost{Requests: int64(u.Attempts), Tokens: pricing.CostTokens{
		Input: u.InputTokens - u.CacheReadTokens - u.CacheWriteTokens, Output: u.OutputTokens,
		CacheRead: u.CacheReadTokens, CacheWrite: u.CacheWriteTokens,
	}}
	if u.InputTokens+u.OutputTokens == 0 {
		if r.Raw != "" {
			c.Unpriced = c.Requests
		}
		return c
	}
	price, known := prices.Lookup(r.Model, at)
	if known {
		c.Micros, known = price.Micros(pricing.Tokens{
			Input: c.Tokens.Input, Output: c.Tokens.Output, CacheRead: c.Tokens.CacheRead, CacheWrite: c.Tokens.CacheWrite,
		})
	}
	if !known {
		c.Unpriced = c.Requests
	}
	return c
}
