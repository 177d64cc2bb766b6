package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"
	"time"
)

// A document is an answer that stays the same while the process runs. Rendering
// one takes some 50 ms, which is too much for every anonymous request.
type document struct {
	header http.Header
	body   []byte
	zipped []byte // body, gzipped
}

func newDocument(body []byte, header http.Header) document {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(body) // a buffer takes everything
	_ = z.Close()
	digest := sha256.Sum256(body)
	header.Set("ETag", `"`+hex.EncodeToString(digest[:])+`"`)
	header.Set("Vary", "Accept-Encoding")
	return document{header, body, zipped.Bytes()}
}

func (a *API) serveDocument(render func() (document, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := render()
		if err != nil {
			a.writeError(w, r, err)
			return
		}
		body := d.body
		maps.Copy(w.Header(), d.header)
		if acceptsGzip(r.Header) {
			body = d.zipped
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("ETag", strings.TrimSuffix(d.header.Get("ETag"), `"`)+`-gzip"`)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}

// acceptsGzip reports whether a client names gzip without a weight of 0.
func acceptsGzip(h http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if strings.EqualFold(name, "gzip") {
			return weight != "q=0" && weight != "q=0.0"
		}
	}
	return false
}

func (a *API) renderOpenAPI() (document, error) {
	body, err := a.OpenAPI()
	return newDocument(body, http.Header{"Content-Type": {jsonType}}), err
}

// renderDocs renders the API reference from the document that /openapi.json
// serves. The page loads nothing else.
func (a *API) renderDocs() (document, error) {
	body, err := renderReference(referenceDocument{API: a.documented(), Examples: a.examples, Words: a.words})
	return newDocument(body, http.Header{
		"Content-Type":            {"text/html; charset=utf-8"},
		"Content-Security-Policy": {ContentSecurityPolicy},
	}), err
}
