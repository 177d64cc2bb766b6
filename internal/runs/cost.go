package runs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/pricing"
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

func (c *Cost) add(more Cost) {
	c.Micros += more.Micros
	c.Unpriced += more.Unpriced
	c.Requests += more.Requests
	c.Tokens.Input += more.Tokens.Input
	c.Tokens.Output += more.Tokens.Output
	c.Tokens.CacheRead += more.Tokens.CacheRead
	c.Tokens.CacheWrite += more.Tokens.CacheWrite
}

// sumCosts adds up trials.
func sumCosts(trials []Trial) (total Cost) {
	for _, t := range trials {
		if t.Evidence.Cost != nil {
			total.add(*t.Evidence.Cost)
		}
	}
	return total
}

// Prices has the prices of models for an organisation.
type Prices interface {
	Table(ctx context.Context, orgID string) (pricing.Table, error)
}

// costOf is what a trial cost, nil if no model took part.
func (x *execution) costOf(t Trial) *Cost {
	var total Cost
	for _, record := range []*judge.Record{t.Evidence.Judge, t.Evidence.Producer} {
		if record != nil {
			total.add(priced(*record, x.prices, time.Now()))
		}
	}
	if total.Requests == 0 {
		return nil
	}
	return &total
}

// priced is what the requests of a record cost. Those without any answer are free,
// but an answer without tokens comes from a server that does not count them.
func priced(r judge.Record, prices pricing.Table, at time.Time) Cost {
	u := r.Usage
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
