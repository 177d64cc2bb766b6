package httpapi

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// A Budget bounds the memory of all requests together. A request that needs some waits
// for others to release theirs, and then fails with fault.Unavailable (503 with
// Retry-After). A nil budget has no bound.
type Budget struct{ *memoryBudget }

// NewBudget returns a budget of capacity bytes, of which only small requests use the
// reserve.
func NewBudget(capacity, reserve int64) *Budget { return &Budget{newMemoryBudget(capacity, reserve)} }

// Reserve waits for n bytes of memory and returns a function that releases them.
// A request for more than the capacity waits for all of it, and runs alone.
//
//	release, err := s.Memory.Reserve(ctx, unpacked)
//	if err != nil {
//		return err
//	}
//	defer release()
func (b *Budget) Reserve(ctx context.Context, n int64) (release func(), err error) {
	s := b.share(ctx)
	if err := s.Grow(ctx, n); err != nil {
		return nil, err
	}
	return s.Release, nil
}

// tenantOf returns the organisation of a request, or the address of its client; ""
// outside of a request, and for clients that cannot be told apart: they have no limit
// of their own.
func tenantOf(ctx context.Context) string {
	if c := access.From(ctx); c.OrgID != "" {
		return c.OrgID
	}
	s, ok := ctx.Value(stateKey{}).(*requestState)
	switch {
	case ok && s.caller.OrgID != "":
		return s.caller.OrgID
	case ok && s.client.IsValid() && !s.client.IsLoopback():
		return network(s.client).String()
	}
	return ""
}

// share returns what a request will hold, nothing yet.
func (b *Budget) share(ctx context.Context) *memoryShare {
	if b == nil {
		return &memoryShare{}
	}
	return b.Share(tenantOf(ctx))
}
