package judge

import (
	"context"
	"sync"
	"time"
)

// clock is a source of time that tests replace.
type clock struct {
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error
}

// sleep returns the context's error if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// limiter is the rate limit of a model's server: a semaphore limits concurrent
// requests, and Retry-After of one request holds back all of them.
type limiter struct {
	clock clock
	slots chan struct{}

	mu          sync.Mutex
	pausedUntil time.Time
}

func newLimiter(slots int) *limiter {
	return &limiter{clock: clock{now: time.Now, sleep: sleep}, slots: make(chan struct{}, slots)}
}

// acquire waits for the pause to end and for a slot, which release frees. Its
// error is the context's.
func (l *limiter) acquire(ctx context.Context) error {
	for {
		if left := l.pauseLeft(); left > 0 {
			if err := l.clock.sleep(ctx, left); err != nil {
				return err
			}
		} else if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		// A pause may have begun while this caller waited for its slot.
		if l.pauseLeft() <= 0 {
			return nil
		}
		// The slot is given back while waiting: others may need it once the pause ends.
		l.release()
	}
}

func (l *limiter) release() { <-l.slots }

// pause holds back new requests for d, unless they are held back for longer.
func (l *limiter) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.clock.now().Add(d); l.pausedUntil.Before(until) {
		l.pausedUntil = until
	}
}

func (l *limiter) pauseLeft() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pausedUntil.Sub(l.clock.now())
}
