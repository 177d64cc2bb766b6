package httpapi

import (
	"maps"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// Stream is the output of an operation that writes its answer itself, e.g. a
// download or server-sent events. Errors before the first byte are returned by the
// operation as usual.
type Stream func(w http.ResponseWriter, r *http.Request)

type streamOutput struct {
	Body func(huma.Context)
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
