package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// An ErrorFormat replaces the API's error bodies on the routes of a protocol that
// defines its own.
type ErrorFormat struct {
	// Encode returns the body of an error, in the encoding that the header of the
	// request asks for.
	Encode func(request http.Header, status int, message string) (mediaType string, body []byte)
	// Bodies lists what Encode returns, for the OpenAPI document.
	Bodies []Media
}

// middleware encodes what the middleware after it, huma and the operation answer.
func (f *ErrorFormat) middleware(ctx huma.Context, next func(huma.Context)) {
	req, w := humago.Unwrap(ctx)
	out := &errorRecorder{ResponseWriter: w}
	next(humago.NewContext(ctx.Operation(), req, out))
	if out.status == 0 {
		return
	}
	mediaType, body := f.Encode(req.Header, out.status, out.message())
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(out.status)
	_, _ = w.Write(body) // the client is gone if this fails
}

// An errorRecorder keeps an error's answer back, and passes all others on.
type errorRecorder struct {
	http.ResponseWriter
	status int // 0 if it is no error
	body   bytes.Buffer
}

// Unwrap lets http.ResponseController reach the connection.
func (e *errorRecorder) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *errorRecorder) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		e.ResponseWriter.WriteHeader(status)
		return
	}
	e.status = status
}

func (e *errorRecorder) Write(p []byte) (int, error) {
	if e.status == 0 {
		return e.ResponseWriter.Write(p)
	}
	return e.body.Write(p)
}

// message is that of either of the API's error bodies.
func (e *errorRecorder) message() string {
	var invalid ValidationError
	if json.Unmarshal(e.body.Bytes(), &invalid) == nil {
		return invalid.Details.Message
	}
	var other StructuredError
	if json.Unmarshal(e.body.Bytes(), &other) == nil {
		return other.Error.Message
	}
	return http.StatusText(e.status)
}
