// Package clawhub speaks the protocol of ClawHub v1, so that the clawhub CLI and
// OpenClaw find, install, update and publish skills of the registry. A publisher's
// handle is the name of an organisation, and a slug the name of a skill. It owns
// the table clawhub_uploads.
package clawhub

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
)

// Service answers the clients of ClawHub. The protocol has no specification: what
// clients send and read was taken from their source.
type Service struct {
	DB            *store.DB
	Blobs         blob.Bucket
	Jobs          *jobs.Queue
	Catalog       *catalog.Service
	Registry      *registry.Service
	Installations *installations.Service
	Auth          *auth.Service
	Quota         *quota.Service
	// Memory bounds what large answers take together with those of others.
	Memory    *httpapi.Budget
	PublicURL string // without a slash at the end
	// Attestations are those of versions; nil for none.
	Attestations *attestations.Service
	Log          *slog.Logger

	api      *httpapi.API
	once     sync.Once
	shelves  *catalog.Cache[[]item]
	reports  *lru.Cache[string, report] // by version id
	checking singleflight.Group
	checks   *semaphore.Weighted
	packs    *semaphore.Weighted
}

// init runs with the first request, so that the struct needs no constructor. Two
// slow kinds of work have a semaphore each: validating and packing.
func (s *Service) init() {
	s.shelves = &catalog.Cache[[]item]{Registry: s.Registry, Limit: maxItems}
	s.reports = lru.New[string, report](maxReports)
	s.checks, s.packs = semaphore.NewWeighted(maxChecks), semaphore.NewWeighted(maxPacks)
}

// Mount adds the routes. Older clients drop the path of the registry's address, and
// all of them do so for logins: these are at the host's root only.
func (s *Service) Mount(a *httpapi.API) {
	s.api = a
	for _, base := range catalog.Bases() {
		for path, serve := range map[string]handler{
			"/.well-known/clawhub.json":                s.handleConfig,
			"/.well-known/clawdhub.json":               s.handleConfig,
			"/api/v1/whoami":                           s.handleWhoami,
			"/api/v1/search":                           s.handleSearch,
			"/api/v1/skills":                           s.handleList,
			"/api/v1/skills/{slug}":                    s.handleSkill,
			"/api/v1/skills/{slug}/versions":           s.handleVersions,
			"/api/v1/skills/{slug}/versions/{version}": s.handleVersion,
			"/api/v1/skills/{slug}/file":               s.handleFile,
			"/api/v1/skills/{slug}/install":            s.handleInstall,
			"/api/v1/skills/{slug}/moderation":         s.handleModeration,
			"/api/v1/skills/{slug}/verify":             s.handleVerify,
			"/api/v1/resolve":                          s.handleResolve,
			"/api/v1/download":                         s.handleDownload,
		} {
			a.Handle("GET "+base+path, catalog.Limit(), s.handler(serve))
		}
		for _, r := range []struct {
			path       string
			permission access.Permission
			maxBody    int64
			serve      handler
		}{
			{"/api/v1/skills", access.RegistryPush, maxForm, s.handlePublish},
			{"/api/v1/skills/-/upload-url", access.RegistryPush, httpapi.DefaultMaxBody, s.handleUploadURL},
			{"/api/v1/skills/-/upload/{id}", access.RegistryPush, maxFile, s.handleUpload},
			{"/api/cli/telemetry/install", access.RegistryInstall, httpapi.DefaultMaxBody, s.handleTelemetry},
		} {
			route := httpapi.Route{
				Method: "POST", Path: base + r.path, Permission: r.permission, Plan: access.Pro,
				MaxBody: r.maxBody,
			}
			a.Handle("POST "+route.Path, catalog.Limit(), s.handler(s.writer(route, r.serve)))
		}
	}
	s.mountUnsupported(a)
	// A login is polled every few seconds by every client behind one address, e.g.
	// an office, so polling is allowed far more often than starting.
	starts := &httpapi.Limit{Requests: 60, Per: time.Minute, By: httpapi.ByAddress}
	polls := &httpapi.Limit{Requests: 1200, Per: time.Minute, By: httpapi.ByAddress}
	a.Handle("POST /api/cli/device/code", starts, s.handler(s.handleDeviceCode))
	a.Handle("POST /api/cli/device/token", polls, s.handler(s.handleDeviceToken))
}

// A handler answers a visit, or returns an error before it has written anything.
type handler func(w http.ResponseWriter, r *http.Request, v visit) error

// handler finds out what a request may see, and turns errors into the plain text
// that clients show.
func (s *Service) handler(serve handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.once.Do(s.init)
		// Before anything is looked up: the databases refuse e.g. NUL in a text.
		err := httpapi.CheckText(r.URL, nil)
		var v visit
		if err == nil {
			v, err = s.visit(r)
		}
		if err == nil {
			s.Catalog.WarnOfKey(w, v.Shelf)
			err = serve(w, r.WithContext(access.With(r.Context(), v.caller)), v)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// writer is a handler of a route that changes something: the caller needs its plan
// and permission, in the order of the API, and the body is bounded.
func (s *Service) writer(route httpapi.Route, serve handler) handler {
	return func(w http.ResponseWriter, r *http.Request, v visit) error {
		switch {
		case v.caller.KeyID == "":
			return errNoKey()
		case !v.caller.Plan.Includes(route.Plan):
			return fault.New(fault.Denied, "This needs the %s plan or higher; the organisation is on %s",
				route.Plan, v.caller.Plan)
		case !v.caller.May(route.Permission):
			return fault.New(fault.Denied, "This needs the permission %s", route.Permission)
		// The address names an organisation: a key of another one must not publish
		// there.
		case v.OrgName != "" && v.OrgName != v.caller.OrgName:
			return fault.New(fault.Denied, "Your key belongs to %s, not to %s", v.caller.OrgName, v.OrgName)
		}
		// These routes bypass the frame of the API, so what it would do is done
		// here.
		if err := s.api.CheckRoom(route); err != nil {
			return err
		}
		s.boundBody(w, r, false, route.MaxBody)
		return serve(w, r, v)
	}
}

// boundBody limits how long and how large a body may be. Bodies of strangers get
// less time than those of callers with a key.
func (s *Service) boundBody(w http.ResponseWriter, r *http.Request, public bool, limit int64) {
	s.api.BoundBody(r, public)
	r.Body = http.MaxBytesReader(w, r.Body, limit)
}

// readJSON decodes a body of JSON.
func readJSON(r *http.Request, into any) error {
	err := json.NewDecoder(r.Body).Decode(into)
	if fault.Of(err) != fault.Internal {
		return err // its message is better than ours
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return err
	}
	if err != nil {
		return fault.New(fault.Malformed, "The body is not the JSON that is read here").Because(err)
	}
	return httpapi.DrainBody(r)
}

// fail answers with an error. Clients print the body as it is, and take a 404 with
// "Skill not found" for a slug that is free.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	// The only error that has a body of JSON: the CLI lists the matches.
	if several, ok := errors.AsType[*ambiguousError](err); ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(several) // the client is gone if this fails
		return
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = fault.New(fault.TooLarge, "The body is over the limit of %s", quota.Bytes(large.Limit).Short())
	}
	// The text of an internal error is not for clients; the id finds it in the log.
	status, message := http.StatusInternalServerError, "Internal error; request "+httpapi.RequestID(r.Context())
	known, ok := errors.AsType[*fault.Error](err)
	if ok && known.Kind != fault.Internal {
		status, message = httpapi.Status(known.Kind), known.Message
	}
	if known != nil && known.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(known.RetryAfter.Seconds()))))
	}
	// A client that disconnects makes calls fail, which is not worth an entry in the
	// log.
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.Log.Error("clawhub failed", "route", r.Pattern, "error", err)
	}
	http.Error(w, message, status)
}

// answer sends JSON. What one may see depends on the key in the header, so shared
// caches do not keep it.
func answer(w http.ResponseWriter, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(raw) // the client is gone if this fails
	return nil
}

// configOutput has the addresses that a client uses from then on. authBase is always
// the host's root, see Mount.
type configOutput struct {
	APIBase  string `json:"apiBase"`
	AuthBase string `json:"authBase"`
}

// handleConfig tells a client where the registry is.
func (s *Service) handleConfig(w http.ResponseWriter, _ *http.Request, v visit) error {
	return answer(w, configOutput{APIBase: s.PublicURL + v.Base, AuthBase: s.PublicURL})
}

// page is where people read about an entry.
func (s *Service) page(e registry.Entry) string { return s.PublicURL + "/registry/" + e.ID }

// trimHandle accepts a handle as people write it, e.g. "@acme".
func trimHandle(handle string) string { return strings.TrimLeft(strings.TrimSpace(handle), "@") }
