package fair

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/access"
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
// It has no goroutine of its own. The first caller of a group, its leader,
// commits it and then hands the lead to a caller that waits.
type GroupCommit[K comparable, T any] struct {
	// Commit commits the calls of a group, those of an organisation in the order in
	// which they arrived, and answers each.
	Commit func(K, []*GroupCall[T])
	// MaxSize is how many calls form a group.
	MaxSize int
	// MaxWaiting is how many calls of a key may wait; 0 means any number.
	MaxWaiting int
	// Leaders is how many groups of a key may be committed at once; 0 means one.
	Leaders int

	mu   sync.Mutex
	keys map[K]*groupQueue[T] // those that have a leader
}

// sharedGroup is how many calls of each organisation are in a group when several
// have some waiting: each waits for the whole group.
const sharedGroup = 32

// groupQueue is the waiting calls of a key and the number of its leaders.
type groupQueue[T any] struct {
	waiting Queue[*GroupCall[T]]
	leaders int
}

// A GroupCall is one call of GroupCommit.Do.
type GroupCall[T any] struct {
	Ctx   context.Context // the caller's
	Value T

	done     chan error
	lead     chan struct{}
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
	c := &GroupCall[T]{Ctx: ctx, Value: value, done: make(chan error, 1), lead: make(chan struct{}, 1)}
	if err := g.join(key, c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-c.lead:
		g.leadGroup(key, c)
		return <-c.done
	}
}

// join makes a call a leader if its key may have one more, else it waits.
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
	org := access.From(c.Ctx).OrgID
	if g.MaxWaiting > 0 && q.waiting.Len() >= g.MaxWaiting {
		dropped, ok := q.waiting.Drop(org)
		if !ok {
			return ErrFull
		}
		dropped.Answer(ErrFull)
	}
	if q.leaders < max(g.Leaders, 1) {
		q.leaders++
		c.lead <- struct{}{}
		return nil
	}
	q.waiting.Push(org, c)
	return nil
}

// leadGroup commits the leader's call with those that wait, and hands on the
// lead.
func (g *GroupCommit[K, T]) leadGroup(key K, leader *GroupCall[T]) {
	g.mu.Lock()
	q := g.keys[key]
	group, most := []*GroupCall[T]{leader}, g.MaxSize
	if n := q.waiting.Tenants(); n > 1 {
		most = min(most, n*sharedGroup)
	}
	for q.waiting.Len() > 0 && len(group) < most {
		group = append(group, q.waiting.Pop())
	}
	g.mu.Unlock()

	g.commit(key, group)

	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case q.waiting.Len() > 0:
		q.waiting.Pop().lead <- struct{}{}
	case q.leaders > 1:
		q.leaders--
	default:
		delete(g.keys, key)
	}
}

// commit answers every call, also after a panic: it happens on one caller's
// goroutine and must not leave the others waiting.
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
