// Package registrytest starts a server with the registry, the installations and
// the catalog, as internal/app wires them, for the tests of all three.
package registrytest

import (
	"context"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/deliver/sets"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/resolve"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
)

// A World is an apptest.World whose callers have the operations of the
// registry. Jobs wait until Work is called.
type World struct {
	*apptest.World
	Dir          string // of the bucket, if that is files
	Registry     *registry.Service
	Release      *release.Service
	Requirements *requirements.Service
	Skills       *skills.Service
	Catalog      *catalog.Service
	// Sets and Teams have no routes: tests that need them mount them.
	Sets  *sets.Service
	Teams *teams.Service
	Owns  access.Owns // who owns an entry; nil: nobody does
}

// New serves the registry behind a real server, with its archives in files.
func New(t *testing.T, db *store.DB) *World {
	t.Helper()
	return newWorld(t, db, apptest.Options{Dir: t.TempDir()})
}

// NewWithBucket is New with another bucket than files, or one around it.
func NewWithBucket(t *testing.T, db *store.DB, bucket func(blob.Bucket) blob.Bucket) *World {
	t.Helper()
	return newWorld(t, db, apptest.Options{Dir: t.TempDir(), Blobs: bucket})
}

// Replica serves the same database and files again.
func (w *World) Replica() *World {
	w.T.Helper()
	return newWorld(w.T, w.DB, apptest.Options{Dir: w.Dir})
}

func newWorld(t *testing.T, db *store.DB, o apptest.Options) *World {
	t.Helper()
	o.Server = true
	w := &World{World: apptest.NewWorld(t, db, o), Dir: o.Dir, Skills: &skills.Service{
		DB: db, Window: 30, Versions: registry.History{}, Installations: installations.History{},
	}}
	for _, path := range blob.DownloadPaths() {
		w.API.Handle(path, nil, w.Links)
	}
	w.Registry = &registry.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: w.Skills, Files: stored.New(nil), Log: w.Log,
	}
	owns := func(ctx context.Context, c access.Caller, id string) (bool, error) {
		if w.Owns == nil {
			return false, nil
		}
		return w.Owns(ctx, c, id)
	}
	w.Registry.Owns, w.Links.Allow = owns, w.Registry.CheckLink
	w.Registry.Register()
	w.Registry.Mount(w.API)
	w.Release = &release.Service{DB: db, Registry: w.Registry, Owns: owns}
	w.Release.Mount(w.API)
	(&resolve.Service{DB: db}).Mount(w.API)
	w.Requirements = &requirements.Service{DB: db, Jobs: w.Queue, Log: w.Log}
	w.Requirements.Mount(w.API)
	installed := &installations.Service{DB: db, Blobs: w.Links, Jobs: w.Queue, Registry: w.Registry}
	installed.Register()
	installed.Mount(w.API)
	w.Release.Clients = installed
	w.Teams = &teams.Service{DB: db, Auth: w.Auth, Registry: w.Registry}
	w.Sets = &sets.Service{
		DB: db, Teams: w.Teams, Installations: installed,
		Listings: &report.Service{DB: db, Costs: &costs.Service{DB: db, Jobs: w.Queue, Prices: pricing.Embedded()}},
	}
	opened := &tokens.Service{Kind: tokens.Catalog, DB: db, Log: w.Log, Sets: w.Sets}
	opened.Mount(w.API)
	w.Registry.OnEntryDeleted = watchers{installed, w.Sets}
	w.Catalog = &catalog.Service{Registry: w.Registry, Tokens: opened, Sets: w.Sets, Keys: w.Auth, Log: w.Log}
	w.Catalog.Mount(w.API)
	return w
}

// watchers are told one after the other of entries that are deleted.
type watchers []registry.OnEntryDeleted

// DeleteOfEntry implements registry.OnEntryDeleted.
func (all watchers) DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	for _, w := range all {
		if err := w.DeleteOfEntry(ctx, tx, entryID); err != nil {
			return err
		}
	}
	return nil
}

// Org makes an organisation and returns its owner.
func (w *World) Org(name string, plan access.Plan) *Client {
	w.T.Helper()
	return &Client{w.OrgWithPlan(name, plan)}
}

// Member is the method of apptest.World.
func (w *World) Member(o auth.Organisation, role access.Role, permissions ...access.Permission) *Client {
	w.T.Helper()
	return &Client{w.World.Member(o, role, permissions...)}
}

// Anonymous is a client without a key.
func (w *World) Anonymous() *Client { return &Client{w.World.Anonymous()} }

// WithKey is the method of apptest.World.
func (w *World) WithKey(o auth.Organisation, u auth.User, permissions ...access.Permission) *Client {
	w.T.Helper()
	return &Client{w.World.WithKey(o, u, auth.NewKey{Permissions: permissions})}
}

// A Job is one without arguments, by its kind, e.g. "registry.sweep-blobs".
type Job string

// Kind names the job.
func (j Job) Kind() string { return string(j) }

// MarshalJSON gives the job its arguments: none.
func (Job) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// RunNow runs a job, and those that follow from it. Work must have been called.
func (w *World) RunNow(job Job) {
	w.T.Helper()
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) error { return w.Queue.Enqueue(w.T.Context(), tx, job) })
	if err != nil {
		w.T.Fatal(err)
	}
	w.Settle()
}

// KeyOf finds the key of an object with that hash.
func (w *World) KeyOf(hash string) string {
	w.T.Helper()
	for _, key := range w.BlobKeys() {
		if sum, _ := blob.ContentSum(key); sum == hash {
			return key
		}
	}
	w.T.Fatalf("no object has the hash %s", hash)
	return ""
}

// Contents lists the hashes of the objects in the bucket.
func (w *World) Contents() []string {
	w.T.Helper()
	hashes := w.BlobKeys()
	for i, key := range hashes {
		hashes[i], _ = blob.ContentSum(key)
	}
	return hashes
}

// Together makes calls at the same time and returns their responses.
func Together(calls ...func() apptest.Response) []apptest.Response {
	responses := make([]apptest.Response, len(calls))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			<-start
			responses[i] = call()
		})
	}
	close(start)
	wg.Wait()
	return responses
}
