package fair

import (
	"context"
	"sync"
)

// A Gate is a semaphore that organisations pass in turn: however many calls of one
// wait, the next of each other one goes before its second. When too many wait, the
// organisation with the most loses one.
type Gate struct {
	maxWaiting int

	mu      sync.Mutex
	free    int
	waiting Queue[*pass]
}

// NewGate returns a gate with so many places.
func NewGate(places, maxWaiting int) *Gate { return &Gate{free: places, maxWaiting: maxWaiting} }

// A pass is a call that waits at a gate.
type pass struct {
	org    string
	answer chan error
}

// Enter waits for a place, which Leave returns. It fails with ErrFull, or when
// the context ends.
func (g *Gate) Enter(ctx context.Context) error {
	g.mu.Lock()
	if g.free > 0 { // then nothing waits
		g.free--
		g.mu.Unlock()
		return nil
	}
	p := &pass{org: tenant(ctx), answer: make(chan error, 1)}
	if g.waiting.Len() >= g.maxWaiting {
		dropped, ok := g.waiting.Drop(p.org)
		if !ok {
			g.mu.Unlock()
			return ErrFull
		}
		dropped.answer <- ErrFull
	}
	g.waiting.Push(p.org, p)
	g.mu.Unlock()
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return g.cancel(p, ctx.Err())
	}
}

// cancel ends a wait. A place that was given meanwhile is returned.
func (g *Gate) cancel(p *pass, err error) error {
	g.mu.Lock()
	g.waiting.Remove(p.org, p)
	g.mu.Unlock()
	select {
	case answer := <-p.answer:
		if answer == nil {
			g.Leave()
		}
	default:
	}
	return err
}

// Leave gives the place to the next that waits.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting.Len() == 0 {
		g.free++
		return
	}
	g.waiting.Pop().answer <- nil
}

// Len returns how many wait.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting.Len()
}
