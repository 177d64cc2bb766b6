package httpapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// body is the middleware that checks the headers of a body, and bounds the time,
// size and memory that it takes. A raw body is decoded by the operation itself,
// which also checks its type; any other is a form or JSON.
func (a *API) body(r Route, raw bool) func(huma.Context, func(huma.Context)) {
	maxBody := cmp.Or(r.MaxBody, DefaultMaxBody)
	isJSON := !raw && len(r.Form) == 0
	return func(ctx huma.Context, next func(huma.Context)) {
		req, w := humago.Unwrap(ctx)
		op := ctx.Operation()
		if err := checkAccept(req, r); err != nil {
			err.write(w)
			return
		}
		if op.RequestBody == nil {
			if err := DrainBody(req); err != nil {
				a.writeError(w, req, err)
				return
			}
			next(ctx)
			return
		}
		if !raw {
			if err := checkContentType(req, op); err != nil {
				problemBody(ctx.Context(), err).write(w)
				return
			}
		}
		_ = ctx.SetReadDeadline(time.Now().Add(a.bodyTimeoutOf(r.Public))) // fails only without a connection
		b, err := newBody(req, r, maxBody)
		if err != nil {
			problemBody(ctx.Context(), err).write(w)
			return
		}
		m := a.meter(req, r.Public, b.Reader)
		m.values, m.maxValues = newValueCounter(r, isJSON, req), cmp.Or(r.MaxValues, DefaultMaxValues)
		m.failed = b.failed
		b.Reader = m
		if isJSON {
			b.Reader = &orEmptyObject{Reader: b.Reader}
		}
		req.Body = b
		ctx = huma.WithContext(ctx, context.WithValue(ctx.Context(), bodyKey{}, b))
		if len(r.Form) == 0 {
			next(ctx)
			return
		}
		form, formErr := ReadForm(req)
		if formErr != nil {
			a.errorBody(ctx.Context(), formErr).write(w)
			return
		}
		defer form.Close()
		next(huma.WithContext(ctx, context.WithValue(ctx.Context(), formKey{}, form)))
	}
}

type bodyKey struct{}

// clearReadDeadline lifts the deadline for reading the body. If it passed while
// the operation runs, net/http would take the client for gone and cancel the
// request.
func clearReadDeadline(ctx context.Context) {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok {
		_ = s.control.SetReadDeadline(time.Time{}) // fails only without a connection
	}
}

// bodyTimeoutOf is how long a client may take to send the body of a route.
func (a *API) bodyTimeoutOf(public bool) time.Duration {
	if public {
		return min(publicBodyTimeout, a.bodyTimeout)
	}
	return a.bodyTimeout
}

const (
	// maxDrained is how much of a body is read where a route has none: some
	// clients always send {}.
	maxDrained = 64 << 10
	// drainTimeout is how long a client may take to send it.
	drainTimeout = 10 * time.Second
)

// DrainBody reads and discards the rest of a body. Only after the whole body was
// read does net/http notice that a client has disconnected, and cancel the
// request's context.
func DrainBody(req *http.Request) error {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	if s, ok := req.Context().Value(stateKey{}).(*requestState); ok {
		_ = s.control.SetReadDeadline(time.Now().Add(drainTimeout)) // fails only without a connection
	}
	n, err := io.Copy(io.Discard, io.LimitReader(req.Body, maxDrained+1))
	if err != nil {
		return unreadable(err)
	}
	if n > maxDrained {
		return fault.New(fault.TooLarge, "No body is read here beyond %s", byteSize(maxDrained))
	}
	clearReadDeadline(req.Context())
	return nil
}

// checkAccept refuses a request whose Accept header excludes JSON, before the
// operation has done anything.
func checkAccept(req *http.Request, r Route) *errorBody {
	accept := strings.Join(req.Header.Values("Accept"), ",")
	if accept == "" || slices.ContainsFunc(r.Produces, func(m Media) bool { return m.Type != jsonType }) {
		return nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, _, err := mime.ParseMediaType(part)
		if err == nil && (media == "*/*" || media == "application/*" || strings.HasSuffix(media, "json")) {
			return nil
		}
	}
	return structured(http.StatusNotAcceptable, "This route answers "+jsonType)
}

// checkContentType refuses a body of a type that the route does not read.
func checkContentType(req *http.Request, op *huma.Operation) *fault.Error {
	given := req.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	for want := range op.RequestBody.Content {
		if err == nil && (media == want || want == jsonType && strings.HasSuffix(media, "+json")) {
			if want == jsonType {
				req.Header.Set("Content-Type", jsonType) // huma only knows this one, not e.g. application/x+json
			}
			return nil
		}
	}
	for want := range op.RequestBody.Content {
		return fault.New(fault.Unsupported, "Content-Type %q is not read here; send %s", given, want)
	}
	return nil
}

// boundedBody is a request body with a size limit. It keeps the reason why reading
// failed, since huma only passes on that it did.
type boundedBody struct {
	io.Reader
	io.Closer
	problem *fault.Error
}

// An Enveloped is a request body that says in its first bytes, not in a header, how
// it is compressed. They are read when the caller is known.
type Enveloped interface {
	ContentEncoding() (string, error)
}

// unreadable is the problem of a body that could not be read.
func unreadable(err error) *fault.Error {
	if problem, ok := errors.AsType[*fault.Error](err); ok {
		return problem
	}
	return fault.Invalid("", "the body ended early").Because(err)
}

// newBody bounds the body's size, and decompresses gzip where the route allows it.
func newBody(req *http.Request, r Route, maxBody int64) (*boundedBody, *fault.Error) {
	b := &boundedBody{Closer: req.Body}
	b.Reader = &limitedReader{from: req.Body, left: maxBody, body: b, limit: maxBody}
	encoding := req.Header.Get("Content-Encoding")
	if e, ok := req.Body.(Enveloped); ok {
		var err error
		if encoding, err = e.ContentEncoding(); err != nil {
			return nil, b.failed(unreadable(err))
		}
	}
	switch {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
	case strings.EqualFold(encoding, "gzip") && r.MaxInflated > 0:
		inflated, err := gzip.NewReader(b.Reader)
		if err != nil {
			return nil, b.failed(fault.Invalid("", "the body is not valid gzip"))
		}
		b.Reader = &limitedReader{from: inflated, left: r.MaxInflated, body: b, limit: r.MaxInflated, inflated: true}
	default:
		return nil, fault.New(fault.Unsupported, "Content-Encoding %q is not read here", encoding)
	}
	return b, nil
}

// orEmptyObject reads {} from an empty body: the API allows an empty body for
// "no fields".
type orEmptyObject struct {
	io.Reader
	started bool
}

func (o *orEmptyObject) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if !o.started && n == 0 && errors.Is(err, io.EOF) {
		o.Reader = strings.NewReader("{}")
		n, err = o.Reader.Read(p)
	}
	o.started = o.started || n > 0
	return n, err
}

// failed keeps the first problem, which is the cause of later ones.
func (b *boundedBody) failed(problem *fault.Error) *fault.Error {
	if b.problem == nil {
		b.problem = problem
	}
	return b.problem
}

// A limitedReader fails with fault.TooLarge, unlike io.LimitedReader, which ends.
type limitedReader struct {
	from     io.Reader
	left     int64
	limit    int64
	inflated bool
	body     *boundedBody
}

func (l *limitedReader) Read(p []byte) (int, error) {
	// One more byte than allowed distinguishes a body at the limit from one over it.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.from.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		what := "The body"
		if l.inflated {
			what = "The inflated body"
		}
		return 0, l.body.failed(fault.New(fault.TooLarge, "%s is over the limit of %s", what, byteSize(l.limit)))
	}
	if err != nil && !errors.Is(err, io.EOF) && l.inflated {
		return n, l.body.failed(fault.Invalid("", "the body is not valid gzip"))
	}
	return n, err
}
