package httpapi_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

type rawInput struct{ RawBody []byte }

type size struct {
	Bytes int `json:"bytes"`
}

func measure(_ context.Context, in rawInput) (size, error) { return size{len(in.RawBody)}, nil }

// mountBodies adds routes with limits of their own.
func mountBodies(a *httpapi.API) {
	mountThings(a)
	httpapi.Add(a, measure, httpapi.Route{Method: "POST", Path: "/raw", MaxBody: 4096})
	httpapi.Add(a, measure, httpapi.Route{Method: "POST", Path: "/odd", MaxBody: 1000})
	httpapi.Add(a, measure, httpapi.Route{Method: "POST", Path: "/zipped", MaxBody: 2 << 10, MaxInflated: 64 << 10})
	httpapi.Add(a, echo, httpapi.Route{Method: "POST", Path: "/zipped-things", MaxBody: 2 << 10, MaxInflated: 64 << 10})
}

// thingOf is a JSON body of exactly n bytes.
func thingOf(n int) string {
	const empty = `{"name":"x","padding":""}`
	return strings.Replace(empty, `"padding":"`, `"padding":"`+strings.Repeat("p", n-len(empty)), 1)
}

func TestBodyLimit(t *testing.T) {
	f := newFrame(t, nil, mountBodies)
	for _, c := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"JSON at the limit", "/things", thingOf(1 << 20), 201, `{"name":"x"}`},
		{"JSON over the limit", "/things", thingOf(1<<20 + 1), 413, "The body is over the limit of 1 MiB"},
		{"JSON far over the limit", "/things", thingOf(12 << 20), 413, "The body is over the limit of 1 MiB"},
		{"raw at the limit", "/raw", strings.Repeat("r", 4096), 200, `{"bytes":4096}`},
		{"raw over the limit", "/raw", strings.Repeat("r", 4097), 413, "The body is over the limit of 4 KiB"},
		{"odd limit", "/odd", strings.Repeat("r", 1001), 413, "The body is over the limit of 1000 bytes"},
	} {
		for how, body := range map[string]any{"whole": c.body, "in chunks": strings.NewReader(c.body)} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				a := f.do(t, "POST", c.path, body)
				if c.status == http.StatusRequestEntityTooLarge {
					a.WantError(c.status, c.want)
					return
				}
				a.WantJSON(c.status, c.want)
			})
		}
	}
}

func TestContentType(t *testing.T) {
	f := newFrame(t, nil, mountBodies)
	for _, c := range []struct {
		given string
		taken bool
	}{
		{"", true},
		{"application/json", true},
		{"application/json; charset=utf-8", true},
		{"Application/JSON", true},
		{"application/merge-patch+json", true},
		{"text/plain", false},
		{"application/x-www-form-urlencoded", false},
		{"json", false},
		{"a/b/c", false},
	} {
		t.Run(c.given, func(t *testing.T) {
			for path, status := range map[string]int{"/things": 201, "/hand-checked": 200} {
				a := f.do(t, "POST", path, `{"name":"x"}`, "Content-Type: "+c.given)
				if c.taken {
					a.WantJSON(status, `{"name":"x"}`)
					continue
				}
				a.WantError(415, fmt.Sprintf("Content-Type %q is not read here; send application/json", c.given))
			}
		})
	}
	t.Run("any type for raw bodies", func(t *testing.T) {
		f.do(t, "POST", "/raw", "abc", "Content-Type: application/x-protobuf").WantJSON(200, `{"bytes":3}`)
	})
	t.Run("route without a body", func(t *testing.T) {
		f.do(t, "GET", "/things/1", "", "Content-Type: text/plain").WantJSON(200, `{"id":"1","org":"acme"}`)
	})
}

// TestEmptyRawBody holds the empty body apart from the empty object: only
// JSON has one.
func TestEmptyRawBody(t *testing.T) {
	f := newFrame(t, nil, mountBodies)
	f.do(t, "POST", "/raw", "").WantJSON(200, `{"bytes":0}`)
	f.do(t, "POST", "/raw", "", "Content-Type: application/x-protobuf").WantJSON(200, `{"bytes":0}`)
}

func TestAccept(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, c := range []struct {
		accept string
		taken  bool
	}{
		{"", true},
		{"*/*", true},
		{"application/*", true},
		{"application/json", true},
		{"text/html, application/json;q=0.9", true},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true},
		{"text/html", false},
		{"application/xml, text/*", false},
	} {
		t.Run(c.accept, func(t *testing.T) {
			a := f.do(t, "GET", "/things/1", "", "Accept: "+c.accept)
			if c.taken {
				a.WantJSON(200, `{"id":"1","org":"acme"}`)
				return
			}
			a.WantError(406, "This route answers application/json")
		})
	}
	t.Run("two headers", func(t *testing.T) {
		req := httptest.NewRequest(http.MethodGet, "/things/1", nil)
		req.Header = http.Header{"Authorization": {"Bearer owner"}, "Accept": {"text/html", "application/json"}}
		w := httptest.NewRecorder()
		if f.API.ServeHTTP(w, req); w.Code != 200 {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}

func zipped(t *testing.T, body string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestGzip(t *testing.T) {
	f := newFrame(t, nil, mountBodies)
	noise := strings.Repeat("no pattern to find here? ", 3)
	whole := zipped(t, noise)
	broken := bytes.Clone(whole)
	broken[len(broken)-6] ^= 1 // in the checksum
	for _, c := range []struct {
		name, path, encoding string
		body                 []byte
		status               int
		want                 string
	}{
		{"inflated", "/zipped", "gzip", whole, 200, fmt.Sprintf(`{"bytes":%d}`, len(noise))},
		{"JSON", "/zipped-things", "gzip", zipped(t, `{"name":"x"}`), 200, `{"name":"x"}`},
		{"nothing inside JSON", "/zipped-things", "gzip", zipped(t, ""), 400, "name|name is required"},
		{"in capitals", "/zipped", "GZIP", whole, 200, fmt.Sprintf(`{"bytes":%d}`, len(noise))},
		{"identity", "/zipped", "identity", []byte("abc"), 200, `{"bytes":3}`},
		{"at the inflated limit", "/zipped", "gzip", zipped(t, strings.Repeat("b", 64<<10)), 200, `{"bytes":65536}`},
		{"bomb", "/zipped", "gzip", zipped(t, strings.Repeat("b", 1<<20)), 413, "The inflated body is over the limit of 64 KiB"},
		{"over the limit on the wire", "/zipped", "gzip", append(bytes.Clone(whole), make([]byte, 4<<10)...), 413, "The body is over the limit of 2 KiB"},
		{"not gzip", "/zipped", "gzip", []byte("plain"), 400, "|the body is not valid gzip"},
		{"empty", "/zipped", "gzip", nil, 400, "|the body is not valid gzip"},
		{"cut short", "/zipped", "gzip", whole[:len(whole)-9], 400, "|the body is not valid gzip"},
		{"broken", "/zipped", "gzip", broken, 400, "|the body is not valid gzip"},
		{"broken JSON", "/zipped-things", "gzip", broken, 400, "|the body is not valid gzip"},
		{"another encoding", "/zipped", "br", []byte("x"), 415, `Content-Encoding "br" is not read here`},
		{"two encodings", "/zipped", "gzip, gzip", whole, 415, `Content-Encoding "gzip, gzip" is not read here`},
		{"not on this route", "/raw", "gzip", whole, 415, `Content-Encoding "gzip" is not read here`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := f.do(t, "POST", c.path, c.body, "Content-Encoding: "+c.encoding)
			switch c.status {
			case 200:
				a.WantJSON(c.status, c.want)
			case 400:
				path, message, _ := strings.Cut(c.want, "|")
				a.WantIssues(path, message)
			default:
				a.WantError(c.status, c.want)
			}
		})
	}
}

// TestTruncatedBody breaks the promise of Content-Length.
func TestTruncatedBody(t *testing.T) {
	f := newFrame(t, nil, mountBodies)
	for _, c := range []struct{ name, path, body string }{
		{"JSON", "/things", `{"name":"x"}`},
		{"nothing of it", "/things", ``},
		{"raw", "/raw", `abc`},
		{"hand-checked", "/hand-checked", `{"name":"x"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := f.truncated(t, c.path, "application/json", c.body)
			a.WantIssues("", "the body ended early")
		})
	}
	if got := f.Logged.String(); strings.Contains(got, "level=ERROR") {
		t.Errorf("logged an error:\n%s", got)
	}
}

// truncated promises 1000 bytes, sends the body and no more, and reads on.
func (f *frame) truncated(t *testing.T, path, contentType, body string) apptest.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.Server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer owner\r\nContent-Type: %s\r\nContent-Length: 1000\r\n\r\n%s", path, contentType, body)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return apptest.Response{T: t, What: "POST " + path, Status: res.StatusCode, Header: res.Header, Body: got}
}

// TestDeadlineOfTheBody checks that one is set before anything is read, as a
// client that sends nothing must not hold a connection for ever, and none
// while the operation runs, which may take its time.
func TestDeadlineOfTheBody(t *testing.T) {
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	f := newFrame(t, nil, func(a *httpapi.API) {
		httpapi.Add(a, func(context.Context, rawInput) (httpapi.None, error) {
			if !w.deadline.IsZero() {
				t.Error("the operation runs under the body's deadline")
			}
			return httpapi.None{}, nil
		}, httpapi.Route{Method: "POST", Path: "/slow", Status: 204, MaxInflated: 100})
	})
	for encoding, body := range map[string][]byte{"": []byte("body"), "gzip": zipped(t, "body")} {
		w.deadline = time.Time{}
		reader := bytes.NewReader(body)
		req := httptest.NewRequest(http.MethodPost, "/slow", readerFunc(func(p []byte) (int, error) {
			if w.deadline.IsZero() {
				t.Errorf("%q is read without a deadline", encoding)
			}
			return reader.Read(p)
		}))
		req.Header = http.Header{"Authorization": {"Bearer owner"}, "Content-Encoding": {encoding}}
		if f.API.ServeHTTP(w, req); w.Code != http.StatusNoContent {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (d *deadlineRecorder) SetReadDeadline(t time.Time) error {
	d.deadline = t
	return nil
}
