package repohost_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/host/git"
	"github.com/whetstone-dev/whetstone/internal/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/repohost"
	"github.com/whetstone-dev/whetstone/internal/seal"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases and git.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const secret = "webhook secret"

// sealKey encrypts tokens in the database.
var sealKey = seal.Generate()

// world is the service as internal/app wires it, behind a real server.
type world struct {
	t        *testing.T
	db       *store.DB
	queue    *jobs.Queue
	auth     *auth.Service
	registry *registry.Service
	service  *repohost.Service
	server   *httptest.Server
	repos    *hosttest.Repos
}

// newWorld serves bare repositories.
func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	repos := hosttest.NewRepos(t)
	h, err := git.New(git.Options{Dir: repos.Dir, Program: "/bin/true", URL: "http://127.0.0.1:1", Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return newWorldOn(t, db, h, repos)
}

func newWorldOn(t *testing.T, db *store.DB, h host.Host, repos *hosttest.Repos) *world {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	w := &world{t: t, db: db, repos: repos, auth: &auth.Service{DB: db, Log: log}}
	var err error
	if w.queue, err = jobs.New(jobs.Options{DB: db, Log: log, Poll: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.Context(), blob.Options{
		Dir: t.TempDir(), Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return "https://whetstone.example" },
	})
	if err != nil {
		t.Fatal(err)
	}
	keyring, err := seal.New(sealKey)
	if err != nil {
		t.Fatal(err)
	}
	counts := &skills.Service{DB: db, Window: 30}
	w.registry = &registry.Service{DB: db, Blobs: blobs, Jobs: w.queue, Skills: counts, Log: log}
	w.registry.Register()
	counts.Versions = w.registry
	w.service = &repohost.Service{
		DB: db, Jobs: w.queue, Host: h, Registry: w.registry, Secrets: []string{secret}, Interval: time.Hour,
		PublicURL: "https://whetstone.example", Seal: keyring, Log: log,
	}
	w.service.SetBackoff([]time.Duration{time.Millisecond, time.Millisecond, time.Millisecond})
	w.service.Register()
	api := httpapi.New(httpapi.Options{DB: db, Auth: w.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	w.registry.Mount(api)
	w.service.Mount(api)
	w.server = httptest.NewServer(api)
	t.Cleanup(w.server.Close)
	return w
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
	w.eventually("the jobs to be done", func() bool {
		counts, err := w.queue.Counts(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		return !slices.ContainsFunc(counts, func(c jobs.Count) bool { return c.Waiting+c.Running+c.Retrying > 0 })
	})
}

// eventually polls until done, and fails the test after a while.
func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func (w *world) reconcile() {
	w.t.Helper()
	if err := w.service.ReconcileAll(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

// org creates an organisation and returns its owner.
func (w *world) org(name string, plan access.Plan) *client {
	w.t.Helper()
	o, err := w.auth.CreateOrg(w.t.Context(), name, plan)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.member(o, access.Owner)
}

func (w *world) member(o auth.Organisation, role access.Role, permissions ...access.Permission) *client {
	w.t.Helper()
	u, err := w.auth.CreateUser(w.t.Context(), auth.NewUser{
		OrgID: o.ID, Email: fmt.Sprintf("%s%d@example.org", role, len(permissions)), Role: role,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	_, raw, err := w.auth.CreateKey(w.t.Context(), auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "test", Permissions: permissions})
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{t: w.t, w: w, org: o, user: u, key: raw}
}

// delivery is something to send to the webhook.
type delivery struct {
	id, event, body, secret, signature, contentType string
}

// send posts a delivery, signed unless it has its own signature.
func (w *world) send(d delivery) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.server.URL+base+"/webhook", strings.NewReader(d.body))
	if err != nil {
		w.t.Fatal(err)
	}
	if d.secret == "" {
		d.secret = secret
	}
	if d.signature == "" {
		d.signature = host.Sign(d.secret, []byte(d.body))
	}
	if d.signature != "none" {
		req.Header.Set(host.SignatureHeader, d.signature)
	}
	req.Header.Set(host.EventHeader, d.event)
	req.Header.Set(host.DeliveryHeader, d.id)
	req.Header.Set("Content-Type", "application/json")
	if d.contentType != "" {
		req.Header.Set("Content-Type", d.contentType)
	}
	return (&client{t: w.t, w: w}).send(req)
}

var zero = strings.Repeat("0", 40)

// hook posts the lines that git passes to the post-receive hook.
func (w *world) hook(id, fullName string, refs ...string) {
	w.t.Helper()
	var lines strings.Builder
	for i := 0; i < len(refs); i += 2 {
		fmt.Fprintf(&lines, "%s %s %s\n", zero, refs[i+1], refs[i])
	}
	push, err := git.HookPush(git.HookConfigPath(w.repos.Dir), w.repos.Bare(fullName), lines.String())
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := json.Marshal(push)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(delivery{id: id, event: "push", body: string(body)}).want(http.StatusAccepted)
}
