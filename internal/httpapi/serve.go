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

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// ServeHTTP serves all routes: it names the request, survives a panic, and
// counts.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	state := &requestState{id: newRequestID(r), client: a.clientAddr(r)}
	r = r.WithContext(context.WithValue(r.Context(), stateKey{}, state))
	w.Header().Set("X-Request-Id", state.id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	rec := &recorder{ResponseWriter: w, control: http.NewResponseController(w), patience: a.answerTimeout}
	state.control = rec.control
	trimSlash(r)
	a.boundBody(rec, r)
	defer func() {
		state.release()
		a.boundRest(rec, r)
		a.observe(rec, r, state, time.Since(start))
	}()
	a.serveSafely(rec, r)
}

// boundBody keeps a client from holding on to its connection by sending a body
// slowly, whether anybody wants that body or not. A deadline that an earlier
// answer left behind does not count for this one.
func (a *API) boundBody(w *recorder, r *http.Request) {
	_ = w.control.SetWriteDeadline(time.Time{}) // deadlines are missing only without a connection
	if r.Body != nil && r.Body != http.NoBody {
		_ = w.control.SetReadDeadline(time.Now().Add(a.bodyTimeout))
	}
}

// restTimeout is how long the server waits for the rest of a body that nobody
// has read, before it gives the connection up.
const restTimeout = 5 * time.Second

// boundRest bounds that wait.
func (a *API) boundRest(w *recorder, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = w.control.SetReadDeadline(time.Now().Add(min(restTimeout, a.bodyTimeout)))
	}
}

// serveSafely turns a panic into an answer.
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
			a.log.Error("panic after the answer began", "request_id", RequestID(r.Context()), "error", err)
			panic(http.ErrAbortHandler)
		}
		a.writeError(w, r, err)
	}()
	if escaped := r.URL.EscapedPath(); path.Clean(escaped) != escaped {
		// The mux would answer with a redirect in HTML.
		a.writeError(w, r, noRoute(r))
		return
	}
	a.mux.ServeHTTP(w, r)
}

func (a *API) observe(w *recorder, r *http.Request, state *requestState, took time.Duration) {
	pattern := r.Pattern
	if pattern == "" || pattern == "/" {
		pattern = "other"
	}
	a.metrics.observe(pattern, w.statusCode(), took)
	a.log.Debug("request", "request_id", state.id, "route", pattern, "status", w.statusCode(),
		"ms", took.Milliseconds(), "org", state.caller.OrgID, "key", state.caller.KeyID)
}

// notFound answers what no route takes: 405 where the path exists with
// another method, else 404.
func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	if err := a.limit(w, r, Route{Path: "/", Limit: PublicLimit()}, access.Caller{}); err != nil {
		a.writeError(w, r, err)
		return
	}
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		structured(http.StatusMethodNotAllowed, r.Method+" is not allowed here; allowed: "+strings.Join(allowed, ", ")).write(w)
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

// trimSlash tolerates one trailing slash.
func trimSlash(r *http.Request) {
	if escaped := r.URL.EscapedPath(); len(escaped) > 1 && strings.HasSuffix(escaped, "/") {
		r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
		r.URL.RawPath = strings.TrimSuffix(r.URL.RawPath, "/")
	}
}

// requestState is what the frame learns about a request on the way.
type requestState struct {
	id      string
	client  netip.Addr
	caller  access.Caller
	control *http.ResponseController
	memory  *share // nil until the request takes some
}

func (s *requestState) release() {
	if s.memory != nil {
		s.memory.release()
	}
}

type stateKey struct{}

// RequestID is the name of the request that the context belongs to, as the
// answer's X-Request-Id has it; "" outside one.
func RequestID(ctx context.Context) string {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok {
		return s.id
	}
	return ""
}

func noteCaller(ctx context.Context, c access.Caller) {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok {
		s.caller = c
	}
}

var goodRequestID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// newRequestID keeps a proxy's id if it is harmless.
func newRequestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && goodRequestID.MatchString(id) {
		return id
	}
	return uuid.Must(uuid.NewV7()).String()
}

// recorder remembers the status of an answer, and gives up on a client that
// does not take it.
type recorder struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration // for each piece
	status   int
}

// piece is how much of an answer has a deadline of its own: a slow line may
// take long for the whole, but not for this.
const piece = 256 << 10

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (n int, err error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	for first := true; err == nil && (first || n < len(p)); first = false {
		r.wait()
		var written int
		written, err = r.ResponseWriter.Write(p[n:min(n+piece, len(p))])
		n += written
	}
	return n, err
}

// ReadFrom keeps the connection's own way of sending files, which it takes for
// a file or the beginning of one, and for nothing wrapped around that.
func (r *recorder) ReadFrom(src io.Reader) (n int64, err error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	left := int64(math.MaxInt64)
	if limited, ok := src.(*io.LimitedReader); ok {
		src, left = limited.R, limited.N
		defer func() { limited.N -= n }()
	}
	for err == nil && left > 0 {
		r.wait()
		var copied int64
		copied, err = io.CopyN(r.ResponseWriter, src, min(piece, left))
		n += copied
		left -= copied
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// wait gives the client time for the next piece.
func (r *recorder) wait() {
	_ = r.control.SetWriteDeadline(time.Now().Add(r.patience)) // not every writer has deadlines
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) statusCode() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
