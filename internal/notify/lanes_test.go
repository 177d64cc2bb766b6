package notify_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/notify"
)

func TestLanes(t *testing.T) {
	t.Run("burst then pace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, start := notify.NewLanes(), time.Now()
			for i := range 6 {
				leave, err := l.Enter(t.Context(), "host", "a")
				if err != nil {
					t.Fatal(err)
				}
				leave()
				if got, want := time.Since(start), time.Duration(max(0, i-notify.ChatBurst+1))*notify.ChatEvery; got != want {
					t.Errorf("message %d left after %v, want %v", i, got, want)
				}
			}
		})
	})
	t.Run("two at once per host", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := notify.NewLanes()
			var leaves []func()
			for i := range notify.PerHost {
				leave, err := l.Enter(t.Context(), "host", fmt.Sprint(i))
				if err != nil {
					t.Fatal(err)
				}
				leaves = append(leaves, leave)
			}
			if _, err := l.Enter(t.Context(), "other host", "x"); err != nil {
				t.Errorf("another host has to wait: %v", err)
			}
			start := time.Now()
			_, err := l.Enter(t.Context(), "host", "y")
			if wait, ok := notify.HeldFor(err); !ok || wait != notify.MaxTurn || time.Since(start) != notify.MaxTurn {
				t.Errorf("got %v after %v, want it held", err, time.Since(start))
			}
			time.AfterFunc(time.Second, leaves[0])
			if _, err := l.Enter(t.Context(), "host", "z"); err != nil {
				t.Errorf("got %v when a slot was free again", err)
			}
		})
	})
	t.Run("pause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := notify.NewLanes()
			l.Pause("a", time.Minute)
			_, err := l.Enter(t.Context(), "host", "a")
			if wait, ok := notify.HeldFor(err); !ok || wait != time.Minute {
				t.Errorf("got %v for %v, want it held for a minute", err, wait)
			}
			time.Sleep(time.Minute - notify.MaxTurn)
			start := time.Now()
			if _, err := l.Enter(t.Context(), "host", "a"); err != nil || time.Since(start) != notify.MaxTurn {
				t.Errorf("got %v after %v, want a turn when the pause ends", err, time.Since(start))
			}
		})
	})
	t.Run("the context ends the wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := notify.NewLanes()
			l.Pause("a", notify.MaxTurn)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := l.Enter(ctx, "host", "a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the context's error", err)
			}
		})
	})
	t.Run("bounded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := notify.NewLanes()
			for i := range 3 * notify.MaxLanes {
				l.Pause(fmt.Sprint(i), time.Hour)
				leave, err := l.Enter(t.Context(), fmt.Sprint("host ", i), fmt.Sprint("a", i))
				if err != nil {
					t.Fatal(err)
				}
				leave()
			}
			if n := l.Len(); n > notify.MaxLanes {
				t.Errorf("got %d lanes, want at most %d", n, notify.MaxLanes)
			}
		})
	})
}
