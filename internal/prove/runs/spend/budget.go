package spend

import (
	"context"
	"sync/atomic"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Budget is what a run may cost and has cost, while a worker makes its trials. Its
// methods may be called concurrently.
type Budget struct {
	// Meter counts the requests of the run.
	Meter *gateway.Meter

	runID string
	terms Terms
	most  int64 // what the runs before have left of the limit; 0 for no limit
	spent atomic.Bool
	saved atomic.Int64 // the sum that was stored last
}

// OpenBudget continues the budget of a run where earlier workers left it. The runs that it shares
// its limit with are over.
func OpenBudget(ctx context.Context, q store.Querier, runID string, t Terms) (*Budget, error) {
	b := &Budget{runID: runID, terms: t}
	micros, err := Spent(ctx, q, runID)
	if err != nil {
		return nil, err
	}
	if t.MaxMicros != nil {
		others, err := Spent(ctx, q, t.After...)
		if err != nil {
			return nil, err
		}
		b.most = max(1, *t.MaxMicros-others) // 0 would be no limit
		if others >= *t.MaxMicros {
			b.SetSpent()
		}
	}
	b.Meter = gateway.NewMeter(gateway.Budget{Micros: b.most}, gateway.Usage{Micros: micros}, nil)
	return b, nil
}

// Add counts requests that don't go through the gateway, i.e. those of the judge. The
// gateway itself counts the agents'.
func (b *Budget) Add(c Cost) {
	if c.Requests == 0 {
		return
	}
	b.Meter.Add(gateway.Usage{Requests: c.Requests, Micros: c.Micros, Unpriced: c.Unpriced})
}

// Reserve waits until a trial that asks only the judge fits into the budget beside those under way;
// call release after Add. It is nil if nothing is left.
func (b *Budget) Reserve(ctx context.Context) (release func()) {
	if b.most == 0 {
		return func() {}
	}
	if release = b.Meter.Reserve(ctx); release == nil && ctx.Err() == nil {
		b.SetSpent()
	}
	return release
}

// SetSpent marks the budget as spent, whatever the meter has counted.
func (b *Budget) SetSpent() { b.spent.Store(true) }

// IsSpent reports whether nothing is left.
func (b *Budget) IsSpent() bool {
	if b.most > 0 && b.Meter.Used().Micros >= b.most {
		b.spent.Store(true)
	}
	return b.spent.Load()
}

// WasSpent reports whether SetSpent was called, or IsSpent has found that nothing is
// left.
func (b *Budget) WasSpent() bool { return b.spent.Load() }

// Save stores what the run's requests have cost, so that the next worker keeps the
// budget.
func (b *Budget) Save(ctx context.Context, q store.Querier) error {
	// A run without terms has neither a limit nor a row to update.
	if b.terms.isZero() {
		return nil
	}
	micros := b.Meter.Used().Micros
	if micros == b.saved.Load() {
		return nil
	}
	if err := SaveSpent(ctx, q, b.runID, micros); err != nil {
		return err
	}
	b.saved.Store(micros)
	return nil
}
