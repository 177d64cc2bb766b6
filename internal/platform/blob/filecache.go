package blob

import (
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/base/lru"
)

const (
	// maxCached is how many blobs a file cache knows: a team installs the same
	// few skills again and again.
	maxCached = 1000
	// maxIdle is how many files it keeps open together.
	maxIdle = 128
)

// A fileCache is an LRU cache of open files, which the kernel sends by itself
// (sendfile). It has only blobs whose key names their content, since those
// never change. Together with serveWhole it gains +20 % downloads a second
// (bench download).
type fileCache struct {
	mu    sync.Mutex
	blobs *lru.Cache[string, *cachedBlob]
	idle  int
	// removals counts Delete and Put, so that a file that was opened before one
	// of them is not cached after it.
	removals int
}

type cachedBlob struct {
	info   Info
	header http.Header // of every answer with the whole blob
	cached bool
	idle   []*os.File // open, and used by no reader
}

// get returns a cached blob, or nil, and an idle file of it, or nil. The count
// of removals is for add.
func (c *fileCache) get(key string) (b *cachedBlob, file *os.File, removals int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.blobs.Get(key)
	if !ok || len(b.idle) == 0 {
		return b, nil, c.removals
	}
	last := len(b.idle) - 1
	file, b.idle = b.idle[last], b.idle[:last]
	c.idle--
	return b, file, c.removals
}

// add caches a blob, unless something was removed since get.
func (c *fileCache) add(info Info, removals int) *cachedBlob {
	h := http.Header{}
	setContentHeaders(h, info.Key)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", info.Modified.Format(http.TimeFormat))
	h.Set("Content-Length", strconv.FormatInt(info.Size, 10))
	b := &cachedBlob{info: info, header: h}
	c.mu.Lock()
	defer c.mu.Unlock()
	if removals == c.removals {
		b.cached = true
		c.blobs.Put(info.Key, b, 1)
	}
	return b
}

// release keeps a file open for the next reader, or reports false.
func (c *fileCache) release(b *cachedBlob, file *os.File) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !b.cached || c.idle == maxIdle {
		return false
	}
	b.idle = append(b.idle, file)
	c.idle++
	return true
}

func (c *fileCache) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removals++
	c.blobs.Remove(key)
}

// A cachedFile is a blob that one reader has open.
type cachedFile struct {
	cache *fileCache
	blob  *cachedBlob
	file  *os.File // nil once closed: another reader may have it then
}

// Read implements io.Reader.
func (f *cachedFile) Read(p []byte) (int, error) {
	if f.file == nil {
		return 0, os.ErrClosed
	}
	return f.file.Read(p)
}

// Seek implements io.Seeker.
func (f *cachedFile) Seek(offset int64, whence int) (int64, error) {
	if f.file == nil {
		return 0, os.ErrClosed
	}
	return f.file.Seek(offset, whence)
}

// Close gives the file back to the cache.
func (f *cachedFile) Close() error {
	if f.file == nil {
		return os.ErrClosed
	}
	file := f.file
	f.file = nil
	if f.cache.release(f.blob, file) {
		return nil
	}
	return file.Close()
}

// conditional are the headers of requests that may be answered with something
// else than the whole blob.
var conditional = []string{"Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"}

// serveWhole answers an unconditional GET of a cached file, and reports whether
// it did. It does without http.ServeContent, which hides the file from sendfile
// and makes the headers anew.
func serveWhole(w http.ResponseWriter, r *http.Request, body io.ReadCloser, o SignOptions) bool {
	f, ok := body.(*cachedFile)
	if !ok || r.Method != http.MethodGet {
		return false
	}
	for _, name := range conditional {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	h := w.Header()
	maps.Copy(h, f.blob.header)
	setHeaders(h, o)
	_, _ = io.CopyN(w, f.file, f.blob.info.Size) // the client sees a short body if this fails
	return true
}
