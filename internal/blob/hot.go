package blob

import (
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/lru"
)

const (
	// maxHot is how many blobs of a bucket of files are kept at hand: a team
	// installs the same few skills again and again.
	maxHot = 1000
	// maxIdle is how many files are kept open for the next reader.
	maxIdle = 128
)

// A hot keeps at hand the blobs that were read last, with open files: the
// system sends those by itself. It takes only blobs whose key names their
// content: they never change.
type hot struct {
	mu    sync.Mutex
	blobs *lru.Cache[string, *hotBlob]
	idle  int
	// removals counts the blobs that were removed, so that one that was opened
	// before its removal does not stay.
	removals int
}

type hotBlob struct {
	info Info
	// header is what every whole answer says of it.
	header http.Header
	kept   bool
	idle   []*os.File
}

func newHotBlob(info Info) *hotBlob {
	h := http.Header{}
	setContentHeaders(h, info.Key)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", info.Modified.Format(http.TimeFormat))
	h.Set("Content-Length", strconv.FormatInt(info.Size, 10))
	return &hotBlob{info: info, header: h}
}

func newHot() *hot {
	h := &hot{}
	h.blobs = lru.New[string, *hotBlob](maxHot)
	h.blobs.OnDrop(h.drop)
	return h
}

// take returns a blob that is kept, if it is, and an open file of it, if there
// is one; add wants to hear the number of removals.
func (h *hot) take(key string) (b *hotBlob, file *os.File, removals int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, ok := h.blobs.Get(key)
	if !ok || len(b.idle) == 0 {
		return b, nil, h.removals
	}
	last := len(b.idle) - 1
	file, b.idle = b.idle[last], b.idle[:last]
	h.idle--
	return b, file, h.removals
}

// add keeps a blob, unless something was removed since take was asked for it.
func (h *hot) add(b *hotBlob, removals int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if removals == h.removals {
		b.kept = true
		h.blobs.Put(b.info.Key, b, 1)
	}
}

// rest keeps a file open for the next reader, or reports false.
func (h *hot) rest(b *hotBlob, file *os.File) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !b.kept || h.idle == maxIdle {
		return false
	}
	b.idle = append(b.idle, file)
	h.idle++
	return true
}

func (h *hot) remove(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removals++
	h.blobs.Remove(key)
}

// drop closes the files of a blob that is no longer kept.
func (h *hot) drop(b *hotBlob) {
	for _, file := range b.idle {
		_ = file.Close() // it was only read
	}
	h.idle -= len(b.idle)
	b.kept, b.idle = false, nil
}

// A hotFile is one reader's open blob.
type hotFile struct {
	hot  *hot
	blob *hotBlob
	file *os.File // nil once closed: then it may be another's
}

// Read implements io.Reader.
func (f *hotFile) Read(p []byte) (int, error) {
	if f.file == nil {
		return 0, os.ErrClosed
	}
	return f.file.Read(p)
}

// Seek implements io.Seeker.
func (f *hotFile) Seek(offset int64, whence int) (int64, error) {
	if f.file == nil {
		return 0, os.ErrClosed
	}
	return f.file.Seek(offset, whence)
}

// Close leaves the file to the next reader.
func (f *hotFile) Close() error {
	if f.file == nil {
		return os.ErrClosed
	}
	file := f.file
	f.file = nil
	if f.hot.rest(f.blob, file) {
		return nil
	}
	return file.Close()
}

// conditions are the headers that make an answer something else than the
// whole blob.
var conditions = []string{"Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"}

// serveWhole answers with a blob in one piece, which is the usual way and
// spares the detours of http.ServeContent. It reports whether it did.
func serveWhole(w http.ResponseWriter, r *http.Request, body io.ReadCloser, o SignOptions) bool {
	f, ok := body.(*hotFile)
	if !ok || r.Method != http.MethodGet {
		return false
	}
	for _, name := range conditions {
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
