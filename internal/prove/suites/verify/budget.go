package verify

import (
	"context"
	"errors"
	"time"
)

const (
	// maxCost bounds one check, about a second. A unit is about 20 ns: one
	// instruction of a regular expression for one character; see BenchmarkWorst.
	maxCost = 50_000_000
	// maxDuration is the backstop on a slow machine.
	maxDuration = 10 * time.Second
	// pollEvery is how many units pass between two checks of the context.
	pollEvery = 100_000
)

// Both explain to the author of a case why a check has no verdict.
var (
	errTooComplex = errors.New("it takes too many steps on this output")
	errTooLong    = errors.New("it takes too long on this output")
)

// A budget counts what a check costs, and aborts it when that is too much or the
// context is done. It is needed since the libraries take no context in their inner
// loops.
type budget struct {
	ctx          context.Context // of the one check that the budget is for
	spent, polls int64
	err          error
}

// newBudget returns the budget of one check. The caller calls stop at its end.
func newBudget(ctx context.Context) (b *budget, stop context.CancelFunc) {
	ctx, stop = context.WithTimeoutCause(ctx, maxDuration, errTooLong)
	return &budget{ctx: ctx, err: context.Cause(ctx)}, stop
}

// spend adds to the cost, and returns why the check must be aborted, or nil.
func (b *budget) spend(cost int64) error {
	if b.err != nil {
		return b.err
	}
	b.spent += cost
	if b.spent > maxCost {
		b.err = errTooComplex
	} else if b.spent/pollEvery > b.polls {
		b.polls = b.spent / pollEvery
		b.err = context.Cause(b.ctx)
	}
	return b.err
}
