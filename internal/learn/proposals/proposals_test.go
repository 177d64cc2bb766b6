package proposals_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/stored"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// world is the service as internal/app wires it.
type world struct {
	*apptest.World
	registry  *registry.Service
	sources   *sources.Service
	proposals *proposals.Service
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{World: apptest.NewWorld(t, db, apptest.Options{})}
	known, files := &skills.Service{DB: db, Window: 30}, stored.New(nil)
	w.registry = &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: known, Files: files, Log: w.Log}
	w.sources = &sources.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: known, Files: files, Limits: skillpkg.DefaultLimits(), Log: w.Log,
	}
	counts := &signals.Service{DB: db, Secret: []byte("test")}
	w.proposals = &proposals.Service{DB: db, Jobs: w.Queue, Signals: counts, Registry: w.registry, Sources: w.sources}
	counts.OnSignals, counts.OnOverview = w.proposals, w.proposals
	w.proposals.Register()
	counts.Mount(w.API)
	w.proposals.Mount(w.API)
	return w
}

// org creates an organisation and returns its owner, with the key of a relay,
// which may name contributors.
func (w *world) org() *client {
	w.T.Helper()
	owner := w.Org(uuid.NewString())
	return &client{w.WithKey(owner.Org, owner.User, auth.NewKey{Relay: true}), w}
}

// client calls the API with a key.
type client struct {
	*apptest.Caller
	w *world
}

type object = apptest.Object

const path = "/api/v1/proposals"

// list reads proposals from a path.
func (c *client) list(path string) []object {
	c.T.Helper()
	return c.Get(path).Want(http.StatusOK).List("proposals")
}

// miss sends sessions of cohorts that missed a skill while searching. The last is of a
// cohort of its own, so that the figures are published with it.
func (c *client) miss(skill string, sessions, cohorts int) {
	c.T.Helper()
	for n := range sessions {
		cohort := n % max(cohorts-1, 1)
		if n == sessions-1 {
			cohort = cohorts - 1
		}
		c.Post("/api/v1/signals", object{
			"signal_type": "skill_session", "skill_name": skill, "user_cohort": fmt.Sprint("cohort", cohort),
			"timestamp_bucket": "2026-W07",
			"signals":          object{"miss_detected": true, "query_bucket": "search"},
		}).Want(http.StatusCreated)
	}
}

// skillMD is a SKILL.md of a skill.
func skillMD(name, description string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n# " + name + "\n"
}

// publish adds a skill with this description to the registry.
func (c *client) publish(name, description string) registry.Entry {
	c.T.Helper()
	e, _, err := c.w.registry.Create(c.T.Context(), c.version(name, "1.0.0", skillMD(name, description)))
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	return e
}

// push adds a version to an entry.
func (c *client) push(e registry.Entry, version, skillMD string) {
	c.T.Helper()
	if _, _, _, err := c.w.registry.Push(c.T.Context(), e.ID, c.version(e.Name, version, skillMD)); err != nil {
		c.T.Fatalf("%v", err)
	}
}

func (c *client) version(name, version, skillMD string) registry.Publication {
	archive := apptest.Pack(c.w.T, "SKILL.md", skillMD)
	return registry.Publication{
		OrgID: c.Org.ID, UserID: c.User.ID, Name: name, Type: registry.TypeSkill, Visibility: registry.Org, Version: version,
		Source: registry.FromCLI, Archive: strings.NewReader(archive), Size: int64(len(archive)),
	}
}

// one reads the only proposal.
func (c *client) one() object {
	c.T.Helper()
	all := c.list(path)
	if len(all) != 1 {
		c.T.Fatalf("%d proposals, want 1", len(all))
	}
	return c.Get(path + "/" + all[0]["id"].(string)).Want(http.StatusOK).Object()["proposal"].(object)
}

// patch changes a proposal.
func (c *client) patch(p object, body object) apptest.Response {
	c.T.Helper()
	return c.Do(http.MethodPatch, path+"/"+p["id"].(string), body)
}

func (c *client) generate() {
	c.T.Helper()
	if err := c.w.proposals.Generate(c.T.Context(), c.Org.ID); err != nil {
		c.T.Fatalf("%v", err)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org()
		c.publish("pdf", "Reads PDF files")
		c.miss("pdf", 7, 3) // too few signals
		c.miss("csv", 12, 2)
		c.generate()
		if got := c.list(path); len(got) != 0 {
			t.Fatalf("proposals below the gate: %v", got)
		}
		c.miss("pdf", 3, 3)
		for range 2 { // once for each finding
			c.generate()
		}
		got := c.list("/api/v1/creator-signals/proposals")
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
		entry, _ := p["entry_id"].(string)
		if diff, _ := p["diff"].(string); entry == "" || !strings.HasSuffix(diff, `
 name: pdf
-description: Reads PDF files
+description: Reads PDF files. Use it also for search.
 ---
 # pdf
`) {
			t.Errorf("entry %q, diff %q", entry, diff)
		}
		delete(p, "entry_id")
		delete(p, "diff")
		want := object{
			"skill_name": "pdf", "proposal_type": "description", "finding": "missed_session",
			"status": "pending", "proposed_by": "contributor_aggregate",
			"current_value": "Reads PDF files", "proposed_value": "Reads PDF files. Use it also for search.",
			"reason":           "10 of 10 signals say that the skill was missed in the session, from 2026-W07 to 2026-W07.",
			"pass_rate_before": nil, "projected_pass_rate": nil, "reviewed_by": nil, "reviewed_at": nil, "applied_at": nil,
			"target": "description", "base_version": "1.0.0", "edits": []any{}, "proved": false, "proof": nil,
			"stale": false, "stale_reason": nil, "refreshed_at": nil, "outcome": nil,
			"evidence": object{
				"signals": 10.0, "skill_signals": 10.0, "contributors": 3.0, "buckets": []any{object{"bucket": "search", "count": 10.0}},
				"period": object{"from": "2026-W07", "to": "2026-W07"},
			},
		}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Errorf("proposal (-want +got):\n%s", diff)
		}
		if got := c.Get("/api/v1/creator-signals/overview").Want(http.StatusOK).Object()["pending_proposals"]; got != 1.0 {
			t.Errorf("pending_proposals %v, want 1", got)
		}
	})
}

// TestProved reads what an improve run proposes.
func TestProved(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org()
		before, after, p := "Read it.", "Read it twice.", 0.03
		d := proposals.Draft{
			OrgID: c.Org.ID, SkillName: "pdf", Finding: "improve_run 1", Type: proposals.Body, Target: proposals.TargetBoth,
			CurrentValue: &before, ProposedValue: &after, Reason: "better", Evidence: object{}, ProposedBy: "improve_run",
			Change: proposals.Change{
				EntryID: uuid.NewString(), BaseVersion: "1.0.0", Diff: "-Read it.\n+Read it twice.\n",
				Edits: []proposals.Edit{{Op: "replace", Anchor: "it", Text: "it twice", Why: "once is not enough", Cases: []string{"c1"}}},
			},
			Proved: true, Proof: &proposals.Proof{Cases: 8, Current: 0.5, Winner: 0.75, Better: 3, Worse: 1, P: &p, Interval: &[2]float64{0.1, 0.4}},
		}
		var id string
		if err := db.InTx(t.Context(), func(tx *store.Tx) (err error) {
			id, err = c.w.proposals.Propose(t.Context(), tx, d)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		got := c.Get(path + "/" + id).Want(http.StatusOK).Object()["proposal"].(object)
		want := object{
			"proposal_type": "body", "target": "both", "proved": true, "entry_id": d.EntryID, "base_version": "1.0.0", "diff": d.Diff,
			"edits": []any{object{"op": "replace", "anchor": "it", "text": "it twice", "why": "once is not enough", "cases": []any{"c1"}}},
			"proof": object{"cases": 8.0, "current": 0.5, "winner": 0.75, "better": 3.0, "worse": 1.0, "p": 0.03, "interval": []any{0.1, 0.4}},
		}
		for field, value := range want {
			if diff := cmp.Diff(value, got[field]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", field, diff)
			}
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
				"skill_name": "csv", "signal_type": "missed_trigger", "source_key": fmt.Sprint(n),
				"confidence": 0.9, "user_cohort": fmt.Sprint(n % 3),
			})
			c.Post("/api/v1/signals", object{
				"signal_type": "skill_session", "skill_name": "xls", "user_cohort": fmt.Sprint(n % 3),
				"signals": object{"execution_grade": "F"},
			}).Want(http.StatusCreated)
		}
		c.Post("/api/v1/signals", object{"signals": events}).Want(http.StatusOK)
		c.generate()
		got := map[any]any{}
		for _, p := range c.list(path) {
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
		w.Work()
		c := w.org()
		c.miss("pdf", 10, 3)
		apptest.Eventually(t, "a proposal", func() bool { return len(c.list(path)) > 0 })
	})
}

// propose creates a proposal as an improve run does.
func (c *client) propose(finding string) string {
	c.T.Helper()
	value := "new"
	var id string
	err := c.w.DB.InTx(c.T.Context(), func(tx *store.Tx) (err error) {
		id, err = c.w.proposals.Propose(c.T.Context(), tx, proposals.Draft{
			OrgID: c.Org.ID, SkillName: "pdf", Finding: finding, Type: proposals.Body, ProposedValue: &value, Reason: "because",
			Evidence: object{"run": 1}, ProposedBy: "improve_run",
		})
		return err
	})
	if err != nil {
		c.T.Fatalf("%v", err)
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
		if got := c.list("/api/v1/creator-signals/proposals"); len(got) != 0 {
			t.Errorf("proposals of contributors: %v", got)
		}
		page := c.Get(path + "?per_page=1&skill_name=pdf&status=pending").Want(http.StatusOK)
		if got := page.List("proposals"); len(got) != 1 || got[0]["id"] != second {
			t.Errorf("the newest is %v", got)
		}
		if diff := cmp.Diff(object{"page": 1.0, "per_page": 1.0, "total": 2.0}, page.Object()["pagination"]); diff != "" {
			t.Errorf("pagination (-want +got):\n%s", diff)
		}
		got := c.Get(path + "/" + first).Want(http.StatusOK).Object()["proposal"].(object)
		if got["reason"] != "because" || got["proposed_by"] != "improve_run" || !cmp.Equal(got["evidence"], any(object{"run": 1.0})) {
			t.Errorf("proposal %v", got)
		}
		c.Get(path+"/"+uuid.NewString()).WantError(http.StatusNotFound, "Proposal not found")
		other := w.org()
		other.Get(path+"/"+first).WantError(http.StatusNotFound, "Proposal not found")
		other.Do(http.MethodPatch, path+"/"+first, object{"status": "approved"}).WantError(http.StatusNotFound, "Proposal not found")
		if got := other.list(path); len(got) != 0 {
			t.Errorf("another organisation sees %v", got)
		}
	})
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org()
		to := func(id, status string) apptest.Response {
			return c.Do(http.MethodPatch, path+"/"+id, object{"status": status})
		}
		statuses := []string{"pending", "approved", "rejected", "applied"}
		ways := map[string][]string{"pending": {}, "approved": {"approved"}, "rejected": {"rejected"}, "applied": {"approved", "applied"}}
		allowed := "pending approved, pending rejected, approved applied, approved rejected"
		for _, from := range statuses {
			for _, next := range statuses {
				id := c.propose(from + " " + next)
				for _, step := range ways[from] {
					to(id, step).Want(http.StatusOK)
				}
				if from != next && !strings.Contains(allowed, from+" "+next) {
					to(id, next).WantError(http.StatusConflict, fmt.Sprintf("A proposal that is %s cannot become %s", from, next))
					continue
				}
				p := to(id, next).Want(http.StatusOK).Object()["proposal"].(object)
				reviewed, applied := next != "pending", next == "applied"
				if p["status"] != next || (p["reviewed_at"] != nil) != reviewed || (p["applied_at"] != nil) != applied ||
					reviewed && p["reviewed_by"] != c.User.ID {
					t.Errorf("%s to %s: %v", from, next, p)
				}
			}
		}
		id := c.propose("x")
		for _, body := range []object{{}, {"status": "done"}, {"status": 5}} {
			a := c.Do(http.MethodPatch, path+"/"+id, body).Want(http.StatusBadRequest).Object()
			if got := a["details"].(object)["path"]; !cmp.Equal(got, any([]any{"status"})) {
				t.Errorf("path %v of %v", got, body)
			}
		}
		viewer := w.Member(c.Org, access.Viewer)
		viewer.Do(http.MethodPatch, path+"/"+id, object{"status": "approved"}).
			WantError(http.StatusForbidden, "This needs the permission write")
		viewer.Get(path + "/" + id).Want(http.StatusOK)
	})
}

// TestHiddenSkills: the pending proposals of a hidden skill are neither listed nor
// counted by default, its decided ones are.
func TestHiddenSkills(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org()
		for _, name := range []string{"old", "pdf"} {
			c.publish(name, "Reads files")
			c.miss(name, 10, 3)
		}
		c.generate()
		hide := func(hidden bool) {
			w.Exec(`UPDATE skills SET hidden = $3 WHERE org_id = $1 AND name = $2`, c.Org.ID, "old", hidden)
		}
		wantListed := func(want int, queries ...string) {
			t.Helper()
			for _, query := range queries {
				if got := len(c.list(path + query)); got != want {
					t.Errorf("%s: %d proposals, want %d", query, got, want)
				}
			}
		}
		all := c.list(path + "?skill_name=old")
		hide(true)
		wantListed(1, "", "?status=pending", "?hidden=false")
		wantListed(2, "?hidden=true", "?hidden=true&status=pending")
		wantListed(0, "?skill_name=old")
		if got := len(c.list("/api/v1/creator-signals/proposals")); got != 1 {
			t.Errorf("%d proposals from signals, want 1", got)
		}
		if n, err := w.proposals.Pending(t.Context(), c.Org.ID); n != 1 || err != nil {
			t.Errorf("%d are pending (%v), want 1", n, err)
		}
		c.Do(http.MethodPatch, path+"/"+apptest.Text(all[0], "id"), object{"status": "rejected"}).Want(http.StatusOK)
		wantListed(1, "?skill_name=old", "?status=rejected", "?status=pending")
		hide(false)
		wantListed(2, "")
		c.Get(path + "?hidden=perhaps").Want(http.StatusBadRequest)
	})
}
