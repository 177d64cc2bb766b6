// Package httpapi is the HTTP framework of the API. Its middleware authenticates
// a request, authorizes it by plan and permission, applies rate limits and memory
// budgets, decodes and validates the body, encodes the answer, and turns errors
// into the API's two error bodies. A capability adds a route with a typed function
// and a Route. It owns the table rate_windows.
//
// The middleware of a typed route runs in this order: ServeHTTP (request id,
// panics, metrics), guard (key, plan, permission, disk, rate limit), validateText,
// body (content type, size, gzip, memory), then input.read decodes and validates.
package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// An Authenticator looks up the holder of a key.
type Authenticator interface {
	// Authenticate returns the caller of a bearer token. An unknown or unusable
	// one is fault.Unauthorized.
	Authenticate(ctx context.Context, token string) (access.Caller, error)
	// AuthenticateEntry also accepts keys that are for this registry entry only.
	AuthenticateEntry(ctx context.Context, token, entryID string) (access.Caller, error)
}

// Options are the dependencies and settings of an API.
type Options struct {
	DB      *store.DB
	Auth    Authenticator
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Tracer, if not nil, records requests.
	Tracer  *trace.Tracer
	Version string
	// PublicURL is the server of the OpenAPI document, "/" when empty, and Tags
	// describe its groups of routes.
	PublicURL string
	Tags      []Tag
	// Examples are bodies for the OpenAPI document: of requests by operation id, of answers
	// by that and their status, e.g. "get-api-v1-me 200". Others are made of the schemas.
	Examples map[string]json.RawMessage
	// Words describe fields and parameters.
	Words Words
	// BodyTimeout is how long a client may take to send a body, and AnswerTimeout
	// how long to receive a chunk of an answer; defaults when 0.
	BodyTimeout, AnswerTimeout time.Duration
	// Memory bounds the memory of all request bodies together. Routes that need no
	// key have a budget of their own, PublicMemory, so that anonymous clients
	// cannot use up that of customers.
	Memory, PublicMemory *Budget
	// TrustedProxies are the peers whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// Room, if not nil, reports whether the disk has room. Without room, only
	// routes that need none are served: see Route.WhenFull.
	Room func() bool
}

// A Tag describes a group of routes in the OpenAPI document: those with the same
// first word in their path, e.g. "keys".
type Tag struct{ Name, Description string }

// API holds the routes and serves them.
type API struct {
	db       *store.DB
	huma     huma.API
	mux      *http.ServeMux
	auth     Authenticator
	limiter  limiter
	buckets  *buckets
	proxies  []netip.Prefix
	log      *slog.Logger
	metrics  *metrics.Requests
	tracer   *trace.Tracer
	names    *schemaNames
	examples map[string]json.RawMessage
	words    Words
	routes   []Route
	plain    []PlainRoute
	missing  http.Handler // serves the 404 page for browsers; may be nil
	room     func() bool

	memory, publicMemory *Budget
	openAPI, docs        func() (document, error) // rendered once

	bodyTimeout, answerTimeout time.Duration
}

// A Route describes an endpoint: who may call it, its limits, and its entry in the
// OpenAPI document.
type Route struct {
	Method, Path string
	// Plan is the lowest plan of organisations that may call it; any when empty.
	Plan access.Plan
	// Permission is what the caller needs; when empty, any valid key will do.
	Permission access.Permission
	// Owns, if not nil, lets a caller without the permission pass who owns what the {id}
	// of the path names.
	Owns access.Owns
	// Role is the lowest role of people who may call it; any when empty. It is for
	// decisions about the whole organisation.
	Role access.Role
	// People routes are closed to service accounts: what they do needs a person.
	People bool
	// EntryKeys says that keys for one registry entry, which may call nothing else, may
	// call it for the entry {id} of its path.
	EntryKeys bool
	// Public routes need no key.
	Public bool
	// Precheck, if not nil, validates the headers before any of the body is read,
	// and before memory is reserved for it.
	Precheck func(http.Header) error
	// Status is that of a success; 200 when 0. An output with a method HTTPStatus
	// overrides it.
	Status  int
	Summary string
	// Also lists further statuses for the OpenAPI document: another success, or
	// an error that few routes have.
	Also []int
	// MaxBody is the largest body in bytes on the wire; DefaultMaxBody when 0.
	MaxBody int64
	// MaxInflated, when not 0, accepts Content-Encoding: gzip and bounds the
	// decompressed size (against decompression bombs).
	MaxInflated int64
	// MaxValues is how many values a JSON body may hold: each takes two bytes on
	// the wire and hundreds in memory. DefaultMaxValues when 0; raw bodies are
	// only counted if it is set.
	MaxValues int64
	// HandChecked bodies are not validated against their JSON schema: the
	// operation validates them itself, with the same messages. It is for bodies of
	// a thousand elements: +89 % sync requests/s (bench sync), +22 % signals
	// (bench signals).
	HandChecked bool
	// WhenFull routes write, and are served all the same when the disk is almost
	// full: those to sign in, and to stop what writes more. Reads and deletes are
	// always served.
	WhenFull bool
	// Limit is the rate limit of the route.
	Limit *Limit
	// Form describes the parts of a multipart body.
	Form []Part
	// Consumes lists the bodies that a RawBody may be, and Produces those of a
	// Stream. Bodies of the wrong type are refused by the operation itself.
	Consumes, Produces []Media
	// Errors, if not nil, replaces the API's error bodies.
	Errors *ErrorFormat
}

// A Part is one part of a multipart body, for the OpenAPI document.
type Part struct {
	Name, Doc      string
	File, Optional bool
}

const (
	// DefaultMaxBody is the largest JSON body in bytes.
	DefaultMaxBody = 1 << 20
	// DefaultMaxValues is how many values it may hold.
	DefaultMaxValues = 50_000
)

// Default timeouts. They allow large archives over slow connections.
const (
	defaultBodyTimeout   = 2 * time.Minute
	defaultAnswerTimeout = time.Minute
	// publicBodyTimeout is for clients without a key. Code hosts give up a webhook
	// delivery after the same time.
	publicBodyTimeout = 10 * time.Second
)

// New returns an API without routes but /openapi.json and /docs.
func New(o Options) *API {
	a := &API{
		db:       o.DB,
		mux:      http.NewServeMux(),
		auth:     o.Auth,
		limiter:  newLimiter(o.DB),
		buckets:  &buckets{cache: lru.New[bucketKey, *bucket](maxBuckets)},
		proxies:  o.TrustedProxies,
		log:      o.Log,
		metrics:  metrics.NewRequests(o.Metrics),
		tracer:   o.Tracer,
		names:    &schemaNames{},
		examples: o.Examples,
		words:    o.Words,
		room:     o.Room,

		bodyTimeout:   cmp.Or(o.BodyTimeout, defaultBodyTimeout),
		answerTimeout: cmp.Or(o.AnswerTimeout, defaultAnswerTimeout),

		memory: o.Memory, publicMemory: o.PublicMemory,
	}
	a.openAPI, a.docs = sync.OnceValues(a.renderOpenAPI), sync.OnceValues(a.renderDocs)
	a.huma = humago.New(a.mux, humaConfig(o, a.names))
	a.mux.HandleFunc("/", a.notFound)
	a.Handle("GET /openapi.json", PublicLimit(), a.serveDocument(a.openAPI))
	a.Handle("GET /docs", PublicLimit(), a.serveDocument(a.docs))
	return a
}

// None is the output of an operation whose answer has no body.
type None struct{}

// Add mounts a typed function on a route. The fields of In are filled from the
// request: those tagged path, query or header, a field Body from JSON, a field
// RawBody with the bytes, an embedded Form from a multipart body. Out is the JSON
// body of the answer, or None, or Stream.
func Add[In, Out any](a *API, fn func(context.Context, In) (Out, error), r Route) {
	// This is compiled for every pair of types, so it has little in it.
	a.add(r, reflect.TypeFor[In](), reflect.TypeFor[Out](), func(ctx context.Context, in any) (any, error) {
		return fn(ctx, *in.(*In))
	})
}

// typed is a route with a typed function.
type typed struct {
	api   *API
	route Route
	input *input
	fn    func(ctx context.Context, in any) (any, error)
	// replica is whether the function reads from the replica, if there is one.
	replica bool
}

func (a *API) add(r Route, in, out reflect.Type, fn func(context.Context, any) (any, error)) {
	r.Status = cmp.Or(r.Status, http.StatusOK)
	a.names.pkg = path.Base(in.PkgPath())
	op := a.operation(r)
	success := &huma.Response{Description: http.StatusText(r.Status)}
	op.Responses[strconv.Itoa(r.Status)] = success
	t := &typed{api: a, route: r, fn: fn, replica: r.Method == http.MethodGet}
	switch out {
	case reflect.TypeFor[None]():
	case reflect.TypeFor[Stream]():
		t.replica = false // an answer that has begun cannot be tried again
		success.Content = a.content(r.Produces)
	default:
		schema := a.huma.OpenAPI().Components.Schemas.Schema(out, true, "")
		success.Content = map[string]*huma.MediaType{jsonType: {Schema: schema}}
	}
	t.input = a.newInput(in, r, op)
	op.Middlewares = append(op.Middlewares, a.body(r, t.input.rawBody != nil))
	a.huma.OpenAPI().AddOperation(op)
	a.huma.Adapter().Handle(op, op.Middlewares.Handler(t.serve))
	a.routes = append(a.routes, r)
	a.document(r)
}

// serve reads the input, calls the function and writes its output.
func (t *typed) serve(h huma.Context) {
	req, w := humago.Unwrap(h)
	ctx := h.Context()
	in := reflect.New(t.input.of)
	raw, problem := t.input.read(h, in.Elem())
	defer releaseBody(raw)
	if problem != nil {
		problem.write(w)
		return
	}
	clearReadDeadline(ctx)
	var out any
	run := func(ctx context.Context) (err error) {
		out, err = t.fn(ctx, in.Interface())
		return err
	}
	var err error
	if t.replica {
		err = t.api.FromReplica(ctx, run)
	} else {
		err = run(ctx)
	}
	if err != nil {
		t.api.errorBody(ctx, err).write(w)
		return
	}
	switch out := out.(type) {
	case None:
		w.WriteHeader(t.route.Status)
	case Stream:
		out(w, req.WithContext(ctx))
	default:
		writeJSON(ctx, w, t.route.Status, out)
	}
}

// FromReplica lets the function read from the replica of the database, if there is one:
// see store.DB. Typed routes with the method GET do, and pages.
func (a *API) FromReplica(ctx context.Context, fn func(context.Context) error) error {
	return a.db.FromReplica(ctx, fn)
}

// writeJSON answers with a body, and with the status that the body asks for, if it
// does.
func writeJSON(ctx context.Context, w http.ResponseWriter, status int, body any) {
	if s, ok := body.(interface{ HTTPStatus() int }); ok {
		status = s.HTTPStatus()
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(status)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		return
	}
	// A value that JSON cannot express, e.g. NaN, is a bug, which serveSafely logs; a
	// client that went away is not.
	if err := huma.DefaultJSONFormat.Marshal(w, body); err != nil && ctx.Err() == nil {
		panic(err)
	}
}

// A PlainRoute is a plain handler beside the API.
type PlainRoute struct {
	Pattern string
	Limit   *Limit
}

// Handle mounts a plain handler beside the API, e.g. for health, metrics and
// pages. It needs no key and is not in the OpenAPI document. A limit is by address.
// Pages answer in HTML and have no limit here: they call API.Limit themselves. A handler
// that is an ErrorServer also answers what is refused before it.
func (a *API) Handle(pattern string, limit *Limit, handler http.Handler) {
	a.plain = append(a.plain, PlainRoute{pattern, limit})
	r := Route{Path: pattern, Limit: limit}
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		var err error
		if limit != nil {
			err = a.rateLimit(w, req, r, access.Caller{})
		}
		if err == nil && (req.Method == http.MethodGet || req.Method == http.MethodHead) {
			err = DrainBody(req)
		}
		if err != nil {
			if own, ok := handler.(ErrorServer); ok {
				own.ServeError(w, req, err)
				return
			}
			a.writeError(w, req, err)
			return
		}
		handler.ServeHTTP(w, req)
	})
}

// An ErrorServer is a plain handler of a protocol that defines its own error bodies.
type ErrorServer interface {
	ServeError(w http.ResponseWriter, r *http.Request, err error)
}

// PlainRoutes lists the plain handlers, for the tests that check each of them.
func (a *API) PlainRoutes() []PlainRoute { return slices.Clone(a.plain) }

// Routes lists the typed routes, for the tests that check each of them.
func (a *API) Routes() []Route { return slices.Clone(a.routes) }

func (a *API) operation(r Route) *huma.Operation {
	middlewares := huma.Middlewares{a.guard(r), validateText}
	if r.Errors != nil {
		middlewares = slices.Insert(middlewares, 0, r.Errors.middleware)
	}
	// The id joins method and path, e.g. "get-api-v1-me".
	words := strings.FieldsFunc(r.Method+" "+r.Path, func(c rune) bool {
		return strings.ContainsRune(" /{}._", c)
	})
	return &huma.Operation{
		OperationID: strings.ToLower(strings.Join(words, "-")),
		Method:      r.Method,
		Path:        r.Path,
		Summary:     r.Summary,
		Tags:        []string{tag(r.Path)},
		Description: describe(r),
		Security:    security(r),
		RequestBody: formBody(r),
		Responses:   a.errorResponses(r),
		Middlewares: middlewares,
	}
}
