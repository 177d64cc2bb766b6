package blob_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// TestHotBlobs reads more than is kept in memory, twice: what comes back is
// what was put, also after it was pushed out, and nothing after it was deleted.
func TestHotBlobs(t *testing.T) {
	files := openFiles(t, fileOptions(t))
	contents := map[string][]byte{}
	for range 40 {
		content := make([]byte, 512<<10)
		_, _ = rand.Read(content)
		ref, err := blob.PutContent(t.Context(), files, bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		contents[ref.Key] = content
	}
	for range 2 {
		for key, want := range contents {
			if got := readBlob(t, files, key); !bytes.Equal(got, want) {
				t.Fatalf("blob %s came back changed", key)
			}
		}
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

func readBlob(t *testing.T, b blob.Bucket, key string) []byte {
	t.Helper()
	body, _, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestServeHot compares the quick way of serving with that of a file: the
// first answer comes from memory, the second is a range of it.
func TestServeHot(t *testing.T) {
	files := openFiles(t, fileOptions(t))
	ref, err := blob.PutContent(t.Context(), files, bytes.NewReader([]byte("some content")))
	if err != nil {
		t.Fatal(err)
	}
	serve := func(header, value string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if header != "" {
			r.Header.Set(header, value)
		}
		w := httptest.NewRecorder()
		if err := blob.Serve(w, r, files, ref.Key, blob.SignOptions{Filename: "a.tar.gz"}); err != nil {
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
