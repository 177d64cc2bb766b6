// Package runstest starts a server with suites, runs and improve runs for
// tests, on the real sources and registry, and calls its API.
package runstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/trials"
	"github.com/whetstone-dev/whetstone/internal/prove/schedules"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A World has the services as internal/app wires them.
type World struct {
	*apptest.World
	Registry  *registry.Service
	Sources   *sources.Service
	Suites    *suites.Service
	Runs      *runs.Service
	Trials    *trials.Service
	Compare   *comparisons.Service
	Schedules *schedules.Service
	Improve   *improve.Service
	Proposals *proposals.Service

	entries *entries
}

// entries are the registry's entries by organisation and name.
type entries struct {
	mu  sync.Mutex
	ids map[string]string
}

// New starts a server. The functions set fields of the services before it is
// started; without one, runs have the built-in judge.
func New(t *testing.T, db *store.DB, set ...func(*World)) *World {
	t.Helper()
	w := &World{
		World:   apptest.NewWorld(t, db, apptest.Options{Server: true}), // events are streamed
		entries: &entries{ids: map[string]string{}},
	}
	w.build(set)
	w.Suites.Mount(w.API)
	w.Runs.Mount(w.API)
	w.Trials.Mount(w.API)
	w.Compare.Mount(w.API)
	w.Schedules.Mount(w.API)
	w.Improve.Mount(w.API)
	return w
}

// Another returns the services of another replica on the same database, with a
// queue of its own.
func (w *World) Another(queue jobs.Options, set ...func(*World)) *World {
	w.T.Helper()
	platform := *w.World
	platform.Queue = w.NewQueue(queue)
	other := &World{World: &platform, entries: w.entries}
	other.build(set)
	return other
}

// build makes the services and registers their jobs.
func (w *World) build(set []func(*World)) {
	w.T.Helper()
	counts := &skills.Service{DB: w.DB, Window: 30, Versions: registry.History{}}
	files := stored.New(nil)
	w.Registry = &registry.Service{DB: w.DB, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Files: files, Log: w.Log}
	w.Sources = &sources.Service{
		DB: w.DB, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Files: files, Limits: skillpkg.DefaultLimits(), Log: w.Log,
	}
	w.Suites = &suites.Service{DB: w.DB, Jobs: w.Queue, Blobs: w.Blobs, Sources: w.Sources, Log: w.Log}
	box, err := sandbox.New(sandbox.Options{})
	if err != nil {
		w.T.Fatal(err)
	}
	w.Runs = &runs.Service{
		DB: w.DB, Jobs: w.Queue, Suites: w.Suites, Sources: w.Sources, Registry: w.Registry, Log: w.Log,
		Sandbox: box, Packages: &taskpkg.Runner{Sandbox: box, Blobs: w.Blobs},
		Recordings: &recording.Store{DB: w.DB, Blobs: w.Blobs},
	}
	w.Trials = &trials.Service{Runs: w.Runs, Recordings: w.Runs.Recordings, Jobs: w.Queue}
	w.Compare = &comparisons.Service{DB: w.DB, Jobs: w.Queue, Suites: w.Suites, Runs: w.Runs, Trials: w.Trials, Log: w.Log}
	w.Schedules = &schedules.Service{DB: w.DB, Jobs: w.Queue, Runs: w.Runs, Log: w.Log}
	w.Runs.OnEnded = recorder{w.Schedules}
	w.Proposals = &proposals.Service{DB: w.DB, Jobs: w.Queue, Registry: w.Registry, Sources: w.Sources}
	w.Improve = &improve.Service{
		DB: w.DB, Jobs: w.Queue, Sources: w.Sources, Suites: w.Suites, Runs: w.Runs, Proposals: w.Proposals, Log: w.Log,
	}
	w.ask(judge.Options{API: judge.Builtin})
	for _, f := range set {
		f(w)
	}
	w.Registry.Register()
	w.Suites.Register()
	w.Runs.Register()
	w.Trials.Register()
	w.Compare.Register()
	w.Schedules.Register()
	w.Improve.Register()
}

// A recorder lets schedules record their runs.
type recorder struct{ schedules *schedules.Service }

// RunEnded implements runs.OnEnded.
func (r recorder) RunEnded(ctx context.Context, tx *store.Tx, run runs.Run) error {
	_, err := r.schedules.RunEnded(ctx, tx, run)
	return err
}

// ask makes runs and improve runs ask this judge.
func (w *World) ask(o judge.Options) {
	w.T.Helper()
	j, err := judge.New(o)
	if err != nil {
		w.T.Fatal(err)
	}
	w.Runs.Judge, w.Improve.Judge, w.Compare.Judge = j, j, j
}

// Scripted makes a scripted model the judge.
func Scripted(server *judgetest.Server) func(*World) { return ScriptedWithin(server, time.Minute) }

// ScriptedWithin is Scripted with a timeout of requests to the model.
func ScriptedWithin(server *judgetest.Server, timeout time.Duration) func(*World) {
	return func(w *World) {
		w.T.Helper()
		w.ask(judge.Options{
			API: judge.OpenAI, URL: server.URL(judgetest.OpenAI), Model: "scripted", Key: "sk-secret", Timeout: timeout, Concurrency: 16,
		})
	}
}

// Org creates an organisation of the plan Free and returns its owner.
func (w *World) Org(name string) *Client {
	w.T.Helper()
	return &Client{w.OrgWithPlan(name, access.Free), w}
}

// Member adds a person to an organisation.
func (w *World) Member(o auth.Organisation, role access.Role) *Client {
	w.T.Helper()
	return &Client{w.World.Member(o, role), w}
}
