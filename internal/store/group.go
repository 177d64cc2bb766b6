package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// group collects calls that come at the same time, so that one commit serves
// them all. There is no goroutine of its own: the first caller leads, and
// hands the lead to one who came meanwhile.
type group struct {
	run func([]*call) // runs calls and answers each

	mu      sync.Mutex
	waiting []*call
	led     bool // somebody runs a batch now
}

// A call waits for its answer, or to become the leader.
type call struct {
	ctx  context.Context
	fn   func(*Tx) error
	done chan error
	lead chan struct{}
}

const (
	maxGroup   = 512   // calls in one commit
	maxWaiting = 8_192 // calls that wait; more are refused
)

// do runs fn in a shared transaction and returns when that is durable.
func (g *group) do(ctx context.Context, fn func(*Tx) error) error {
	c := &call{ctx: ctx, fn: fn, done: make(chan error, 1), lead: make(chan struct{}, 1)}
	g.mu.Lock()
	if len(g.waiting) >= maxWaiting {
		g.mu.Unlock()
		return fault.New(fault.Unavailable, "The database cannot keep up; try again").After(time.Second)
	}
	g.waiting = append(g.waiting, c)
	if !g.led {
		g.led = true
		c.lead <- struct{}{}
	}
	g.mu.Unlock()

	select {
	case err := <-c.done:
		return err
	case <-c.lead:
		g.leadOnce()
		return <-c.done
	}
}

// leadOnce runs the calls that wait, its own among them, and passes the lead on.
func (g *group) leadOnce() {
	g.mu.Lock()
	batch := g.waiting
	if len(batch) > maxGroup {
		batch = batch[:maxGroup:maxGroup]
	}
	g.waiting = g.waiting[len(batch):]
	g.mu.Unlock()

	g.run(batch)

	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.waiting, g.led = nil, false
		return
	}
	g.waiting[0].lead <- struct{}{}
}

// run calls fn unless its caller has gone. A panic is the caller's error: it
// runs on another caller's goroutine and must not take that one down.
func (c *call) run(tx *Tx) (err error) {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a grouped transaction: %v", p)
		}
	}()
	return c.fn(tx)
}

func answer(calls []*call, err error) {
	for _, c := range calls {
		c.done <- err
	}
}
