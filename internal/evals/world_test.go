package evals_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases and each other.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// world is the service as internal/app wires it, behind a real server.
type world struct {
	t       *testing.T
	db      *store.DB
	queue   *jobs.Queue
	auth    *auth.Service
	blobs   blob.Bucket
	evals   *evals.Service
	sources *knownSources
	server  *httptest.Server
}

// newWorld lets a test set more fields of the service before it is mounted.
func newWorld(t *testing.T, db *store.DB, set ...func(*evals.Service)) *world {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	w := &world{t: t, db: db, sources: &knownSources{}}
	var err error
	if w.queue, err = jobs.New(jobs.Options{DB: db, Log: log, Poll: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	w.auth = &auth.Service{DB: db, Log: log}
	w.blobs, err = blob.Open(t.Context(), blob.Options{
		Dir: t.TempDir(), Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return "http://whetstone.example.org" },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.evals = &evals.Service{DB: db, Jobs: w.queue, Blobs: w.blobs, Sources: w.sources, Log: log}
	for _, f := range set {
		f(w.evals)
	}
	w.evals.Register()
	api := httpapi.New(httpapi.Options{DB: db, Auth: w.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	w.evals.Mount(api)
	w.server = httptest.NewServer(api)
	t.Cleanup(w.server.Close)
	return w
}

// knownSources stands for the cloud sources of the organisations: by source,
// whose it is.
type knownSources map[string]string

// Exists implements evals.Sources.
func (k knownSources) Exists(_ context.Context, _ store.Querier, orgID, sourceID string) error {
	switch k[sourceID] {
	case orgID:
		return nil
	case "":
		return fault.New(fault.NotFound, "Source not found")
	}
	return fault.New(fault.Denied, "The source belongs to another organisation")
}

// source gives the organisation a cloud source and returns its bare id.
func (w *world) source(c *client) string {
	id := uuid.NewString()
	(*w.sources)[id] = c.org.ID
	return id
}

// org makes an organisation and an owner of it.
func (w *world) org(name string) *client {
	w.t.Helper()
	o, err := w.auth.CreateOrg(w.t.Context(), name, access.Free)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.member(o, access.Owner)
}

// member adds a person to an organisation.
func (w *world) member(o auth.Organisation, role access.Role) *client {
	w.t.Helper()
	email := fmt.Sprintf("%s-%s@example.org", role, uuid.NewString())
	u, err := w.auth.CreateUser(w.t.Context(), auth.NewUser{OrgID: o.ID, Email: email, Role: role})
	if err != nil {
		w.t.Fatal(err)
	}
	_, raw, err := w.auth.CreateKey(w.t.Context(), auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "test"})
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{t: w.t, w: w, org: o, user: u, key: raw}
}
