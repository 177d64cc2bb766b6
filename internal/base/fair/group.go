package fair

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrFull is returned when too many calls wait.
var ErrFull = errors.New("too many calls wait")

// GroupCommit lets concurrent calls share one transaction, and so one fsync or
// one wait for a lock. The calls of a key that arrive while a group of that key
// is being committed form the next group. A call that finds no group being
// committed starts at once: no call waits for others to join it.
//
// Organisations take turns: however many calls of one wait, those of the others are
// in the next group. When too many wait, the organisation with the most loses one.
//
// While a key has calls, a goroutine commits its groups one after the other. (A
// caller that commits for the others, and hands that on, leaves the database idle
// until the next has woken up.)
type GroupCommit[K comparable, T any] struct {
	// Commit commits the calls of a group, those of an organisation in the order in
	// which they arrived, and answers each.
	Commit func(K, []*GroupCall[T])
	// MaxSize is how many calls form a group; 0 means one.
	MaxSize int
	// MaxWaiting is how many calls of a key may wait; 0 means any number.
	MaxWaiting int
	// Parallel is how many groups of a key may be committed at once; 0 means one.
	Parallel int

	mu   sync.Mutex
	keys map[K]*groupQueue[T] // those that have calls
}

// sharedGroup is how many calls of each organisation are in a group when several
// have some waiting: each waits for the whole group.
const sharedGroup = 32

// groupQueue is the waiting calls of a key and how many goroutines commit them.
type groupQueue[T any] struct {
	waiting    Queue[*GroupCall[T]]
	committers int
}

// A GroupCall is one call of GroupCommit.Do.
type GroupCall[T any] struct {
	Ctx   context.Context // the caller's
	Value T

	done     chan error
	answered bool
}

// Answer sets the result of a call. Only the first answer counts.
func (c *GroupCall[T]) Answer(err error) {
	if !c.answered {
		c.answered = true
		c.done <- err
	}
}

// Do commits a value together with others of its key and returns its answer.
// It does not return early when the context ends, because the value may be
// committed already.
func (g *GroupCommit[K, T]) Do(ctx context.Context, key K, value T) error {
	c := &GroupCall[T]{Ctx: ctx, Value: value, done: make(chan error, 1)}
	if err := g.join(key, c); err != nil {
		return err
	}
	return <-c.done
}

// join enqueues a call, and starts a goroutine that commits if the key may have one more.
func (g *GroupCommit[K, T]) join(key K, c *GroupCall[T]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.keys[key]
	if q == nil {
		q = &groupQueue[T]{}
		if g.keys == nil {
			g.keys = map[K]*groupQueue[T]{}
		}
		g.keys[key] = q
	}
	org := tenant(c.Ctx)
	if g.MaxWaiting > 0 && q.waiting.Len() >= g.MaxWaiting {
		dropped, ok := q.waiting.Drop(org)
		if !ok {
			return ErrFull
		}
		dropped.Answer(ErrFull)
	}
	q.waiting.Push(org, c)
	if q.committers < max(g.Parallel, 1) {
		q.committers++
		go g.commitAll(key, q)
	}
	return nil
}

// commitAll commits groups until no call waits.
func (g *GroupCommit[K, T]) commitAll(key K, q *groupQueue[T]) {
	for {
		group := g.next(key, q)
		if group == nil {
			return
		}
		g.commit(key, group)
	}
}

// next takes the next group from the queue. It returns nil if no call waits, and the
// caller must stop then.
func (g *GroupCommit[K, T]) next(key K, q *groupQueue[T]) (group []*GroupCall[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := max(g.MaxSize, 1)
	if n := q.waiting.Tenants(); n > 1 {
		most = min(most, n*sharedGroup)
	}
	for q.waiting.Len() > 0 && len(group) < most {
		group = append(group, q.waiting.Pop())
	}
	if group == nil {
		if q.committers--; q.committers == 0 {
			delete(g.keys, key)
		}
	}
	return group
}

// commit answers every call, also after a panic.
func (g *GroupCommit[K, T]) commit(key K, calls []*GroupCall[T]) {
	err := errors.New("the call was not answered")
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a group commit: %v", p)
		}
		for _, c := range calls {
			c.Answer(err)
		}
	}()
	g.Commit(key, calls)
}

// Waiting returns how many calls wait for a group.
func (g *GroupCommit[K, T]) Waiting() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range g.keys {
		n += q.waiting.Len()
	}
	return n
}
