package outbound_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// raw starts a server that reads the request line and answers with what reply
// makes of it, whether HTTP or not.
func raw(t *testing.T, reply func(requestLine string) string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 4096)
			n, _ := conn.Read(buffer)
			line, _, _ := strings.Cut(string(buffer[:n]), "\r\n")
			_, _ = io.WriteString(conn, reply(line))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// TestErrorsHideTheURL makes a request fail in every way there is. A webhook's
// URL is a secret, also when the server echoes it.
func TestErrorsHideTheURL(t *testing.T) {
	echo := raw(t, func(line string) string { return line + "\r\n\r\n" })
	echoHeader := raw(t, func(line string) string { return "HTTP/1.1 200 OK\r\n" + line + "\r\n\r\n" })
	hangUp := raw(t, func(string) string { return "" })
	cut := raw(t, func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf" })
	notGzip := raw(t, func(line string) string { return "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + line })
	location := raw(t, func(line string) string {
		return "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:x/" + strings.Fields(line)[1] + "\r\n\r\n"
	})
	chunk := raw(t, func(line string) string {
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + line + "\r\n"
	})
	large := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 2000)) })
	loop := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) })
	inside := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://u:s3cret@10.0.0.1"+r.URL.String(), http.StatusFound)
	})
	stall := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	secure, _ := serveTLS(t, nil, func(http.ResponseWriter, *http.Request) {})
	closed := closedPort(t)

	c, _ := newClient(t, outbound.Options{
		AllowList:    []string{"127.0.0.1"},
		MaxRedirects: 2,
		MaxBody:      1000,
		Resolver:     answers{"inside.example": {{"10.0.0.1"}}, "outside.example": {{"93.184.215.14"}}},
	})
	for _, tc := range []struct {
		name, origin string
		kind         fault.Kind
	}{
		{"refused", "http://10.0.0.1", fault.Denied},
		{"refused by name", "http://inside.example", fault.Denied},
		{"refused after a redirect", inside.URL, fault.Denied},
		{"unknown host", "http://unknown.example", fault.BadGateway},
		{"connection stopped", "http://outside.example", fault.BadGateway},
		{"connection refused", "http://" + closed, fault.BadGateway},
		{"certificate", secure.URL, fault.BadGateway},
		{"not TLS", "https://" + echo, fault.BadGateway},
		{"echo", "http://" + echo, fault.BadGateway},
		{"echo in the header", "http://" + echoHeader, fault.BadGateway},
		{"echo in the Location", "http://" + location, fault.BadGateway},
		{"echo as a chunk", "http://" + chunk, fault.BadGateway},
		{"hang up", "http://" + hangUp, fault.BadGateway},
		{"cut", "http://" + cut, fault.BadGateway},
		{"not gzip", "http://" + notGzip, fault.BadGateway},
		{"too large", large.URL, fault.TooLarge},
		{"too many redirects", loop.URL, fault.BadGateway},
		{"timeout", stall.URL, fault.BadGateway},
		{"credentials", "http://s3cret:s3cret@127.0.0.1", fault.Malformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := c
			if tc.name == "timeout" {
				c = c.With(outbound.Limits{Timeout: 20 * time.Millisecond})
			}
			_, err := fetch(t.Context(), c, tc.origin+"/s3cret/hook?token=s3cret")
			if !fault.Is(err, tc.kind) {
				t.Errorf("got kind %v of %v, want %v", fault.Of(err), err, tc.kind)
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, "s3cret") {
					t.Errorf("%T shows the secret: %s", e, text)
				}
			}
			if _, ok := errors.AsType[*url.Error](err); ok {
				t.Errorf("%v holds a url.Error", err)
			}
		})
	}
}

// closedPort returns an address on loopback without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

func TestErrorMessages(t *testing.T) {
	closed := closedPort(t)
	hangUp := raw(t, func(string) string { return "" })
	c, _ := newClient(t, outbound.Options{AllowPrivate: true})
	for _, tc := range []struct{ origin, want string }{
		{"http://unknown.example:8080", "http://unknown.example:8080: host not found"},
		{"http://" + closed, "http://" + closed + ": connection refused"},
		{"http://" + hangUp, "http://" + hangUp + ": the connection was closed too early"},
	} {
		_, err := fetch(t.Context(), c, tc.origin+"/x")
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Message != tc.want {
			t.Errorf("%s: got %v, want the message %q", tc.origin, err, tc.want)
		}
	}
}

func TestIsRefused(t *testing.T) {
	refused := outbound.DialHook(t.Context(), outbound.Options{}, "h", "10.0.0.1")
	for _, c := range []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"refusal", refused, true},
		{"wrapped", fmt.Errorf("delivery: %w", refused), true},
		{"another Denied", fault.New(fault.Denied, "no"), false},
	} {
		if got := outbound.IsRefused(c.err); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}
