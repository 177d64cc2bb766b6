// Package batch lets calls that come at the same time share one run: one
// commit, one statement. It owns no tables.
package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrFull is what Do returns when too many calls of a key wait already.
var ErrFull = errors.New("too many calls wait")

// Groups collects the calls of each key while others of that key run. It has
// no goroutine of its own: the first caller leads, at once and alone, and hands
// the lead to one who came meanwhile. So nobody waits for company.
type Groups[K comparable, T any] struct {
	// Run serves calls, in the order in which they came, and answers each.
	Run func(K, []*Call[T])
	// Max is how many calls share a run.
	Max int
	// MaxWaiting is how many calls of a key may wait; 0 means any number.
	MaxWaiting int
	// Leaders is how many runs of a key may go on at once; 0 means one.
	Leaders int

	mu   sync.Mutex
	keys map[K]*queue[T] // those that somebody leads
}

// A queue is the calls of a key that wait, and how many runs go on.
type queue[T any] struct {
	waiting []*Call[T]
	leaders int
}

// A Call waits for its answer, or to become the leader.
type Call[T any] struct {
	Ctx   context.Context // its caller's
	Value T

	done     chan error
	lead     chan struct{}
	answered bool
}

// Answer ends a call. Only the first answer counts.
func (c *Call[T]) Answer(err error) {
	if !c.answered {
		c.answered = true
		c.done <- err
	}
}

// Do has a value served together with others of its key, and returns its
// answer. It waits for that also after the context has ended: the value may
// be served already.
func (g *Groups[K, T]) Do(ctx context.Context, key K, value T) error {
	c := &Call[T]{Ctx: ctx, Value: value, done: make(chan error, 1), lead: make(chan struct{}, 1)}
	if err := g.join(key, c); err != nil {
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-c.lead:
		g.leadOnce(key, c)
		return <-c.done
	}
}

// join gives a call the lead if there is one to have, or makes it wait.
func (g *Groups[K, T]) join(key K, c *Call[T]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.keys[key]
	if q == nil {
		q = &queue[T]{}
		if g.keys == nil {
			g.keys = map[K]*queue[T]{}
		}
		g.keys[key] = q
	}
	if g.MaxWaiting > 0 && len(q.waiting) >= g.MaxWaiting {
		return ErrFull
	}
	if q.leaders < max(g.Leaders, 1) {
		q.leaders++
		c.lead <- struct{}{}
		return nil
	}
	q.waiting = append(q.waiting, c)
	return nil
}

// leadOnce runs the leader's own call with those that wait, and passes the
// lead on.
func (g *Groups[K, T]) leadOnce(key K, own *Call[T]) {
	g.mu.Lock()
	q := g.keys[key]
	n := min(len(q.waiting), g.Max-1)
	together := append([]*Call[T]{own}, q.waiting[:n]...)
	q.waiting = q.waiting[n:]
	g.mu.Unlock()

	g.run(key, together)

	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case len(q.waiting) > 0:
		q.waiting[0].lead <- struct{}{}
		q.waiting = q.waiting[1:]
	case q.leaders > 1:
		q.leaders--
	default:
		delete(g.keys, key)
	}
}

// run answers every call, also after a panic: it happens on one caller's
// goroutine, and must not leave the others waiting.
func (g *Groups[K, T]) run(key K, calls []*Call[T]) {
	err := errors.New("the call was not answered")
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a shared run: %v", p)
		}
		for _, c := range calls {
			c.Answer(err)
		}
	}()
	g.Run(key, calls)
}
