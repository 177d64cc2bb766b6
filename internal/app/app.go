// Package app wires the service together and runs it. It is the only package
// that knows which parts there are.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/datadir"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/seal"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Options are what the service is started with.
type Options struct {
	Config  config.Config
	Version string
	Log     *slog.Logger
	// Memory is how many bytes the process may take; 0 if nothing limits it.
	Memory int64
	// Timeouts are for tests; those that are 0 have their defaults.
	Timeouts Timeouts
	// Space is for tests: how much of a folder's disk is free, and how much there
	// is in all. The system's answer when nil.
	Space func(dir string) (free, total uint64, err error)
}

// Timeouts bound what clients may take.
type Timeouts struct {
	Header time.Duration // to send the head of a request
	Body   time.Duration // to send its body
	Answer time.Duration // to take a piece of the answer
	Idle   time.Duration // until the next request
}

// App is the service, ready to run.
type App struct {
	// FirstKey is the API key made at the very first start, else empty.
	FirstKey string

	config   config.Config
	timeouts Timeouts
	memory   int64
	disk     *datadir.Reserve
	log      *slog.Logger
	keyring  *seal.Keyring
	listener net.Listener
	lock     datadir.Lock
	// closing is closed when the process begins to stop, for answers that
	// would not end by themselves.
	closing chan struct{}
	parts   *parts
}

// New opens everything the service needs, migrates the database, makes the
// first organisation if there is none, and listens.
func New(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{config: o.Config, timeouts: o.Timeouts, memory: o.Memory, log: o.Log, closing: make(chan struct{})}
	a.disk = &datadir.Reserve{Dir: o.Config.Data, Size: o.Config.ReserveBytes(), Space: o.Space, Log: o.Log}
	var db *store.DB
	defer func() {
		if err != nil {
			a.close(db)
		}
	}()
	if a.lock, err = lockData(ctx, o.Config); err != nil {
		return nil, err
	}
	if db, err = OpenDatabase(ctx, o.Config.Database); err != nil {
		return nil, err
	}
	if a.keyring, err = unlock(ctx, db, o.Config.Data, o.Config.SecretKey); err != nil {
		return nil, err
	}
	if a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.Config.Addr); err != nil {
		return nil, fmt.Errorf("addr: %w", err)
	}
	a.lock.Describe(datadir.Server{PID: os.Getpid(), Listen: a.ListenURL(), URL: a.URL()})
	platform, err := a.openPlatform(ctx, db, o.Version)
	if err != nil {
		return nil, err
	}
	if a.parts, err = a.wire(platform); err != nil {
		return nil, err
	}
	// The audit log names the command line as the one that made the first organisation.
	if a.FirstKey, err = a.parts.auth.Bootstrap(audit.By(ctx, audit.CLI), o.Config.Plan, string(o.Config.BootstrapKey)); err != nil {
		return nil, err
	}
	return a, nil
}

// close gives back what a failed start had taken.
func (a *App) close(db *store.DB) {
	if a.listener != nil {
		_ = a.listener.Close()
	}
	if db != nil {
		_ = db.Close()
	}
	a.lock.Release()
}

// lockData locks the data folder if only one process may write what is in it:
// SQLite, and blobs in files. Web processes that keep nothing there may share
// the folder; the first of them gets the lock and with it the hooks of the
// embedded code host, and the others get a lock that is not held.
func lockData(ctx context.Context, c config.Config) (datadir.Lock, error) {
	exclusive, hooks := c.KeepsData(), c.Has(config.Web) && c.Repohost == string(host.Git)
	if !exclusive && !hooks {
		return datadir.Lock{}, nil
	}
	if err := c.MakeData(); err != nil {
		return datadir.Lock{}, err
	}
	const database = "whetstone.db"
	datadir.RestrictPermissions(c.Data, database, database+"-wal", database+"-shm", database+".lock", "blobs", seal.FileName)
	return datadir.Acquire(ctx, c.Data, exclusive)
}

// OpenDatabase opens the database and brings its schema up.
func OpenDatabase(ctx context.Context, d config.Database) (*store.DB, error) {
	if d.DatabaseURL == "" {
		if err := d.MakeData(); err != nil {
			return nil, err
		}
	}
	db, err := store.Open(ctx, store.Options{URL: d.URL(), MaxConns: d.DatabaseConns})
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, jobs.Tables); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// ListenURL is where the process listens.
func (a *App) ListenURL() string { return "http://" + a.listener.Addr().String() }

// URL is where people reach the service: the public URL, or a guess from the
// address.
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

// Run serves and works until ctx is done, then lets requests and jobs end.
func (a *App) Run(ctx context.Context) error {
	defer a.lock.Release()
	defer a.parts.db.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return a.serve(ctx) })
	g.Go(func() error { return a.parts.auth.Run(ctx) })
	if a.config.Has(config.Worker) {
		working, stop := context.WithCancel(ctx)
		g.Go(func() error { return a.parts.queue.Run(working) })
		g.Go(func() error { a.watchSchema(working, stop); return nil })
	}
	err := g.Wait()
	a.log.Info("stopped")
	return err
}

// schemaInterval is how often a worker looks whether it still knows the schema.
const schemaInterval = 5 * time.Second

// watchSchema stops the jobs when a newer binary has brought the schema to a
// version that this one does not work with. The process stays, and answers
// that it is not ready.
func (a *App) watchSchema(ctx context.Context, stop func()) {
	defer stop()
	for ctx.Err() == nil {
		if err := a.parts.db.CheckSchema(ctx); fault.Is(err, fault.Conflict) {
			a.log.Error("no more jobs are run", "error", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(schemaInterval):
		}
	}
}

func (a *App) serve(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "serve")
	server := &http.Server{
		Handler:           a.parts.handler,
		ReadHeaderTimeout: cmp.Or(a.timeouts.Header, 10*time.Second),
		IdleTimeout:       cmp.Or(a.timeouts.Idle, 2*time.Minute),
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		close(a.closing)
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(a.config.DrainTimeout))
		defer cancel()
		stopped <- server.Shutdown(drain)
	}()
	if err := server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := <-stopped; err != nil {
		a.log.Warn("requests were cut off", "error", err)
		return server.Close()
	}
	return nil
}
