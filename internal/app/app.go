// Package app wires the service together and runs it. It is the only package that
// knows all capabilities and the concrete drivers. It owns no tables.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/app/demo"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/datadir"
	"github.com/whetstone-dev/whetstone/internal/platform/metrics"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/trace"
)

// Options are the settings and dependencies of the service. Config has passed Check.
type Options struct {
	Config  config.Config
	Version string
	Log     *slog.Logger
	Memory  Memory
	// Timeouts are for tests; 0 means the default.
	Timeouts Timeouts
	// Space is for tests: the free bytes and the size of a folder's disk; those of
	// the system when nil.
	Space func(dir string) (free, total uint64, err error)
}

// Timeouts bound how long clients may take. They are what keeps slow clients from holding
// connections and memory for ever.
type Timeouts struct {
	Header time.Duration // to send the headers of a request
	Body   time.Duration // to send its body
	Answer time.Duration // to receive a chunk of the answer
	Idle   time.Duration // until the next request on a connection
}

// App is the service, ready to run. It is used once: New, then Run.
type App struct {
	// FirstKey is the API key created at the very first start, else empty.
	FirstKey string

	// The fields below are set by New and not changed afterwards.
	config   config.Config
	timeouts Timeouts
	memory   Memory
	disk     *datadir.Reserve
	log      *slog.Logger
	keyring  *seal.Keyring
	metrics  *prometheus.Registry
	tracer   *trace.Tracer // nil if traces are sent nowhere
	listener net.Listener
	admin    net.Listener // nil without --admin-addr
	lock     datadir.Lock
	// closing is closed when the process starts to shut down, to end answers that
	// would not end by themselves (server-sent events).
	closing chan struct{}
	parts   *parts
	// receiver takes what the demo's alerts and events send; nil without --demo.
	receiver *demo.Receiver
}

// New opens everything the service needs, migrates the database, creates the first
// organisation if there is none, and listens. The order matters: the lock comes before the
// database, which only one process may open, and the listeners before the parts, which need the
// address to name themselves. If it fails, everything that was opened is closed.
func New(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{config: o.Config, timeouts: o.Timeouts, memory: o.Memory, log: o.Log, closing: make(chan struct{})}
	a.disk = &datadir.Reserve{Dir: o.Config.Data, Size: o.Config.ReserveBytes(), Space: o.Space, Log: o.Log}
	a.startTracing()
	var db *store.DB
	defer func() {
		if err != nil {
			a.close(db)
		}
	}()
	if a.lock, err = lockData(ctx, o.Config); err != nil {
		return nil, err
	}
	a.metrics = newRegistry(o.Version)
	statements := &store.Statements{
		Metrics: metrics.NewStatements(a.metrics), Slow: time.Duration(o.Config.SlowQuery), Log: a.logFor("store"),
		Traces: a.tracer != nil,
	}
	opened := store.Options{Watch: statements, CacheMemory: a.memory.Database}
	if o.Config.DatabaseReadURL != "" {
		opened.Replica = &store.Replica{
			URL: string(o.Config.DatabaseReadURL), MaxLag: time.Duration(o.Config.DatabaseReadLag),
			Metrics: metrics.NewReplica(a.metrics), Log: a.logFor("store"),
		}
	}
	if db, err = openDatabase(ctx, o.Config.Database, opened); err != nil {
		return nil, err
	}
	// Before anything else reads the database: a wrong key must stop the start, not a job
	// later.
	if a.keyring, err = loadKeyring(ctx, db, o.Config.Data, o.Config.SecretKey); err != nil {
		return nil, err
	}
	if a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.Config.Addr); err != nil {
		return nil, fmt.Errorf("addr: %w", err)
	}
	if o.Config.AdminAddr != "" {
		if a.admin, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.Config.AdminAddr); err != nil {
			return nil, fmt.Errorf("admin-addr: %w", err)
		}
	}
	// So that commands on the same folder, e.g. the doctor, find the server.
	a.lock.Describe(datadir.Server{PID: os.Getpid(), Listen: a.ListenURL(), URL: a.URL()})
	platform, err := a.openPlatform(ctx, db, o.Version)
	if err != nil {
		return nil, err
	}
	if a.parts, err = a.wire(platform); err != nil {
		return nil, err
	}
	// The audit log shows the operator as the creator of the first organisation.
	a.FirstKey, err = a.parts.auth.Bootstrap(audit.By(ctx, audit.CLI), o.Config.Plan, string(o.Config.BootstrapKey))
	if err != nil {
		return nil, err
	}
	return a, nil
}

// close releases the resources of a failed start.
func (a *App) close(db *store.DB) {
	for _, l := range []net.Listener{a.listener, a.admin} {
		if l != nil {
			_ = l.Close()
		}
	}
	if db != nil {
		_ = db.Close()
	}
	a.lock.Release()
}

// lockData locks the data folder if only one process may write what is in it:
// SQLite, and blobs in files. Web processes that keep nothing there may share
// the folder; the first of them gets the lock and with it the hooks of the
// embedded code host, and the others get a lock that is not held. The lock is advisory (flock)
// and ends with the process, also if it crashes.
func lockData(ctx context.Context, c config.Config) (datadir.Lock, error) {
	exclusive, hooks := c.KeepsData(), c.Has(config.Web) && c.Repohost == string(host.Git)
	if !exclusive && !hooks {
		return datadir.Lock{}, nil
	}
	if err := c.MakeData(); err != nil {
		return datadir.Lock{}, err
	}
	// Folders of older versions, or restored by hand, may be readable by others.
	datadir.RestrictPermissions(c.Data, "whetstone.db", "whetstone.db-wal", "whetstone.db-shm", "whetstone.db.lock",
		"blobs", seal.FileName)
	return datadir.Acquire(ctx, c.Data, exclusive)
}

// OpenDatabase opens the database and migrates its schema. Commands use it beside a running
// server; migrations are serialised by the store.
func OpenDatabase(ctx context.Context, d config.Database) (*store.DB, error) {
	return openDatabase(ctx, d, store.Options{})
}

// openDatabase is OpenDatabase with the options of a server.
func openDatabase(ctx context.Context, d config.Database, o store.Options) (*store.DB, error) {
	if d.DatabaseURL == "" {
		if err := d.MakeData(); err != nil {
			return nil, err
		}
	}
	o.URL, o.MaxConns = d.URL(), d.DatabaseConns
	db, err := store.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// OpenExisting is OpenDatabase for commands that administer an installation: it
// refuses to create a database, which would be a second one in the wrong folder.
func OpenExisting(ctx context.Context, d config.Database) (*store.DB, error) {
	if path, ok := strings.CutPrefix(d.URL(), "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.NotFound, "There is no database at %s: name the server's folder with --data, "+
				"or its database with --database-url; `whetstone migrate` creates one", path)
		}
	}
	return OpenDatabase(ctx, d)
}

// ListenURL is the URL of the address on which the process listens.
func (a *App) ListenURL() string { return "http://" + a.listener.Addr().String() }

// URL is the URL under which people reach the service: the public URL of the
// settings, or a guess from the address. 0.0.0.0 and :: are addresses to listen on, not to go
// to; people try it out on localhost.
func (a *App) URL() string {
	if a.config.PublicURL != "" {
		return strings.TrimRight(a.config.PublicURL, "/")
	}
	addr, ok := a.listener.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d", addr.Port)
	}
	return a.ListenURL()
}

// Run serves requests and runs jobs until ctx is done, and then shuts down
// gracefully: running requests and jobs have the drain timeout to finish. If one of the parts
// fails, the context of all ends, and the error is the result.
func (a *App) Run(ctx context.Context) error {
	// Deferred calls run last to first: the spans of the last requests are sent, then the
	// database is closed, then the folder is free for the next process.
	defer a.lock.Release()
	defer a.parts.db.Close()
	defer a.sendTraces(ctx)()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.serve(ctx) })
	if a.admin != nil {
		g.Go(func() error { return a.serveAdmin(ctx) })
	}
	g.Go(func() error { return a.parts.auth.Run(ctx) })
	if a.receiver != nil {
		g.Go(func() error { return a.receiver.Run(ctx) })
	}
	g.Go(func() error { a.parts.db.WatchReplica(ctx); return nil })
	// A worker has an extra context, since its jobs may have to stop while it serves on.
	if a.config.Has(config.Worker) {
		working, stop := context.WithCancel(ctx)
		g.Go(func() error { return a.parts.queue.Run(working) })
		g.Go(func() error { a.watchSchema(working, stop); return nil })
	}
	err := errors.Join(g.Wait(), a.parts.agents.Close())
	a.log.Info("stopped")
	return err
}

// schemaInterval is how often a worker checks the version of the schema.
const schemaInterval = 5 * time.Second

// watchSchema stops running jobs when a newer binary has migrated the schema to a
// version that is incompatible with this one. The process keeps running, and
// /readyz reports that it is not ready. Ending the process would make its supervisor restart
// the old binary again and again. A check that fails for another reason, e.g. a database that
// is down, changes nothing.
func (a *App) watchSchema(ctx context.Context, stop func()) {
	defer stop()
	for ctx.Err() == nil {
		if err := a.parts.db.CheckSchema(ctx); fault.Is(err, fault.Conflict) {
			a.log.Error("jobs are stopped: the schema is incompatible", "error", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(schemaInterval):
		}
	}
}

// serve serves the main address until the context ends. Requests that outlast the drain timeout
// are cut off.
func (a *App) serve(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "serve")
	server := a.newServer()
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		// Before Shutdown, which would wait for server-sent events until the timeout.
		close(a.closing)
		// ctx is done by now.
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(a.config.DrainTimeout))
		defer cancel()
		stopped <- server.Shutdown(drain)
	}()
	if err := server.Serve(newDrainListener(a.listener)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	// Serve returns at once when Shutdown begins; the requests go on until it returns.
	if err := <-stopped; err != nil {
		a.log.Warn("requests were cut off by the shutdown", "error", err)
		return server.Close()
	}
	return nil
}

// newServer returns the server of the main address. It speaks HTTP/1.1, and HTTP/2 without TLS
// ("h2c"), which gRPC needs. There is no WriteTimeout, which would cut long downloads: httpapi
// sets deadlines for each chunk. Headers are bounded well below net/http's 1 MiB, since each
// connection of anybody may take as much.
func (a *App) newServer() *http.Server {
	headerTimeout := cmp.Or(a.timeouts.Header, 10*time.Second)
	server := &http.Server{
		Handler:           a.parts.handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       cmp.Or(a.timeouts.Idle, 2*time.Minute),
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		Protocols:         &http.Protocols{},
		// What a client sends ahead of its handler is in no memory budget, so it is no
		// more than a connection of HTTP/1.1 takes in the kernel.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          100,
			MaxReadFrameSize:              16 << 10,
			MaxReceiveBufferPerConnection: 64 << 10,
			MaxReceiveBufferPerStream:     64 << 10,
			SendPingTimeout:               cmp.Or(a.timeouts.Idle, time.Minute),
			WriteByteTimeout:              cmp.Or(a.timeouts.Answer, time.Minute),
		},
		// net/http waits without end for the first bytes, which tell HTTP/2 from HTTP/1.1.
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			_ = c.SetReadDeadline(time.Now().Add(headerTimeout)) // the first read fails as well
			return ctx
		},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}
