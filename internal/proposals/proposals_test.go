package proposals_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/signals"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// world is the service as internal/app wires it.
type world struct {
	t         *testing.T
	db        *store.DB
	queue     *jobs.Queue
	auth      *auth.Service
	registry  *registry.Service
	proposals *proposals.Service
	api       *httpapi.API
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	w := &world{t: t, db: db, auth: &auth.Service{DB: db, Log: log}}
	var err error
	if w.queue, err = jobs.New(jobs.Options{DB: db, Log: log, Poll: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.Context(), blob.Options{
		Dir: t.TempDir(), Secret: []byte(strings.Repeat("test", 8)), PublicURL: func() string { return "http://127.0.0.1" },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.registry = &registry.Service{DB: db, Blobs: blobs, Jobs: w.queue, Skills: &skills.Service{DB: db, Window: 30}, Log: log}
	counts := &signals.Service{DB: db, Secret: []byte("test")}
	w.proposals = &proposals.Service{DB: db, Jobs: w.queue, Signals: counts, Registry: w.registry}
	counts.Watcher, counts.Proposals = w.proposals, w.proposals
	w.proposals.Register()
	w.api = httpapi.New(httpapi.Options{DB: db, Auth: w.auth, Log: log, Metrics: prometheus.NewRegistry(), Version: "test"})
	counts.Mount(w.api)
	w.proposals.Mount(w.api)
	return w
}

// org creates an organisation and returns its owner.
func (w *world) org() *client {
	w.t.Helper()
	o, err := w.auth.CreateOrg(w.t.Context(), uuid.NewString(), access.Team)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.member(o, access.Owner)
}

func (w *world) member(o auth.Organisation, role access.Role) *client {
	w.t.Helper()
	u, err := w.auth.CreateUser(w.t.Context(), auth.NewUser{OrgID: o.ID, Email: uuid.NewString() + "@example.org", Role: role})
	if err != nil {
		w.t.Fatal(err)
	}
	_, raw, err := w.auth.CreateKey(w.t.Context(), auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "test", Relay: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return &client{t: w.t, w: w, org: o, id: u.ID, key: raw}
}

// client calls the API with a key.
type client struct {
	t       *testing.T
	w       *world
	org     auth.Organisation
	id, key string
}

// object is a JSON object.
type object = map[string]any

const path = "/api/v1/proposals"

func (c *client) do(method, path string, body any) answer {
	c.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(c.t.Context(), method, path, bytes.NewReader(raw))
	req.Header.Set("Authorization", "Bearer "+c.key)
	rec := httptest.NewRecorder()
	c.w.api.ServeHTTP(rec, req)
	return answer{c.t, method + " " + path, rec.Code, rec.Body.Bytes()}
}

func (c *client) get(path string) answer { return c.do(http.MethodGet, path, nil) }

// answer is a response.
type answer struct {
	t      *testing.T
	what   string
	status int
	body   []byte
}

// want fails the test unless the response has the status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("%s: status %d, want %d: %s", a.what, a.status, status, a.body)
	}
	return a
}

func (a answer) object() (o object) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, &o); err != nil {
		a.t.Fatalf("%s: %v in %q", a.what, err, a.body)
	}
	return o
}

func (a answer) wantError(status int, message string) {
	a.t.Helper()
	want := object{"error": object{"message": message, "status": float64(status)}}
	if diff := cmp.Diff(want, a.want(status).object()); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", a.what, diff)
	}
}

// list decodes proposals.
func (a answer) list() (all []object) {
	a.t.Helper()
	for _, p := range a.want(http.StatusOK).object()["proposals"].([]any) {
		all = append(all, p.(object))
	}
	return all
}

// miss sends sessions of cohorts that missed a skill while searching.
func (c *client) miss(skill string, sessions, cohorts int) {
	c.t.Helper()
	for n := range sessions {
		c.do(http.MethodPost, "/api/v1/signals", object{
			"signal_type": "skill_session", "skill_name": skill, "user_cohort": fmt.Sprint("cohort", n%cohorts), "timestamp_bucket": "2026-W07",
			"signals": object{"miss_detected": true, "query_bucket": "search"},
		}).want(http.StatusCreated)
	}
}

// publish adds a skill with this description to the registry.
func (c *client) publish(name, description string) {
	c.t.Helper()
	text := "---\nname: " + name + "\ndescription: " + description + "\n---\n# " + name + "\n"
	var archive bytes.Buffer
	folder := fstest.MapFS{"SKILL.md": {Data: []byte(text)}}
	options := skillpkg.PackOptions{Format: skillpkg.TarGz, Limits: skillpkg.DefaultLimits()}
	if _, err := skillpkg.Pack(c.t.Context(), folder, &archive, options); err != nil {
		c.t.Fatal(err)
	}
	if _, _, err := c.w.registry.Create(c.t.Context(), registry.Publication{
		OrgID: c.org.ID, UserID: c.id, Name: name, Type: registry.TypeSkill, Visibility: registry.Org, Version: "1.0.0",
		Source: registry.FromCLI, Archive: bytes.NewReader(archive.Bytes()), Size: int64(archive.Len()),
	}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) generate() {
	c.t.Helper()
	if err := c.w.proposals.Generate(c.t.Context(), c.org.ID); err != nil {
		c.t.Fatal(err)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org()
		c.publish("pdf", "Reads PDF files")
		c.miss("pdf", 9, 3) // one signal too few
		c.miss("csv", 12, 2)
		c.generate()
		if got := c.get(path).list(); len(got) != 0 {
			t.Fatalf("proposals below the gate: %v", got)
		}
		c.miss("pdf", 1, 1)
		for range 2 { // once for each finding
			c.generate()
		}
		got := c.get("/api/v1/creator-signals/proposals").list()
		if len(got) != 1 {
			t.Fatalf("%d proposals, want 1", len(got))
		}
		p := got[0]
		for _, field := range []string{"id", "skill_id", "created_at"} {
			if text, _ := p[field].(string); text == "" {
				t.Errorf("%s is missing", field)
			}
			delete(p, field)
		}
		if sure, _ := p["confidence"].(float64); !(sure > 0.7 && sure < 1) {
			t.Errorf("confidence %v", p["confidence"])
		}
		delete(p, "confidence")
		want := object{
			"skill_name": "pdf", "proposal_type": "description", "finding": "missed_session", "status": "pending", "proposed_by": "contributor_aggregate",
			"current_value": "Reads PDF files", "proposed_value": "Reads PDF files. Use it also for search.",
			"reason":           "10 of 10 signals say that the skill was missed in the session, from 2026-W07 to 2026-W07.",
			"pass_rate_before": nil, "projected_pass_rate": nil, "reviewed_by": nil, "reviewed_at": nil, "applied_at": nil,
			"evidence": object{
				"signals": 10.0, "skill_signals": 10.0, "contributors": 3.0, "buckets": []any{object{"bucket": "search", "count": 10.0}},
				"period": object{"from": "2026-W07", "to": "2026-W07"},
			},
		}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Errorf("proposal (-want +got):\n%s", diff)
		}
		if got := c.get("/api/v1/creator-signals/overview").want(http.StatusOK).object()["pending_proposals"]; got != 1.0 {
			t.Errorf("pending_proposals %v, want 1", got)
		}
	})
}

func TestFindings(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org()
		var events []object
		for n := range 12 {
			events = append(events, object{
				"skill_name": "csv", "signal_type": "missed_trigger", "source_key": fmt.Sprint(n), "confidence": 0.9, "user_cohort": fmt.Sprint(n % 3),
			})
			c.do(http.MethodPost, "/api/v1/signals", object{
				"signal_type": "skill_session", "skill_name": "xls", "user_cohort": fmt.Sprint(n % 3), "signals": object{"execution_grade": "F"},
			}).want(http.StatusCreated)
		}
		c.do(http.MethodPost, "/api/v1/signals", object{"signals": events}).want(http.StatusOK)
		c.generate()
		got := map[any]any{}
		for _, p := range c.get(path).list() {
			got[p["skill_name"]] = fmt.Sprint(p["finding"], " ", p["proposal_type"], " ", p["proposed_value"])
		}
		if diff := cmp.Diff(map[any]any{"csv": "missed_trigger description <nil>", "xls": "low_grade body <nil>"}, got); diff != "" {
			t.Errorf("proposals (-want +got):\n%s", diff)
		}
	})
}

// TestJob waits for the proposal that ingest causes.
func TestJob(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := w.queue.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		defer wg.Wait()
		defer cancel()
		c := w.org()
		c.miss("pdf", 10, 3)
		deadline := time.Now().Add(30 * time.Second)
		for len(c.get(path).list()) == 0 {
			if time.Now().After(deadline) {
				t.Fatal("timed out waiting for a proposal")
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// propose creates a proposal as an improve run does.
func (c *client) propose(finding string) string {
	c.t.Helper()
	value := "new"
	var id string
	err := c.w.db.InTx(c.t.Context(), func(tx *store.Tx) (err error) {
		id, err = c.w.proposals.Propose(c.t.Context(), tx, proposals.Draft{
			OrgID: c.org.ID, SkillName: "pdf", Finding: finding, Type: proposals.Body, ProposedValue: &value, Reason: "because",
			Evidence: object{"run": 1}, ProposedBy: "improve_run",
		})
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

func TestPropose(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org()
		first, second := c.propose("run 1"), c.propose("run 2")
		if again := c.propose("run 1"); again != first || first == second {
			t.Errorf("ids %s, %s and %s", first, second, again)
		}
		if got := c.get("/api/v1/creator-signals/proposals").list(); len(got) != 0 {
			t.Errorf("proposals of contributors: %v", got)
		}
		page := c.get(path + "?per_page=1&skill_name=pdf&status=pending").want(http.StatusOK)
		if got := page.list(); len(got) != 1 || got[0]["id"] != second {
			t.Errorf("the newest is %v", got)
		}
		if diff := cmp.Diff(object{"page": 1.0, "per_page": 1.0, "total": 2.0}, page.object()["pagination"]); diff != "" {
			t.Errorf("pagination (-want +got):\n%s", diff)
		}
		got := c.get(path + "/" + first).want(http.StatusOK).object()["proposal"].(object)
		if got["reason"] != "because" || got["proposed_by"] != "improve_run" || !cmp.Equal(got["evidence"], any(object{"run": 1.0})) {
			t.Errorf("proposal %v", got)
		}
		c.get(path+"/"+uuid.NewString()).wantError(http.StatusNotFound, "Proposal not found")
		other := w.org()
		other.get(path+"/"+first).wantError(http.StatusNotFound, "Proposal not found")
		other.do(http.MethodPatch, path+"/"+first, object{"status": "approved"}).wantError(http.StatusNotFound, "Proposal not found")
		if got := other.get(path).list(); len(got) != 0 {
			t.Errorf("another organisation sees %v", got)
		}
	})
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org()
		to := func(id, status string) answer { return c.do(http.MethodPatch, path+"/"+id, object{"status": status}) }
		statuses := []string{"pending", "approved", "rejected", "applied"}
		ways := map[string][]string{"pending": {}, "approved": {"approved"}, "rejected": {"rejected"}, "applied": {"approved", "applied"}}
		allowed := "pending approved, pending rejected, approved applied, approved rejected"
		for _, from := range statuses {
			for _, next := range statuses {
				id := c.propose(from + " " + next)
				for _, step := range ways[from] {
					to(id, step).want(http.StatusOK)
				}
				if from != next && !strings.Contains(allowed, from+" "+next) {
					to(id, next).wantError(http.StatusConflict, fmt.Sprintf("A proposal that is %s cannot become %s", from, next))
					continue
				}
				p := to(id, next).want(http.StatusOK).object()["proposal"].(object)
				reviewed, applied := next != "pending", next == "applied"
				if p["status"] != next || (p["reviewed_at"] != nil) != reviewed || (p["applied_at"] != nil) != applied ||
					reviewed && p["reviewed_by"] != c.id {
					t.Errorf("%s to %s: %v", from, next, p)
				}
			}
		}
		id := c.propose("x")
		for _, body := range []object{{}, {"status": "done"}, {"status": 5}} {
			a := c.do(http.MethodPatch, path+"/"+id, body).want(http.StatusBadRequest).object()
			if got := a["details"].(object)["path"]; !cmp.Equal(got, any([]any{"status"})) {
				t.Errorf("path %v of %v", got, body)
			}
		}
		viewer := w.member(c.org, access.Viewer)
		viewer.do(http.MethodPatch, path+"/"+id, object{"status": "approved"}).wantError(http.StatusForbidden, "This needs the permission write")
		viewer.get(path + "/" + id).want(http.StatusOK)
	})
}
