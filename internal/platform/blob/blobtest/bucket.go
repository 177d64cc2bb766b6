// Package blobtest runs buckets for tests: one of files, one at a real S3
// server, and the suite that both must pass.
package blobtest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

// Files returns an empty bucket in a folder of the test's own. The URLs that
// it signs work until the test ends.
func Files(t testing.TB) *blob.Files {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	bucket, err := blob.Open(t.Context(), blob.Options{
		Dir:       t.TempDir(),
		PublicURL: func() string { return server.URL },
		Secret:    []byte(strings.Repeat("test", 8)),
	})
	if err != nil {
		t.Fatal(err)
	}
	files := bucket.(*blob.Files)
	mux.Handle("/blobs/", files)
	return files
}
