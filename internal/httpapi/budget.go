package httpapi

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Budget bounds the memory that requests take together. Whoever needs some
// waits for a while until others have given theirs back, and then fails with
// kind fault.Unavailable, which is 503 with Retry-After. A nil budget has no
// bound.
type Budget struct {
	capacity int64
	reserve  int64 // kept for small shares

	mu      sync.Mutex
	free    int64
	shares  uint64    // how many there have been
	waiting []*waiter // the oldest share first
}

// NewBudget returns a budget of so many bytes. The reserve is the part of it
// that only small shares may take, so that large ones, however slow, leave room
// for the many requests that need little.
func NewBudget(capacity, reserve int64) *Budget {
	return &Budget{capacity: capacity, reserve: reserve, free: capacity}
}

const (
	// budgetPatience is how long a request waits for memory, all in all.
	budgetPatience = 5 * time.Second
	// smallShare is how much a request may hold and still take of the reserve.
	smallShare = 256 << 10
)

// Reserve waits for n bytes of memory and returns how to give them back. More
// than there is counts as all there is: such an operation goes on alone.
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

// A share is what one request holds of a budget. It belongs to one goroutine.
type share struct {
	budget *Budget
	age    uint64 // smaller is older
	held   int64
	waited time.Duration
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

// A waiter is a share that waits to grow.
type waiter struct {
	*share
	n     int64
	ended bool // granted or refused
	err   chan error
}

// grow takes n bytes more. It may fail while the share holds some already:
// those stay until release.
func (s *share) grow(ctx context.Context, n int64) error {
	b := s.budget
	if b == nil {
		return nil
	}
	b.mu.Lock()
	n = min(n, b.most(s.held+n)-s.held)
	if n <= 0 {
		b.mu.Unlock()
		return nil
	}
	if len(b.waiting) == 0 && b.fits(s, n) {
		b.take(s, n)
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

// fits reports whether there is room for n bytes more. The lock is held.
func (b *Budget) fits(s *share, n int64) bool {
	if s.held+n <= smallShare {
		return n <= b.free
	}
	return n <= b.free-b.reserve
}

// take lets a share grow. The lock is held.
func (b *Budget) take(s *share, n int64) {
	b.free -= n
	s.held += n
}

// most is how much a share may come to hold that wants so much.
func (b *Budget) most(wanted int64) int64 {
	if wanted <= smallShare {
		return b.capacity
	}
	return b.capacity - b.reserve
}

func (w *waiter) wait(ctx context.Context) error {
	select {
	case err := <-w.err: // mostly at once
		return err
	default:
	}
	start := time.Now()
	defer func() { w.waited += time.Since(start) }()
	patience := time.NewTimer(budgetPatience - w.waited)
	defer patience.Stop()
	select {
	case err := <-w.err:
		return err
	case <-ctx.Done():
		w.budget.leave(w, ctx.Err())
	case <-patience.C:
		w.budget.leave(w, errBusy())
	}
	return <-w.err
}

// errBusy tells a client to come back later.
func errBusy() error {
	return fault.New(fault.Unavailable, "The server is busy; try again").After(budgetPatience)
}

// leave ends a wait, unless it ended meanwhile.
func (b *Budget) leave(w *waiter, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end(w, err)
	b.grant() // others may have waited behind this one only
}

// end answers a waiter once. The lock is held.
func (b *Budget) end(w *waiter, err error) {
	if w.ended {
		return
	}
	w.ended = true
	w.err <- err
	b.waiting = slices.DeleteFunc(b.waiting, func(other *waiter) bool { return other == w })
}

// grant lets waiters grow as far as there is room: the oldest first, since it
// has the least to go, and small ones also past large ones that must wait. The
// lock is held.
func (b *Budget) grant() {
	blocked := false
	for _, w := range slices.Clone(b.waiting) {
		small := w.held+w.n <= smallShare
		switch {
		case b.fits(w.share, w.n) && (small || !blocked):
			b.take(w.share, w.n)
			b.end(w, nil)
		case !small:
			blocked = true
		}
	}
	b.breakDeadlock()
}

// breakDeadlock refuses the youngest share if all that hold memory wait for
// more: otherwise none would go on until its patience ends. The lock is held.
func (b *Budget) breakDeadlock() {
	held := int64(0)
	var youngest *waiter
	for _, w := range b.waiting {
		if held += w.held; w.held > 0 {
			youngest = w
		}
	}
	if youngest != nil && held == b.capacity-b.free {
		b.end(youngest, errBusy())
	}
}

// release gives back all that the share holds. Releasing twice is not an error.
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
