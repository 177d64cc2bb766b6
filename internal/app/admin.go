package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// metricsHandler serves the metrics, as OpenMetrics if the client prefers that, which
// has exemplars.
func metricsHandler(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// AdminURL is the URL of --admin-addr; "" without it.
func (a *App) AdminURL() string {
	if a.admin == nil {
		return ""
	}
	return "http://" + a.admin.Addr().String()
}

// adminHandler serves what is for operators only. Who reaches the address may read
// the profiles, and make the process spend time on them: it needs no key, so that
// Prometheus and `go tool pprof` can use it as they are. The check of the host is against DNS
// rebinding: a page in the operator's browser could otherwise read the profiles of a process on
// loopback.
func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler(a.metrics))
	// The import also adds them to http.DefaultServeMux, which nothing serves.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// /debug/pprof/cmdline is left out: a secret may be given as a flag.
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local != nil && local.IP.IsLoopback() && !isLocalHost(r.Host) {
			http.Error(w, "this address is reached as localhost or by its number", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLocalHost reports whether a Host header is "localhost" or an address. A name that an
// attacker controls is neither.
func isLocalHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	_, err = netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// serveAdmin serves --admin-addr until the context ends. It does not wait for those
// who read: a profile may take minutes.
func (a *App) serveAdmin(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "serve admin-addr")
	// There is no WriteTimeout: a CPU profile takes as long as its query says.
	server := &http.Server{
		Handler:           a.adminHandler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	// Close, not Shutdown: nothing here is worth waiting for.
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(a.admin); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
