package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// servicePaths are answered by every process, whatever its role.
var servicePaths = []string{"/healthz", "/readyz", "/metrics"}

// mountService adds what machines ask of a process: is it alive, can it work,
// how does it do.
func (p *parts) mountService(registry *prometheus.Registry, log *slog.Logger) {
	p.api.Handle("GET /healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, map[string]any{"status": "ok"})
	}))
	p.api.Handle("GET /readyz", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.serveReady(w, r, log)
	}))
	p.api.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if files, ok := p.blobs.(*blob.Files); ok {
		p.api.Handle("/blobs/", files)
	}
}

// onlyService keeps a worker from answering anything else.
func onlyService(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(servicePaths, r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readyTimeout bounds a readiness check; a load balancer asks often.
const readyTimeout = 3 * time.Second

func (p *parts) serveReady(w http.ResponseWriter, r *http.Request, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	status, verdict := http.StatusOK, "ready"
	checks := map[string]string{}
	for name, err := range p.check(ctx) {
		checks[name] = "ok"
		if err != nil {
			status, verdict = http.StatusServiceUnavailable, "not ready"
			checks[name] = "failed"
			log.Warn("not ready", "check", name, "error", err)
		}
	}
	writeStatus(w, status, map[string]any{"status": verdict, "checks": checks})
}

// check asks every part that the service cannot work without.
func (p *parts) check(ctx context.Context) map[string]error {
	database := p.db.Ping(ctx)
	migrations := database // without a database nothing is known of its schema
	if database == nil {
		migrations = checkSchema(ctx, p.db)
	}
	return map[string]error{"database": database, "migrations": migrations, "blob": p.blobs.Check(ctx)}
}

func checkSchema(ctx context.Context, db *store.DB) error {
	pending, err := db.Pending(ctx)
	if err == nil && pending {
		err = errors.New("the schema is older than this binary")
	}
	return err
}

func writeStatus(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if this fails
}
