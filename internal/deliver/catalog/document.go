package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
)

// minGzip is the smallest document that is compressed.
const minGzip = 1 << 10

// A Document is an answer that is sent many times.
type Document struct {
	content []byte
	gzipped []byte // nil where that gains nothing
	etag    string
}

// NewDocument makes a document of its content. It is compressed once, when it is
// made, and not for each client.
func NewDocument(content []byte) (*Document, error) {
	sum := sha256.Sum256(content)
	d := &Document{content: content, etag: hex.EncodeToString(sum[:])}
	if len(content) < minGzip {
		return d, nil
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err := w.Close()
	d.gzipped = b.Bytes()
	return d, err
}

// Size is how many bytes it takes in memory.
func (d *Document) Size() int64 { return int64(len(d.content) + len(d.gzipped)) }

// ServeJSON sends a document of JSON that is about a shelf.
func (d *Document) ServeJSON(w http.ResponseWriter, r *http.Request, sh Shelf) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", sh.CacheControl())
	w.Header().Add("Vary", "Accept-Encoding")
	content, etag := d.content, d.etag
	if d.gzipped != nil && acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		// Another representation needs another ETag (RFC 9110, section 8.8.3.3).
		content, etag = d.gzipped, etag+"-gzip"
	}
	stored.Serve(w, r, etag, content)
}

// acceptsGzip reports whether a client names gzip without refusing it (q=0).
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) == "gzip" {
			return strings.Trim(quality, " q=0.") != "" || strings.TrimSpace(quality) == ""
		}
	}
	return false
}
