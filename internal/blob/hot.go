package blob

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/lru"
)

const (
	// hotBytes is how much of the bucket of files is kept in memory: a team
	// installs the same few skills again and again.
	hotBytes = 16 << 20
	// hotItem is the size from which a blob is left to the system's own cache.
	hotItem = 1 << 20
)

// A hot keeps the blobs that were read last. It takes only those whose key
// names their content: they never change.
type hot struct {
	blobs *lru.Cache[string, hotBlob]

	mu sync.Mutex
	// removals counts the blobs that were removed, so that one that was opened
	// before its removal does not stay.
	removals int
}

type hotBlob struct {
	info    Info
	content []byte
	// header is what every whole answer says of it.
	header http.Header
}

func newHotBlob(info Info, content []byte) hotBlob {
	h := http.Header{}
	setContentHeaders(h, info.Key)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", info.Modified.Format(http.TimeFormat))
	h.Set("Content-Length", strconv.Itoa(len(content)))
	return hotBlob{info, content, h}
}

func newHot() *hot { return &hot{blobs: lru.New[string, hotBlob](hotBytes)} }

// mayBeHot says whether a blob is worth keeping in memory.
func mayBeHot(info Info) bool {
	_, ok := contentSum(info.Key)
	return ok && info.Size <= hotItem
}

// get returns a blob, and the number of removals that add wants to hear when
// there is none.
func (h *hot) get(key string) (_ hotBlob, removals int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, ok := h.blobs.Get(key)
	return b, h.removals, ok
}

// add keeps a blob, unless something was removed since get was asked for it.
func (h *hot) add(b hotBlob, removals int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if removals == h.removals {
		h.blobs.Put(b.info.Key, b, b.info.Size)
	}
}

func (h *hot) remove(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removals++
	h.blobs.Remove(key)
}

// memory is the body of a blob that is kept in memory.
type memory struct {
	bytes.Reader
	blob hotBlob
}

func (b hotBlob) body() *memory {
	m := &memory{blob: b}
	m.Reset(b.content)
	return m
}

// Close lets memory be what Get returns.
func (*memory) Close() error { return nil }

// conditions are the headers that make an answer something else than the
// whole blob.
var conditions = []string{"Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"}

// serveWhole answers with a blob in one piece, which is the usual way and
// spares the detours of http.ServeContent. It reports whether it did.
func serveWhole(w http.ResponseWriter, r *http.Request, body io.ReadCloser, o SignOptions) bool {
	m, ok := body.(*memory)
	if !ok || r.Method != http.MethodGet {
		return false
	}
	for _, name := range conditions {
		if len(r.Header[name]) > 0 {
			return false
		}
	}
	h := w.Header()
	maps.Copy(h, m.blob.header)
	setHeaders(h, o)
	_, _ = w.Write(m.blob.content) // the client sees a short body if this fails
	return true
}
