package agents_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// An export is one OTLP request of an agent.
type export struct {
	path   string // e.g. "/v1/logs"
	header http.Header
	body   []byte
}

// A recorder stands between an agent and the service: it keeps every OTLP
// request, so that the same session can be reported to other organisations, too.
type recorder struct {
	*httptest.Server

	mu      sync.Mutex
	exports []export
}

func newRecorder(t *testing.T, to *service) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			t.Errorf("read what an agent sends: %v", err)
			return
		}
		header := http.Header{"Content-Type": in.Header["Content-Type"]}
		if encoding := in.Header["Content-Encoding"]; encoding != nil {
			header["Content-Encoding"] = encoding
		}
		r.mu.Lock()
		r.exports = append(r.exports, export{in.URL.Path, header, body})
		r.mu.Unlock()
		out, err := http.NewRequestWithContext(in.Context(), in.Method, to.URL+in.URL.Path, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		out.Header = header.Clone()
		out.Header["Authorization"] = in.Header["Authorization"]
		res, err := http.DefaultClient.Do(out)
		if err != nil {
			t.Errorf("pass on what an agent sends: %v", err)
			return
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("%s of an agent: %s", in.URL.Path, res.Status)
		}
		w.Header()["Content-Type"] = res.Header["Content-Type"]
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body) // the agent may have gone
	}))
	t.Cleanup(r.Close)
	return r
}

// sent returns the requests of some paths, of all if none is given.
func (r *recorder) sent(paths ...string) []export {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []export
	for _, e := range r.exports {
		if len(paths) == 0 || slices.Contains(paths, e.path) {
			all = append(all, e)
		}
	}
	return all
}
