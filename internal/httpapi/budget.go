package httpapi

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Budget is a weighted semaphore that bounds the memory of all requests
// together. A request that needs memory waits up to budgetTimeout for others to
// release theirs, and then fails with fault.Unavailable (503 with Retry-After). A
// nil budget has no bound.
type Budget struct {
	capacity int64
	reserve  int64 // for small shares only

	mu      sync.Mutex
	free    int64
	shares  uint64    // created so far
	waiting []*waiter // the oldest share first
}

// NewBudget returns a budget of capacity bytes. The reserve is the part of it that
// only small shares may use, so that a few large and slow requests do not block the
// many that need little.
func NewBudget(capacity, reserve int64) *Budget {
	return &Budget{capacity: capacity, reserve: reserve, free: capacity}
}

// Usage returns how many bytes are held, how many there are, and how many requests
// wait for some.
func (b *Budget) Usage() (held, capacity int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.capacity - b.free, b.capacity, len(b.waiting)
}

const (
	// budgetTimeout is how long a request waits for memory in total.
	budgetTimeout = 5 * time.Second
	// smallShare is how much a request may hold and still use the reserve.
	smallShare = 256 << 10
)

// Reserve waits for n bytes of memory and returns a function that releases them.
// A request for more than the capacity waits for all of it, and runs alone.
//
//	release, err := s.Memory.Reserve(ctx, unpacked)
//	if err != nil {
//		return err
//	}
//	defer release()
func (b *Budget) Reserve(ctx context.Context, n int64) (release func(), err error) {
	s := b.share()
	if err := s.grow(ctx, n); err != nil {
		return nil, err
	}
	return s.release, nil
}

// A share is what one request holds of a budget. It is used by one goroutine.
type share struct {
	budget *Budget
	age    uint64 // smaller is older
	held   int64
	waited time.Duration // in total
}

// share returns a share that holds nothing yet.
func (b *Budget) share() *share {
	if b == nil {
		return &share{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shares++
	return &share{budget: b, age: b.shares}
}

// A waiter is a share that waits for more memory.
type waiter struct {
	*share
	n    int64
	done bool // granted or refused
	err  chan error
}

// grow takes n more bytes. If it fails, the share keeps what it holds until
// release.
func (s *share) grow(ctx context.Context, n int64) error {
	b := s.budget
	if b == nil {
		return nil
	}
	b.mu.Lock()
	n = min(n, b.limit(s.held+n)-s.held)
	if n <= 0 {
		b.mu.Unlock()
		return nil
	}
	if len(b.waiting) == 0 && b.fits(s, n) {
		b.add(s, n)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{share: s, n: n, err: make(chan error, 1)}
	byAge := func(w *waiter, age uint64) int { return cmp.Compare(w.age, age) }
	at, _ := slices.BinarySearchFunc(b.waiting, s.age, byAge)
	b.waiting = slices.Insert(b.waiting, at, w)
	b.grant()
	b.mu.Unlock()
	return w.wait(ctx)
}

// fits reports whether n more bytes are free for a share. The lock is held.
func (b *Budget) fits(s *share, n int64) bool {
	if s.held+n <= smallShare {
		return n <= b.free
	}
	return n <= b.free-b.reserve
}

// add gives a share n more bytes. The lock is held.
func (b *Budget) add(s *share, n int64) {
	b.free -= n
	s.held += n
}

// limit is how much a share may hold that wants so much: all of the budget, but
// not the reserve if it is large.
func (b *Budget) limit(wanted int64) int64 {
	if wanted <= smallShare {
		return b.capacity
	}
	return b.capacity - b.reserve
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
func (b *Budget) cancel(w *waiter, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finish(w, err)
	b.grant() // others may have waited only for their turn
}

// finish answers a waiter, once. The lock is held.
func (b *Budget) finish(w *waiter, err error) {
	if w.done {
		return
	}
	w.done = true
	w.err <- err
	b.waiting = slices.DeleteFunc(b.waiting, func(other *waiter) bool { return other == w })
}

// grant gives waiters what is free: the oldest share first, since it is closest to
// its end, and small shares also before large ones that must wait. The lock is
// held.
func (b *Budget) grant() {
	blocked := false
	for _, w := range slices.Clone(b.waiting) {
		small := w.held+w.n <= smallShare
		switch {
		case b.fits(w.share, w.n) && (small || !blocked):
			b.add(w.share, w.n)
			b.finish(w, nil)
		case !small:
			blocked = true
		}
	}
	b.breakDeadlock()
}

// breakDeadlock refuses the youngest share if all shares that hold memory wait for
// more: otherwise none would proceed until its timeout. The lock is held.
func (b *Budget) breakDeadlock() {
	held := int64(0)
	var youngest *waiter
	for _, w := range b.waiting {
		if held += w.held; w.held > 0 {
			youngest = w
		}
	}
	if youngest != nil && held == b.capacity-b.free {
		b.finish(youngest, errBusy())
	}
}

// release returns all memory of the share. Releasing twice is not an error.
func (s *share) release() {
	b := s.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += s.held
	s.held = 0
	b.grant()
}
