package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// servicePaths are served by every process, whatever its role.
var servicePaths = []string{"/healthz", "/readyz", "/metrics"}

// mountService adds the routes for operators: liveness, readiness, metrics unless
// they have an address of their own, and the download of blobs by signed URLs. None needs a
// key: probes and scrapers have none. /metrics can be moved to --admin-addr.
func (p *parts) mountService(log *slog.Logger, hasAdmin bool) {
	// Liveness checks nothing: restarting the process doesn't repair a database.
	p.api.Handle("GET /healthz", nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, map[string]any{"status": "ok"})
	}))
	p.api.Handle("GET /readyz", httpapi.PublicLimit(), &readiness{check: p.check, log: log})
	if !hasAdmin {
		// A scrape counts rows. Two Prometheus servers make 8 a minute.
		scrapes := &httpapi.Limit{Requests: 120, Per: time.Minute, By: httpapi.ByAddress, Local: true}
		p.api.Handle("GET /metrics", scrapes, metricsHandler(p.metrics))
	}
	// Many machines behind one address may install many skills at once.
	downloads := &httpapi.Limit{Requests: 12_000, Per: time.Minute, By: httpapi.ByAddress, Local: true}
	for _, path := range blob.DownloadPaths() {
		p.api.Handle(path, downloads, p.links)
	}
}

// onlyService is the middleware of a worker, which serves nothing but servicePaths. Its load
// balancer must not send people there.
func onlyService(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(servicePaths, r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const (
	// readyTimeout bounds a readiness check; load balancers make many.
	readyTimeout = 3 * time.Second
	// readyTTL is how long the result of a check is cached: a check writes a file,
	// and the route is public.
	readyTTL = time.Second
)

// readiness serves /readyz: whether the process can serve requests. The names of failed checks
// are public, their errors are only logged.
type readiness struct {
	check func(context.Context) map[string]error
	log   *slog.Logger

	mu      sync.Mutex // held during a check, so that concurrent requests share its result
	checked time.Time
	status  int
	body    map[string]any
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	status, body := r.result(req.Context())
	writeStatus(w, status, body)
}

// result runs the checks, or returns the result of the last ones.
func (r *readiness) result(ctx context.Context) (int, map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < readyTTL {
		return r.status, r.body
	}
	// Others wait for the result, so the check goes on if the first client leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	status, verdict, checks := http.StatusOK, "ready", map[string]string{}
	for name, err := range r.check(ctx) {
		checks[name] = "ok"
		if err != nil {
			status, verdict = http.StatusServiceUnavailable, "not ready"
			checks[name] = "failed"
			r.log.Warn("not ready", "check", name, "error", err)
		}
	}
	r.checked, r.status, r.body = time.Now(), status, map[string]any{"status": verdict, "checks": checks}
	return r.status, r.body
}

// check checks every part that the service cannot work without.
func (p *parts) check(ctx context.Context) map[string]error {
	database := p.db.Ping(ctx)
	migrations := database // without a database its schema is unknown
	if database == nil {
		migrations = checkSchema(ctx, p.db)
	}
	return map[string]error{"database": database, "migrations": migrations, "blob": p.blobs.Check(ctx)}
}

// checkSchema fails while the schema is older than this binary, or newer
// without being compatible. An older binary keeps serving during a rolling upgrade, as long as
// the schema says that it may.
func checkSchema(ctx context.Context, db *store.DB) error {
	pending, err := db.Pending(ctx)
	if err != nil {
		return err
	}
	if pending {
		return errors.New("the schema is older than this binary")
	}
	return db.CheckSchema(ctx)
}

// no-store, so that no proxy answers a probe from its cache.
func writeStatus(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if this fails
}
