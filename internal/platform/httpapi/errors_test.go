package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

const harmlessID = "X-Request-Id: proxy-7_A"

// failing mounts one route that fails with the error.
func failing(t *testing.T, fail func(context.Context) error) *frame {
	return newFrame(t, nil, func(a *httpapi.API) {
		httpapi.Add(a, func(ctx context.Context, _ struct{}) (thing, error) { return thing{}, fail(ctx) },
			httpapi.Route{Method: "GET", Path: "/fails", Public: true})
	})
}

func TestKindsOfErrors(t *testing.T) {
	const id = "; request proxy-7_A"
	for _, c := range []struct {
		name    string
		err     error
		status  int
		message string
	}{
		{"unauthorized", fault.New(fault.Unauthorized, "Who?"), 401, "Who?"},
		{"denied", fault.New(fault.Denied, "Not yours"), 403, "Not yours"},
		{"not found", fault.New(fault.NotFound, "Review not found"), 404, "Review not found"},
		{"conflict", fault.New(fault.Conflict, "Taken"), 409, "Taken"},
		{"too large", fault.New(fault.TooLarge, "Over 10 MiB"), 413, "Over 10 MiB"},
		{"unsupported", fault.New(fault.Unsupported, "No RAR"), 415, "No RAR"},
		{"limited", fault.New(fault.Limited, "Slow down"), 429, "Slow down"},
		{"gone", fault.New(fault.Gone, "Taken back"), 410, "Taken back"},
		{"bad gateway", fault.New(fault.BadGateway, "The code host failed"), 502, "The code host failed" + id},
		{"unavailable", fault.New(fault.Unavailable, "Too busy"), 503, "Too busy" + id},
		{"internal", fault.New(fault.Internal, "hunter2"), 500, "Internal error" + id},
		{"no kind", errors.New("hunter2"), 500, "Internal error" + id},
		{"too slow", fmt.Errorf("hunter2: %w", context.DeadlineExceeded), 504, "This took too long" + id},
		{"wrapped", fmt.Errorf("hunter2: %w", fault.New(fault.NotFound, "Gone").Because(errors.New("hunter2"))), 404, "Gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := failing(t, func(context.Context) error { return c.err })
			f.do(t, "GET", "/fails", "", harmlessID).WantError(c.status, c.message)
		})
	}
}

func TestErrorCode(t *testing.T) {
	f := failing(t, func(context.Context) error {
		return fmt.Errorf("suite: %w", fault.New(fault.Denied, "Ask an admin").WithCode("protected_suite"))
	})
	f.do(t, "GET", "/fails", "").WantCode(403, "protected_suite", "Ask an admin")
}

func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		issues []string
	}{
		{"one field", fault.Invalid("cases_json.3.query", "query is empty"), []string{"cases_json.3.query", "query is empty"}},
		{"several", fault.Issues(fault.At("a", "a is bad"), fault.At("", "all is bad")), []string{"a", "a is bad", "", "all is bad"}},
		{"no issues", fault.New(fault.Malformed, "all is bad"), []string{"", "all is bad"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := failing(t, func(context.Context) error { return c.err })
			f.do(t, "GET", "/fails", "").WantIssues(c.issues...)
		})
	}
}

func TestErrorHeaders(t *testing.T) {
	f := failing(t, func(context.Context) error {
		return fault.New(fault.Unavailable, "Too busy").After(1500 * time.Millisecond)
	})
	f.do(t, "GET", "/fails", "").WantHeader("Retry-After", "2")
	f = failing(t, func(context.Context) error { return fault.New(fault.Unauthorized, "Who?") })
	f.do(t, "GET", "/fails", "").WantHeader("Www-Authenticate", "Bearer")
}

// TestOurFaultStaysInTheLog covers errors and panics: the log has the cause
// under the request's id, the answer has only the id.
func TestOurFaultStaysInTheLog(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(context.Context) error
		logs []string
	}{
		{"error", func(context.Context) error { return errors.New("secret cause") }, []string{"secret cause"}},
		{"panic", func(context.Context) error { panic("secret cause") }, []string{"panic: secret cause", "errors_test.go"}},
		{"nil pointer", func(context.Context) error { return fmt.Errorf("%d", len((*thing)(nil).Name)) }, []string{"nil pointer dereference"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := failing(t, c.fail)
			f.do(t, "GET", "/fails", "", harmlessID).WantError(500, "Internal error; request proxy-7_A")
			for _, want := range append(c.logs, "level=ERROR", "request_id=proxy-7_A") {
				if got := f.Logged.String(); !strings.Contains(got, want) {
					t.Errorf("the log lacks %q:\n%s", want, got)
				}
			}
		})
	}
}

func TestCallersFaultIsNotLoggedAsOurs(t *testing.T) {
	f := failing(t, func(context.Context) error { return fault.New(fault.Conflict, "Taken") })
	f.do(t, "GET", "/fails", "")
	if got := f.Logged.String(); strings.Contains(got, "level=ERROR") {
		t.Errorf("logged an error:\n%s", got)
	}
}

func TestRequestID(t *testing.T) {
	f := newFrame(t, nil, mountThings)
	for _, c := range []struct {
		given string
		kept  bool
	}{
		{"proxy-7_A", true},
		{strings.Repeat("a", 64), true},
		{strings.Repeat("a", 65), false},
		{"<script>", false},
		{"a b", false},
		{"", false},
	} {
		t.Run(c.given, func(t *testing.T) {
			got := f.do(t, "GET", "/things", "", "X-Request-Id: "+c.given).Header.Get("X-Request-Id")
			if c.kept != (got == c.given) {
				t.Errorf("%q became %q", c.given, got)
			}
		})
	}
	first, second := f.do(t, "GET", "/none", "").Header, f.do(t, "GET", "/none", "").Header
	if first.Get("X-Request-Id") == second.Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
}

// TestClientGone ends in a database's own way to say that it was stopped.
func TestClientGone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		entered := make(chan struct{})
		f := failing(t, func(ctx context.Context) error {
			close(entered)
			<-ctx.Done()
			_, err := db.Exec(ctx, `DELETE FROM rate_windows`)
			return fmt.Errorf("sweep: %w", err)
		})
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Server.URL+"/fails", nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-entered
			cancel()
		}()
		if _, err := http.DefaultTransport.RoundTrip(req); !errors.Is(err, context.Canceled) {
			t.Fatalf("the request ended with %v", err)
		}
		f.waitForLog(t, "the client went away")
		if got := f.Logged.String(); strings.Contains(got, "level=ERROR") {
			t.Errorf("logged an error:\n%s", got)
		}
	})
}

// waitForLog waits until the server has logged the text, which it may do
// after the client has its answer.
func (f *frame) waitForLog(t *testing.T, text string) {
	t.Helper()
	apptest.Eventually(t, "the log to have "+text, func() bool { return strings.Contains(f.Logged.String(), text) })
}
