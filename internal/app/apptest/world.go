package apptest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// PublicURL is the address that the service of a World gives of itself.
const PublicURL = "https://whetstone.example.org"

// A World is the platform under a capability, with a real database, queue and
// bucket: what the tests of every capability start from. They add the
// services that they test and mount them on API.
type World struct {
	T     *testing.T
	DB    *store.DB
	Blobs blob.Bucket
	Links *blob.Links // signed URLs of the bucket
	// BlobDir is the bucket's folder, for tests that age or count its files.
	BlobDir string
	Queue   *jobs.Queue
	Auth    *auth.Service
	API     *httpapi.API
	Log     *slog.Logger
	// Logged has everything that was logged, down to debug.
	Logged *Buffer
	// Server is nil unless Options.Server asked for it: requests then go
	// through TCP, which streams, timeouts and cancelled requests need.
	Server *httptest.Server
}

// Options say how a World differs from the plain one. What they leave out is
// what most tests want.
type Options struct {
	Server bool
	// Queue may set Lease, Workers and the like.
	Queue jobs.Options
	// Dir, if not "", is the folder of the bucket: two worlds on one database
	// and one folder are replicas.
	Dir string
	// Blobs, if not nil, replaces the bucket, e.g. with one that fails.
	Blobs func(blob.Bucket) blob.Bucket
}

// NewWorld builds a World on a test's database.
func NewWorld(t *testing.T, db *store.DB, o Options) *World {
	t.Helper()
	w := &World{T: t, DB: db, BlobDir: o.Dir, Logged: &Buffer{}}
	w.Log = slog.New(slog.NewTextHandler(w.Logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if w.BlobDir == "" {
		w.BlobDir = t.TempDir()
	}
	var err error
	blobs := blob.Options{Dir: w.BlobDir, Secret: []byte(strings.Repeat("test", 8)), PublicURL: w.url}
	if w.Blobs, err = blob.Open(t.Context(), blobs); err != nil {
		t.Fatal(err)
	}
	if o.Blobs != nil {
		w.Blobs = o.Blobs(w.Blobs)
	}
	if w.Links, err = blob.NewLinks(w.Blobs, blobs); err != nil {
		t.Fatal(err)
	}
	w.Queue = w.NewQueue(o.Queue)
	w.Auth = &auth.Service{DB: db, PublicURL: PublicURL, Seal: sealtest.Keyring(), Log: w.Log}
	w.API = httpapi.New(httpapi.Options{
		DB: db, Auth: w.Auth, Log: w.Log, Metrics: prometheus.NewRegistry(), Version: "test",
	})
	if o.Server {
		w.Server = httptest.NewServer(w.API)
		t.Cleanup(w.Server.Close)
	}
	return w
}

// url is where signed URLs of the bucket lead: to the server, if there is one.
func (w *World) url() string {
	if w.Server != nil {
		return w.Server.URL
	}
	return PublicURL
}

// NewQueue returns a queue on the world's database that polls often, e.g. that
// of another replica. Database and log of the options are filled in.
func (w *World) NewQueue(o jobs.Options) *jobs.Queue {
	w.T.Helper()
	o.DB, o.Log = w.DB, w.Log
	if o.Poll == 0 {
		o.Poll = 20 * time.Millisecond
	}
	queue, err := jobs.New(o)
	if err != nil {
		w.T.Fatal(err)
	}
	return queue
}

// Work runs jobs until the test ends, or until stop is called.
func (w *World) Work() (stop func()) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.T.Context())
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

// Settle waits until no job waits or runs.
func (w *World) Settle() {
	w.T.Helper()
	Eventually(w.T, "the jobs to be done", func() bool {
		counts, err := w.Queue.Counts(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		return !slices.ContainsFunc(counts, func(c jobs.Count) bool { return c.Waiting+c.Running+c.Retrying > 0 })
	})
}

// patience is how long a test waits for other goroutines.
const patience = 4 * time.Minute

// Eventually polls until done, and fails the test after some minutes.
func Eventually(t T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// Org makes an organisation of the plan Team and returns its owner.
func (w *World) Org(name string) *Caller {
	w.T.Helper()
	return w.OrgWithPlan(name, access.Team)
}

// OrgWithPlan makes an organisation and returns its owner.
func (w *World) OrgWithPlan(name string, plan access.Plan) *Caller {
	w.T.Helper()
	o, err := w.Auth.CreateOrg(w.T.Context(), name, plan)
	if err != nil {
		w.T.Fatal(err)
	}
	return w.Member(o, access.Owner)
}

// Member adds a person to an organisation, whose key has all permissions of
// the role, or only those given.
func (w *World) Member(o auth.Organisation, role access.Role, permissions ...access.Permission) *Caller {
	w.T.Helper()
	email := string(role) + "-" + uuid.NewString() + "@example.org"
	u, err := w.Auth.CreateUser(w.T.Context(), auth.NewUser{OrgID: o.ID, Email: email, Role: role})
	if err != nil {
		w.T.Fatal(err)
	}
	return w.WithKey(o, u, auth.NewKey{Permissions: permissions})
}

// WithKey gives a person one more key. Organisation and person are filled in,
// and the name if there is none.
func (w *World) WithKey(o auth.Organisation, u auth.User, k auth.NewKey) *Caller {
	w.T.Helper()
	k.OrgID, k.UserID, k.Name = o.ID, u.ID, cmp.Or(k.Name, "test")
	key, raw, err := w.Auth.CreateKey(w.T.Context(), k)
	if err != nil {
		w.T.Fatal(err)
	}
	return &Caller{T: w.T, World: w, Org: o, User: u, KeyID: key.ID, Key: raw}
}

// Anonymous is a caller without a key.
func (w *World) Anonymous() *Caller { return &Caller{T: w.T, World: w} }

// Count counts the rows of a FROM clause, e.g. "alert_rules WHERE org_id = $1".
func (w *World) Count(from string, args ...any) int {
	w.T.Helper()
	rows, err := w.DB.Query(w.T.Context(), `SELECT COUNT(*) FROM `+from, args...)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		w.T.Fatal(err)
	}
	return n
}

// Exec runs a statement that no operation of the service would.
func (w *World) Exec(sql string, args ...any) {
	w.T.Helper()
	if _, err := w.DB.Exec(w.T.Context(), sql, args...); err != nil {
		w.T.Fatal(err)
	}
}

// CloseOrg closes an organisation as its deletion does; its rows stay.
func (w *World) CloseOrg(orgID string) {
	w.T.Helper()
	w.Exec(`UPDATE organisations SET deleted_at = 1 WHERE id = $1`, orgID)
	w.Auth.Forget()
}

// TablesWith returns the tables that have a text in any column, sorted.
func (w *World) TablesWith(text string) []string {
	w.T.Helper()
	found := []string{}
	for table, row := range w.Columns() {
		// PostgreSQL shows bytes in hexadecimal.
		if w.Count(table+` WHERE `+row+` LIKE $1 OR `+row+` LIKE $2`, "%"+text+"%", "%"+hex.EncodeToString([]byte(text))+"%") > 0 {
			found = append(found, table)
		}
	}
	slices.Sort(found)
	return found
}

// Columns maps every table to an SQL expression for all columns of a row.
func (w *World) Columns() map[string]string {
	w.T.Helper()
	query := `SELECT table_name, 'CAST(' || column_name || ' AS TEXT)' FROM information_schema.columns WHERE table_schema = 'public'
		AND table_name NOT IN (SELECT relname FROM pg_class WHERE relispartition)`
	if w.DB.Dialect().Name() == "sqlite" {
		query = `SELECT m.name, 'CAST("' || c.name || '" AS TEXT)' FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'`
	}
	rows, err := w.DB.Query(w.T.Context(), query)
	all := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var table, column string
		err := row.Scan(&table, &column)
		if all[table] != "" {
			all[table] += ` || ' ' || `
		}
		all[table] += `COALESCE(` + column + `, '')`
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return all
}

// BlobKeys lists the keys of all objects in the bucket.
func (w *World) BlobKeys() []string {
	w.T.Helper()
	keys := []string{}
	for info, err := range w.Blobs.List(w.T.Context(), "") {
		if err != nil {
			w.T.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// A Buffer is a bytes.Buffer for many goroutines.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
