package fair_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
)

// TestGroupCommit has calls of two keys that arrive while the first of each is
// being committed.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var mu sync.Mutex
		runs := map[string][][]int{}
		g := fair.GroupCommit[string, int]{MaxSize: 3, Commit: func(key string, calls []*fair.GroupCall[int]) {
			<-open
			var values []int
			for _, c := range calls {
				values = append(values, c.Value)
			}
			mu.Lock()
			runs[key] = append(runs[key], values)
			mu.Unlock()
			for _, c := range calls {
				c.Answer(nil)
			}
		}}
		var wg sync.WaitGroup
		for i := range 5 {
			for _, key := range []string{"a", "b"} {
				wg.Go(func() {
					if err := g.Do(t.Context(), key, i); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait() // so that they arrive in this order
		}
		close(open)
		wg.Wait()
		for _, key := range []string{"a", "b"} {
			if want := [][]int{{0}, {1, 2, 3}, {4}}; !slices.EqualFunc(runs[key], want, slices.Equal) {
				t.Errorf("the groups of %s were %v, want %v", key, runs[key], want)
			}
		}
	})
}

func TestGroupCommitAnswers(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	g := fair.GroupCommit[struct{}, int]{MaxSize: 10, Commit: func(_ struct{}, calls []*fair.GroupCall[int]) {
		for _, c := range calls {
			switch {
			case c.Value == 4:
				panic("four")
			case c.Value == 8: // not answered
			case c.Value%2 == 1:
				c.Answer(odd)
			default:
				c.Answer(nil)
			}
		}
	}}
	for value, want := range []string{
		"", "odd", "", "odd", "panic in a group commit: four", "odd", "", "odd", "the call was not answered",
	} {
		err := g.Do(t.Context(), struct{}{}, value)
		if got := errorText(err); !strings.Contains(got, want) || (want == "") != (err == nil) {
			t.Errorf("%d was answered %q, want %q", value, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestGroupCommitFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		g := fair.GroupCommit[int, int]{MaxSize: 1, MaxWaiting: 2, Commit: func(_ int, calls []*fair.GroupCall[int]) {
			<-open
			calls[0].Answer(nil)
		}}
		var wg sync.WaitGroup
		for range 3 { // one runs, two wait
			wg.Go(func() {
				if err := g.Do(context.Background(), 1, 0); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if err := g.Do(t.Context(), 1, 0); !errors.Is(err, fair.ErrFull) {
			t.Errorf("the fourth got %v, want ErrGroupFull", err)
		}
		close(open)
		wg.Wait()
		if err := g.Do(t.Context(), 1, 0); err != nil {
			t.Errorf("after all were served: %v", err)
		}
	})
}

// TestGroupCommitParallel allows two groups of a key to be committed at once.
func TestGroupCommitParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		var running, served atomic.Int32
		g := fair.GroupCommit[int, int]{MaxSize: 2, Parallel: 2, Commit: func(_ int, calls []*fair.GroupCall[int]) {
			running.Add(1)
			<-open
			running.Add(-1)
			for _, c := range calls {
				served.Add(1)
				c.Answer(nil)
			}
		}}
		var wg sync.WaitGroup
		for range 9 {
			wg.Go(func() {
				if err := g.Do(t.Context(), 1, 0); err != nil {
					t.Error(err)
				}
			})
		}
		for left := 9; left > 0; { // at most two at a time
			synctest.Wait()
			if n := running.Load(); n > 2 || n < 2 && left > 2 {
				t.Fatalf("%d groups are being committed with %d calls left", n, left)
			}
			open <- struct{}{}
			synctest.Wait()
			left = 9 - int(served.Load())
		}
		wg.Wait()
	})
}

// TestGroupCommitZero: without a size, every call is a group.
func TestGroupCommitZero(t *testing.T) {
	t.Parallel()
	g := fair.GroupCommit[int, int]{Commit: func(_ int, calls []*fair.GroupCall[int]) {
		for _, c := range calls {
			c.Answer(nil)
		}
	}}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if err := g.Do(t.Context(), 1, 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestGroupCommitDrops: when too many wait, those of the organisation with the most
// are refused, and all of the others are served.
func TestGroupCommitDrops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		g := fair.GroupCommit[int, int]{MaxSize: 512, MaxWaiting: 100, Commit: func(_ int, calls []*fair.GroupCall[int]) {
			<-open
			if len(calls) > 2*32 {
				t.Errorf("a group of %d calls of two organisations", len(calls))
			}
			for _, c := range calls {
				c.Answer(nil)
			}
		}}
		var wg sync.WaitGroup
		refused := map[string]*atomic.Int64{"noisy": {}, "quiet": {}}
		do := func(org string) {
			wg.Go(func() {
				err := g.Do(fair.WithTenant(context.Background(), org), 1, 0)
				if errors.Is(err, fair.ErrFull) {
					refused[org].Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for range 501 { // one runs, 100 wait
			do("noisy")
		}
		for range 50 {
			do("quiet")
		}
		close(open)
		wg.Wait()
		if refused["noisy"].Load() != 450 || refused["quiet"].Load() != 0 {
			t.Errorf("refused %d of the noisy and %d of the quiet one, want 450 and 0", refused["noisy"].Load(), refused["quiet"].Load())
		}
	})
}
