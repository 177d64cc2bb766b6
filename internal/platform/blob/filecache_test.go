package blob_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

// TestFileCache reads blobs again and again, by more readers at once than files
// are kept open: what comes back is what was put, and nothing after it was
// deleted.
func TestFileCache(t *testing.T) {
	files := openFiles(t, fileOptions(t))
	contents := map[string][]byte{}
	for range 20 {
		content := make([]byte, 100_000)
		_, _ = rand.Read(content)
		contents[putContent(t, files, string(content))] = content
	}
	for range 2 {
		var wg sync.WaitGroup
		for key, want := range contents {
			for range 20 {
				wg.Go(func() {
					if got := readBlob(t, files, key); !bytes.Equal(got, want) {
						t.Errorf("blob %s came back changed", key)
					}
				})
			}
		}
		wg.Wait()
	}
	for key := range contents {
		if err := files.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if _, _, err := files.Get(t.Context(), key); !fault.Is(err, fault.NotFound) {
			t.Fatalf("Get after Delete: got %v, want NotFound", err)
		}
	}
}

// TestClosedCachedFile: a reader that was closed does not disturb the next one,
// which may have the same file.
func TestClosedCachedFile(t *testing.T) {
	files := openFiles(t, fileOptions(t))
	key := putContent(t, files, "some content")
	first, _, err := files.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, _, err := files.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := first.Read(make([]byte, 4)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed blob reads: %v", err)
	}
	if _, err := first.(io.Seeker).Seek(4, io.SeekStart); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed blob seeks: %v", err)
	}
	if err := first.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed blob closes: %v", err)
	}
	if got, err := io.ReadAll(second); err != nil || string(got) != "some content" {
		t.Errorf("the next reader got %q, %v", got, err)
	}
}

func readBlob(t *testing.T, b blob.Bucket, key string) []byte {
	t.Helper()
	body, _, err := b.Get(t.Context(), key)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		t.Error(err)
	}
	return content
}

// TestServeCachedFile compares serveWhole with http.ServeContent: the
// first answer is the whole blob, the second a range of it.
func TestServeCachedFile(t *testing.T) {
	files := openFiles(t, fileOptions(t))
	key := putContent(t, files, "some content")
	serve := func(header, value string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if header != "" {
			r.Header.Set(header, value)
		}
		w := httptest.NewRecorder()
		if err := blob.Serve(w, r, files, key, blob.SignOptions{Filename: "a.tar.gz"}); err != nil {
			t.Fatal(err)
		}
		return w
	}
	whole := serve("", "")
	if whole.Code != http.StatusOK || whole.Body.String() != "some content" {
		t.Errorf("whole: got %d %q", whole.Code, whole.Body)
	}
	for _, name := range []string{"Etag", "Digest", "Last-Modified", "Content-Length", "Accept-Ranges", "Content-Disposition"} {
		if whole.Header().Get(name) == "" {
			t.Errorf("whole: no %s", name)
		}
	}
	if _, err := time.Parse(http.TimeFormat, whole.Header().Get("Last-Modified")); err != nil {
		t.Error(err)
	}
	if part := serve("Range", "bytes=5-"); part.Code != http.StatusPartialContent || part.Body.String() != "content" {
		t.Errorf("range: got %d %q", part.Code, part.Body)
	}
	if again := serve("If-None-Match", whole.Header().Get("Etag")); again.Code != http.StatusNotModified {
		t.Errorf("If-None-Match: got %d, want 304", again.Code)
	}
}
