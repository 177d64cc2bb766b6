package httpapi

import (
	"context"
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Stream is the output of an operation that writes its answer itself, e.g. a
// download or server-sent events. Errors before the first byte are returned by the
// operation as usual.
type Stream func(w http.ResponseWriter, r *http.Request)

type streamOutput struct {
	Body func(huma.Context)
}

func newStreamOutput(ctx context.Context, s Stream) *streamOutput {
	return &streamOutput{Body: func(h huma.Context) {
		r, w := humago.Unwrap(h)
		s(w, r.WithContext(ctx))
	}}
}

// anyType marks an operation whose answer is not JSON.
const anyType = "any-type"

func streamResponses(responses map[string]*huma.Response, status int) map[string]*huma.Response {
	responses = maps.Clone(responses)
	responses[strconv.Itoa(status)] = &huma.Response{
		Description: http.StatusText(status),
		Content:     map[string]*huma.MediaType{"application/octet-stream": {}},
	}
	return responses
}
