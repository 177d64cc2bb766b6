package verify

import (
	"context"
	"encoding/json"
)

// MaxCost bounds a check.
const MaxCost = maxCost

// SchemaCost is what the check of an output cost.
func SchemaCost(ctx context.Context, schema, output string) (cost int64, r Result, err error) {
	c, err := newSchemaCheck(json.RawMessage(schema))
	if err != nil {
		return 0, r, err
	}
	c.budget = &budget{ctx: ctx}
	r, err = c.check(ctx, Sample{Output: output})
	return c.budget.spent, r, err
}

// AssertionCost is what the check of a sample cost.
func AssertionCost(ctx context.Context, expression string, s Sample) (cost int64, r Result, err error) {
	a, err := newAssertion(expression)
	if err != nil {
		return 0, r, err
	}
	b, stop := newBudget(ctx)
	defer stop()
	r, err = a.evaluate(b, s)
	return b.spent, r, err
}
