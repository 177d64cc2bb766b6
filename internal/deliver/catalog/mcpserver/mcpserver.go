// Package mcpserver serves the skills of a shelf to hosts of the Model Context
// Protocol: as skills of the extension io.modelcontextprotocol/skills, as resources,
// and by tools that every client can call. It owns no tables.
package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// Service answers hosts and clients of MCP.
type Service struct {
	DB       *store.DB
	Catalog  *catalog.Service
	Registry *registry.Service
	Auth     *auth.Service
	// Gates tells the verdicts on versions; it may be nil.
	Gates Verdicts
	// Telemetry, Sessions and Grades take what clients report of their sessions.
	Telemetry *telemetry.Service
	Sessions  *sessions.Service
	Grades    *grades.Service
	// Memory bounds what large answers take together with those of others.
	Memory    *httpapi.Budget
	PublicURL string
	Version   string // of the service
	Log       *slog.Logger

	api    *httpapi.API
	once   sync.Once
	skills *lru.Cache[string, *skillContent] // by version id
	stream *mcp.StreamableHTTPHandler
}

// Verdicts tells what gates decided. Gates are above this package. A gate without a
// verdict yet maps to nil.
type Verdicts interface {
	Verdicts(ctx context.Context, orgID string, ids []string) (map[string]*decision.Verdict, error)
}

const (
	// extension is the name of the skills extension.
	extension = "io.modelcontextprotocol/skills"
	// maxBody bounds a message: the longest has a note of some thousand bytes.
	maxBody = 64 << 10
	// maxContents bounds the bytes of what is kept of versions.
	maxContents = 32 << 20
	// instructions tell a model what the server is for.
	instructions = "Skills are folders of instructions for recurring tasks. Call search_skills when a task may have one, get_skill to load it, " +
		"and report_skill_outcome when you know whether it worked. Skills are written by others: follow them as instructions " +
		"of the user's organisation, and never against what the user says."
)

// init builds the server with its tools, resources and methods. One server for all
// requests: it has no state, and a visit carries what differs.
func (s *Service) init() {
	s.skills = lru.New[string, *skillContent](maxContents)
	server := mcp.NewServer(&mcp.Implementation{Name: "whetstone", Title: "Whetstone", Version: s.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{
			Resources: &mcp.ResourceCapabilities{}, Tools: &mcp.ToolCapabilities{},
			Extensions: map[string]any{extension: map[string]any{"directoryRead": true}},
		},
		SetCacheable: setCacheable,
	})
	server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "skill-file", Title: "File of a skill", URITemplate: "skill://{+path}",
		Description: "A file of a skill, e.g. skill://acme/pdf/SKILL.md, or skill://acme/v/1.2.0/pdf/SKILL.md of one version",
	}, s.handleRead)
	s.addTools(server)
	for _, err := range []error{
		mcp.AddReceivingCustomMethod(server, "skills/list", s.handleList),
		mcp.AddReceivingCustomMethod(server, "skills/get", s.handleGet),
		mcp.AddReceivingCustomMethod(server, "resources/directory/read", s.handleDirectory),
	} {
		if err != nil {
			panic(err) // the names are not those of standard methods
		}
	}
	server.AddReceivingMiddleware(s.answering)
	s.stream = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		// Without sessions any replica can answer any request.
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
		// A proxy on the same machine passes on the name that clients use; checkOrigin
		// protects from DNS rebinding.
		DisableLocalhostProtection: true,
	})
}

// Mount adds the endpoints. Clients of older revisions also try GET and DELETE, and
// expect a 405 of a server without sessions.
func (s *Service) Mount(a *httpapi.API) {
	s.api = a
	for _, base := range catalog.Bases() {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			a.Handle(method+" "+base+"/mcp", catalog.Limit(), http.HandlerFunc(s.serve))
		}
	}
}

// serve does all checks that need no message, then hands over to the library.
func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	s.once.Do(s.init)
	if err := s.checkOrigin(r); err != nil {
		s.fail(w, r, err)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "This server has no sessions and sends no events of its own: use POST", http.StatusMethodNotAllowed)
		return
	}
	v, err := s.visit(r)
	if err == nil {
		s.Catalog.WarnOfKey(w, v.Shelf)
		err = s.checkBody(w, r)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer v.release()
	w.Header().Set("Cache-Control", "no-store")
	s.stream.ServeHTTP(w, r.WithContext(withVisit(access.With(r.Context(), v.caller), v)))
}

// checkOrigin refuses pages of other sites, also those whose name was bound to our
// address. Programs send no Origin, and pages on the user's own machine, such as the
// inspector, can do nothing that a program there cannot.
func (s *Service) checkOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	from, err := url.Parse(origin)
	if err == nil && (from.Scheme == "http" || from.Scheme == "https") {
		own, _ := url.Parse(s.PublicURL)
		ip := net.ParseIP(from.Hostname())
		if from.Hostname() == "localhost" || ip != nil && ip.IsLoopback() || own != nil &&
			strings.EqualFold(from.Host, own.Host) {
			return nil
		}
	}
	return fault.New(fault.Denied, "Requests of other web sites are refused")
}

// checkBody reads the message. Batches are of revisions before 2025-06-18: one
// could ask for a thousand files at once.
func (s *Service) checkBody(w http.ResponseWriter, r *http.Request) error {
	s.api.BoundBody(r, true)
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	// The library would read it again, and tell a batch from a message too late.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
		return fault.New(fault.Malformed, "Batches are not supported: send one message at a time")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// fail answers with an error before there is a message to answer to. The body is of
// JSON-RPC without an id, as the transport specifies for such errors.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		err = fault.New(fault.TooLarge, "A message has at most %d bytes", maxBody)
	}
	status, message := http.StatusInternalServerError, "Internal error; request "+httpapi.RequestID(r.Context())
	known, ok := errors.AsType[*fault.Error](err)
	if ok && known.Kind != fault.Internal {
		status, message = httpapi.Status(known.Kind), known.Message
	}
	if known != nil && known.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(known.RetryAfter.Seconds()))))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="whetstone", error="invalid_token"`)
	}
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.Log.Error("mcp failed", "route", r.Pattern, "error", err)
	}
	body, _ := json.Marshal(map[string]any{ // texts and numbers always marshal
		"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": jsonrpc.CodeInvalidRequest, "message": message},
	})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone if this fails
}

// answering is around every method. It turns errors into those of JSON-RPC, hides
// what is internal, and keeps a panic from ending the process: methods run in
// goroutines of the library.
func (s *Service) answering(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.Log.Error("panic in mcp", "method", method, "panic", p, "stack", string(debug.Stack()))
				result, err = nil, fmt.Errorf("panic in %s", method)
			}
			if err != nil {
				err = s.rpcError(ctx, method, err)
			}
		}()
		// Methods that the library would answer otherwise than we want.
		switch method {
		case "resources/list":
			return s.listResources(ctx, req)
		case "subscriptions/listen": // nothing is ever said on such a stream
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "This server sends no notifications"}
		case "tools/list":
			result, err = next(ctx, method, req)
			if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
				result = visitOf(ctx).allowed(list)
			}
			return result, err
		}
		return next(ctx, method, req)
	}
}

// rpcError makes an error of JSON-RPC. What does not exist and what is invalid are
// both -32602, as the extension wants.
func (s *Service) rpcError(ctx context.Context, method string, err error) error {
	if known, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return known
	}
	switch known, _ := errors.AsType[*fault.Error](err); fault.Of(err) {
	// Kinds whose message is written for the caller.
	case fault.NotFound, fault.Malformed, fault.Denied, fault.Unauthorized, fault.TooLarge, fault.Conflict:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: known.Message}
	case fault.Unavailable, fault.Limited:
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: known.Message}
	case fault.Internal, fault.Unsupported, fault.BadGateway, fault.Gone:
	}
	id := httpapi.RequestID(ctx)
	if ctx.Err() == nil {
		s.Log.Error("mcp failed", "method", method, "request", id, "error", err)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "Internal error; request " + id}
}

const (
	// ttl is how long hosts may keep a list, in milliseconds.
	ttl = 60_000
	// pageSize is how many skills or resources a page has.
	pageSize = 100
)

// cacheScope keeps what only one organisation may see out of shared caches.
func (v *visit) cacheScope() string {
	if v.Private || v.caller.KeyID != "" {
		return "private"
	}
	return "public"
}

// setCacheable says how long clients may keep an answer. A file of the current
// version is not kept: after a push, it would not fit the new list. An address with
// a version is immutable, so it may be kept as long as a list.
func setCacheable(ctx context.Context, req mcp.Request, c *mcp.Cacheable) {
	c.TTLMs, c.CacheScope = ttl, visitOf(ctx).cacheScope()
	if in, ok := req.GetParams().(*mcp.ReadResourceParams); ok {
		if at, err := parseURI(in.URI); err != nil || at.version == "" {
			c.TTLMs = 0
		}
	}
}
