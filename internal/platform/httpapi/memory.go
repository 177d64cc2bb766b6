package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// A memoryBudget is a weighted semaphore that bounds the memory of all requests
// together. A request that needs memory waits up to budgetTimeout for others to
// release theirs, and then fails with fault.Unavailable (503 with Retry-After). A
// nil budget has no bound.
//
// Tenants, i.e. organisations or the addresses of anonymous clients, share it: none
// holds more than a part, those that wait take turns, and when too many wait, the
// tenant with the most loses one.
type memoryBudget struct {
	capacity int64
	reserve  int64 // for small shares only

	mu      sync.Mutex
	free    int64
	shares  uint64              // created so far
	tenants map[string]*tenancy // those that hold some
	waiting fair.Queue[*waiter] // of each tenant the oldest share first
}

// A tenancy is what the shares of a tenant hold.
type tenancy struct {
	held  int64
	small int64 // the part of it that small shares hold
}

// newMemoryBudget returns a budget of capacity bytes. The reserve is the part of it that
// only small shares may use, so that a few large and slow requests do not block the
// many that need little.
func newMemoryBudget(capacity, reserve int64) *memoryBudget {
	b := &memoryBudget{capacity: capacity, reserve: reserve, free: capacity, tenants: map[string]*tenancy{}}
	b.waiting.Before = func(a, b *waiter) bool { return a.age < b.age }
	return b
}

// Usage returns how many bytes are held, how many there are, and how many requests
// wait for some.
func (b *memoryBudget) Usage() (held, capacity int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.capacity - b.free, b.capacity, b.waiting.Len()
}

const (
	// budgetTimeout is how long a request waits for memory in total.
	budgetTimeout = 5 * time.Second
	// smallShare is how much a request may hold and still use the reserve.
	smallShare = 256 << 10
	// maxWaiters is how many requests wait for memory; more are refused.
	maxWaiters = 1024
)

// A memoryShare is what one request holds of a budget. It is used by one goroutine.
type memoryShare struct {
	budget *memoryBudget
	tenant string
	age    uint64 // smaller is older
	held   int64
	waited time.Duration // in total
}

// Share returns a share of a tenant that holds nothing yet. The tenant "" has no limit of
// its own.
func (b *memoryBudget) Share(tenant string) *memoryShare {
	if b == nil {
		return &memoryShare{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares++
	return &memoryShare{budget: b, tenant: tenant, age: b.shares}
}

// A waiter is a share that waits for more memory.
type waiter struct {
	*memoryShare
	n    int64
	done bool // granted or refused
	err  chan error
}

// Grow takes n more bytes. If it fails, the share keeps what it holds until
// Release.
func (s *memoryShare) Grow(ctx context.Context, n int64) error {
	b := s.budget
	if b == nil {
		return nil
	}
	b.mu.Lock()
	n = min(n, b.limit(s, s.held+n)-s.held)
	if n <= 0 {
		b.mu.Unlock()
		return nil
	}
	if b.waiting.Len() == 0 && b.fits(s, n) {
		b.add(s, n)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{memoryShare: s, n: n, err: make(chan error, 1)}
	if !b.admit(w) {
		b.mu.Unlock()
		return errBusy()
	}
	b.grant()
	b.mu.Unlock()
	return w.wait(ctx)
}

// admit lets a share wait, unless too many do and most of them are of its tenant. The
// lock is held.
func (b *memoryBudget) admit(w *waiter) bool {
	if b.waiting.Len() >= maxWaiters {
		dropped, ok := b.waiting.Drop(w.tenant)
		if !ok {
			return false
		}
		b.finish(dropped, errBusy())
	}
	b.waiting.Push(w.tenant, w)
	return true
}

// fits reports whether n more bytes are free for a share. The lock is held.
func (b *memoryBudget) fits(s *memoryShare, n int64) bool {
	if !b.withinLimits(s, n) {
		return false
	}
	if s.held+n <= smallShare && b.mayUseReserve(s, n) {
		return n <= b.free
	}
	return n <= b.free-b.reserve
}

// withinLimits reports whether a share's tenant may hold n more bytes. The lock is
// held.
func (b *memoryBudget) withinLimits(s *memoryShare, n int64) bool {
	return s.tenant == "" || b.tenancyOf(s).held+n <= b.tenantLimit() || s.held+n <= smallShare && b.mayUseReserve(s, n)
}

// mayUseReserve reports whether a small share may use the reserve, of which the small
// shares of a tenant get a quarter. The lock is held.
func (b *memoryBudget) mayUseReserve(s *memoryShare, n int64) bool {
	return s.tenant == "" || b.tenancyOf(s).small+n <= b.reserve/4
}

// tenantLimit is how much a tenant may hold, beside its part of the reserve: three
// quarters, since what it holds may be held for as long as a slow client sends.
func (b *memoryBudget) tenantLimit() int64 {
	all := b.capacity - b.reserve
	return max(all/4*3, min(smallShare, all))
}

func (b *memoryBudget) tenancyOf(s *memoryShare) tenancy {
	if t := b.tenants[s.tenant]; t != nil {
		return *t
	}
	return tenancy{}
}

// add gives a share n more bytes, or takes them back if n is negative. The lock is held.
func (b *memoryBudget) add(s *memoryShare, n int64) {
	t := b.tenants[s.tenant]
	if t == nil {
		t = &tenancy{}
		b.tenants[s.tenant] = t
	}
	if s.held <= smallShare {
		t.small -= s.held
	}
	b.free -= n
	s.held += n
	t.held += n
	if s.held <= smallShare {
		t.small += s.held
	}
	if t.held == 0 {
		delete(b.tenants, s.tenant)
	}
}

// limit is how much a share may hold that wants so much: all of the budget, but
// not the reserve if it is large, and not more than its tenant may.
func (b *memoryBudget) limit(s *memoryShare, wanted int64) int64 {
	switch {
	case wanted <= smallShare:
		return b.capacity
	case s.tenant == "":
		return b.capacity - b.reserve
	}
	return b.tenantLimit()
}

func (w *waiter) wait(ctx context.Context) error {
	select {
	case err := <-w.err: // usually granted at once
		return err
	default:
	}
	start := time.Now()
	defer func() { w.waited += time.Since(start) }()
	timeout := time.NewTimer(budgetTimeout - w.waited)
	defer timeout.Stop()
	select {
	case err := <-w.err:
		return err
	case <-ctx.Done():
		w.budget.cancel(w, ctx.Err())
	case <-timeout.C:
		w.budget.cancel(w, errBusy())
	}
	return <-w.err
}

// errBusy is a 503 with Retry-After.
func errBusy() error {
	return fault.New(fault.Unavailable, "The server is busy; try again").After(budgetTimeout)
}

// cancel ends a wait, unless it was granted or refused meanwhile.
func (b *memoryBudget) cancel(w *waiter, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(w, err)
	b.grant() // others may have waited only for their turn
}

// finish answers a waiter, once. The lock is held.
func (b *memoryBudget) finish(w *waiter, err error) {
	if w.done {
		return
	}
	w.done = true
	w.err <- err
	b.waiting.Remove(w.tenant, w)
}

// grant gives waiters what is free. The lock is held.
func (b *memoryBudget) grant() {
	for w := b.next(); w != nil; w = b.next() {
		b.add(w.memoryShare, w.n)
		b.waiting.Serve(w.tenant, w)
		b.finish(w, nil)
	}
	b.breakDeadlock()
}

// next returns the waiter to be served, nil if none can be: tenants take turns, and of
// each the oldest share is first, since it is closest to its end. Small shares go
// before large ones that must wait, and so does everything before a share whose tenant
// holds all that it may. The lock is held.
func (b *memoryBudget) next() *waiter {
	blocked := false
	for w := range b.waiting.All() {
		small := w.held+w.n <= smallShare
		switch {
		case b.fits(w.memoryShare, w.n) && (small || !blocked):
			return w
		case !small && b.withinLimits(w.memoryShare, w.n):
			blocked = true
		}
	}
	return nil
}

// breakDeadlock refuses the youngest share if all shares that hold memory wait for
// more, or all of a tenant for what the tenant may hold: otherwise none would proceed
// until its timeout. The lock is held.
func (b *memoryBudget) breakDeadlock() {
	type waiters struct {
		held     int64
		youngest *waiter
		stuck    bool // none of them may hold more
	}
	all, byTenant := waiters{}, map[string]*waiters{}
	for w := range b.waiting.All() {
		if w.held == 0 {
			continue
		}
		t := byTenant[w.tenant]
		if t == nil {
			t = &waiters{stuck: true}
			byTenant[w.tenant] = t
		}
		t.stuck = t.stuck && !b.withinLimits(w.memoryShare, w.n)
		for _, of := range []*waiters{&all, t} {
			if of.held += w.held; of.youngest == nil || w.age > of.youngest.age {
				of.youngest = w
			}
		}
	}
	if all.held > 0 && all.held == b.capacity-b.free {
		b.finish(all.youngest, errBusy())
		return
	}
	for tenant, t := range byTenant {
		if t.stuck && t.held == b.tenants[tenant].held {
			b.finish(t.youngest, errBusy())
		}
	}
}

// Release returns all memory of the share. Releasing twice is not an error.
func (s *memoryShare) Release() {
	b := s.budget
	if b == nil || s.held == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(s, -s.held)
	b.grant()
}

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
