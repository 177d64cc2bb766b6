package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"path"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// ServeHTTP serves all routes. It is the outermost middleware: it sets the request
// id, bounds the time of slow clients, recovers from panics, and observes metrics.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	a.metrics.Began()
	ctx, span := a.tracer.Request(r.Context(), r.Header)
	state := &requestState{id: r.Header.Get("X-Request-Id"), client: a.clientAddr(r), span: span}
	if !requestIDPattern.MatchString(state.id) {
		if state.id = span.TraceID(); state.id == "" {
			state.id = uuid.Must(uuid.NewV7()).String()
		}
	}
	r = r.WithContext(context.WithValue(ctx, stateKey{}, state))
	w.Header().Set("X-Request-Id", state.id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	rec := &recorder{ResponseWriter: w, control: http.NewResponseController(w), timeout: a.answerTimeout, before: state.settle}
	state.control = rec.control
	if escaped := r.URL.EscapedPath(); len(escaped) > 1 && strings.HasSuffix(escaped, "/") {
		r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
		r.URL.RawPath = strings.TrimSuffix(r.URL.RawPath, "/")
	}

	// A body has a deadline whether the route reads it or not, against clients
	// that send it slowly (Slowloris). The write deadline that an earlier answer
	// on the same connection has left is cleared. Both calls fail only without a
	// connection, in tests.
	hasBody := r.Body != nil && r.Body != http.NoBody
	_ = rec.control.SetWriteDeadline(time.Time{})
	if hasBody {
		_ = rec.control.SetReadDeadline(time.Now().Add(a.bodyTimeout))
	}
	defer func() {
		if state.memory != nil {
			state.memory.Release()
		}
		if hasBody {
			_ = rec.control.SetReadDeadline(time.Now().Add(min(restTimeout, a.bodyTimeout)))
		}
		took := time.Since(start)
		pattern := r.Pattern
		if pattern == "" || pattern == "/" {
			pattern = "other"
		}
		a.metrics.Ended(r.Context(), pattern, rec.statusCode(), took)
		state.span.EndRequest(r.Method, pattern, rec.statusCode())
		a.log.DebugContext(r.Context(), "request", "request_id", state.id, "route", pattern, "status", rec.statusCode(),
			"ms", took.Milliseconds(), "org", state.caller.OrgID, "key", state.caller.KeyID)
	}()
	a.serveSafely(rec, r)
}

// restTimeout is how long the server waits for the rest of a body that the handler
// has not read, before it closes the connection.
const restTimeout = 5 * time.Second

// serveSafely turns a panic into a 500.
func (a *API) serveSafely(w *recorder, r *http.Request) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // the server's own sentinel, compared as it does
			panic(p)
		}
		err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		if w.status != 0 {
			a.log.ErrorContext(r.Context(), "panic after the answer began", "request_id", RequestID(r.Context()), "error", err)
			panic(http.ErrAbortHandler)
		}
		a.writeError(w, r, err)
	}()
	if escaped := r.URL.EscapedPath(); path.Clean(escaped) != escaped {
		// http.ServeMux would answer with an HTML redirect.
		a.writeError(w, r, noRoute(r))
		return
	}
	if r.RequestURI != "*" && !a.hasRoute(r) { // to *, http.ServeMux answers that it is no request
		a.notFound(w, r)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// hasRoute tells whether a route matches. For /a, http.ServeMux takes /a/{rest...} and
// redirects to /a/, which is /a here, so that it would redirect for ever.
func (a *API) hasRoute(r *http.Request) bool {
	_, pattern := a.mux.Handler(r)
	endless := strings.HasSuffix(pattern, "...}") && strings.Count(pattern, "/") > strings.Count(r.URL.EscapedPath(), "/")
	return pattern != "/" && !endless
}

// notFound serves requests that match no route: 405 if the path exists with
// another method, else 404.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	if err := a.rateLimit(w, r, Route{Path: "/", Limit: PublicLimit()}, access.Caller{}); err != nil {
		a.writeError(w, r, err)
		return
	}
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if a.hasRoute(probe) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		message := r.Method + " is not allowed here; allowed: " + strings.Join(allowed, ", ")
		structured(http.StatusMethodNotAllowed, message).write(w)
		return
	}
	if a.missing != nil && wantsPage(r) {
		a.missing.ServeHTTP(w, r)
		return
	}
	a.writeError(w, r, noRoute(r))
}

func noRoute(r *http.Request) error {
	return fault.New(fault.NotFound, "No such route: %s %s", r.Method, r.URL.Path)
}

// requestState is what the middleware knows about a request.
type requestState struct {
	id        string
	client    netip.Addr
	caller    access.Caller
	control   *http.ResponseController
	memory    *memoryShare // nil until the request reserves some
	span      *trace.Span
	uncounted *uncounted // nil unless the handler counts the request
}

type stateKey struct{}

// RequestID returns the id of the request, as in the answer's X-Request-Id; ""
// outside of a request.
func RequestID(ctx context.Context) string {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok {
		return s.id
	}
	return ""
}

func setCaller(ctx context.Context, c access.Caller) {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok {
		s.caller = c
	}
}

// requestIDPattern is what an id that a proxy has set must look like to be kept:
// it is logged and answered, so log injection must not be possible with it.
var requestIDPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// A recorder records the status of an answer, and sets a write deadline for every
// chunk of it, so that a client that stops reading does not hold the connection.
type recorder struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // per chunk
	before  func(header http.Header, status int)
	status  int
}

// chunkSize is how much of an answer has a deadline of its own: a slow connection
// may take long for the whole answer, but not for this.
const chunkSize = 256 << 10

// begin is called before the first byte of an answer.
func (r *recorder) begin(status int) {
	if r.status == 0 {
		r.before(r.Header(), status)
		r.status = status
	}
}

func (r *recorder) WriteHeader(status int) {
	r.begin(status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (n int, err error) {
	r.begin(http.StatusOK)
	for first := true; err == nil && (first || n < len(p)); first = false {
		r.extendDeadline()
		var written int
		written, err = r.ResponseWriter.Write(p[n:min(n+chunkSize, len(p))])
		n += written
	}
	return n, err
}

// ReadFrom keeps sendfile(2), which net/http only uses for an *os.File or an
// *io.LimitedReader of one, not for other wrappers.
func (r *recorder) ReadFrom(src io.Reader) (n int64, err error) {
	r.begin(http.StatusOK)
	left := int64(math.MaxInt64)
	if limited, ok := src.(*io.LimitedReader); ok {
		src, left = limited.R, limited.N
		defer func() { limited.N -= n }()
	}
	for err == nil && left > 0 {
		r.extendDeadline()
		var copied int64
		copied, err = io.CopyN(r.ResponseWriter, src, min(chunkSize, left))
		n += copied
		left -= copied
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// extendDeadline gives the client time for the next chunk.
func (r *recorder) extendDeadline() {
	_ = r.control.SetWriteDeadline(time.Now().Add(r.timeout)) // not every writer has deadlines
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) statusCode() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
