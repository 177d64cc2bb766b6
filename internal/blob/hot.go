package blob

import (
	"bytes"
	"container/list"
	"io"
	"net/http"
	"strconv"
	"sync"
)

const (
	// hotBytes is how much of the bucket of files is kept in memory: a team
	// installs the same few skills again and again.
	hotBytes = 16 << 20
	// hotItem is the size from which a blob is left to the system's own cache.
	hotItem = 1 << 20
)

// A hot keeps the blobs that were read last. It takes only those whose key
// names their content: they never change. The zero value is empty.
type hot struct {
	mu    sync.Mutex
	items map[string]*list.Element
	order list.List // of hotBlob, the last read first
	bytes int64
	// removals counts the blobs that were removed, so that one that was opened
	// before its removal does not stay.
	removals int
}

type hotBlob struct {
	info    Info
	content []byte
}

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
	e, ok := h.items[key]
	if !ok {
		return hotBlob{}, h.removals, false
	}
	h.order.MoveToFront(e)
	return e.Value.(hotBlob), h.removals, true
}

// add keeps a blob, unless something was removed since get was asked for it.
func (h *hot) add(b hotBlob, removals int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := h.items[b.info.Key]; there || removals != h.removals {
		return
	}
	if h.items == nil {
		h.items = map[string]*list.Element{}
	}
	h.items[b.info.Key] = h.order.PushFront(b)
	h.bytes += b.info.Size
	for h.bytes > hotBytes {
		h.drop(h.order.Back())
	}
}

func (h *hot) remove(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removals++
	if e, ok := h.items[key]; ok {
		h.drop(e)
	}
}

func (h *hot) drop(e *list.Element) {
	b := h.order.Remove(e).(hotBlob)
	delete(h.items, b.info.Key)
	h.bytes -= b.info.Size
}

// memory is the body of a blob that is kept in memory.
type memory struct {
	bytes.Reader
	content []byte
}

func (b hotBlob) body() *memory {
	m := &memory{content: b.content}
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
func serveWhole(w http.ResponseWriter, r *http.Request, body io.ReadCloser, info Info) bool {
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
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", info.Modified.Format(http.TimeFormat))
	h.Set("Content-Length", strconv.Itoa(len(m.content)))
	_, _ = w.Write(m.content) // the client sees a short body if this fails
	return true
}
