package registry_test

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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/catalog"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/installations"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// world is the service as internal/app wires it, behind a real server.
type world struct {
	t      *testing.T
	db     *store.DB
	blobs  blob.Bucket
	dir    string // of the blobs that are files
	queue  *jobs.Queue
	auth   *auth.Service
	api    *httpapi.API
	server *httptest.Server
}

// newWorld serves the registry with its bytes in files.
func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, dir: t.TempDir()}
	w.serveFiles()
	return w
}

// replica serves the same database and files again.
func (w *world) replica() *world {
	w.t.Helper()
	other := &world{t: w.t, db: w.db, dir: w.dir}
	other.serveFiles()
	return other
}

func (w *world) serveFiles() {
	w.t.Helper()
	w.serve(func(w *world) blob.Bucket {
		return openBlobs(w.t, blob.Options{
			Dir: w.dir, Secret: []byte(strings.Repeat("test", 8)),
			PublicURL: func() string { return w.server.URL },
		})
	})
}

func openBlobs(t *testing.T, o blob.Options) blob.Bucket {
	t.Helper()
	bucket, err := blob.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

// serve wires the service around the bucket that open returns. Jobs wait
// until work is called.
func (w *world) serve(open func(*world) blob.Bucket) {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.auth = &auth.Service{DB: w.db, Log: log}
	w.api = httpapi.New(httpapi.Options{DB: w.db, Auth: w.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	w.server = httptest.NewServer(w.api)
	w.t.Cleanup(w.server.Close)
	w.blobs = open(w)
	if files, ok := w.blobs.(*blob.Files); ok {
		w.api.Handle("/blobs/", nil, files)
	}
	var err error
	if w.queue, err = jobs.New(jobs.Options{DB: w.db, Log: log, Poll: 20 * time.Millisecond}); err != nil {
		w.t.Fatal(err)
	}
	counts := &skills.Service{DB: w.db, Window: 30}
	s := &registry.Service{DB: w.db, Blobs: w.blobs, Jobs: w.queue, Skills: counts, Files: stored.New(nil), Log: log}
	s.Register()
	installed := &installations.Service{DB: w.db, Blobs: w.blobs, Jobs: w.queue, Registry: s}
	installed.Register()
	installed.Mount(w.api)
	s.Dependent = installed
	counts.Versions = s
	s.Mount(w.api)
	(&catalog.Service{Registry: s, Keys: w.auth, Log: log}).Mount(w.api)
}

// work runs jobs until the test ends.
func (w *world) work() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.queue.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
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

// eventually waits for what other goroutines bring about.
func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A job of the registry, by its kind.
type schedule string

// Kind names the job.
func (s schedule) Kind() string { return string(s) }

// MarshalJSON gives the job its arguments: none.
func (schedule) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// runNow runs a job of a schedule, and what follows from it.
func (w *world) runNow(kind schedule) {
	w.t.Helper()
	err := w.db.InTx(w.t.Context(), func(tx *store.Tx) error { return w.queue.Enqueue(w.t.Context(), tx, kind) })
	if err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

// org makes an organisation and an owner of it.
func (w *world) org(name string, plan access.Plan) *client {
	w.t.Helper()
	o, err := w.auth.CreateOrg(w.t.Context(), name, plan)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.member(o, access.Owner)
}

// member adds a person to an organisation, whose key has all permissions of
// the role, or only those given.
func (w *world) member(o auth.Organisation, role access.Role, permissions ...access.Permission) *client {
	w.t.Helper()
	users, err := w.auth.Users(w.t.Context(), o.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	u, err := w.auth.CreateUser(w.t.Context(), auth.NewUser{
		OrgID: o.ID, Email: fmt.Sprintf("%s%d@example.org", role, len(users)), Role: role,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.key(o, u, permissions...)
}

// key makes one more key of a person.
func (w *world) key(o auth.Organisation, u auth.User, permissions ...access.Permission) *client {
	w.t.Helper()
	k, raw, err := w.auth.CreateKey(w.t.Context(), auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "test", Permissions: permissions})
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{t: w.t, w: w, org: o, user: u, keyID: k.ID, key: raw}
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

// keys lists the keys in the bucket.
func (w *world) keys() []string {
	w.t.Helper()
	keys := []string{}
	for info, err := range w.blobs.List(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// keyOf finds the key of an object with that hash.
func (w *world) keyOf(hash string) string {
	w.t.Helper()
	for _, key := range w.keys() {
		if sum, _ := blob.ContentSum(key); sum == hash {
			return key
		}
	}
	w.t.Fatalf("no object has the hash %s", hash)
	return ""
}

// contents lists the hashes of the objects in the bucket.
func (w *world) contents() []string {
	w.t.Helper()
	hashes := w.keys()
	for i, key := range hashes {
		hashes[i], _ = blob.ContentSum(key)
	}
	return hashes
}

// wantNothing checks that the registry has stored nothing at all.
func (w *world) wantNothing() {
	w.t.Helper()
	for _, table := range []string{"registry_entries", "registry_versions", "registry_rollbacks", "registry_currents", "registry_installations", "skills"} {
		if n := w.count(table); n != 0 {
			w.t.Errorf("%s has %d rows, want none", table, n)
		}
	}
	if w.dir == "" {
		return
	}
	err := fs.WalkDir(os.DirFS(w.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			w.t.Errorf("file %s is left", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Error(err)
	}
}

// anyOrder compares lists of texts as sets.
func anyOrder() cmp.Option { return cmpopts.SortSlices(strings.Compare) }
