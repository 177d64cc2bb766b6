package sources_test

import (
	"context"
	"encoding/json"
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
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/sources"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/telemetry"
)

// world is the service as internal/app wires it, behind a real server; suites,
// runs and the code host are the tests' own.
type world struct {
	t       *testing.T
	db      *store.DB
	blobs   blob.Bucket
	dir     string // of the blobs
	queue   *jobs.Queue
	auth    *auth.Service
	sources *sources.Service
	suites  *shelf
	runs    *runs
	repos   *repos
	server  *httptest.Server
}

const retention = 90 * 24 * time.Hour

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, dir: t.TempDir(), suites: newShelf(t, db), runs: &runs{}, repos: &repos{}}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	var err error
	w.blobs, err = blob.Open(t.Context(), blob.Options{
		Dir: w.dir, Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return "http://127.0.0.1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.queue, err = jobs.New(jobs.Options{DB: db, Log: log, Poll: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	w.auth = &auth.Service{DB: db, Log: log}
	counts := &skills.Service{DB: db, Window: 30}
	counts.Versions = &registry.Service{DB: db, Blobs: w.blobs, Jobs: w.queue, Skills: counts, Log: log}
	pushes := &telemetry.Service{DB: db, Blobs: w.blobs, Jobs: w.queue, Skills: counts, Auth: w.auth, Retention: retention, Log: log}
	w.sources = &sources.Service{
		Files: stored.New(nil),
		DB:    db, Blobs: w.blobs, Jobs: w.queue, Skills: counts, Prompts: prompts{pushes}, Runs: w.runs, Suites: w.suites,
		Repos: w.repos, Limits: skillpkg.DefaultLimits(), Log: log,
	}
	pushes.Watcher = w.sources
	pushes.Register()
	w.sources.Register()
	api := httpapi.New(httpapi.Options{DB: db, Auth: w.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	pushes.Mount(api)
	w.sources.Mount(api)
	w.server = httptest.NewServer(api)
	t.Cleanup(w.server.Close)
	return w
}

// prompts hands telemetry in, as internal/app does.
type prompts struct{ *telemetry.Service }

func (p prompts) Considered(ctx context.Context, q store.Querier, orgID, skillID string) ([]sources.Prompt, error) {
	found, err := p.Service.Considered(ctx, q, orgID, skillID)
	all := make([]sources.Prompt, len(found))
	for i, c := range found {
		all[i] = sources.Prompt(c)
	}
	return all, err
}

// runs has the failures that a test wants.
type runs struct{ failures []sources.Failure }

func (r *runs) Failures(context.Context, store.Querier, string, string) ([]sources.Failure, error) {
	return r.failures, nil
}

// repos is a code host with one skill.
type repos struct {
	archive []byte
	commit  string
	err     error
	asked   []string
}

func (r *repos) Fetch(ctx context.Context, _ string, installationID int64, repo, ref, path string) (*sources.Tree, error) {
	r.asked = append(r.asked, fmt.Sprint(installationID, " ", repo, " ", ref, " ", path))
	if r.err != nil {
		return nil, r.err
	}
	pkg, err := skillpkg.Read(ctx, strings.NewReader(string(r.archive)), skillpkg.DefaultLimits())
	return &sources.Tree{CommitSHA: r.commit, Ref: "refs/heads/" + ref, Package: pkg}, err
}

// A shelf keeps suites in a table of its own, with the promises of
// sources.Suites.
type shelf struct {
	t  *testing.T
	db *store.DB
}

const maxCases = 500

func newShelf(t *testing.T, db *store.DB) *shelf {
	t.Helper()
	_, err := db.Exec(t.Context(), `
		CREATE TABLE test_suites (id TEXT PRIMARY KEY, org_id TEXT NOT NULL, source_id TEXT NOT NULL, name TEXT NOT NULL,
			kind TEXT NOT NULL, cases TEXT NOT NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{t, db}
}

// add makes a suite of a source.
func (s *shelf) add(orgID, sourceID, kind string, cases ...object) string {
	s.t.Helper()
	raw, err := json.Marshal(append([]object{}, cases...))
	if err != nil {
		s.t.Fatal(err)
	}
	id := uuid.NewString()
	_, err = s.db.Exec(s.t.Context(), `INSERT INTO test_suites (id, org_id, source_id, name, kind, cases) VALUES ($1, $2, $3, $4, $5, $6)`,
		id, orgID, strings.TrimPrefix(sourceID, sources.Prefix), "suite of "+sourceID, kind, string(raw))
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

type saved struct {
	sources.Suite
	orgID, sourceID, cases string
}

func (s *shelf) find(ctx context.Context, q store.Querier, condition string, args ...any) ([]saved, error) {
	rows, err := q.Query(ctx, `SELECT id, name, kind, org_id, source_id, cases FROM test_suites WHERE `+condition, args...)
	return store.All(rows, err, func(row store.Row) (one saved, err error) {
		err = row.Scan(&one.ID, &one.Name, &one.VerifierKind, &one.orgID, &one.sourceID, &one.cases)
		return one, err
	})
}

func (s *shelf) Append(ctx context.Context, tx *store.Tx, orgID, sourceID, suiteID string, c json.RawMessage) (sources.Suite, error) {
	found, err := s.find(ctx, tx, "org_id = $1 AND id = $2"+tx.Dialect().ForUpdate(), orgID, suiteID)
	if err != nil {
		return sources.Suite{}, err
	}
	if len(found) == 0 {
		return sources.Suite{}, fault.New(fault.NotFound, "Eval suite not found")
	}
	suite := found[0]
	if suite.sourceID != sourceID || suite.VerifierKind != "llm_judge" {
		return suite.Suite, fault.New(fault.Conflict, "The suite does not take this case")
	}
	cases := []json.RawMessage{}
	if err := json.Unmarshal([]byte(suite.cases), &cases); err != nil {
		return suite.Suite, err
	}
	if slices.ContainsFunc(cases, func(k json.RawMessage) bool { return string(k) == string(c) }) {
		return suite.Suite, nil
	}
	if len(cases) >= maxCases {
		return suite.Suite, fault.New(fault.Conflict, "The suite has %d cases already", maxCases)
	}
	raw, err := json.Marshal(append(cases, c))
	if err != nil {
		return suite.Suite, err
	}
	_, err = tx.Exec(ctx, `UPDATE test_suites SET cases = $2 WHERE id = $1`, suiteID, string(raw))
	return suite.Suite, err
}

// patch adds a case the way another editor of the suite would.
func (s *shelf) patch(suiteID string, c object) error {
	return s.db.InTx(s.t.Context(), func(tx *store.Tx) error {
		found, err := s.find(s.t.Context(), tx, "id = $1"+tx.Dialect().ForUpdate(), suiteID)
		if err != nil {
			return err
		}
		var cases []object
		if err := json.Unmarshal([]byte(found[0].cases), &cases); err != nil {
			return err
		}
		raw, err := json.Marshal(append(cases, c))
		if err != nil {
			return err
		}
		_, err = tx.Exec(s.t.Context(), `UPDATE test_suites SET cases = $2 WHERE id = $1`, suiteID, string(raw))
		return err
	})
}

func (s *shelf) Remove(ctx context.Context, tx *store.Tx, orgID, suiteID string, c json.RawMessage) (bool, error) {
	found, err := s.find(ctx, tx, "org_id = $1 AND id = $2"+tx.Dialect().ForUpdate(), orgID, suiteID)
	if err != nil || len(found) == 0 {
		return true, err
	}
	cases := []json.RawMessage{}
	if err := json.Unmarshal([]byte(found[0].cases), &cases); err != nil {
		return false, err
	}
	cases = slices.DeleteFunc(cases, func(k json.RawMessage) bool { return string(k) == string(c) })
	if len(cases) == 0 {
		return false, nil
	}
	raw, err := json.Marshal(cases)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `UPDATE test_suites SET cases = $2 WHERE id = $1`, suiteID, string(raw))
	return true, err
}

func (s *shelf) OfSource(ctx context.Context, q store.Querier, orgID, sourceID string) ([]sources.Suite, error) {
	found, err := s.find(ctx, q, "org_id = $1 AND source_id = $2 ORDER BY id", orgID, sourceID)
	all := []sources.Suite{}
	for _, f := range found {
		all = append(all, f.Suite)
	}
	return all, err
}

func (s *shelf) Cases(ctx context.Context, q store.Querier, orgID, sourceID string) ([]json.RawMessage, error) {
	found, err := s.find(ctx, q, "org_id = $1 AND source_id = $2", orgID, sourceID)
	var all []json.RawMessage
	for _, f := range found {
		var some []json.RawMessage
		if err := json.Unmarshal([]byte(f.cases), &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, err
}

// cases reads what stands in a suite.
func (s *shelf) cases(suiteID string) []object {
	s.t.Helper()
	found, err := s.find(s.t.Context(), s.db, "id = $1", suiteID)
	if err != nil {
		s.t.Fatal(err)
	}
	var all []object
	if err := json.Unmarshal([]byte(found[0].cases), &all); err != nil {
		s.t.Fatal(err)
	}
	return all
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
	deadline := time.Now().Add(30 * time.Second)
	for {
		counts, err := w.queue.Counts(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if !slices.ContainsFunc(counts, func(c jobs.Count) bool { return c.Waiting+c.Running+c.Retrying > 0 }) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("jobs are not done: %+v", counts)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// derive brings the suggestions of a source up to date now.
func (w *world) derive(c *client, sourceID string) {
	w.t.Helper()
	if err := w.sources.Derive(w.t.Context(), c.org.ID, sourceID); err != nil {
		w.t.Fatal(err)
	}
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

// skill makes a skill known.
func (w *world) skill(c *client, name string) (id string) {
	w.t.Helper()
	err := w.db.InTx(w.t.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(w.t.Context(), tx, c.org.ID, name)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
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

// blobKeys lists what is kept of snapshots.
func (w *world) blobKeys() []string {
	w.t.Helper()
	keys := []string{}
	for info, err := range w.blobs.List(w.t.Context(), "sources/") {
		if err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

var ownTables = []string{"cloud_sources", "source_snapshots", "source_reports", "source_suggestions", "source_reviews"}

// wantNothing checks that nothing at all was stored.
func (w *world) wantNothing() {
	w.t.Helper()
	for _, table := range ownTables {
		if n := w.count(table); n != 0 {
			w.t.Errorf("%s has %d rows, want none", table, n)
		}
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
