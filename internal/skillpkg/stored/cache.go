package stored

import (
	"container/list"
	"context"
	"sync"
)

// small is the size up to which a file's memory is not counted while it is
// being sent.
const small = 256 << 10

// A cache keeps files by their digest, those used last. A large file that is
// being sent stays in it, so that its bytes are there once for all requests, and
// large files together never take more than the limit.
type cache struct {
	limit int64

	mu     sync.Mutex
	files  map[string]*file
	idle   list.List     // of *file that may be dropped, the last used first
	used   int64         // bytes kept or reserved
	pinned int64         // of those, bytes reserved or of large files that are being sent
	freed  chan struct{} // closed when bytes are no longer pinned
}

type file struct {
	sum     string
	content []byte
	users   int           // requests that send it, of a large one
	at      *list.Element // in idle
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, files: map[string]*file{}, freed: make(chan struct{})}
}

// get returns a file that is kept; a large one until ctx is done at least.
func (c *cache) get(ctx context.Context, sum string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[sum]
	if f == nil {
		return nil, false
	}
	if len(f.content) > small {
		c.use(ctx, f)
	} else {
		c.idle.MoveToFront(f.at)
	}
	return f.content, true
}

// use keeps a large file until ctx is done. The lock is held.
func (c *cache) use(ctx context.Context, f *file) {
	if f.at != nil {
		c.idle.Remove(f.at)
		f.at = nil
		c.pinned += int64(len(f.content))
	}
	f.users++
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.users--; f.users == 0 {
			f.at = c.idle.PushFront(f)
			c.unpin(int64(len(f.content)))
		}
	})
}

// put keeps a small file, if there is room for it.
func (c *cache) put(sum string, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[sum] != nil || !c.take(int64(len(content))) {
		return
	}
	f := &file{sum: sum, content: content}
	f.at = c.idle.PushFront(f)
	c.files[sum] = f
}

// putReserved keeps a large file for which its reader has reserved the memory,
// and returns the bytes that are kept: if two read it at once, those of the first.
func (c *cache) putReserved(ctx context.Context, sum string, content []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[sum]
	if f == nil {
		f = &file{sum: sum, content: content}
		c.files[sum] = f
	} else {
		c.used -= int64(len(content))
		c.unpin(int64(len(content)))
	}
	c.use(ctx, f)
	return f.content
}

// reserve waits for memory for a large file.
func (c *cache) reserve(ctx context.Context, size int64) error {
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c.mu.Lock()
		done, freed := c.take(size), c.freed
		if done {
			c.pinned += size
		}
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-freed:
		case <-wait.Done():
			return busy(ctx, wait.Err())
		}
	}
}

// release gives back memory that was reserved in vain.
func (c *cache) release(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= size
	c.unpin(size)
}

// take counts bytes as used, and drops for them what was not used for longest.
// It reports false if there is no room. The lock is held.
func (c *cache) take(size int64) bool {
	if c.pinned+size > c.limit {
		return false
	}
	for c.used+size > c.limit {
		f := c.idle.Remove(c.idle.Back()).(*file)
		delete(c.files, f.sum)
		c.used -= int64(len(f.content))
	}
	c.used += size
	return true
}

// unpin lets others have the bytes, and wakes those who wait for some. The lock
// is held.
func (c *cache) unpin(size int64) {
	c.pinned -= size
	close(c.freed)
	c.freed = make(chan struct{})
}
