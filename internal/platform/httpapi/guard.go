package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// guard is the middleware that authenticates and authorizes a request, in the
// order of the API contract: key, plan, permission. Then it checks that the disk
// has room, and the rate limit.
func (a *API) guard(r Route) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		req, w := humago.Unwrap(ctx)
		caller, err := a.authorize(req, r)
		if err != nil {
			a.writeError(w, req, err)
			return
		}
		if err := a.CheckRoom(r); err != nil {
			a.writeError(w, req, err)
			return
		}
		if r.Limit != nil {
			if err := a.rateLimit(w, req, r, caller); err != nil {
				a.writeError(w, req, err)
				return
			}
		}
		next(huma.WithContext(ctx, access.With(ctx.Context(), caller)))
	}
}

// authorize returns the caller if the route's Precheck, plan, permission and role
// allow the request.
func (a *API) authorize(req *http.Request, r Route) (access.Caller, error) {
	if r.Precheck != nil {
		if err := r.Precheck(req.Header); err != nil {
			return access.Caller{}, err
		}
	}
	if r.Public {
		return access.Caller{}, nil
	}
	token, err := bearerToken(req)
	if err != nil {
		return access.Caller{}, err
	}
	authenticate := a.auth.Authenticate
	if r.EntryKeys {
		authenticate = func(ctx context.Context, token string) (access.Caller, error) {
			return a.auth.AuthenticateEntry(ctx, token, req.PathValue("id"))
		}
	}
	caller, err := authenticate(req.Context(), token)
	if err != nil {
		return access.Caller{}, err
	}
	setCaller(req.Context(), caller)
	if r.Plan != "" && !caller.Plan.Includes(r.Plan) {
		return access.Caller{}, fault.New(fault.Denied,
			"This needs the %s plan or higher; the organisation is on %s", r.Plan, caller.Plan)
	}
	if err := CheckPermission(req, r, caller); err != nil {
		return access.Caller{}, err
	}
	if r.People && caller.ServiceAccount {
		return access.Caller{}, fault.New(fault.Denied, "This needs a person; a service account cannot do it")
	}
	if r.Role != "" && !caller.Role.Includes(r.Role) {
		return access.Caller{}, fault.New(fault.Denied, "This needs the role %s", r.Role)
	}
	return caller, nil
}

// CheckPermission refuses a caller who has neither the permission that the route needs
// nor owns what the request is about.
func CheckPermission(req *http.Request, r Route, c access.Caller) error {
	if r.Permission == "" || c.May(r.Permission) {
		return nil
	}
	if r.Owns != nil {
		if owns, err := r.Owns(req.Context(), c, req.PathValue("id")); err != nil || owns {
			return err
		}
	}
	return fault.New(fault.Denied, "This needs the permission %s", r.Permission)
}

// roomWait is the Retry-After of a full disk.
const roomWait = 30 * time.Second

// CheckRoom refuses requests that write while the disk is almost full. A route that
// needs only the permission to read counts as a read, whatever its method.
func (a *API) CheckRoom(r Route) error {
	writes := r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodDelete
	if !writes || r.WhenFull || r.Permission == access.Read || a.room == nil || a.room() {
		return nil
	}
	return fault.New(fault.Unavailable, "The server's disk is almost full: only reads, deletes and sign-ins are served"+
		" until there is room. Delete what is not needed, or ask the operator").After(roomWait)
}

func bearerToken(req *http.Request) (string, error) {
	header := req.Header.Get("Authorization")
	// The variable OTEL_EXPORTER_OTLP_HEADERS is percent-encoded by its
	// specification, but not every agent decodes it.
	if key, ok := strings.CutPrefix(header, "Bearer%20"); ok {
		header = "Bearer " + key
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", fault.New(fault.Unauthorized, "Missing API key: send the header Authorization: Bearer <API_KEY>")
	}
	return token, nil
}

// rateLimit applies the rate limit of a route and sets the RateLimit headers.
func (a *API) rateLimit(w http.ResponseWriter, req *http.Request, r Route, caller access.Caller) error {
	if r.Limit.Local {
		return r.Limit.answer(w.Header(), a.buckets.take(r, ClientAddr(req.Context()), time.Now()))
	}
	now := newWindow(r.Limit.subject(req, r, caller), r.Limit.Per)
	state, known := req.Context().Value(stateKey{}).(*requestState)
	if known && r.Limit.InTx && a.limiter.hasRoom(now, *r.Limit) {
		state.uncounted = &uncounted{request: req.Context(), limiter: a.limiter, window: now, limit: *r.Limit}
		return nil
	}
	used, err := a.limiter.take(req.Context(), now, *r.Limit)
	if err != nil {
		return err
	}
	return r.Limit.answer(w.Header(), used)
}
