package httpapi

import (
	"context"
	"net/http"
	"path"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// AddStreamed is Add for a JSON answer that is written in chunks, since it may not
// fit into memory. Doc is its type in the OpenAPI document.
func AddStreamed[In, Doc any](a *API, fn func(context.Context, In) (Stream, error), r Route) {
	Add(a, fn, r)
	op := a.operationOf(r)
	delete(op.Metadata, anyType)
	a.names.pkg = path.Base(reflect.TypeFor[In]().PkgPath())
	schema := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Doc](), true, "")
	op.Responses[strconv.Itoa(http.StatusOK)].Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
}
