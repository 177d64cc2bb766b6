package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
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

// A Cache keeps what was made of the skills of shelves, until these change. What was made
// before something was removed from a shelf is not served after that.
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
	freshUntil time.Time // until then it is used even if something was added to the shelf
}

func (k kept[V]) usable(now registry.Revision) bool {
	return k.revision == now || k.revision.Removals == now.Removals && time.Now().Before(k.freshUntil)
}

// madeOf is the key of a context in which a value is made: it has the revision of the kept
// value that it is made of, if there is one.
type madeOf struct{}

// use notes that a value was used to make another one, which is as old as that.
func (k kept[V]) use(ctx context.Context) V {
	if of, ok := ctx.Value(madeOf{}).(*registry.Revision); ok {
		*of = k.revision
	}
	return k.value
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
	if known, ok := c.kept.Get(key); ok && known.usable(revision) {
		return known.use(ctx), nil
	}
	// It is made for all requests that wait, so it must not be cancelled with one
	// of them. One that comes after a removal does not wait for what began before it.
	flight := fmt.Sprintf("%t %q %q %q %d", sh.Private, sh.OrgName, sh.Sets, name, revision.Removals)
	made := c.making.DoChan(flight, func() (any, error) {
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
		of := fresh.revision
		if fresh.value, cost, err = build(context.WithValue(ctx, madeOf{}, &of)); err != nil {
			return none, err
		}
		fresh.revision = of
		if took := time.Since(start); took > slowMake {
			fresh.freshUntil = time.Now().Add(makeShare * took)
		}
		if cost > 0 {
			c.kept.Put(key, fresh, cost)
		}
		return fresh, nil
	})
	select {
	case result := <-made:
		if result.Err != nil {
			return none, result.Err
		}
		return result.Val.(kept[V]).use(ctx), nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
