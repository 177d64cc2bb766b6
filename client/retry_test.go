package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
)

// A line is what a server does with one request.
type line func(*http.Request) (*http.Response, error)

// script is a server that treats each request as its next line says, and
// stays with the last one.
type script struct {
	lines    []line
	requests int
	bodies   []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		s.bodies = append(s.bodies, string(sent))
	}
	next := s.lines[min(s.requests, len(s.lines)-1)]
	s.requests++
	return next(r)
}

func answer(status int, body string, header ...string) line {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

func breaks(err error) line {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

var (
	errLine = errors.New("connection reset by peer")
	errDial = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
)

func TestRetry(t *testing.T) {
	me := func(ctx context.Context, c *client.Client) error { _, err := c.Me(ctx); return err }
	create := func(ctx context.Context, c *client.Client) error {
		_, err := c.CreateEntry(ctx, client.Upload{Name: "pdf", Archive: bytes.NewReader([]byte("archive")), Size: 7})
		return err
	}
	push := func(ctx context.Context, c *client.Client) error {
		_, err := c.PushVersion(ctx, "id", client.Upload{Archive: bytes.NewReader([]byte("archive")), Size: 7})
		return err
	}
	remove := func(ctx context.Context, c *client.Client) error { return c.DeleteEntry(ctx, "id") }
	rollback := func(ctx context.Context, c *client.Client) error { _, err := c.Rollback(ctx, "id", "", ""); return err }
	poll := func(ctx context.Context, c *client.Client) error {
		_, err := c.PollDeviceLogin(ctx, "code")
		return err
	}
	ok := answer(200, "{}")
	for _, test := range []struct {
		name     string
		call     func(context.Context, *client.Client) error
		lines    []line
		requests int
		status   int // of the error; -1 for one without, 0 for success
		atLeast  time.Duration
	}{
		{"fine", me, []line{ok}, 1, 0, 0},
		{"line breaks", me, []line{breaks(errLine), breaks(errLine), ok}, 3, 0, 0},
		{"line stays broken", me, []line{breaks(errLine)}, 4, -1, time.Second},
		{"502", me, []line{answer(502, "<html>"), ok}, 2, 0, 0},
		{"503", remove, []line{answer(503, ""), answer(204, "")}, 2, 0, 0},
		{"504", push, []line{answer(504, ""), ok}, 2, 0, 0},
		{"500 is final", me, []line{answer(500, ""), ok}, 1, 500, 0},
		{"404 is final", me, []line{answer(404, ""), ok}, 1, 404, 0},
		{"409 is final", push, []line{answer(409, ""), ok}, 1, 409, 0},
		{"429", me, []line{answer(429, "", "Retry-After", "7"), ok}, 2, 0, 7 * time.Second},
		{"429 until a time", me, []line{answer(429, "", "Retry-After", "Sat, 01 Jan 2000 00:00:30 GMT"), ok}, 2, 0, 30 * time.Second},
		{"429 for too long", me, []line{answer(429, "", "Retry-After", "3600"), ok}, 1, 429, 0},
		{"503 for too long", me, []line{answer(503, "", "Retry-After", "61"), ok}, 1, 503, 0},
		{"create is not repeated", create, []line{breaks(errLine), ok}, 1, -1, 0},
		{"create after 502", create, []line{answer(502, ""), ok}, 1, 502, 0},
		{"create that nobody heard", create, []line{breaks(errDial), ok}, 2, 0, 0},
		{"create after 429", create, []line{answer(429, "", "Retry-After", "1"), ok}, 2, 0, time.Second},
		{"rollback is not repeated", rollback, []line{breaks(errLine), ok}, 1, -1, 0},
		{"poll is not repeated", poll, []line{answer(503, ""), ok}, 1, 503, 0},
		{"nobody there", me, []line{breaks(errDial)}, 4, -1, time.Second},
		{"no such host", me, []line{breaks(&net.DNSError{Err: "no such host", IsNotFound: true})}, 1, -1, 0},
		{"untrusted", me, []line{breaks(&tls.CertificateVerificationError{Err: errLine})}, 1, -1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{lines: test.lines}
				c := client.New(client.Options{Server: "https://w.example", APIKey: "key", HTTPClient: &http.Client{Transport: s}})
				begin := time.Now()
				err := test.call(t.Context(), c)
				if took := time.Since(begin); took < test.atLeast || took > test.atLeast+5*time.Second {
					t.Errorf("took %s, want %s and little more", took, test.atLeast)
				}
				if s.requests != test.requests {
					t.Errorf("%d requests, want %d", s.requests, test.requests)
				}
				got := client.Status(err)
				if got == 0 && err != nil {
					got = -1
				}
				if got != test.status {
					t.Errorf("got %v, want the status %d", err, test.status)
				}
				for _, body := range s.bodies {
					if body != s.bodies[0] {
						t.Errorf("body %q, the first was %q", body, s.bodies[0])
					}
				}
			})
		})
	}
}

// TestRetryEnds with its context, and does not wait for what cannot come.
func TestRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{lines: []line{answer(429, "", "Retry-After", "30")}}
		c := client.New(client.Options{Server: "https://w.example", HTTPClient: &http.Client{Transport: s}})
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.Me(ctx); client.Status(err) != 429 || time.Since(begin) != 0 {
			t.Errorf("got %v after %s, want the answer at once", err, time.Since(begin))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		if _, err := c.Me(ctx); client.Status(err) != 429 || time.Since(begin) != 5*time.Second {
			t.Errorf("got %v after %s, want it to end with its context", err, time.Since(begin))
		}
	})
}

func TestErrorBodies(t *testing.T) {
	const id = "0199-request"
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   client.Error
		text   string
	}{
		{
			"structured", 404, `{"error":{"message":"Review not found","status":404}}`,
			client.Error{Status: 404, Message: "Review not found", RequestID: id},
			"Review not found",
		},
		{
			"validation", 400, `{"error":"Validation failed","details":{"path":["a"],"message":"a is wrong"},"issues":[{"path":["a"],"message":"a is wrong"},{"path":["b","0"],"message":"b is wrong"}]}`,
			client.Error{Status: 400, Message: "Validation failed", RequestID: id, Issues: []api.Issue{
				{Path: []string{"a"}, Message: "a is wrong"}, {Path: []string{"b", "0"}, Message: "b is wrong"},
			}},
			"a is wrong; b is wrong",
		},
		{
			"validation with details only", 400, `{"error":"Validation failed","details":{"path":["a"],"message":"a is wrong"}}`,
			client.Error{Status: 400, Message: "Validation failed", RequestID: id, Issues: []api.Issue{{Path: []string{"a"}, Message: "a is wrong"}}},
			"a is wrong",
		},
		{
			"of a proxy", 413, "<html>Request Entity Too Large</html>",
			client.Error{Status: 413, Message: "the server answered 413 Request Entity Too Large", RequestID: id},
			"the server answered 413 Request Entity Too Large",
		},
		{
			"empty", 401, "",
			client.Error{Status: 401, Message: "the server answered 401 Unauthorized", RequestID: id},
			"the server answered 401 Unauthorized",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &script{lines: []line{answer(test.status, test.body, "X-Request-Id", id)}}
			c := client.New(client.Options{Server: "https://w.example", HTTPClient: &http.Client{Transport: s}})
			_, err := c.Me(t.Context())
			e := asError(t, err)
			if diff := cmp.Diff(test.want, *e); diff != "" || e.Error() != test.text {
				t.Errorf("%q (-want +got):\n%s", e, diff)
			}
		})
	}
}
