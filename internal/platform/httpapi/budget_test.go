package httpapi_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

const mib = 1 << 20

// TestReserve: operations together never hold more than there is, those that
// must wait go on in their turn, and all is given back.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBudget(10*mib, 0)
		var now, most atomic.Int64
		var wait sync.WaitGroup
		for i := range 40 {
			wait.Go(func() {
				n := int64(1+i%5) * mib
				release, err := b.Reserve(t.Context(), n)
				if err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
				most.Store(max(most.Load(), now.Add(n)))
				time.Sleep(100 * time.Millisecond)
				now.Add(-n)
				release()
			})
		}
		wait.Wait()
		if most.Load() > 10*mib || most.Load() < 8*mib {
			t.Errorf("held up to %d bytes", most.Load())
		}
		release, err := b.Reserve(t.Context(), 10*mib)
		if err != nil {
			t.Fatalf("not all was given back: %v", err)
		}
		release()
	})
}

// TestReserveEnds: a wait ends with the patience, and with the caller.
func TestReserveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBudget(mib, 0)
		release, err := b.Reserve(t.Context(), 100*mib) // more than there is: all of it
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		start := time.Now()
		_, err = b.Reserve(t.Context(), 1)
		if !fault.Is(err, fault.Unavailable) || time.Since(start) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err = b.Reserve(ctx, 1)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestReserveKeepsRoomForSmall: what large operations hold does not keep small
// ones from theirs.
func TestReserveKeepsRoomForSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBudget(16*mib, 4*mib)
		large, err := b.Reserve(t.Context(), 100*mib)
		if err != nil {
			t.Fatal(err)
		}
		defer large()
		go func() { _, _ = b.Reserve(t.Context(), mib) }() // waits, and nobody behind it
		synctest.Wait()
		start := time.Now()
		for range 16 {
			small, err := b.Reserve(t.Context(), mib/4)
			if err != nil {
				t.Fatal(err)
			}
			defer small()
		}
		if time.Since(start) != 0 {
			t.Errorf("waited for %v", time.Since(start))
		}
		if _, err := b.Reserve(t.Context(), 1); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v, want no room", err)
		}
	})
}

// TestNilBudget has no bound, for parts that are tested by themselves.
func TestNilBudget(t *testing.T) {
	var b *httpapi.Budget
	release, err := b.Reserve(t.Context(), 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	release()
}
