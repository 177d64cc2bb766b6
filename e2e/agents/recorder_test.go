package agents_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// An export is one report of an agent or of our command line: an OTLP request or a
// push.
type export struct {
	path    string // e.g. "/v1/logs"
	body    []byte
	headers []string // how the body is encoded
}

// pushes is the path of the reports of hooks and imports.
const pushes = "/api/v1/push"

// A recorder stands between an agent and the service: it keeps every report, so that
// the same session can be reported to other organisations, too.
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
		e := export{in.URL.Path, body, []string{
			"Content-Type: " + in.Header.Get("Content-Type"), "Content-Encoding: " + in.Header.Get("Content-Encoding"),
		}}
		service := &apptest.Caller{T: t, URL: to.URL}
		out := service.Do(in.Method, in.URL.RequestURI(), body, append(e.headers, "Authorization: "+in.Header.Get("Authorization"))...)
		if out.Status >= 400 {
			t.Errorf("%s of an agent: status %d: %s", e.path, out.Status, out.Body)
		}
		if in.Method == http.MethodPost {
			r.mu.Lock()
			r.exports = append(r.exports, e)
			r.mu.Unlock()
		}
		w.Header().Set("Content-Type", out.Header.Get("Content-Type"))
		w.WriteHeader(out.Status)
		_, _ = w.Write(out.Body) // the agent may have gone
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
