package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// body checks what a request says of its body, and bounds the body itself.
func body(r Route, maxBody int64) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		req, w := humago.Unwrap(ctx)
		op := ctx.Operation()
		if err := acceptable(req, op); err != nil {
			err.write(w)
			return
		}
		if op.RequestBody == nil {
			next(ctx)
			return
		}
		if err := consumable(req, op); err != nil {
			problemBody(err).write(w)
			return
		}
		b, err := newBody(req, r, maxBody)
		if err != nil {
			problemBody(err).write(w)
			return
		}
		req.Body = b
		next(huma.WithContext(ctx, context.WithValue(ctx.Context(), bodyKey{}, b)))
	}
}

type bodyKey struct{}

// bodyProblem returns what went wrong while the body was read, if anything.
func bodyProblem(ctx context.Context) *fault.Error {
	if b, ok := ctx.Value(bodyKey{}).(*boundedBody); ok {
		return b.problem
	}
	return nil
}

// acceptable refuses a client that will not take what the route answers,
// before the operation has done anything.
func acceptable(req *http.Request, op *huma.Operation) *errorBody {
	accept := req.Header.Get("Accept")
	if accept == "" || op.Metadata[anyType] == true {
		return nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, _, err := mime.ParseMediaType(part)
		if err == nil && (media == "*/*" || media == "application/*" || strings.HasSuffix(media, "json")) {
			return nil
		}
	}
	return structured(http.StatusNotAcceptable, "This route answers application/json")
}

// consumable refuses a body of a type that the route does not read.
func consumable(req *http.Request, op *huma.Operation) *fault.Error {
	given := req.Header.Get("Content-Type")
	if given == "" || op.RequestBody.Content["application/octet-stream"] != nil {
		return nil
	}
	media, _, err := mime.ParseMediaType(given)
	for want := range op.RequestBody.Content {
		if err == nil && (media == want || want == "application/json" && strings.HasSuffix(media, "+json")) {
			return nil
		}
	}
	for want := range op.RequestBody.Content {
		return fault.New(fault.Unsupported, "Content-Type %q is not read here; send %s", given, want)
	}
	return nil
}

// boundedBody is a request body that remembers why reading it failed.
type boundedBody struct {
	io.Reader
	io.Closer
	problem *fault.Error
}

// newBody bounds the body's size and undoes gzip where the route allows it.
// An empty JSON body becomes {}: the contract lets it stand for "no fields".
func newBody(req *http.Request, r Route, maxBody int64) (*boundedBody, *fault.Error) {
	b := &boundedBody{Closer: req.Body}
	b.Reader = &limitedReader{from: req.Body, left: maxBody, body: b, limit: maxBody}
	switch encoding := req.Header.Get("Content-Encoding"); {
	case encoding == "" || encoding == "identity":
	case encoding == "gzip" && r.MaxInflated > 0:
		inflated, err := gzip.NewReader(b.Reader)
		if err != nil {
			return nil, b.failed(fault.Invalid("", "the body is not valid gzip"))
		}
		b.Reader = &limitedReader{from: inflated, left: r.MaxInflated, body: b, limit: r.MaxInflated, inflated: true}
	default:
		return nil, fault.New(fault.Unsupported, "Content-Encoding %q is not read here", encoding)
	}
	if !strings.HasPrefix(req.Header.Get("Content-Type"), "multipart/") {
		buffered := bufio.NewReader(b.Reader)
		if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
			b.Reader = bytes.NewReader([]byte("{}"))
			return b, nil
		}
		b.Reader = buffered
	}
	return b, nil
}

// failed keeps the first problem, which is the cause of those after it.
func (b *boundedBody) failed(problem *fault.Error) *fault.Error {
	if b.problem == nil {
		b.problem = problem
	}
	return b.problem
}

type limitedReader struct {
	from     io.Reader
	left     int64
	limit    int64
	inflated bool
	body     *boundedBody
}

func (l *limitedReader) Read(p []byte) (int, error) {
	// One byte more than allowed tells a body at the limit from one over it.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.from.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		return 0, l.body.failed(tooLarge(l.limit, l.inflated))
	}
	if err != nil && !errors.Is(err, io.EOF) && l.inflated {
		return n, l.body.failed(fault.Invalid("", "the body is not valid gzip"))
	}
	return n, err
}

func tooLarge(limit int64, inflated bool) *fault.Error {
	what := "The body"
	if inflated {
		what = "The inflated body"
	}
	return fault.New(fault.TooLarge, "%s is over the limit of %s", what, byteSize(limit))
}
