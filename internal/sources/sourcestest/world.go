// Package sourcestest is a server with sources and suggestions, and a client
// for it: both capabilities' tests use them, since the detail of a source shows
// its suggestions.
package sourcestest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/host/git"
	"github.com/whetstone-dev/whetstone/internal/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/repohost"
	"github.com/whetstone-dev/whetstone/internal/runs"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suggestions"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// A World is the service as internal/app wires it, behind a real server. Only
// the judge of runs is scripted.
type World struct {
	T           *testing.T
	DB          *store.DB
	Blobs       blob.Bucket
	Dir         string // of the blobs
	Queue       *jobs.Queue
	Auth        *auth.Service
	Repos       *hosttest.Repos // of the code host
	Repohost    *repohost.Service
	Sources     *sources.Service
	Suggestions *suggestions.Service
	Suites      *suites.Service
	Server      *httptest.Server

	router router
}

const retention = 90 * 24 * time.Hour

// New starts a server.
func New(t *testing.T, db *store.DB) *World {
	t.Helper()
	w := &World{T: t, DB: db, Dir: t.TempDir(), Repos: hosttest.NewRepos(t)}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	var err error
	w.Blobs, err = blob.Open(t.Context(), blob.Options{
		Dir: w.Dir, Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return "http://127.0.0.1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.Queue, err = jobs.New(jobs.Options{DB: db, Log: log, Poll: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	w.Auth = &auth.Service{DB: db, Log: log}
	counts := &skills.Service{DB: db, Window: 30}
	entries := &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Log: log}
	counts.Versions = entries
	pushes := &telemetry.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Auth: w.Auth, Retention: retention, Log: log,
	}
	host, err := git.New(git.Options{Dir: w.Repos.Dir})
	if err != nil {
		t.Fatal(err)
	}
	w.Repohost = &repohost.Service{DB: db, Jobs: w.Queue, Host: host, Log: log}
	w.Sources = &sources.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Repohost: w.Repohost, Files: stored.New(nil),
		Limits: skillpkg.DefaultLimits(), Log: log,
	}
	w.Suites = &suites.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Sources: w.Sources, Log: log}
	trials := &runs.Service{
		DB: db, Jobs: w.Queue, Suites: w.Suites, Sources: w.Sources, Registry: entries, Judge: w.judge(), Log: log,
	}
	w.Suggestions = &suggestions.Service{
		DB: db, Jobs: w.Queue, Sources: w.Sources, Telemetry: pushes, Suites: w.Suites, Runs: trials,
	}
	pushes.Watcher = w.Suggestions
	w.Sources.Suggester, w.Sources.Dependent, trials.Suggester = w.Suggestions, w.Suggestions, w.Suggestions
	pushes.Register()
	w.Sources.Register()
	w.Suites.Register()
	trials.Register()
	w.Suggestions.Register()
	api := httpapi.New(httpapi.Options{DB: db, Auth: w.Auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	pushes.Mount(api)
	w.Sources.Mount(api)
	w.Suites.Mount(api)
	trials.Mount(api)
	w.Suggestions.Mount(api)
	w.Server = httptest.NewServer(api)
	t.Cleanup(w.Server.Close)
	return w
}

// Work runs jobs until the test ends.
func (w *World) Work() {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.T.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.Queue.Run(ctx); err != nil {
			w.T.Error(err)
		}
	})
	w.T.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// Settle waits until the queue is empty.
func (w *World) Settle() {
	w.T.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		counts, err := w.Queue.Counts(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		if !slices.ContainsFunc(counts, func(c jobs.Count) bool { return c.Waiting+c.Running+c.Retrying > 0 }) {
			return
		}
		if time.Now().After(deadline) {
			w.T.Fatalf("jobs are not done: %+v", counts)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Derive derives the suggestions of a source now.
func (w *World) Derive(c *Client, sourceID string) {
	w.T.Helper()
	if err := w.Suggestions.Derive(w.T.Context(), c.Org.ID, sourceID); err != nil {
		w.T.Fatal(err)
	}
}

// Org makes an organisation and an owner of it.
func (w *World) Org(name string) *Client {
	w.T.Helper()
	o, err := w.Auth.CreateOrg(w.T.Context(), name, access.Free)
	if err != nil {
		w.T.Fatal(err)
	}
	return w.Member(o, access.Owner)
}

// Member adds a person to an organisation.
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

// Bind binds an installation of the code host to the client's organisation.
func (c *Client) Bind(id int64, account string) {
	c.T.Helper()
	_, err := c.W.Repohost.Bind(c.T.Context(), repohost.Installation{
		OrgID: c.Org.ID, InstallationID: id, AccountLogin: account, AccountType: "Organization",
	})
	if err != nil {
		c.T.Fatal(err)
	}
}

// Skill adds a skill.
func (w *World) Skill(c *Client, name string) (id string) {
	w.T.Helper()
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(w.T.Context(), tx, c.Org.ID, name)
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return id
}

// Count counts the rows that a FROM clause gives.
func (w *World) Count(from string, args ...any) int {
	w.T.Helper()
	rows, err := w.DB.Query(w.T.Context(), `SELECT COUNT(*) FROM `+from, args...)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		w.T.Fatal(err)
	}
	return n
}

// Exec runs a statement.
func (w *World) Exec(sql string, args ...any) {
	w.T.Helper()
	if _, err := w.DB.Exec(w.T.Context(), sql, args...); err != nil {
		w.T.Fatal(err)
	}
}

// BlobKeys lists the blobs of snapshots.
func (w *World) BlobKeys() []string {
	w.T.Helper()
	keys := []string{}
	for info, err := range w.Blobs.List(w.T.Context(), "sources/") {
		if err != nil {
			w.T.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// Tables are those of both capabilities.
var Tables = []string{"cloud_sources", "source_snapshots", "source_reports", "source_suggestions", "source_reviews"}

// WantNothing checks that neither rows nor blobs were stored.
func (w *World) WantNothing() {
	w.T.Helper()
	for _, table := range Tables {
		if n := w.Count(table); n != 0 {
			w.T.Errorf("%s has %d rows, want none", table, n)
		}
	}
	err := fs.WalkDir(os.DirFS(w.Dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			w.T.Errorf("file %s is left", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.T.Error(err)
	}
}
