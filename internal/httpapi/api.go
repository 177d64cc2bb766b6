// Package httpapi is the frame in which every route stands: it authenticates,
// checks plan and permission, limits, decodes, validates and encodes, and
// turns errors into the interface's two bodies. A capability hands it typed
// functions, one line a route. It owns the table rate_windows.
package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// An Authenticator finds out who holds a key.
type Authenticator interface {
	// Authenticate returns the caller behind a bearer token, or an error of
	// kind fault.Unauthorized.
	Authenticate(ctx context.Context, token string) (access.Caller, error)
}

// Options are what the frame needs.
type Options struct {
	DB      *store.DB
	Auth    Authenticator
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Version string
	// BodyTimeout is how long a client may take to send a body, and
	// AnswerTimeout how long to take a piece of an answer; defaults when 0.
	BodyTimeout, AnswerTimeout time.Duration
	// Memory is what the bodies of requests may take together, and PublicMemory
	// the same for those that need no key: strangers take none from customers.
	Memory, PublicMemory *Budget
	// TrustedProxies are the peers whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Room, if not nil, reports whether there is room on the disk. Without it
	// only routes are served that need none: see Route.WhenFull.
	Room func() bool
}

// API holds the routes and serves them.
type API struct {
	huma    huma.API
	mux     *http.ServeMux
	auth    Authenticator
	limiter limiter
	buckets *buckets
	proxies []netip.Prefix
	log     *slog.Logger
	metrics metrics
	names   *schemaNames
	routes  []Route
	plain   []PlainRoute
	missing http.Handler // answers people whom no route does; may be nil
	room    func() bool

	memory, publicMemory *Budget
	openAPI, docs        func() (document, error) // made once

	bodyTimeout, answerTimeout time.Duration
}

// A Route is one line of the interface's tables.
type Route struct {
	Method, Path string
	// Plan the organisation must be on, or a higher one; none when empty.
	Plan access.Plan
	// Permission the caller must have; none when empty: any good key will do.
	Permission access.Permission
	// Public routes ask for no key.
	Public bool
	// Precheck, if not nil, looks at the headers before anything of the body is
	// read, or room is taken for it.
	Precheck func(http.Header) error
	// Status of a success; 200 when 0. An output with a method HTTPStatus
	// decides for itself.
	Status  int
	Summary string
	// Also are further statuses that the operation answers, for the OpenAPI
	// document: another success, or an error that few routes have.
	Also []int
	// MaxBody is the largest body in bytes on the wire; DefaultMaxBody when 0.
	MaxBody int64
	// MaxInflated, when not 0, accepts Content-Encoding: gzip up to this size.
	MaxInflated int64
	// MaxValues is how many values a JSON body may hold: each takes two bytes on
	// the wire and hundreds in memory. DefaultMaxValues when 0; raw bodies are
	// counted only if it is set.
	MaxValues int64
	// HandChecked bodies are decoded but not validated against their schema:
	// for the hot routes, which check by hand.
	HandChecked bool
	// WhenFull routes are served when there is no room on the disk, although they
	// write: they let somebody sign in, or end what writes more. Reads and
	// deletes always are.
	WhenFull bool
	// Limit bounds the requests of one subject on this route.
	Limit *Limit
	// Form describes the parts of a multipart body.
	Form []Part
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

// How long clients may take unless the options say otherwise. Large archives
// come and go over slow lines.
const (
	defaultBodyTimeout   = 2 * time.Minute
	defaultAnswerTimeout = time.Minute
	// publicBodyTimeout is for senders without a key; code hosts give up a
	// delivery after as long.
	publicBodyTimeout = 10 * time.Second
)

// New returns a frame without routes.
func New(o Options) *API {
	a := &API{
		mux:     http.NewServeMux(),
		auth:    o.Auth,
		limiter: newLimiter(o.DB),
		buckets: newBuckets(),
		proxies: o.TrustedProxies,
		log:     o.Log,
		metrics: newMetrics(o.Metrics),
		names:   &schemaNames{},
		room:    o.Room,

		bodyTimeout:   cmp.Or(o.BodyTimeout, defaultBodyTimeout),
		answerTimeout: cmp.Or(o.AnswerTimeout, defaultAnswerTimeout),

		memory: o.Memory, publicMemory: o.PublicMemory,
	}
	a.openAPI, a.docs = sync.OnceValues(a.makeOpenAPI), sync.OnceValues(a.makeDocs)
	a.huma = humago.New(a.mux, humaConfig(o.Version, a.names))
	a.mux.HandleFunc("/", a.notFound)
	a.Handle("GET /openapi.json", PublicLimit(), a.serveDocument(a.openAPI))
	a.Handle("GET /docs", PublicLimit(), a.serveDocument(a.docs))
	return a
}

// None is the output of an operation that answers without a body.
type None struct{}

// Add mounts a typed function on a route. In's fields are filled from the
// request: tags path, query and header, a field Body for JSON, a field RawBody
// for bytes, an embedded Form for a multipart body. Out is the JSON body of the
// answer, or None, or Stream.
func Add[In, Out any](a *API, fn func(context.Context, In) (Out, error), r Route) {
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	run := func(ctx context.Context, in *In) (Out, error) {
		bodyIsRead(ctx)
		return fn(ctx, *in)
	}
	op := a.operation(r)
	a.names.pkg = path.Base(reflect.TypeFor[In]().PkgPath())
	switch any(*new(Out)).(type) {
	case None:
		huma.Register(a.huma, op, func(ctx context.Context, in *In) (*struct{}, error) {
			_, err := run(ctx, in)
			return nil, a.failure(ctx, err)
		})
	case Stream:
		op.Metadata = map[string]any{anyType: true}
		op.Responses = streamResponses(op.Responses, r.Status)
		huma.Register(a.huma, op, func(ctx context.Context, in *In) (*streamOutput, error) {
			out, err := run(ctx, in)
			if err != nil {
				return nil, a.failure(ctx, err)
			}
			return newStreamOutput(ctx, any(out).(Stream)), nil
		})
	default:
		huma.Register(a.huma, op, func(ctx context.Context, in *In) (*output[Out], error) {
			out, err := run(ctx, in)
			if err != nil {
				return nil, a.failure(ctx, err)
			}
			return &output[Out]{Status: status(out, r.Status), Body: out}, nil
		})
	}
	a.routes = append(a.routes, r)
	a.document(r)
}

type output[Out any] struct {
	Status int
	Body   Out
}

func status(out any, fallback int) int {
	if s, ok := out.(interface{ HTTPStatus() int }); ok {
		return s.HTTPStatus()
	}
	return fallback
}

// A PlainRoute is a plain handler beside the API.
type PlainRoute struct {
	Pattern string
	Limit   *Limit
}

// Handle mounts a plain handler beside the API: health, metrics, pages. It
// asks for no key and is not in the OpenAPI document. A limit is by address;
// pages, which answer in HTML, have none here and count for themselves.
func (a *API) Handle(pattern string, limit *Limit, handler http.Handler) {
	a.plain = append(a.plain, PlainRoute{pattern, limit})
	r := Route{Path: pattern, Limit: limit}
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		var err error
		if limit != nil {
			err = a.limit(w, req, r, access.Caller{})
		}
		if err == nil && (req.Method == http.MethodGet || req.Method == http.MethodHead) {
			err = DrainBody(req)
		}
		if err != nil {
			a.writeError(w, req, err)
			return
		}
		handler.ServeHTTP(w, req)
	})
}

// PlainRoutes lists the plain handlers, for the tests that check each of them.
func (a *API) PlainRoutes() []PlainRoute { return slices.Clone(a.plain) }

// Routes lists the typed routes, for the tests that check each of them.
func (a *API) Routes() []Route { return slices.Clone(a.routes) }

func (a *API) operation(r Route) huma.Operation {
	maxBody := r.MaxBody
	if maxBody == 0 {
		maxBody = DefaultMaxBody
	}
	return huma.Operation{
		OperationID:      operationID(r),
		Method:           r.Method,
		Path:             r.Path,
		Summary:          r.Summary,
		Tags:             []string{tag(r.Path)},
		Description:      describe(r),
		Security:         security(r),
		DefaultStatus:    r.Status,
		RequestBody:      formBody(r),
		Responses:        errorResponses(r),
		MaxBodyBytes:     -1, // body limits them, and says so in the contract's words
		BodyReadTimeout:  a.bodyTime(r.Public),
		SkipValidateBody: r.HandChecked,
		Middlewares:      huma.Middlewares{a.guard(r), validateText, a.body(r, maxBody)},
	}
}
