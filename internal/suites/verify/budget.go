package verify

import (
	"context"
	"errors"
	"time"
)

const (
	// maxCost bounds one check. A unit is about 20 ns: one instruction of a
	// regular expression for one character. See BenchmarkWorst.
	maxCost = 50_000_000
	// maxTime is the backstop where units take longer.
	maxTime = 10 * time.Second
	// lookEvery is how many units pass between two looks at the context.
	lookEvery = 100_000
)

var (
	errTooComplex = errors.New("it takes too many steps on this output")
	errTooLong    = errors.New("it takes too long on this output")
)

// A budget counts what a check costs, and ends it when that is too much or its
// context is done. The libraries that it is built on cannot be cancelled.
type budget struct {
	ctx          context.Context //nolint:containedctx // of the one check that it is for
	spent, looks int64
	err          error
}

// newBudget is the budget of one check. Call stop at its end.
func newBudget(ctx context.Context) (b *budget, stop context.CancelFunc) {
	ctx, stop = context.WithTimeoutCause(ctx, maxTime, errTooLong)
	return &budget{ctx: ctx, err: context.Cause(ctx)}, stop
}

// spend reports why the check must end, or nil.
func (b *budget) spend(cost int64) error {
	if b.err != nil {
		return b.err
	}
	b.spent += cost
	if b.spent > maxCost {
		b.err = errTooComplex
	} else if b.spent/lookEvery > b.looks {
		b.looks = b.spent / lookEvery
		b.err = context.Cause(b.ctx)
	}
	return b.err
}
