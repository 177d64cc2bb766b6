package httpapi

import (
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// A Media is a body in the OpenAPI document whose type huma cannot derive from
// the Go function: that of a RawBody or of a Stream.
type Media struct {
	Type string // e.g. "text/x-diff"
	// Body is a value of the type that the JSON encodes; nil if the body is not
	// JSON.
	Body any
}

const (
	// jsonType is what routes read and answer, except for files.
	jsonType = "application/json"
	// formType is what routes with a Form read.
	formType = "multipart/form-data"
	// rawType is how huma declares a RawBody.
	rawType = "application/octet-stream"
)

// content declares bodies.
func (a *API) content(bodies []Media) map[string]*huma.MediaType {
	all := map[string]*huma.MediaType{}
	for _, b := range bodies {
		all[b.Type] = &huma.MediaType{Schema: a.schemaOf(b)}
	}
	return all
}

func (a *API) schemaOf(b Media) *huma.Schema {
	switch {
	case b.Body != nil:
		return a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(b.Body), true, "")
	case isJSONType(b.Type):
		return &huma.Schema{} // any value
	case strings.HasPrefix(b.Type, "text/"):
		return &huma.Schema{Type: huma.TypeString}
	}
	// With the field Format, huma would declare the media type as well, and always
	// application/octet-stream.
	return &huma.Schema{Type: huma.TypeString, Extensions: map[string]any{"format": "binary"}}
}

// isJSONType reports whether a media type is JSON or based on it, e.g.
// "application/sarif+json; charset=utf-8".
func isJSONType(mediaType string) bool {
	media, _, err := mime.ParseMediaType(mediaType)
	return err == nil && (media == jsonType || strings.HasSuffix(media, "+json"))
}

// Stream is the output of an operation that writes its answer itself, e.g. a
// download or server-sent events. Errors before the first byte are returned by the
// operation as usual.
type Stream func(w http.ResponseWriter, r *http.Request)
