package stored

import (
	"container/list"
	"context"
	"sync"
)

// smallFile is the size up to which a file's memory is not counted while it is
// being sent.
const smallFile = 256 << 10

// A cache is an LRU cache of files by their digest. A large file that is being
// sent is pinned, so that its bytes are in memory once for all requests, and
// pinned files together never exceed the limit.
type cache struct {
	limit int64

	mu     sync.Mutex
	files  map[string]*file
	idle   list.List     // of *file that may be evicted, the most recently used first
	used   int64         // bytes cached or reserved
	pinned int64         // of those, bytes reserved or of large files that are being sent
	freed  chan struct{} // closed when bytes are no longer pinned
}

type file struct {
	sum     string
	content []byte
	refs    int           // reference count: requests that send it, if it is large
	at      *list.Element // in idle
}

// get returns a cached file. A large one stays pinned until ctx is done.
func (c *cache) get(ctx context.Context, sum string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[sum]
	if f == nil {
		return nil, false
	}
	if len(f.content) > smallFile {
		c.pin(ctx, f)
	} else {
		c.idle.MoveToFront(f.at)
	}
	return f.content, true
}

// pin keeps a large file until ctx is done. The caller holds the lock.
func (c *cache) pin(ctx context.Context, f *file) {
	if f.at != nil {
		c.idle.Remove(f.at)
		f.at = nil
		c.pinned += int64(len(f.content))
	}
	f.refs++
	// The context of the request ends when its response is written, also if the
	// client disconnects, so no caller can forget to unpin.
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.refs--; f.refs == 0 {
			f.at = c.idle.PushFront(f)
			c.unpin(int64(len(f.content)))
		}
	})
}

// put caches a small file, if there is room for it.
func (c *cache) put(sum string, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A cache that is full of pinned files refuses: a small file is read again
	// cheaply.
	if c.files[sum] != nil || !c.makeRoom(int64(len(content))) {
		return
	}
	f := &file{sum: sum, content: content}
	f.at = c.idle.PushFront(f)
	c.files[sum] = f
}

// putReserved caches a large file whose memory was reserved, and returns the
// cached bytes: if two requests read it at once, those of the first.
func (c *cache) putReserved(ctx context.Context, sum string, content []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[sum]
	if f == nil {
		f = &file{sum: sum, content: content}
		c.files[sum] = f
	} else {
		// The other request's copy is counted; ours becomes garbage with its
		// reservation.
		c.used -= int64(len(content))
		c.unpin(int64(len(content)))
	}
	c.pin(ctx, f)
	return f.content
}

// reserve waits for memory for a large file.
func (c *cache) reserve(ctx context.Context, size int64) error {
	wait, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for {
		c.mu.Lock()
		// freed is taken under the lock, so that an unpin between the check and the
		// wait is not missed.
		done, freed := c.makeRoom(size), c.freed
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
			return busyError(ctx, wait.Err())
		}
	}
}

// release frees memory that was reserved and not used.
func (c *cache) release(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= size
	c.unpin(size)
}

// makeRoom counts bytes as used, and evicts the least recently used files for
// them. It reports false if there is no room. The caller holds the lock.
func (c *cache) makeRoom(size int64) bool {
	if c.pinned+size > c.limit {
		return false
	}
	// It ends: what is not pinned is in idle, and pinned bytes leave room for size.
	for c.used+size > c.limit {
		f := c.idle.Remove(c.idle.Back()).(*file)
		delete(c.files, f.sum)
		c.used -= int64(len(f.content))
	}
	c.used += size
	return true
}

// unpin frees pinned bytes and wakes waiting calls of reserve. The caller holds
// the lock.
func (c *cache) unpin(size int64) {
	c.pinned -= size
	close(c.freed)
	c.freed = make(chan struct{})
}
