package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/whetstone-dev/whetstone/internal/lru"
	"github.com/whetstone-dev/whetstone/internal/registry"
)

const (
	// makeTimeout bounds the making of a value.
	makeTimeout = 20 * time.Second
	// A value that takes longer than slowMake to make is made at most once in
	// makeShare times that time, so that endless pushes do not keep the service
	// busy with it.
	slowMake  = 50 * time.Millisecond
	makeShare = 10
)

// A Cache keeps what was made of the skills of shelves, until these change.
type Cache[V any] struct {
	Registry *registry.Service
	Limit    int64 // of the costs of all values

	once   sync.Once
	kept   *lru.Cache[cacheKey, kept[V]]
	making singleflight.Group
}

type cacheKey struct {
	registry.Shelf
	name string
}

type kept[V any] struct {
	value      V
	revision   registry.Revision
	freshUntil time.Time // until then it is used even if the shelf has changed
}

// Get returns the value of a name and a shelf, kept or newly made. What costs
// nothing is not kept: values of organisations that do not exist would fill the
// cache. Requests that wait for the same value share one call.
func (c *Cache[V]) Get(
	ctx context.Context, sh registry.Shelf, name string, build func(context.Context) (value V, cost int64, err error),
) (V, error) {
	c.once.Do(func() { c.kept = lru.New[cacheKey, kept[V]](c.Limit) })
	var none V
	key := cacheKey{sh, name}
	revision, err := c.Registry.ShelfRevision(ctx, sh)
	if err != nil {
		return none, err
	}
	if known, ok := c.kept.Get(key); ok && (known.revision == revision || time.Now().Before(known.freshUntil)) {
		return known.value, nil
	}
	// It is made for all requests that wait, so it must not be cancelled with one
	// of them.
	made := c.making.DoChan(fmt.Sprintf("%t %q %q", sh.Private, sh.OrgName, name), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
		defer cancel()
		start := time.Now()
		// Read before the skills are, so that a change meanwhile makes the value stale.
		fresh := kept[V]{}
		var err error
		if fresh.revision, err = c.Registry.ShelfRevision(ctx, sh); err != nil {
			return none, err
		}
		var cost int64
		if fresh.value, cost, err = build(ctx); err != nil {
			return none, err
		}
		if took := time.Since(start); took > slowMake {
			fresh.freshUntil = time.Now().Add(makeShare * took)
		}
		if cost > 0 {
			c.kept.Put(key, fresh, cost)
		}
		return fresh.value, nil
	})
	select {
	case result := <-made:
		if result.Err != nil {
			return none, result.Err
		}
		return result.Val.(V), nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
