package outbound_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

func TestDo(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" "+string(sent))
	})
	c, _ := newClient(t, outbound.Options{AllowPrivate: true})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/hook?x=1", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusTeapot || string(got) != "POST /hook?x=1 hello" {
		t.Errorf("got %d %q", resp.StatusCode, got)
	}
}

// closeTracker is a request body that knows whether it was closed.
type closeTracker struct {
	io.Reader
	closed atomic.Bool
}

func (c *closeTracker) Close() error {
	c.closed.Store(true)
	return nil
}

func TestDoRefusesBadRequests(t *testing.T) {
	c, g := newClient(t, outbound.Options{AllowPrivate: true})
	for _, tc := range []struct {
		name   string
		change func(*http.Request)
	}{
		{"no URL", func(r *http.Request) { r.URL = nil }},
		{"another host", func(r *http.Request) { r.Host = "other.example" }},
		{"credentials", func(r *http.Request) { r.URL.User = url.User("s3cret") }},
		{"scheme", func(r *http.Request) { r.URL.Scheme = "ftp" }},
		{"opaque", func(r *http.Request) { r.URL.Opaque = "//127.0.0.1/x" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent := &closeTracker{Reader: strings.NewReader("x")}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1/", sent)
			if err != nil {
				t.Fatal(err)
			}
			tc.change(req)
			resp, err := c.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			if !fault.Is(err, fault.Malformed) {
				t.Errorf("got %v, want a Malformed error", err)
			}
			if !sent.closed.Load() {
				t.Error("the request's body was not closed")
			}
		})
	}
	if len(g.reached) != 0 {
		t.Errorf("reached %v, want nothing", g.reached)
	}
}

func TestBodyLimit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 100))
	})
	c, _ := newClient(t, outbound.Options{AllowPrivate: true, MaxBody: 99})
	for _, tc := range []struct {
		name    string
		client  *outbound.Client
		want    int
		tooMuch bool
	}{
		{"one byte over", c, 99, true},
		{"just fits", c.With(outbound.Limits{MaxBody: 100}), 100, false},
		{"zero keeps the limit", c.With(outbound.Limits{Timeout: time.Minute}), 99, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := fetch(t.Context(), tc.client, s.URL)
			if len(got) != tc.want || fault.Is(err, fault.TooLarge) != tc.tooMuch {
				t.Errorf("got %d bytes and %v, want %d bytes, too large: %t", len(got), err, tc.want, tc.tooMuch)
			}
			if tc.tooMuch && !strings.HasSuffix(err.Error(), "the answer is larger than 99 bytes") {
				t.Errorf("the error does not name the limit: %v", err)
			}
			if !tc.tooMuch && err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBodyLimitCountsDecompressedBytes(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	c, _ := newClient(t, outbound.Options{AllowPrivate: true, MaxBody: 64 << 10})
	got, err := fetch(t.Context(), c, s.URL)
	if !fault.Is(err, fault.TooLarge) || len(got) != 64<<10 {
		t.Errorf("got %d bytes of a bomb of %d and %v", len(got), bomb.Len(), err)
	}
}

func TestTimeouts(t *testing.T) {
	stall := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	stallBody := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	var empty bytes.Buffer
	if err := gzip.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	emptyMembers := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for r.Context().Err() == nil {
			_, _ = w.Write(empty.Bytes())
		}
	})
	silent := silentListener(t)

	base := outbound.Options{AllowPrivate: true, Timeout: time.Minute}
	short, long := base, base
	short.Timeout = 20 * time.Millisecond
	long.HeaderTimeout = 20 * time.Millisecond
	for _, tc := range []struct {
		name    string
		options outbound.Options
		url     string
	}{
		{"header, total", short, stall.URL},
		{"header, header timeout", long, stall.URL},
		{"body", short, stallBody.URL},
		{"gzip that never yields a byte", short, emptyMembers.URL},
		{"TLS handshake", short, "https://" + silent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := newClient(t, tc.options)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := fetch(ctx, c, tc.url)
			if ctx.Err() != nil {
				t.Error("only the test's own deadline ended the request")
			}
			if !fault.Is(err, fault.BadGateway) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want a BadGateway error that is a DeadlineExceeded", err)
			}
		})
	}
}

// silentListener accepts connections and says nothing on them.
func silentListener(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestCallersDeadline(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	c, _ := newClient(t, outbound.Options{AllowPrivate: true})
	_, err := fetch(ctx, c, s.URL)
	if !fault.Is(err, fault.BadGateway) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a BadGateway error that is a DeadlineExceeded", err)
	}
}

func TestCallerCancels(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	c, _ := newClient(t, outbound.Options{AllowPrivate: true})
	_, err := fetch(ctx, c, s.URL)
	if !errors.Is(err, context.Canceled) || fault.Of(err) != fault.Internal {
		t.Errorf("got %v, want context.Canceled without a kind", err)
	}
}

// stuck is a resolver that never answers.
type stuck struct{}

func (stuck) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestDialTimeoutCoversTheLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, outbound.Options{Resolver: stuck{}, Timeout: time.Hour})
		start := time.Now()
		_, err := fetch(t.Context(), c, "http://slow.example/")
		if !errors.Is(err, context.DeadlineExceeded) || !fault.Is(err, fault.BadGateway) {
			t.Errorf("got %v, want a BadGateway error that is a DeadlineExceeded", err)
		}
		if got, want := time.Since(start), 5*time.Second; got != want {
			t.Errorf("gave up after %v, want %v", got, want)
		}
	})
}

func TestHeaderLimit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("x", 128<<10))
	})
	c, _ := newClient(t, outbound.Options{AllowPrivate: true})
	if _, err := fetch(t.Context(), c, s.URL); !fault.Is(err, fault.BadGateway) {
		t.Errorf("got %v, want a BadGateway error", err)
	}
}

func TestTLS(t *testing.T) {
	hello := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }
	modern, trusted := serveTLS(t, nil, hello)
	old, trustedOld := serveTLS(t, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, hello)
	plain := serve(t, hello)
	for _, tc := range []struct {
		name    string
		roots   *x509.CertPool
		url     string
		want    string
		wantErr string
	}{
		{"HTTP/2", trusted, modern.URL, "HTTP/2.0", ""},
		{"untrusted certificate", x509.NewCertPool(), modern.URL, "", "the certificate is not valid"},
		{"TLS 1.1", trustedOld, old.URL, "", "the connection failed"},
		{"no TLS", nil, strings.Replace(plain.URL, "http:", "https:", 1), "", "the server does not speak TLS"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := newClient(t, outbound.Options{AllowPrivate: true, RootCAs: tc.roots})
			got, err := fetch(t.Context(), c, tc.url)
			if tc.wantErr == "" && err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if tc.wantErr != "" && (!fault.Is(err, fault.BadGateway) || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("got %v, want a BadGateway error that says %q", err, tc.wantErr)
			}
		})
	}
}

func TestNoProxyFromTheEnvironment(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "direct") })
	c, g := newClient(t, outbound.Options{
		AllowPrivate: true,
		Resolver:     answers{"site.example": {{"127.0.0.1"}}},
	})
	if got, err := fetch(t.Context(), c, "http://site.example:"+portOf(t, s)); err != nil || got != "direct" {
		t.Errorf("got %q, %v", got, err)
	}
	if diff := cmp.Diff([]string{s.Listener.Addr().String()}, g.reached); diff != "" {
		t.Error(diff)
	}
}

func TestWithSharesConnections(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	c, g := newClient(t, outbound.Options{AllowPrivate: true})
	for _, c := range []*outbound.Client{c, c.With(outbound.Limits{MaxBody: 10}), c} {
		if _, err := fetch(t.Context(), c, s.URL); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{s.Listener.Addr().String()}, g.reached); diff != "" {
		t.Error(diff)
	}
}
