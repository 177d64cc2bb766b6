package blob_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

// request asks for a signed URL as a server that mounts the bucket would.
func request(t *testing.T, b *blob.Files, method, signed string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	u, err := url.Parse(signed)
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), method, u.RequestURI(), nil)
	for name, values := range header {
		req.Header[name] = values
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, req)
	return w
}

func sign(t *testing.T, b *blob.Files, key string, o blob.SignOptions) string {
	t.Helper()
	if o.Expires == 0 {
		o.Expires = 15 * time.Minute
	}
	signed, err := b.SignedURL(t.Context(), key, o)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestDownloadContent(t *testing.T) {
	b := openFiles(t, fileOptions(t))
	signed := sign(t, b, putContent(t, b, "0123456789"),
		blob.SignOptions{Filename: "skill-1.0.0.tar.gz", ContentType: "application/gzip"})
	sum := sha256.Sum256([]byte("0123456789"))
	etag := fmt.Sprintf(`"%x"`, sum)

	for _, c := range []struct {
		name   string
		method string
		header http.Header
		status int
		body   string
	}{
		{"GET", http.MethodGet, nil, http.StatusOK, "0123456789"},
		{"HEAD", http.MethodHead, nil, http.StatusOK, ""},
		{"range", http.MethodGet, http.Header{"Range": {"bytes=2-4"}}, http.StatusPartialContent, "234"},
		{"known", http.MethodGet, http.Header{"If-None-Match": {etag}}, http.StatusNotModified, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := request(t, b, c.method, signed, c.header)
			if w.Code != c.status || w.Body.String() != c.body {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, c.status, c.body)
			}
			want := map[string]string{
				"Etag":                   etag,
				"Digest":                 "sha-256=" + base64.StdEncoding.EncodeToString(sum[:]),
				"Cache-Control":          "private, immutable",
				"Content-Disposition":    "attachment; filename=skill-1.0.0.tar.gz",
				"X-Content-Type-Options": "nosniff",
			}
			if c.status != http.StatusNotModified {
				want["Content-Type"] = "application/gzip"
			}
			got := map[string]string{}
			for name := range want {
				got[name] = w.Header().Get(name)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDownloadOfWhatMayChange(t *testing.T) {
	b := openFiles(t, fileOptions(t))
	for _, key := range []string{"key", "sha256/ab/cd", "sha256/aa/" + strings.Repeat("A", 64)} {
		put(t, b, key, "body")
		w := request(t, b, http.MethodGet, sign(t, b, key, blob.SignOptions{}), nil)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: got %d %s", key, w.Code, w.Body)
		}
		if got, want := w.Header().Get("Cache-Control"), "private, no-cache"; got != want {
			t.Errorf("%s: Cache-Control is %q, want %q", key, got, want)
		}
		if got := w.Header().Get("ETag") + w.Header().Get("Digest"); got != "" {
			t.Errorf("%s is no content, but has the ETag or digest %q", key, got)
		}
	}
}

func TestDownloadErrors(t *testing.T) {
	var log bytes.Buffer
	o := fileOptions(t)
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	b := openFiles(t, o)
	put(t, b, "key", "body")
	signed := sign(t, b, "key", blob.SignOptions{})
	if err := os.Symlink(t.TempDir(), filepath.Join(o.Dir, "objects", "link")); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		name   string
		method string
		url    string
		header http.Header
		status int
		body   string
	}{
		{
			"tampered", http.MethodGet, signed + "&filename=evil.html", nil,
			http.StatusForbidden, `{"error":{"message":"This link is not valid","status":403}}`,
		},
		{
			"no query", http.MethodGet, "/blobs/key", nil,
			http.StatusForbidden, `{"error":{"message":"This link is not valid","status":403}}`,
		},
		{
			"broken query", http.MethodGet, signed + "&%zz", nil,
			http.StatusForbidden, `{"error":{"message":"This link is not valid","status":403}}`,
		},
		{
			"missing", http.MethodGet, sign(t, b, "missing", blob.SignOptions{}), nil,
			http.StatusNotFound, `{"error":{"message":"Blob not found","status":404}}`,
		},
		{
			"method", http.MethodPut, signed, nil,
			http.StatusMethodNotAllowed, `{"error":{"message":"Method not allowed","status":405}}`,
		},
		{
			"range", http.MethodGet, signed,
			http.Header{"Range": {"bytes=9-"}},
			http.StatusRequestedRangeNotSatisfiable, `{"error":{"message":"Range not satisfiable","status":416}}`,
		},
		{
			"our fault", http.MethodGet, sign(t, b, "link", blob.SignOptions{}), nil,
			http.StatusInternalServerError, `{"error":{"message":"Internal server error","status":500}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := request(t, b, c.method, c.url, c.header)
			if got := strings.TrimSpace(w.Body.String()); w.Code != c.status || got != c.body {
				t.Errorf("got %d %s, want %d %s", w.Code, got, c.status, c.body)
			}
			if got, want := w.Header().Get("Content-Type"), "application/json"; got != want {
				t.Errorf("Content-Type is %q, want %q", got, want)
			}
		})
	}
	if !strings.Contains(log.String(), "key=link") {
		t.Errorf("the log does not name the blob that could not be served: %q", &log)
	}
}

func TestSignedFileURLExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openFiles(t, fileOptions(t))
		put(t, b, "key", "body")
		signed := sign(t, b, "key", blob.SignOptions{Expires: 15 * time.Minute})
		time.Sleep(15*time.Minute - time.Nanosecond)
		if w := request(t, b, http.MethodGet, signed, nil); w.Code != http.StatusOK {
			t.Errorf("before its end: got %d %s", w.Code, w.Body)
		}
		time.Sleep(time.Second)
		w := request(t, b, http.MethodGet, signed, nil)
		want := `{"error":{"message":"This link has expired","status":403}}`
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusForbidden || got != want {
			t.Errorf("after its end: got %d %s, want 403 %s", w.Code, got, want)
		}
	})
}

func TestSignedFileURLNeedsTheSecret(t *testing.T) {
	o := fileOptions(t)
	b := openFiles(t, o)
	put(t, b, "key", "body")
	signed := sign(t, b, "key", blob.SignOptions{})
	for name, c := range map[string]struct {
		secret string
		status int
	}{
		"same after a restart": {string(o.Secret), http.StatusOK},
		"another":              {strings.Repeat("x", 32), http.StatusForbidden},
	} {
		o.Secret = []byte(c.secret)
		if w := request(t, openFiles(t, o), http.MethodGet, signed, nil); w.Code != c.status {
			t.Errorf("%s: got %d, want %d", name, w.Code, c.status)
		}
	}
}

func TestSignedFileURLBase(t *testing.T) {
	for base, want := range map[string]string{
		"http://127.0.0.1:8080":               "http://127.0.0.1:8080/blobs/a%20b/c?",
		"https://whetstone.example/":          "https://whetstone.example/blobs/a%20b/c?",
		"https://whetstone.example/base%2F1/": "https://whetstone.example/base/1/blobs/a%20b/c?",
	} {
		o := fileOptions(t)
		o.PublicURL = func() string { return base }
		if got := sign(t, openFiles(t, o), "a b/c", blob.SignOptions{}); !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s...", got, want)
		}
	}
	for _, base := range []string{"", "/relative", "https://bad host"} {
		o := fileOptions(t)
		o.PublicURL = func() string { return base }
		if got, err := openFiles(t, o).SignedURL(t.Context(), "key", blob.SignOptions{Expires: time.Minute}); err == nil {
			t.Errorf("signed %s on the base %q", got, base)
		}
	}
}

func TestDownloadName(t *testing.T) {
	b := openFiles(t, fileOptions(t))
	put(t, b, "key", "body")
	for filename, want := range map[string]string{
		"":                     "attachment",
		".":                    "attachment",
		"..":                   "attachment",
		"/":                    "attachment",
		"skill.tar.gz":         "attachment; filename=skill.tar.gz",
		"my skill.zip":         `attachment; filename="my skill.zip"`,
		"../../etc/passwd":     "attachment; filename=passwd",
		`C:\temp\a.exe`:        "attachment; filename=a.exe",
		"a\r\nSet-Cookie: b=c": `attachment; filename="aSet-Cookie: b=c"`,
		`a";filename="b`:       `attachment; filename="a\";filename=\"b"`,
		"größe":                "attachment; filename*=utf-8''gr%C3%B6%C3%9Fe",
		"exe.\u202etxt":        "attachment; filename=exe.txt",
	} {
		w := request(t, b, http.MethodGet, sign(t, b, "key", blob.SignOptions{Filename: filename}), nil)
		if got := w.Header().Get("Content-Disposition"); got != want {
			t.Errorf("%q: got %q, want %q", filename, got, want)
		}
	}
}
