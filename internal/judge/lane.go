package judge

import (
	"context"
	"sync"
	"time"
)

// clock is the time that waits are made of; tests have their own.
type clock struct {
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error
}

func systemClock() clock { return clock{now: time.Now, sleep: sleep} }

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

// lane lets a few requests at a time pass, and none while the server wants to
// be left alone: what one caller learns spares the others an attempt.
type lane struct {
	clock clock
	slots chan struct{}

	mu    sync.Mutex
	until time.Time
}

func newLane(slots int) *lane {
	return &lane{clock: systemClock(), slots: make(chan struct{}, slots)}
}

// enter waits for a turn, which leave ends. Its error is the context's.
func (l *lane) enter(ctx context.Context) error {
	for {
		if err := l.rest(ctx); err != nil {
			return err
		}
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		// A pause may have begun while this caller waited for its slot.
		if l.left() <= 0 {
			return nil
		}
		l.leave()
	}
}

func (l *lane) leave() { <-l.slots }

// pause keeps requests back for a while.
func (l *lane) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := l.clock.now().Add(d); l.until.Before(until) {
		l.until = until
	}
}

func (l *lane) rest(ctx context.Context) error {
	if left := l.left(); left > 0 {
		return l.clock.sleep(ctx, left)
	}
	return ctx.Err()
}

func (l *lane) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until.Sub(l.clock.now())
}
