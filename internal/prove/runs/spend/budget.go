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
	spent atomic.Bool
	saved atomic.Int64 // the sum that was stored last
}

// OpenBudget continues the budget of a run where earlier workers left it.
func OpenBudget(ctx context.Context, q store.Querier, runID string, t Terms) (*Budget, error) {
	micros, err := Spent(ctx, q, runID)
	var most gateway.Budget
	if t.MaxMicros != nil {
		most.Micros = *t.MaxMicros
	}
	return &Budget{Meter: gateway.NewMeter(most, gateway.Usage{Micros: micros}, nil), runID: runID, terms: t}, err
}

// Add counts requests that don't go through the gateway, i.e. those of the judge. The
// gateway itself counts the agents'.
func (b *Budget) Add(c Cost) {
	b.Meter.Add(gateway.Usage{Requests: c.Requests, Micros: c.Micros, Unpriced: c.Unpriced})
}

// SetSpent marks the budget as spent, whatever the meter has counted.
func (b *Budget) SetSpent() { b.spent.Store(true) }

// IsSpent reports whether nothing is left.
func (b *Budget) IsSpent() bool {
	if most := b.terms.MaxMicros; most != nil && b.Meter.Used().Micros >= *most {
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
	if b.terms == (Terms{}) {
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
