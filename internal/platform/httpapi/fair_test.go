package httpapi_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

func as(ctx context.Context, org string) context.Context {
	return access.With(ctx, access.Caller{OrgID: org})
}

// reserve takes memory that the test expects to be free.
func reserve(t *testing.T, b *httpapi.Budget, org string, n int64) (release func()) {
	t.Helper()
	release, err := b.Reserve(as(t.Context(), org), n)
	if err != nil {
		t.Fatalf("%s: %v", org, err)
	}
	return release
}

// A crowd is requests that wait for memory, and the organisations of those that were
// granted, in order, and of those that were refused.
type crowd struct {
	sync.WaitGroup
	sync.Mutex
	granted, refused []string
}

// wait adds requests, each of which releases its memory as soon as it has it.
func (c *crowd) wait(t *testing.T, b *httpapi.Budget, org string, requests int, n int64) {
	t.Helper()
	for range requests {
		c.Go(func() {
			release, err := b.Reserve(as(t.Context(), org), n)
			c.Lock()
			defer c.Unlock()
			if err != nil {
				c.refused = append(c.refused, org)
				return
			}
			c.granted = append(c.granted, org)
			defer release()
		})
	}
	synctest.Wait()
}

// TestBudgetTakesTurns: a request of a quiet organisation is served after one of the
// others, however many wait.
func TestBudgetTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBudget(4*mib, 0)
		release := reserve(t, b, "", 4*mib)
		var c crowd
		c.wait(t, b, "noisy", 500, 3*mib)
		c.wait(t, b, "quiet", 5, 3*mib)
		c.wait(t, b, "other", 1, 3*mib)
		release()
		c.Wait()
		if len(c.granted) != 506 || len(c.refused) != 0 {
			t.Fatalf("%d were granted and %d refused", len(c.granted), len(c.refused))
		}
		if at := slices.Index(c.granted, "other"); at > 2 {
			t.Errorf("%d were served before the one request of an organisation: %v", at, c.granted[:at])
		}
		served := 0
		for i, org := range c.granted {
			if org == "quiet" {
				served++
				if others := i + 1 - served; others > served+1 {
					t.Errorf("%d others were served before request %d of the quiet organisation", others, served)
				}
			}
		}
	})
}

// TestBudgetKeepsSome: an organisation that takes all that it can get has three quarters
// and a quarter of the reserve, and leaves the rest to others.
func TestBudgetKeepsSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBudget(20*mib, 4*mib)
		for range 12 {
			defer reserve(t, b, "noisy", mib)()
		}
		for range 4 {
			defer reserve(t, b, "noisy", 256<<10)()
		}
		var c crowd
		c.wait(t, b, "noisy", 10, mib)
		c.wait(t, b, "noisy", 10, 256<<10)
		if len(c.granted) > 0 {
			t.Errorf("%d more were granted to one that has all that it may", len(c.granted))
		}
		for range 3 {
			defer reserve(t, b, "quiet", mib)()
		}
		for range 4 {
			defer reserve(t, b, "quiet", 256<<10)()
		}
		defer reserve(t, b, "third", 256<<10)()
		c.Wait() // for the timeout
		if len(c.refused) != 20 {
			t.Errorf("%d were refused, want 20", len(c.refused))
		}
	})
}

// TestBudgetIsFull: when too many wait, the organisation with the most is refused.
func TestBudgetIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBudget(4*mib, 0)
		release := reserve(t, b, "", 4*mib)
		var c crowd
		c.wait(t, b, "noisy", 1024, mib)
		if len(c.refused) > 0 {
			t.Errorf("%d were refused", len(c.refused))
		}
		c.wait(t, b, "noisy", 5, mib)
		c.wait(t, b, "quiet", 20, mib)
		if slices.Contains(c.refused, "quiet") || len(c.refused) != 25 {
			t.Errorf("refused %v, want 25 of the noisy one", c.refused)
		}
		release()
		c.Wait()
		if len(c.granted) != 1024 {
			t.Errorf("%d were granted, want 1024", len(c.granted))
		}
		_, err := b.Reserve(as(t.Context(), "noisy"), mib)
		if err != nil {
			t.Errorf("after all were served: %v", err)
		}
	})
}

// TestBudgetTenantDeadlock: if all requests of an organisation wait for what the others
// of it hold, the youngest is refused at once.
func TestBudgetTenantDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBudget(8*mib, 0)
		defer reserve(t, b, "quiet", mib)()
		start := time.Now()
		both, results := make(chan struct{}), make(chan error, 2)
		for range 2 {
			go func() { results <- b.Grow(as(t.Context(), "noisy"), 3*mib, func() { <-both }, mib) }()
			synctest.Wait()
		}
		close(both)
		refused, granted := <-results, <-results
		if refused == nil {
			refused, granted = granted, refused
		}
		if e, ok := errors.AsType[*fault.Error](refused); !ok || e.Kind != fault.Unavailable || granted != nil {
			t.Errorf("%v and %v, want one refused and one granted", refused, granted)
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("they waited for %s", waited)
		}
	})
}
