package blob_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
)

func TestOpenS3Refuses(t *testing.T) {
	for _, c := range []struct{ name, url, want string }{
		{"another scheme", "gs://bucket", "s3://bucket"},
		{"no bucket", "s3://?region=x", "s3://bucket"},
		{"a path", "s3://bucket/prefix", "s3://bucket"},
		{"no URL", "s3://bucket\x7f", "not a URL"},
		{"a broken query", "s3://bucket?region=%zz", "s3://bucket"},
		{"keys", "s3://user:hunter2@bucket", "AWS_ACCESS_KEY_ID"},
		{"an unknown parameter", "s3://bucket?regoin=x", `"regoin"`},
		{"a flag that is none", "s3://bucket?path_style=perhaps", "path_style"},
		{"an endpoint with another scheme", "s3://bucket?endpoint=ftp://host", "endpoint"},
		{"an endpoint with a path", "s3://bucket?endpoint=http://host/path", "endpoint"},
		{"an endpoint with keys", "s3://bucket?endpoint=http://user:hunter2@host", "endpoint"},
		{"insecure https", "s3://bucket?insecure=true&endpoint=https://host", "insecure"},
		{"a prefix that is no key", "s3://bucket?prefix=../other", "prefix"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := blob.Open(t.Context(), blob.Options{URL: c.url})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Open = %v, want an error about %s", err, c.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

func TestOpenS3NeedsKeys(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	_, err := blob.Open(t.Context(), blob.Options{URL: "s3://bucket?endpoint=http://127.0.0.1:1"})
	if err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("Open = %v, want an error about AWS_ACCESS_KEY_ID", err)
	}
}

// withQuery returns o with a parameter of its URL changed.
func withQuery(t *testing.T, o blob.Options, name, value string) blob.Options {
	t.Helper()
	u, err := url.Parse(o.URL)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	o.URL = u.String()
	return o
}

func TestOpenS3ChecksTheBucket(t *testing.T) {
	o := blobtest.S3(t)
	o.URL = strings.Replace(o.URL, "s3://test-", "s3://gone-", 1)
	if _, err := blob.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no such bucket") {
		t.Errorf("Open = %v, want no such bucket", err)
	}
}

func TestS3Prefix(t *testing.T) {
	o := blobtest.S3(t)
	whole := open(t, o)
	one := open(t, withQuery(t, o, "prefix", "deep/one/"))
	two := open(t, withQuery(t, o, "prefix", "deep/two"))
	put(t, one, "a/b", "1")
	put(t, two, "c", "2")
	for name, c := range map[string]struct {
		bucket blob.Bucket
		want   []string
	}{
		"one":   {one, []string{"a/b"}},
		"two":   {two, []string{"c"}},
		"whole": {whole, []string{"deep/one/a/b", "deep/two/c"}},
	} {
		if diff := cmp.Diff(c.want, list(t, c.bucket)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	signed, err := two.SignedURL(t.Context(), "c", blob.SignOptions{Expires: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(signed)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil || string(body) != "2" {
		t.Errorf("the signed URL gave %s %q, %v", resp.Status, body, err)
	}
}

// TestS3PassingFailure puts a proxy before the server that refuses the next
// put as a busy server does.
func TestS3PassingFailure(t *testing.T) {
	o := blobtest.S3(t)
	u, err := url.Parse(o.URL)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	// The signature covers the host, so the proxy must leave it alone.
	server := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(endpoint)
		r.Out.Host = r.In.Host
	}}
	var busy atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && busy.CompareAndSwap(true, false) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	b := open(t, withQuery(t, o, "endpoint", proxy.URL))

	busy.Store(true)
	put(t, b, "key", "body that can start over")
	if info, err := b.Stat(t.Context(), "key"); err != nil || info.Size != 24 {
		t.Errorf("Stat = %+v, %v", info, err)
	}
	busy.Store(true)
	once := struct{ io.Reader }{strings.NewReader("body")}
	if err := b.Put(t.Context(), "once", once, 4); err == nil {
		t.Error("a body that was lost on the way was taken for stored")
	}
}

func TestS3DoesNotWaitForever(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	o := blob.Options{URL: "s3://bucket?region=here&endpoint=" + silent.URL}
	if _, err := blob.Open(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open = %v, want %v", err, context.DeadlineExceeded)
	}
}

// TestS3Away takes the server away: callers hear that another try makes sense,
// and that nothing was done.
func TestS3Away(t *testing.T) {
	o := blobtest.S3(t)
	u, err := url.Parse(o.URL)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(endpoint)
		r.Out.Host = r.In.Host
	}})
	b := open(t, withQuery(t, o, "endpoint", proxy.URL))
	put(t, b, "key", "body")
	proxy.Close()
	_, statErr := b.Stat(t.Context(), "key")
	body, _, getErr := b.Get(t.Context(), "key")
	if getErr == nil {
		_ = body.Close()
	}
	for name, err := range map[string]error{
		"Put": b.Put(t.Context(), "key", strings.NewReader("other"), 5), "Get": getErr, "Stat": statErr, "Delete": b.Delete(t.Context(), "key"),
	} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s = %v, want an Unavailable fault", name, err)
		}
	}
}
