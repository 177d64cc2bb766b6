// Package lru keeps in memory what was used last, as much as a limit allows.
// What it keeps can be had again from elsewhere: it owns no tables.
package lru

import (
	"container/list"
	"sync"
)

// A Cache forgets what was not used for longest. Its methods may be called from
// many goroutines.
type Cache[K comparable, V any] struct {
	limit int64

	mu     sync.Mutex
	items  map[K]*list.Element
	order  list.List // of item, the last used first
	cost   int64
	onDrop func(V)
}

type item[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

// New returns a cache for values that cost no more than the limit together.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, items: map[K]*list.Element{}}
}

// OnDrop has a function called with every value that is forgotten or replaced,
// before Put or Remove returns. It must not call the cache.
func (c *Cache[K, V]) OnDrop(f func(V)) { c.onDrop = f }

// Get returns a value that is kept.
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

// Put keeps a value in place of one under the same key.
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

// Remove forgets a value.
func (c *Cache[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(c.items[key])
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
