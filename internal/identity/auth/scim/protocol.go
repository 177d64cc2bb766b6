package scim

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

const (
	mediaType = "application/scim+json"

	userSchema   = "urn:ietf:params:scim:schemas:core:2.0:User"
	groupSchema  = "urn:ietf:params:scim:schemas:core:2.0:Group"
	configSchema = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
	typeSchema   = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	schemaSchema = "urn:ietf:params:scim:schemas:core:2.0:Schema"
	listSchema   = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	errorSchema  = "urn:ietf:params:scim:api:messages:2.0:Error"
)

// mountProtocol adds the routes that providers call. They don't go through httpapi.Add, since SCIM
// has its own media type, errors and pagination.
func (s *Service) mountProtocol(a *httpapi.API) {
	s.api = a
	for pattern, serve := range map[string]handler{
		"GET /Users":                 s.listUsers,
		"POST /Users":                s.createUser,
		"GET /Users/{id}":            s.getUser,
		"PUT /Users/{id}":            s.replaceUser,
		"PATCH /Users/{id}":          s.patchUser,
		"DELETE /Users/{id}":         s.deleteUser,
		"GET /Groups":                s.listGroups,
		"POST /Groups":               s.createGroup,
		"GET /Groups/{id}":           s.getGroup,
		"PUT /Groups/{id}":           s.replaceGroup,
		"PATCH /Groups/{id}":         s.patchGroup,
		"DELETE /Groups/{id}":        s.deleteGroup,
		"GET /ServiceProviderConfig": s.getConfig,
		"GET /ResourceTypes":         s.listTypes,
		"GET /ResourceTypes/{id}":    s.getType,
		"GET /Schemas":               s.listSchemas,
		"GET /Schemas/{id}":          s.getSchema,
		"/":                          s.unknown,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		if path == "" {
			// The pattern without a method answers everything else below the base, so that errors
			// have SCIM's shape, too.
			a.Handle(base+"/", httpapi.PublicLimit(), endpoint{s, serve})
			continue
		}
		a.Handle(method+" "+base+path, httpapi.PublicLimit(), endpoint{s, serve})
	}
}

// An answer is a resource; no body if it is nil.
type answer struct {
	status   int
	body     any
	location string // of what was created
	allow    string // the methods, for one that is not among them
}

type handler func(r *http.Request) (answer, error)

// An endpoint authenticates a provider and answers in SCIM's shapes.
type endpoint struct {
	*Service
	serve handler
}

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := e.answer(w, r)
	if err != nil {
		e.ServeError(w, r, err)
		return
	}
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	if a.allow != "" {
		w.Header().Set("Allow", a.allow)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	write(w, a.status, a.body)
}

// answer authenticates before it reads the body. The caller has no user: only the organisation of
// the token.
func (e endpoint) answer(w http.ResponseWriter, r *http.Request) (answer, error) {
	scheme, raw, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return answer{}, fault.New(fault.Unauthorized, "Missing SCIM token: send the header Authorization: Bearer <TOKEN>")
	}
	c, err := e.open(r.Context(), strings.TrimSpace(raw))
	if err != nil {
		return answer{}, err
	}
	httpapi.SetCaller(r, c)
	if err := httpapi.CheckText(r.URL, nil); err != nil {
		return answer{}, err
	}
	// Deactivations come as PUT and PATCH: they are served on a full disk.
	if err := e.api.CheckRoom(httpapi.Route{Method: r.Method, WhenFull: r.Method != http.MethodPost}); err != nil {
		return answer{}, err
	}
	e.api.BoundBody(r, false)
	r.Body = http.MaxBytesReader(w, r.Body, httpapi.DefaultMaxBody)
	return e.serve(r.WithContext(access.With(r.Context(), c)))
}

// orgOf is the organisation of the token; every query names it.
func orgOf(r *http.Request) string { return access.From(r.Context()).OrgID }

// unknown answers requests for what is not there.
func (s *Service) unknown(r *http.Request) (answer, error) {
	if err := httpapi.DrainBody(r); err != nil {
		return answer{}, err
	}
	kind, id, ofOne := strings.Cut(strings.TrimPrefix(r.URL.Path, base+"/"), "/")
	var allow string
	switch {
	case kind != "Users" && kind != "Groups" || strings.Contains(id, "/"):
		return answer{}, fault.New(fault.NotFound, "No such endpoint: %s %s; %s/ServiceProviderConfig says what there is",
			r.Method, r.URL.Path, base)
	case ofOne:
		allow = "GET, HEAD, PUT, PATCH, DELETE"
	default:
		allow = "GET, HEAD, POST"
	}
	status := http.StatusMethodNotAllowed
	return answer{status: status, allow: allow, body: errorOutput{
		Schemas: []string{errorSchema}, Status: strconv.Itoa(status),
		Detail: r.Method + " is not allowed here; allowed: " + allow,
	}}, nil
}

// readBody decodes a body. Providers send application/scim+json or application/json. It isn't
// strict about unknown fields: providers send many.
func readBody(r *http.Request, into any) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return decode(raw, into)
}

func decode(raw []byte, into any) error {
	err := json.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return refuse(invalidValue, "%s: unexpected %s", cmp.Or(wrong.Field, "the body"), wrong.Value)
	}
	if err != nil {
		return refuse(invalidSyntax, "The body is not the JSON that is expected here: %s", text.TruncateRunes(err.Error(), 200))
	}
	return nil
}

// A page is which resources to list.
type page struct {
	filter
	start, count int // start is 1 for the first one
}

// readPage reads pagination by index (RFC 7644, section 3.4.2.4). Values out of range are moved
// into it, as the RFC demands; only text that isn't a number is an error.
func readPage(r *http.Request) (p page, err error) {
	q := r.URL.Query()
	if p.start, err = number(q.Get("startIndex"), "startIndex", 1); err != nil {
		return p, err
	}
	if p.count, err = number(q.Get("count"), "count", maxPage); err != nil {
		return p, err
	}
	p.start, p.count = max(p.start, 1), min(max(p.count, 0), maxPage)
	p.filter, err = parseFilter(q.Get("filter"))
	return p, err
}

func number(value, name string, otherwise int) (int, error) {
	if value == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0, refuse(invalidValue, "%s must be a whole number", name)
	}
	return int(n), nil
}

type listOutput struct {
	Schemas      []string `json:"schemas"`
	TotalResults int      `json:"totalResults"`
	StartIndex   int      `json:"startIndex"`
	ItemsPerPage int      `json:"itemsPerPage"`
	Resources    []any    `json:"Resources"`
}

// list answers with a page. The number of resources may be lower than what was asked for.
func list(r *http.Request, total, start int, resources []any) answer {
	for i := range resources {
		resources[i] = project(r, resources[i])
	}
	return answer{status: http.StatusOK, body: listOutput{[]string{listSchema}, total, start, len(resources), resources}}
}

type metaOutput struct {
	ResourceType string `json:"resourceType"`
	Created      string `json:"created,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	Location     string `json:"location"`
}

// meta has times with milliseconds, as everywhere on the wire.
func (s *Service) meta(kind, id string, created, modified time.Time) metaOutput {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
	return metaOutput{kind, at(created), at(modified), s.URL() + "/" + kind + "s/" + id}
}

// project keeps the attributes of a resource that the query asks for; whole attributes
// only. Id and schemas are always there. Projecting the encoded form works for all resources alike.
func project(r *http.Request, resource any) any {
	wanted, unwanted := names(r, "attributes"), names(r, "excludedAttributes")
	if len(wanted)+len(unwanted) == 0 {
		return resource
	}
	raw, err := json.Marshal(resource)
	if err != nil {
		return resource
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return resource
	}
	for name := range all {
		key := strings.ToLower(name)
		if key != "id" && key != "schemas" && (len(wanted) > 0 && !wanted[key] || unwanted[key]) {
			delete(all, name)
		}
	}
	return all
}

// names are the attributes of a query parameter, in lower case: "name.givenName" asks for
// the whole name, but does not exclude it.
func names(r *http.Request, parameter string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.SplitSeq(r.URL.Query().Get(parameter), ",") {
		name = withoutSchema(strings.ToLower(strings.TrimSpace(name)))
		attribute, _, dotted := strings.Cut(name, ".")
		if attribute != "" && (!dotted || parameter == "attributes") {
			all[attribute] = true
		}
	}
	return all
}

func withoutMembers(r *http.Request) bool {
	wanted := names(r, "attributes")
	return names(r, "excludedAttributes")["members"] || len(wanted) > 0 && !wanted["members"]
}
