package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// TestUnwantedBody: clients may send a little where nothing is wanted.
func TestUnwantedBody(t *testing.T) {
	f := newFrame(t, nil, func(a *httpapi.API) {
		mountThings(a)
		a.Handle("GET /plain", nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	})
	const most = 64 << 10
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"none", "", 200},
		{"empty object", "{}", 200},
		{"as much as is read", strings.Repeat("x", most), 200},
		{"more", strings.Repeat("x", most+1), 413},
		{"much more", strings.Repeat("x", 10*most), 413},
	} {
		for _, path := range []string{"/things/1", "/plain"} {
			a := f.do(t, "GET", path, c.body)
			if a.Status != c.status {
				t.Errorf("%s, %s: status %d, want %d", path, c.name, a.Status, c.status)
			}
			if c.status == 413 {
				a.WantError(413, "No body is read here beyond 64 KiB")
			}
		}
	}
}

// TestClientLeaves: an operation is cancelled when its client leaves, whether
// that sent a body or not, and whether one was wanted or not.
func TestClientLeaves(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	wait := func(ctx context.Context) error {
		begun <- struct{}{}
		select {
		case <-ctx.Done():
			ended <- nil
		case <-time.After(time.Minute):
			ended <- fmt.Errorf("the operation went on")
		}
		return ctx.Err()
	}
	f := newFrame(t, nil, func(a *httpapi.API) {
		httpapi.Add(a, func(ctx context.Context, _ struct{}) (httpapi.None, error) {
			return httpapi.None{}, wait(ctx)
		}, httpapi.Route{Method: "POST", Path: "/act"})
		httpapi.Add(a, func(ctx context.Context, _ thingInput) (httpapi.None, error) {
			return httpapi.None{}, wait(ctx)
		}, httpapi.Route{Method: "POST", Path: "/change"})
		httpapi.Add(a, func(ctx context.Context, _ struct{ httpapi.Form }) (httpapi.None, error) {
			return httpapi.None{}, wait(ctx)
		}, httpapi.Route{Method: "POST", Path: "/upload", Form: []httpapi.Part{{Name: "file", File: true}}})
		a.Handle("GET /plain", nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _ = wait(r.Context()) }))
	})
	const chunked = "Transfer-Encoding: chunked\r\n"
	for name, request := range map[string]string{
		"no body":             "POST /act HTTP/1.1\r\n\r\n",
		"a body nobody wants": "POST /act HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
		"in chunks":           "POST /act HTTP/1.1\r\n" + chunked + "\r\n2\r\n{}\r\n0\r\n\r\n",
		"a plain handler":     "GET /plain HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
		"a body":              "POST /change HTTP/1.1\r\nContent-Length: 12\r\n\r\n{\"name\":\"x\"}",
		"a form with more behind it": "POST /upload HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\n" + chunked +
			"\r\n7\r\n--b--\r\n\r\n4\r\nmore\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(f.Server.URL, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			head, rest, _ := strings.Cut(request, "\r\n")
			if _, err := io.WriteString(conn, head+"\r\nHost: test\r\nAuthorization: Bearer owner\r\n"+rest); err != nil {
				t.Fatal(err)
			}
			<-begun
			_ = conn.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
