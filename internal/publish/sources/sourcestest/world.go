// Package sourcestest is a server with sources and suggestions, and a client
// for it: both capabilities' tests use them, since the detail of a source shows
// its suggestions.
package sourcestest

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A World is the service as internal/app wires it, behind a real server. Only
// the judge of runs is scripted.
type World struct {
	*apptest.World
	Repos       *hosttest.Repos // of the code host
	Repohost    *repohost.Service
	Sources     *sources.Service
	Suggestions *suggestions.Service
	Suites      *suites.Service
	Sessions    *sessions.Service

	router router
}

const retention = 90 * 24 * time.Hour

// New starts a server.
func New(t *testing.T, db *store.DB) *World {
	t.Helper()
	w := &World{World: apptest.NewWorld(t, db, apptest.Options{Server: true}), Repos: hosttest.NewRepos(t)}
	counts := &skills.Service{DB: db, Window: 30, Versions: registry.History{}}
	entries := &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Log: w.Log}
	paid := &costs.Service{DB: db}
	w.Sessions = &sessions.Service{DB: db, Skills: counts, Costs: paid, Registry: entries}
	pushes := &telemetry.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Costs: paid, Sessions: w.Sessions, Auth: w.Auth,
		Retention: retention, Log: w.Log,
	}
	host, err := git.New(git.Options{Dir: w.Repos.Dir})
	if err != nil {
		t.Fatal(err)
	}
	w.Repohost = &repohost.Service{DB: db, Jobs: w.Queue, Host: host, Log: w.Log}
	w.Sources = &sources.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Repohost: w.Repohost, Files: stored.New(nil),
		Limits: skillpkg.DefaultLimits(), Log: w.Log,
	}
	w.Suites = &suites.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Sources: w.Sources, Log: w.Log}
	trials := &runs.Service{
		DB: db, Jobs: w.Queue, Suites: w.Suites, Sources: w.Sources, Registry: entries, Judge: w.judge(), Log: w.Log,
	}
	w.Suggestions = &suggestions.Service{
		DB: db, Jobs: w.Queue, Sources: w.Sources, Suites: w.Suites, Sessions: w.Sessions,
	}
	pushes.OnChanged = w.Suggestions
	w.Sources.OnSourceChanged, w.Sources.OnSourceDeleted, trials.OnEnded = w.Suggestions, w.Suggestions, w.Suggestions
	pushes.Register()
	w.Sources.Register()
	w.Suites.Register()
	trials.Register()
	w.Suggestions.Register()
	pushes.Mount(w.API)
	w.Sources.Mount(w.API)
	w.Suites.Mount(w.API)
	trials.Mount(w.API)
	w.Suggestions.Mount(w.API)
	return w
}

// Org makes an organisation of the plan Free and returns its owner.
func (w *World) Org(name string) *Client {
	w.T.Helper()
	return &Client{w.OrgWithPlan(name, access.Free), w}
}

// Member adds a person to an organisation.
func (w *World) Member(o auth.Organisation, role access.Role) *Client {
	w.T.Helper()
	return &Client{w.World.Member(o, role), w}
}

// Derive derives the suggestions of a source now.
func (w *World) Derive(c *Client, sourceID string) {
	w.T.Helper()
	if err := w.Suggestions.Derive(w.T.Context(), c.Org.ID, sourceID); err != nil {
		w.T.Fatal(err)
	}
}

// Bind binds an installation of the code host to the client's organisation.
func (c *Client) Bind(id int64, account string) {
	c.T.Helper()
	_, err := c.W.Repohost.Bind(c.T.Context(), repohost.Installation{
		OrgID: c.Org.ID, InstallationID: id, AccountLogin: account, AccountType: "Organization",
	})
	if err != nil {
		c.T.Fatalf("%v", err)
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
	err := fs.WalkDir(os.DirFS(w.BlobDir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			w.T.Errorf("file %s is left", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.T.Error(err)
	}
}
