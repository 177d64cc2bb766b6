package notify

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The rate limits of outgoing notifications. Those of incoming requests are in
// httpapi.
const (
	maxPerHost   = 2               // concurrent attempts to one host
	chatInterval = time.Second     // between messages to one chat, on average
	chatBurst    = 3               // messages to a chat that may be sent back to back
	maxWait      = 5 * time.Second // for the rate limit, and again for a slot, before the caller gets its worker back
	maxPause     = 24 * time.Hour  // that a receiver can ask for
	maxLimits    = 1024            // targets whose state is kept in memory
)

// rateLimiter limits how many messages a host gets at once, and how many an
// address gets per second. It works per process: with n replicas a target gets
// n times as many.
type rateLimiter struct {
	mu     sync.Mutex
	limits map[string]*targetLimit
}

// targetLimit is the state of a host, which has slots, or of an address, which
// has a rate.
type targetLimit struct {
	slots chan struct{} // semaphore
	refs  int           // callers that wait for or hold a slot: a reference count that keeps the entry
	// nextSend is when the next message would be sent if they were spaced
	// evenly, the "theoretical arrival time" of the generic cell rate algorithm
	// (GCRA). A burst may be ahead of it.
	nextSend time.Time
}

func newRateLimiter() *rateLimiter { return &rateLimiter{limits: map[string]*targetLimit{}} }

// throttledError reports that a message was not sent because of a rate limit.
type throttledError struct{ wait time.Duration }

func (e *throttledError) Error() string { return "the target is busy" }

// delivery is what the rate limits of a message depend on.
type delivery struct {
	host      string
	address   string
	interval  time.Duration // between messages to the address; 0 for no limit
	immediate bool          // skips the rate limit: a person waits for the result
}

// acquire waits until the message may be sent and returns a function that
// releases its slot. Its error is the context's, or a throttledError.
func (l *rateLimiter) acquire(ctx context.Context, d delivery) (release func(), err error) {
	wait, ok := l.reserve(d)
	if !ok {
		return nil, &throttledError{wait}
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	host := l.ref(d.host)
	select {
	case host.slots <- struct{}{}:
		return func() { <-host.slots; l.unref(host) }, nil
	case <-time.After(maxWait):
		err = &throttledError{maxWait}
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.unref(host)
	return nil, err
}

// reserve takes the address's next place in time and returns how long it is
// until then. It reserves nothing, and reports false, if that exceeds maxWait.
func (l *rateLimiter) reserve(d delivery) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit, now := l.limit(d.address), time.Now()
	if limit.nextSend.Before(now) {
		limit.nextSend = now
	}
	if !d.immediate {
		wait = max(0, limit.nextSend.Sub(now)-d.burst())
	}
	if wait > maxWait {
		return wait, false
	}
	limit.nextSend = limit.nextSend.Add(d.interval)
	return wait, true
}

// burst is how far messages may be ahead of their even spacing.
func (d delivery) burst() time.Duration { return (chatBurst - 1) * d.interval }

// pause sends nothing to an address for some time, e.g. after a 429 response.
func (l *rateLimiter) pause(d delivery, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.limit(d.address)
	if until := time.Now().Add(wait + d.burst()); limit.nextSend.Before(until) {
		limit.nextSend = until
	}
}

func (l *rateLimiter) ref(key string) *targetLimit {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.limit(key)
	limit.refs++
	return limit
}

func (l *rateLimiter) unref(limit *targetLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit.refs--
}

// limit finds or makes the state of a host or an address; the caller holds the
// lock. When there are too many it evicts the idle ones, and if that is not
// enough, also those with a pause.
func (l *rateLimiter) limit(key string) *targetLimit {
	if found, ok := l.limits[key]; ok {
		return found
	}
	for _, evictPaused := range []bool{false, true} {
		if len(l.limits) < maxLimits {
			break
		}
		for k, limit := range l.limits {
			if limit.refs == 0 && (evictPaused || limit.nextSend.Before(time.Now())) {
				delete(l.limits, k)
			}
		}
	}
	made := &targetLimit{slots: make(chan struct{}, maxPerHost)}
	l.limits[key] = made
	return made
}

// notSent returns the result for an error of acquire.
func notSent(err error) Result {
	if e, ok := errors.AsType[*throttledError](err); ok {
		return Result{
			Outcome: Retry, Throttled: true, RetryAfter: e.wait,
			Detail: "not sent yet: the target is busy or has asked for a pause",
		}
	}
	return Result{Outcome: Retry, Detail: "interrupted before it was sent"}
}
