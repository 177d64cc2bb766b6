package httpapi

import "net/http"

// Stream is the output of an operation that writes its answer itself, e.g. a
// download or server-sent events. Errors before the first byte are returned by the
// operation as usual.
type Stream func(w http.ResponseWriter, r *http.Request)
