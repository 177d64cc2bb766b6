package notify_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

func TestRateLimiter(t *testing.T) {
	t.Run("burst, then evenly spaced", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, start := notify.NewRateLimiter(), time.Now()
			for i := range 6 {
				release, err := l.Acquire(t.Context(), "host", "a")
				if err != nil {
					t.Fatal(err)
				}
				release()
				if got, want := time.Since(start), time.Duration(max(0, i-notify.ChatBurst+1))*notify.ChatInterval; got != want {
					t.Errorf("message %d left after %v, want %v", i, got, want)
				}
			}
		})
	})
	t.Run("two at once per host", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := notify.NewRateLimiter()
			var releases []func()
			for i := range notify.MaxPerHost {
				release, err := l.Acquire(t.Context(), "host", fmt.Sprint(i))
				if err != nil {
					t.Fatal(err)
				}
				releases = append(releases, release)
			}
			if _, err := l.Acquire(t.Context(), "other host", "x"); err != nil {
				t.Errorf("another host has to wait: %v", err)
			}
			start := time.Now()
			_, err := l.Acquire(t.Context(), "host", "y")
			if wait, ok := notify.ThrottledFor(err); !ok || wait != notify.MaxWait || time.Since(start) != notify.MaxWait {
				t.Errorf("got %v after %v, want it throttled", err, time.Since(start))
			}
			time.AfterFunc(time.Second, releases[0])
			if _, err := l.Acquire(t.Context(), "host", "z"); err != nil {
				t.Errorf("got %v when a slot was free again", err)
			}
		})
	})
	t.Run("pause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := notify.NewRateLimiter()
			l.Pause("a", time.Minute)
			_, err := l.Acquire(t.Context(), "host", "a")
			if wait, ok := notify.ThrottledFor(err); !ok || wait != time.Minute {
				t.Errorf("got %v for %v, want it throttled for a minute", err, wait)
			}
			time.Sleep(time.Minute - notify.MaxWait)
			start := time.Now()
			if _, err := l.Acquire(t.Context(), "host", "a"); err != nil || time.Since(start) != notify.MaxWait {
				t.Errorf("got %v after %v, want it sent when the pause ends", err, time.Since(start))
			}
		})
	})
	t.Run("the context ends the wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := notify.NewRateLimiter()
			l.Pause("a", notify.MaxWait)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := l.Acquire(ctx, "host", "a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the context's error", err)
			}
		})
	})
	t.Run("bounded memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := notify.NewRateLimiter()
			for i := range 3 * notify.MaxLimits {
				l.Pause(fmt.Sprint(i), time.Hour)
				release, err := l.Acquire(t.Context(), fmt.Sprint("host ", i), fmt.Sprint("a", i))
				if err != nil {
					t.Fatal(err)
				}
				release()
			}
			if n := l.Len(); n > notify.MaxLimits {
				t.Errorf("got %d entries, want at most %d", n, notify.MaxLimits)
			}
		})
	})
}
