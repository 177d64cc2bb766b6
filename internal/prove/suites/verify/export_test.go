package verify

import (
	"context"
	"encoding/json"
)

// MaxCost bounds a check.
const MaxCost = maxCost

// SchemaCost is what the check of an output cost, of a budget of most.
func SchemaCost(ctx context.Context, most int64, schema, output string) (cost int64, r Result, err error) {
	c, err := newSchemaCheck(json.RawMessage(schema))
	if err != nil {
		return 0, r, err
	}
	return spendMost(ctx, most, func(b *budget) (Result, error) { return c.evaluate(b, Sample{Output: output}) })
}

// AssertionCost is what the check of a sample cost, of a budget of most.
func AssertionCost(ctx context.Context, most int64, expression string, s Sample) (cost int64, r Result, err error) {
	a, err := newAssertion(expression)
	if err != nil {
		return 0, r, err
	}
	return spendMost(ctx, most, func(b *budget) (Result, error) { return a.evaluate(b, s) })
}

// spendMost lets a check spend the rest of a budget of which only most is left.
func spendMost(ctx context.Context, most int64, evaluate func(*budget) (Result, error)) (int64, Result, error) {
	b, stop := newBudget(ctx)
	defer stop()
	before := maxCost - most
	b.spent = before
	r, err := evaluate(b)
	return b.spent - before, r, err
}
