package notify

import (
	"context"
	"errors"
	"sync"
	"time"
)

// How targets are spared.
const (
	perHost   = 2               // attempts at once to one host
	chatEvery = time.Second     // between messages to one chat, in the long run
	chatBurst = 3               // messages to a chat that may follow at once
	maxTurn   = 5 * time.Second // wait for a turn, and for a slot, before the caller gets its worker back
	maxPause  = 24 * time.Hour  // pause that a receiver can ask for
	maxLanes  = 1024            // lanes kept in memory
)

// lanes let the messages to a target pass one after the other. They are for
// this process only: with n replicas a target gets n times as much.
type lanes struct {
	mu    sync.Mutex
	lanes map[string]*lane
}

// lane is that of a host, which has slots, or of an address, which has a pace.
type lane struct {
	slots chan struct{}
	users int // who wait or send: the lane must stay
	// due is when the next message would leave if they left evenly; a burst
	// may be ahead of it.
	due time.Time
}

func newLanes() *lanes { return &lanes{lanes: map[string]*lane{}} }

// heldError says that a message should not wait for its turn here.
type heldError struct{ wait time.Duration }

func (e *heldError) Error() string { return "the target is busy" }

// way is the way of a message to its target.
type way struct {
	host    string
	address string
	every   time.Duration // 0 sets no pace
	now     bool          // takes its turn at once: a person waits for the answer
}

// enter waits for a message's turn and returns what ends it. Its error is the
// context's, or a heldError.
func (l *lanes) enter(ctx context.Context, w way) (leave func(), err error) {
	wait, ok := l.reserve(w)
	if !ok {
		return nil, &heldError{wait}
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	host := l.use(w.host)
	select {
	case host.slots <- struct{}{}:
		return func() { <-host.slots; l.unuse(host) }, nil
	case <-time.After(maxTurn):
		err = &heldError{maxTurn}
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.unuse(host)
	return nil, err
}

// reserve takes the next turn of an address and returns how long it is until
// then. It takes none, and reports false, when that is too long.
func (l *lanes) reserve(w way) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane, now := l.lane(w.address), time.Now()
	if lane.due.Before(now) {
		lane.due = now
	}
	if !w.now {
		wait = max(0, lane.due.Sub(now)-w.ahead())
	}
	if wait > maxTurn {
		return wait, false
	}
	lane.due = lane.due.Add(w.every)
	return wait, true
}

// ahead is how far a burst may be ahead of its time.
func (w way) ahead() time.Duration { return (chatBurst - 1) * w.every }

// pause keeps messages from an address for a while.
func (l *lanes) pause(w way, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.lane(w.address)
	if until := time.Now().Add(d + w.ahead()); lane.due.Before(until) {
		lane.due = until
	}
}

func (l *lanes) use(key string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.lane(key)
	lane.users++
	return lane
}

func (l *lanes) unuse(lane *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane.users--
}

// lane finds or makes a lane; the caller holds the lock. When there are too
// many it forgets those that rest, and if that is not enough, pauses.
func (l *lanes) lane(key string) *lane {
	if found, ok := l.lanes[key]; ok {
		return found
	}
	for _, evenPaused := range []bool{false, true} {
		if len(l.lanes) < maxLanes {
			break
		}
		for k, lane := range l.lanes {
			if lane.users == 0 && (evenPaused || lane.due.Before(time.Now())) {
				delete(l.lanes, k)
			}
		}
	}
	made := &lane{slots: make(chan struct{}, perHost)}
	l.lanes[key] = made
	return made
}

// held returns what enter's error means for the caller.
func held(err error) Result {
	if h, ok := errors.AsType[*heldError](err); ok {
		return Result{Outcome: Retry, Held: true, RetryAfter: h.wait, Detail: "not sent yet: the target is busy or has asked for a pause"}
	}
	return Result{Outcome: Retry, Detail: "interrupted before it was sent"}
}
