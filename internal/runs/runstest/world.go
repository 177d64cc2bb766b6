// Package runstest starts a server with suites, runs and improve runs for
// tests, on the real sources and registry, and calls its API.
package runstest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/improve"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

// A World has the services as internal/app wires them.
type World struct {
	T         *testing.T
	DB        *store.DB
	Queue     *jobs.Queue
	Auth      *auth.Service
	Blobs     blob.Bucket
	Registry  *registry.Service
	Sources   *sources.Service
	Suites    *suites.Service
	Runs      *runs.Service
	Improve   *improve.Service
	Proposals *proposals.Service
	Server    *httptest.Server

	log     *slog.Logger
	entries *entries
}

// New starts a server. The functions set fields of the services before it is
// started; without one, runs have the built-in judge.
func New(t *testing.T, db *store.DB, set ...func(*World)) *World {
	t.Helper()
	w := &World{T: t, DB: db, log: slog.New(slog.NewTextHandler(t.Output(), nil)), entries: &entries{ids: map[string]string{}}}
	w.Auth = &auth.Service{DB: db, Log: w.log}
	var err error
	w.Blobs, err = blob.Open(t.Context(), blob.Options{
		Dir: t.TempDir(), Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return "http://whetstone.example.org" },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.build(NewQueue(t, db, 0), set...)
	w.Register()
	api := httpapi.New(httpapi.Options{DB: db, Auth: w.Auth, Log: w.log, Metrics: prometheus.NewRegistry(), Version: "test"})
	w.Suites.Mount(api)
	w.Runs.Mount(api)
	w.Improve.Mount(api)
	w.Server = httptest.NewServer(api)
	t.Cleanup(w.Server.Close)
	return w
}

// NewQueue returns a queue that polls often, with so many workers for runs; 0
// means the default.
func NewQueue(t *testing.T, db *store.DB, runWorkers int) *jobs.Queue {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	queue, err := jobs.New(jobs.Options{DB: db, Log: log, Poll: 20 * time.Millisecond, RunWorkers: runWorkers})
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

// build makes the services.
func (w *World) build(queue *jobs.Queue, set ...func(*World)) {
	w.T.Helper()
	w.Queue = queue
	counts := &skills.Service{DB: w.DB, Window: 30}
	files := stored.New(nil)
	w.Registry = &registry.Service{DB: w.DB, Blobs: w.Blobs, Jobs: queue, Skills: counts, Files: files, Log: w.log}
	counts.Versions = w.Registry
	w.Sources = &sources.Service{
		DB: w.DB, Blobs: w.Blobs, Jobs: queue, Skills: counts, Files: files, Limits: skillpkg.DefaultLimits(), Log: w.log,
	}
	w.Suites = &suites.Service{DB: w.DB, Jobs: queue, Blobs: w.Blobs, Sources: w.Sources, Log: w.log}
	box, err := sandbox.New(sandbox.Options{})
	if err != nil {
		w.T.Fatal(err)
	}
	w.Runs = &runs.Service{
		DB: w.DB, Jobs: queue, Suites: w.Suites, Sources: w.Sources, Registry: w.Registry, Log: w.log,
		Sandbox: box, Packages: &taskpkg.Runner{Sandbox: box, Blobs: w.Blobs},
	}
	w.Proposals = &proposals.Service{DB: w.DB, Jobs: queue}
	w.Improve = &improve.Service{
		DB: w.DB, Jobs: queue, Suites: w.Suites, Runs: w.Runs, Proposals: w.Proposals, Log: w.log,
	}
	w.ask(judge.Options{API: judge.Builtin})
	for _, f := range set {
		f(w)
	}
}

// Register makes the queue run the jobs of all services.
func (w *World) Register() {
	w.Registry.Register()
	w.Suites.Register()
	w.Runs.Register()
	w.Improve.Register()
}

// Another returns the services of another process on the same database.
func (w *World) Another(set ...func(*World)) *World {
	w.T.Helper()
	other := *w
	other.build(NewQueue(w.T, w.DB, 0), set...)
	return &other
}

func (w *World) ask(o judge.Options) {
	w.T.Helper()
	j, err := judge.New(o)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Runs.Judge, w.Improve.Judge = j, j
}

// Scripted makes a scripted model the judge.
func Scripted(server *judgetest.Server, timeout time.Duration) func(*World) {
	return func(w *World) {
		w.T.Helper()
		w.ask(judge.Options{
			API: judge.OpenAI, URL: server.URL(judgetest.OpenAI), Model: "scripted", Key: "sk-secret", Timeout: timeout, Concurrency: 16,
		})
	}
}

// Org creates an organisation and an owner of it.
func (w *World) Org(name string) *Client {
	w.T.Helper()
	o, err := w.Auth.CreateOrg(w.T.Context(), name, access.Free)
	if err != nil {
		w.T.Fatal(err)
	}
	return w.Member(o, access.Owner)
}

// Member adds a user to an organisation.
func (w *World) Member(o auth.Organisation, role access.Role) *Client {
	w.T.Helper()
	email := fmt.Sprintf("%s-%s@example.org", role, uuid.NewString())
	u, err := w.Auth.CreateUser(w.T.Context(), auth.NewUser{OrgID: o.ID, Email: email, Role: role})
	if err != nil {
		w.T.Fatal(err)
	}
	_, raw, err := w.Auth.CreateKey(w.T.Context(), auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "test"})
	if err != nil {
		w.T.Fatal(err)
	}
	return &Client{T: w.T, W: w, Org: o, User: u, Key: raw}
}

// Work runs jobs until the test ends, or until the function that it returns is
// called.
func (w *World) Work() (stop func()) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.T.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Queue.Run(ctx); err != nil {
			w.T.Error(err)
		}
	})
	stop = func() {
		cancel()
		wg.Wait()
	}
	w.T.Cleanup(stop)
	return stop
}

// timeout is how long a test waits for other goroutines.
const timeout = 30 * time.Second

// Eventually waits until done returns true.
func Eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Count counts the rows of a FROM clause.
func (w *World) Count(from string, args ...any) int {
	w.T.Helper()
	rows, err := w.DB.Query(w.T.Context(), `SELECT COUNT(*) FROM `+from, args...)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		w.T.Fatal(err)
	}
	return n
}

// SkillText has the versions of the skill pdf.
var SkillText = map[string]string{
	"1.0.0": "---\nname: pdf\ndescription: Reads files.\n---\nUse version one.\n",
	"2.0.0": "---\nname: pdf\ndescription: Extracts tables from PDF files.\n---\nUse version two.\n",
}

// entries are the registry's entries by organisation and name.
type entries struct {
	mu  sync.Mutex
	ids map[string]string
}

// Entry returns the id of the skill pdf in the organisation's registry, with
// the versions 1.0.0 and 2.0.0 and a skill beside it that it competes with.
func (c *Client) Entry() string {
	c.T.Helper()
	c.publish("weather", "---\nname: weather\ndescription: Tells the weather of tomorrow.\n---\n")
	return c.publish("pdf", SkillText["1.0.0"], SkillText["2.0.0"])
}

// Fresh returns the id of a skill with one version.
func (c *Client) Fresh() string {
	c.T.Helper()
	return c.publish("fresh", "---\nname: fresh\ndescription: Is new.\n---\n")
}

// publish makes an entry with the versions 1.0.0, 2.0.0 and so on, once for the
// organisation.
func (c *Client) publish(name string, versions ...string) string {
	c.T.Helper()
	e := c.W.entries
	e.mu.Lock()
	defer e.mu.Unlock()
	if id, ok := e.ids[c.Org.ID+name]; ok {
		return id
	}
	var id string
	for i, text := range versions {
		archive := Archive(name, text)
		p := registry.Publication{
			OrgID: c.Org.ID, UserID: c.User.ID, Name: name, Type: registry.TypeSkill, Visibility: registry.Org,
			Version: fmt.Sprintf("%d.0.0", i+1), Source: registry.FromCLI, Archive: bytes.NewReader(archive), Size: int64(len(archive)),
		}
		var err error
		if i == 0 {
			var entry registry.Entry
			entry, _, err = c.W.Registry.Create(c.T.Context(), p)
			id = entry.ID
		} else {
			_, _, _, err = c.W.Registry.Push(c.T.Context(), id, p)
		}
		if err != nil {
			c.T.Fatal(err)
		}
	}
	e.ids[c.Org.ID+name] = id
	return id
}

// Source returns the id, without its prefix, of a new source of the
// organisation, whose snapshot is the skill pdf 2.0.0.
func (c *Client) Source() string {
	c.T.Helper()
	return c.SourceOf(SkillText["2.0.0"])
}

// SourceOf is Source for a skill pdf with this SKILL.md.
func (c *Client) SourceOf(text string) string {
	c.T.Helper()
	pkg, err := skillpkg.Read(c.T.Context(), bytes.NewReader(Archive("pdf", text)), skillpkg.DefaultLimits())
	if err != nil {
		c.T.Fatal(err)
	}
	defer pkg.Close()
	caller := access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}
	taken, err := c.W.Sources.CreateFrom(c.T.Context(), caller, sources.NewSource{Label: "pdf", Type: sources.Upload}, pkg)
	if err != nil {
		c.T.Fatal(err)
	}
	return taken.Source.ID
}
