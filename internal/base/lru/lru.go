// Package lru is a cache that evicts the least recently used value. Values have
// a cost, such as their bytes, so that one limit bounds large and small ones. It
// owns no tables.
package lru

import (
	"container/list"
	"sync"
)

// A Cache is safe for concurrent use.
type Cache[K comparable, V any] struct {
	limit int64

	mu     sync.Mutex
	items  map[K]*list.Element
	order  list.List // of item, the most recently used first
	cost   int64
	onDrop func(V)
}

type item[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

// New returns a cache of values whose costs add up to the limit at most.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, items: map[K]*list.Element{}}
}

// OnDrop sets a function that is called with every value that is evicted,
// replaced or removed, before Put or Remove returns. It must not call the cache.
func (c *Cache[K, V]) OnDrop(f func(V)) { c.onDrop = f }

// Get returns a cached value.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(e)
	return e.Value.(item[K, V]).value, true
}

// Put adds a value, in place of one under the same key, and evicts others if the
// limit is exceeded.
func (c *Cache[K, V]) Put(key K, value V, cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.items[key])
	c.items[key] = c.order.PushFront(item[K, V]{key, value, cost})
	c.cost += cost
	for c.cost > c.limit {
		c.drop(c.order.Back())
	}
}

// Remove removes a value, if it is there.
func (c *Cache[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.items[key])
}

// RemoveFunc removes the values of all keys for which remove returns true. It must not call
// the cache.
func (c *Cache[K, V]) RemoveFunc(remove func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.items {
		if remove(key) {
			c.drop(e)
		}
	}
}

func (c *Cache[K, V]) drop(e *list.Element) {
	if e == nil {
		return
	}
	i := c.order.Remove(e).(item[K, V])
	delete(c.items, i.key)
	c.cost -= i.cost
	if c.onDrop != nil {
		c.onDrop(i.value)
	}
}
