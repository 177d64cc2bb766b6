package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/whetstone-dev/whetstone/client/api"
)

const apiDescription = `Shows a team which of its agent skills work, proves it, and helps fix those that do not.

Every route requires ` + "`Authorization: Bearer <API_KEY>`" + ` unless it says otherwise. Times are RFC 3339 in UTC with
milliseconds; ids are UUIDs. Unknown fields are ignored. Every answer carries ` + "`X-Request-Id`" + `.`

// schemaPrefix begins a reference to a schema.
const schemaPrefix = "#/components/schemas/"

func humaConfig(o Options, names *schemaNames) huma.Config {
	config := huma.DefaultConfig("Whetstone", o.Version)
	config.Info.Description = apiDescription
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.Info.Contact = &huma.Contact{Name: "Whetstone", URL: "https://github.com/whetstone-dev/whetstone"}
	config.Servers = []*huma.Server{{URL: cmp.Or(o.PublicURL, "/")}}
	for _, t := range o.Tags {
		config.Tags = append(config.Tags, &huma.Tag{Name: t.Name, Description: t.Description})
	}
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // they would add $schema to every answer
	config.AllowAdditionalPropertiesByDefault = true
	config.Components.Schemas = huma.NewMapRegistry(schemaPrefix, names.name)
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[api.Time](), reflect.TypeFor[documentedTime]())
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "An API key: st_live_... or st_test_..."},
	}
	config.Security = []map[string][]string{{"key": {}}}
	for _, body := range []any{StructuredError{}, ValidationError{}} {
		config.Components.Schemas.Schema(reflect.TypeOf(body), true, "")
	}
	return config
}

// wirePackage says itself how the document names its types.
var wirePackage = reflect.TypeFor[api.Time]().PkgPath()

// Document lets the OpenAPI document have type As for type T of the wire, which clients get
// as any JSON. It comes before the routes with a T.
func Document[T, As any](a *API) {
	a.huma.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[T](), reflect.TypeFor[As]())
}

// schemaNames prefixes the names of schemas with their package, so that types of
// the same name in two packages do not collide.
type schemaNames struct {
	pkg string // of the route that is being added, for anonymous types
}

func (n *schemaNames) name(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == wirePackage {
		return api.SchemaName(t.Name())
	}
	name, pkg := huma.DefaultSchemaNamer(t, hint), path.Base(t.PkgPath())
	if t.Name() == "" {
		pkg = n.pkg
	}
	if prefix, ok := schemaPrefixes[pkg]; ok {
		pkg = prefix
	}
	if pkg != "httpapi" && pkg != "." && pkg != "" {
		name = title(pkg) + title(name)
	}
	return title(name)
}

// schemaPrefixes are the prefixes of packages whose schemas are named after
// another one. The names are part of the API, since code generators make types
// of them: they stay when the types move to another package.
var schemaPrefixes = map[string]string{
	"content": "evidence", "improve": "evals",
	"installations": "registry", "release": "registry", "runs": "evals", "suggestions": "sources", "suites": "evals",
	"taskpkg": "evalsPackage",
}

func title(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// tag groups routes by the first specific word of their path, e.g. "keys".
func tag(p string) string {
	for word := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		if word != "api" && word != "v1" && word != "alpha" {
			return word
		}
	}
	return "service"
}

func describe(r Route) string {
	var needs []string
	if r.Plan != "" {
		needs = append(needs, fmt.Sprintf("the %s plan", r.Plan))
	}
	if r.Permission != "" {
		need := fmt.Sprintf("the permission `%s`", r.Permission)
		if r.Owns != nil {
			need += ", or to own the entry,"
		}
		needs = append(needs, need)
	}
	if r.Role != "" {
		needs = append(needs, fmt.Sprintf("the role %s", r.Role))
	}
	var text string
	if len(needs) > 0 {
		text = "Needs " + strings.TrimSuffix(strings.Join(needs, " and "), ",") + "."
	}
	if r.Limit != nil {
		text += fmt.Sprintf(" At most %d requests per %s.", r.Limit.Requests, r.Limit.period())
	}
	return strings.TrimSpace(text)
}

func security(r Route) []map[string][]string {
	if r.Public {
		return []map[string][]string{{}}
	}
	return []map[string][]string{{"key": {}}}
}

// errorResponses lists the errors that the middleware may answer for a route.
func (a *API) errorResponses(r Route) map[string]*huma.Response {
	statuses := []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable,
		http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
	if !r.Public {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusForbidden)
	}
	if r.Limit != nil {
		statuses = append(statuses, http.StatusTooManyRequests)
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPatch || r.Method == http.MethodPut {
		statuses = append(statuses, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, status := range r.Also {
		if status >= http.StatusBadRequest {
			statuses = append(statuses, status)
		}
	}
	responses := map[string]*huma.Response{}
	for _, status := range statuses {
		content := structuredContent
		if status == http.StatusBadRequest {
			content = validationContent
		}
		if r.Errors != nil {
			content = a.content(r.Errors.Bodies)
		}
		responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content}
	}
	return responses
}

// The bodies of errors in the OpenAPI document, which all routes share: a schema of
// its own for every error of every route would take 1 MB.
var (
	structuredContent = errorContent("StructuredError")
	validationContent = errorContent("ValidationError")
)

func errorContent(schema string) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{jsonType: {Schema: &huma.Schema{Ref: "#/components/schemas/" + schema}}}
}

// formBody declares a multipart body. Its parts are added by document, later: huma
// would read a body whose schema it knows.
func formBody(r Route) *huma.RequestBody {
	if len(r.Form) == 0 {
		return nil
	}
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{formType: {}}}
}

// document corrects huma's description of a route: a wildcard at the end of a path
// is {path} in OpenAPI, not {path...}; a form has named parts, and a raw body its
// own types; lists are empty, never null.
func (a *API) document(r Route) {
	paths := a.huma.OpenAPI().Paths
	if plain := strings.Replace(r.Path, "...}", "}", 1); plain != r.Path {
		paths[plain] = paths[r.Path]
		delete(paths, r.Path)
	}
	op := a.operationOf(r)
	if len(r.Consumes) > 0 {
		op.RequestBody.Content = a.content(r.Consumes)
	}
	if len(r.Form) > 0 {
		op.RequestBody.Content[formType].Schema = formSchema(r.Form)
	}
	for _, p := range op.Parameters {
		p.Schema.Nullable = false
	}
	if body := op.Responses[strconv.Itoa(r.Status)].Content[jsonType]; body != nil {
		body.Schema.Nullable = false
	}
	documentSuccesses(r, op)
}

func formSchema(parts []Part) *huma.Schema {
	form := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}}
	for _, part := range parts {
		schema := &huma.Schema{Type: huma.TypeString, Description: part.Doc}
		if part.File {
			schema.Format, schema.ContentEncoding = "binary", "binary"
		}
		form.Properties[part.Name] = schema
		if !part.Optional {
			form.Required = append(form.Required, part.Name)
		}
	}
	return form
}

// documentSuccesses gives the other successes of a route the body of the first,
// unless they have none.
func documentSuccesses(r Route, op *huma.Operation) {
	for _, status := range r.Also {
		if status >= http.StatusBadRequest {
			continue
		}
		same := *op.Responses[strconv.Itoa(r.Status)]
		same.Description = http.StatusText(status)
		if status == http.StatusNoContent || status == http.StatusNotModified {
			same.Content = nil
		}
		op.Responses[strconv.Itoa(status)] = &same
	}
}

// operationOf returns the documented operation of a route.
func (a *API) operationOf(r Route) *huma.Operation {
	item := a.huma.OpenAPI().Paths[strings.Replace(r.Path, "...}", "}", 1)]
	switch r.Method {
	case http.MethodGet:
		return item.Get
	case http.MethodPost:
		return item.Post
	case http.MethodPatch:
		return item.Patch
	case http.MethodPut:
		return item.Put
	}
	return item.Delete
}

// documented returns the OpenAPI document of all routes.
func (a *API) documented() *huma.OpenAPI {
	document := *a.huma.OpenAPI()
	components := *document.Components
	schemas := documentedSchemas{components.Schemas, a.words}
	components.Schemas = schemas
	document.Components = &components
	document.Paths = a.withExamples(&document, schemas.Map())
	return &document
}

// OpenAPI returns the document of all routes, indented.
func (a *API) OpenAPI() ([]byte, error) {
	return json.MarshalIndent(a.documented(), "", "  ")
}
