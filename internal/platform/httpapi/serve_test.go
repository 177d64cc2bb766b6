package httpapi_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// fileSender is a connection that notes what it was given to send.
type fileSender struct {
	*httptest.ResponseRecorder
	files, others int
}

func (s *fileSender) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if _, isFile := limited.R.(*os.File); ok && isFile {
		s.files++
	} else {
		s.others++
	}
	return io.Copy(s.Body, src)
}

// TestFilesAreSentAsFiles wants a file of several pieces to reach the
// connection as what it is, so that the system can send it by itself.
func TestFilesAreSentAsFiles(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 70_000)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFrame(t, storetest.Open(t, "sqlite"), func(a *httpapi.API) {
		a.Handle("GET /file", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }))
	})
	for header, want := range map[string][]byte{"": content, "bytes=5-14": content[5:15]} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/file", nil)
		r.Header.Set("Range", header)
		s := &fileSender{ResponseRecorder: httptest.NewRecorder()}
		f.API.ServeHTTP(s, r)
		if !bytes.Equal(s.Body.Bytes(), want) {
			t.Errorf("range %q: %d bytes, want %d", header, s.Body.Len(), len(want))
		}
		if s.files == 0 || s.others > 0 {
			t.Errorf("range %q: sent %d times as a file, %d times as something else", header, s.files, s.others)
		}
	}
}

// TestRestIsMissing: a path that lacks the rest that a route takes is no route. It was
// redirected to itself.
func TestRestIsMissing(t *testing.T) {
	t.Parallel()
	f := newFrame(t, storetest.Open(t, "sqlite"), func(a *httpapi.API) {
		a.Handle("GET /files/{name}/{rest...}", nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.PathValue("rest"))
		}))
	})
	f.do(t, "GET", "/files/a", "").WantError(404, "No such route: GET /files/a")
	f.do(t, "GET", "/files/a/", "").WantError(404, "No such route: GET /files/a")
	f.do(t, "POST", "/files/a", "").WantError(404, "No such route: POST /files/a")
	if got := f.do(t, "GET", "/files/a/b/c", ""); got.Status != 200 || string(got.Body) != "b/c" {
		t.Errorf("got %d %s, want the rest", got.Status, got.Body)
	}
}
