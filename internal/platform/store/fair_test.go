package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func as(ctx context.Context, org string) context.Context {
	return access.With(ctx, access.Caller{OrgID: org})
}

// TestInGroupIsFair: an organisation that floods the database delays the write of
// another by two of its own, not by all that it has waiting.
func TestInGroupIsFair(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		const flood = 300
		var begun atomic.Int64
		proceed := make(chan struct{}) // each receive lets one write of the flood go on
		var wg sync.WaitGroup
		defer wg.Wait()
		for range flood {
			wg.Go(func() {
				err := db.InGroup(as(t.Context(), "noisy"), func(*store.Tx) error {
					begun.Add(1)
					<-proceed
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		waiting := func() int64 { return int64(db.Stats().Writers) }
		apptest.Eventually(t, "the flood waits", func() bool { return begun.Load()+waiting() == flood })
		before := waiting()
		served := make(chan struct{})
		wg.Go(func() {
			err := db.InGroup(as(t.Context(), "quiet"), func(*store.Tx) error {
				close(served)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
		apptest.Eventually(t, "the quiet one waits", func() bool { return waiting() == before+1 })
		for range 2 {
			proceed <- struct{}{}
		}
		apptest.Eventually(t, "the quiet one is served", func() bool {
			select {
			case <-served:
				return true
			default:
				return false
			}
		})
		close(proceed)
	})
}

// TestGateCancels: a caller that gives up while it waits takes no place with it.
func TestGateCancels(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "postgres")
	const many = 64 // more than there are places
	proceed := make(chan struct{})
	var begun atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range many {
		wg.Go(func() {
			err := db.InGroup(ctx, func(*store.Tx) error {
				begun.Add(1)
				<-proceed
				return nil
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	apptest.Eventually(t, "all wait or run", func() bool { return begun.Load()+int64(db.Stats().Writers) == many })
	cancel()
	apptest.Eventually(t, "none waits", func() bool { return db.Stats().Writers == 0 })
	close(proceed)
	wg.Wait()
	places := begun.Load()
	for range places { // each of them is free again
		wg.Go(func() {
			if err := db.InGroup(t.Context(), func(*store.Tx) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
