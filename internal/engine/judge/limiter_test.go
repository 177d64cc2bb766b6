package judge_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

// TestPause holds back later callers and those that wait for a slot already.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		l := judge.NewLimiter(1)
		if err := l.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		entered := make(chan time.Duration, 2)
		for range 2 {
			wg.Go(func() {
				if err := l.Acquire(t.Context()); err != nil {
					t.Error(err)
					return
				}
				entered <- time.Since(started)
				time.Sleep(time.Second)
				l.Release()
			})
		}
		synctest.Wait()
		l.Pause(30 * time.Second)
		l.Pause(5 * time.Second) // a shorter one changes nothing
		l.Release()
		wg.Wait()
		if a, b := <-entered, <-entered; a != 30*time.Second || b != 31*time.Second {
			t.Errorf("entered after %v and %v, want 30s and 31s", a, b)
		}
	})
}

// TestPauseEndsWithTheContext waits no longer than the caller's deadline.
func TestPauseEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := judge.NewLimiter(1)
		l.Pause(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		started := time.Now()
		if err := l.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(started) != time.Minute {
			t.Errorf("got %v after %v, want the deadline after a minute", err, time.Since(started))
		}
	})
}
