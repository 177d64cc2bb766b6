package httpapi

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Stream is the output of an operation that writes its answer itself, e.g. a
// download or server-sent events. Errors before the first byte are returned by the
// operation as usual.
type Stream func(w http.ResponseWriter, r *http.Request)

type streamOutput struct {
	Body func(huma.Context)
}
