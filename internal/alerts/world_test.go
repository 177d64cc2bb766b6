package alerts_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/alerts"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/notify"
	"github.com/whetstone-dev/whetstone/internal/outbound"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases, clocks and each other.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// world is the service as internal/app wires it, behind a real server.
type world struct {
	t      *testing.T
	db     *store.DB
	queue  *jobs.Queue
	auth   *auth.Service
	skills *skills.Service
	alerts *alerts.Service
	server *httptest.Server
	guard  *guard
	log    *logBuffer // everything, down to debug
	// answers has the body of every answer of the API.
	answers *logBuffer
}

// setup is how a world differs from one that may post to this machine, has no
// mail server and retries at once.
type setup struct {
	guarded  bool // without --allow-private-targets
	smtpURL  string
	mailFrom string
	interval time.Duration // of the schedule; an hour if 0
	lease    time.Duration // of the queue
	workers  int           // of the queue; its default if 0
	backoff  []time.Duration
}

const publicURL = "https://whetstone.example.org"

func newWorld(t *testing.T, db *store.DB, s setup) *world {
	t.Helper()
	w := &world{t: t, db: db, guard: &guard{}, log: &logBuffer{}, answers: &logBuffer{}}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if w.queue, err = jobs.New(jobs.Options{Workers: s.workers, DB: db, Log: log, Poll: 20 * time.Millisecond, Lease: s.lease}); err != nil {
		t.Fatal(err)
	}
	w.auth = &auth.Service{DB: db, Seal: sealtest.Keyring(), Log: log}
	w.skills = &skills.Service{DB: db, Window: 30}
	blobs, err := blob.Open(t.Context(), blob.Options{
		Dir: t.TempDir(), Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return publicURL },
	})
	if err != nil {
		t.Fatal(err)
	}
	entries := &registry.Service{DB: db, Blobs: blobs, Jobs: w.queue, Skills: w.skills, Log: log}
	w.skills.Versions = entries
	w.alerts = newService(t, w, s, entries)
	w.alerts.Log = log
	w.alerts.Register()
	pushes := &telemetry.Service{
		DB: db, Blobs: blobs, Jobs: w.queue, Skills: w.skills, Auth: w.auth, Watcher: w.alerts, Retention: 90 * day, Log: log,
	}
	api := httpapi.New(httpapi.Options{DB: db, Auth: w.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	w.skills.Mount(api)
	entries.Mount(api)
	pushes.Mount(api)
	w.alerts.Mount(api)
	w.server = httptest.NewServer(api)
	t.Cleanup(w.server.Close)
	return w
}

const day = 24 * time.Hour

func newService(t *testing.T, w *world, s setup, entries *registry.Service) *alerts.Service {
	t.Helper()
	client, err := outbound.New(outbound.Options{AllowPrivate: !s.guarded, Control: w.guard.control})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := notify.New(notify.Options{HTTP: client, SMTPURL: s.smtpURL, MailFrom: s.mailFrom})
	if err != nil {
		t.Fatal(err)
	}
	service := &alerts.Service{
		DB: w.db, Jobs: w.queue, Skills: w.skills, Registry: entries, Sender: sender,
		Interval: time.Hour, AllowPrivate: !s.guarded, PublicURL: publicURL, Seal: sealtest.Keyring(),
	}
	if s.interval > 0 {
		service.Interval = s.interval
	}
	service.SetBackoff(s.backoff)
	return service
}

// A guard records dialled addresses, and refuses all but loopback.
type guard struct {
	onDial func() // if not nil

	mu     sync.Mutex
	dialed []string
}

func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dialed = append(g.dialed, address)
	if g.onDial != nil {
		g.onDial()
	}
	if !netip.MustParseAddrPort(address).Addr().IsLoopback() {
		return errors.New("stopped by the test")
	}
	return nil
}

func (g *guard) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.dialed)
}

// work runs jobs until the test ends or stop is called.
func (w *world) work() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.queue.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	stop = func() {
		cancel()
		wg.Wait()
	}
	w.t.Cleanup(stop)
	return stop
}

// settle waits until no job waits or runs.
func (w *world) settle() {
	w.t.Helper()
	eventually(w.t, "the jobs to be done", func() bool {
		counts, err := w.queue.Counts(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		return !slices.ContainsFunc(counts, func(c jobs.Count) bool { return c.Waiting+c.Running+c.Retrying > 0 })
	})
}

// patience is how long a test waits for other goroutines.
const patience = 30 * time.Second

// eventually polls until done, and fails the test after a while.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// org creates an organisation and returns its owner.
func (w *world) org(name string) *client {
	w.t.Helper()
	o, err := w.auth.CreateOrg(w.t.Context(), name, access.Team)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.member(o, access.Owner)
}

// member adds a user to an organisation.
func (w *world) member(o auth.Organisation, role access.Role, permissions ...access.Permission) *client {
	w.t.Helper()
	email := fmt.Sprintf("%s-%s@example.org", role, uuid.NewString())
	u, err := w.auth.CreateUser(w.t.Context(), auth.NewUser{OrgID: o.ID, Email: email, Role: role})
	if err != nil {
		w.t.Fatal(err)
	}
	_, raw, err := w.auth.CreateKey(w.t.Context(), auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "test", Permissions: permissions})
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{t: w.t, w: w, org: o, user: u, key: raw}
}

// evaluate evaluates the organisation n times.
func (w *world) evaluate(c *client, n int) {
	w.t.Helper()
	for range n {
		if err := w.alerts.Evaluate(w.t.Context(), c.org.ID); err != nil {
			w.t.Fatal(err)
		}
	}
}

// count counts the rows that a FROM clause gives.
func (w *world) count(from string, args ...any) int {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), `SELECT COUNT(*) FROM `+from, args...)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.db.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatal(err)
	}
}

// logBuffer is a bytes.Buffer for many goroutines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
