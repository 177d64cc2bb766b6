package unattended_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/unattended"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals/apply"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

type object = apptest.Object

// world has an organisation with the entry pdf, which is in trouble, and a suite that
// its gate uses.
type world struct {
	*runstest.World
	*runstest.Client
	nights *unattended.Service
	skills *skills.Service
	entry  string
	suite  object
}

const policyPath = "/v1/skills/pdf/improve-policy"

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{}
	w.World = runstest.New(t, db, func(rw *runstest.World) {
		w.skills = rw.Registry.Skills
		held := &gates.Service{
			DB: db, Jobs: rw.Queue, Registry: rw.Registry, Sources: rw.Sources, Suites: rw.Suites, Runs: rw.Runs, Log: rw.Log,
		}
		held.Register()
		held.Mount(rw.API)
		rw.Proposals.Mount(rw.API)
		applied := &apply.Service{
			DB: db, Jobs: rw.Queue, Proposals: rw.Proposals, Registry: rw.Registry, Gates: held, Interval: time.Hour, Log: rw.Log,
		}
		applied.Register()
		people := &approvals.Service{DB: db, Registry: rw.Registry, Gates: held, Tally: approvals.Tally{Approvers: approvals.ByRole(access.AdminRole)}, Watcher: applied}
		people.Mount(rw.API)
		rw.Registry.OnPush, held.OnGateChanged, held.Approvals = held, applied, people
		w.nights = &unattended.Service{
			DB: db, Jobs: rw.Queue, Skills: w.skills, Registry: rw.Registry, Sources: rw.Sources, Suites: rw.Suites, Gates: held,
			Improve: rw.Improve, Apply: applied, Log: rw.Log,
		}
		w.nights.Register()
		w.nights.Mount(rw.API)
	})
	w.Client = &runstest.Client{Caller: w.OrgWithPlan("acme", access.Team), World: w.World}
	w.entry = w.Entry()
	w.suite = w.Create(queries(20))
	w.gate("report")
	w.grade("pdf", 10, 0.3)
	return w
}

// queries is a suite of that many trigger queries, half of them wanted.
func queries(n int) object {
	var cases []object
	for i := range n {
		c := runstest.Trigger(fmt.Sprintf("extract the tables of report %d", i))
		if i%2 == 1 {
			c = runstest.Avoid(fmt.Sprintf("what is the weather in town %d", i))
		}
		cases = append(cases, apptest.With(c, object{"id": fmt.Sprint("case-", i)}))
	}
	return runstest.Judged(cases...)
}

// gate sets the gate policy of the entry, with the suite.
func (w *world) gate(mode string) { w.Client.T.Helper(); w.gateBy(mode, 0) }

// gateBy is gate with the number of people who must approve, too.
func (w *world) gateBy(mode string, people int) {
	w.Client.T.Helper()
	w.Do(http.MethodPut, "/api/v1/registry/"+w.entry+"/gate-policy",
		object{"mode": mode, "suites": []any{w.suite["id"]}, "approvals": people}).Want(http.StatusOK)
}

// grade reports graded sessions of a skill.
func (w *world) grade(skill string, n int, rate float64) {
	w.Client.T.Helper()
	r := skills.Report{OrgID: w.Client.Org.ID, UserID: w.User.ID}
	for i := range n {
		id := fmt.Sprint(skill, rate, i)
		r.Gradings = append(r.Gradings, skills.Grading{
			ID: skills.ID(r.OrgID, r.UserID, "grading", id), SkillName: skill, Session: id, PassRate: &rate, At: time.Now(),
		})
	}
	err := w.DB.InTx(w.Client.T.Context(), func(tx *store.Tx) error {
		return w.skills.Observe(w.Client.T.Context(), tx, r, nil)
	})
	if err != nil {
		w.Client.T.Fatalf("%v", err)
	}
}

// set sets the policy of the skill.
func (w *world) set(mode string, usd float64) apptest.Response {
	w.Client.T.Helper()
	return w.Do(http.MethodPut, policyPath, object{"mode": mode, "monthly_usd": usd})
}

// night makes a night of so many days from now to its end, and returns the policy.
func (w *world) night(days int) object {
	w.Client.T.Helper()
	apptest.Eventually(w.Client.T, "the end of the night", func() bool { return !w.step(days) })
	return w.policy()
}

// step is one attempt of a night's job; it reports whether it waits.
func (w *world) step(days int) bool {
	w.Client.T.Helper()
	wait, err := w.nights.Night(w.Client.T.Context(), w.Client.Org.ID, time.Now().AddDate(0, 0, days))
	if err != nil {
		w.Client.T.Fatalf("%v", err)
	}
	return wait
}

func (w *world) policy() object {
	w.Client.T.Helper()
	return w.Get(policyPath).Want(http.StatusOK).Object()
}

func (w *world) started() int { return w.Count("improve_runs") }

func TestPolicy(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		if p := w.policy(); p["mode"] != "off" || p["monthly_usd"] != 0.0 || p["spent_usd"] != 0.0 || p["note"] != nil {
			t.Errorf("a skill without a policy has %v", p)
		}
		for _, body := range []any{
			object{"monthly_usd": 5},
			object{"mode": "always", "monthly_usd": 5},
			object{"mode": "propose"},
			object{"mode": "propose", "monthly_usd": 0},
			object{"mode": "propose", "monthly_usd": -1},
			object{"mode": "propose", "monthly_usd": 1e7},
		} {
			w.Do(http.MethodPut, policyPath, body).Want(http.StatusBadRequest)
		}
		w.Do(http.MethodPut, "/v1/skills/nothing/improve-policy", object{"mode": "off"}).Want(http.StatusNotFound)
		for _, mode := range []string{"off", "report"} {
			w.gate(mode)
			refused := w.set("publish", 5).Want(http.StatusConflict)
			if !strings.Contains(string(refused.Body), "the gate policy of pdf is "+mode) {
				t.Errorf("publish is refused with %s", refused.Body)
			}
		}
		w.gate("enforce")
		if p := w.set("publish", 7.5).Want(http.StatusOK).Object(); p["mode"] != "publish" || p["monthly_usd"] != 7.5 {
			t.Errorf("the policy is %v", p)
		}
		// A skill that is known from sessions only has no gate at all.
		w.grade("loose", 5, 1)
		refused := w.Do(http.MethodPut, "/v1/skills/loose/improve-policy", object{"mode": "publish", "monthly_usd": 1}).Want(http.StatusConflict)
		if !strings.Contains(string(refused.Body), "not in the registry") {
			t.Errorf("publish is refused with %s", refused.Body)
		}
		if n := w.Count("audit_entries WHERE action = 'improve.policy.change'"); n != 1 {
			t.Errorf("%d changes are in the audit log", n)
		}
	})
}

func TestNight(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.set("propose", 3).Want(http.StatusOK)
		if p := w.night(0); p["note"] != nil || w.started() != 0 {
			t.Errorf("the night before the policy did something: %v", p)
		}
		if !w.step(1) || w.started() != 1 {
			t.Fatalf("the night started %d runs: %v", w.started(), w.policy())
		}
		w.step(1) // as after a restart
		w.Work()
		p := w.night(1)
		if note := apptest.Text(p, "note"); w.started() != 1 || !strings.HasPrefix(note, "The improve run ") {
			t.Errorf("%d runs were started, and the night says %q", w.started(), note)
		}
		if p["run_id"] != nil || p["last_night"] == nil {
			t.Errorf("after the night the policy is %v", p)
		}
		reasons := w.Get("/api/v1/improve-runs").Want(http.StatusOK).List("improve_runs")
		if len(reasons) != 1 || reasons[0]["suite_id"] != w.suite["id"] {
			t.Errorf("the runs are %v", reasons)
		}
		if n := w.Count(`audit_entries WHERE action = 'improve.policy.start' AND actor = 'system'
			AND detail LIKE '%The skill is critical, and 20 reviewed cases%'`); n != 1 {
			t.Errorf("%d starts with their reason are in the audit log", n)
		}

		// The next night has no new cases, and one later has too few.
		if note := w.night(2)["note"]; note != "0 reviewed cases are new since the last improve run, and 16 are needed." {
			t.Errorf("without new cases: %v", note)
		}
		w.Patch(w.suite["id"].(string), object{"cases_json": queries(35)["cases_json"]}).Want(http.StatusOK)
		if note := w.night(3)["note"]; note != "15 reviewed cases are new since the last improve run, and 16 are needed." {
			t.Errorf("with 15 new cases: %v", note)
		}
		w.Patch(w.suite["id"].(string), object{"cases_json": queries(36)["cases_json"]}).Want(http.StatusOK)
		if w.night(4); w.started() != 2 {
			t.Errorf("with 16 new cases %d runs were started", w.started())
		}
	})
}

// TestNightDoesNothing has the reasons against a run, which the policy says.
func TestNightDoesNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.set("propose", 3).Want(http.StatusOK)
		day := 1
		check := func(name, want string) {
			t.Helper()
			if note := apptest.Text(w.night(day), "note"); note != want || w.started() > 0 {
				t.Errorf("%s: %q, want %q; %d runs were started", name, note, want, w.started())
			}
			day++
		}
		small := w.Create(queries(14))
		w.Do(http.MethodPut, "/api/v1/registry/"+w.entry+"/gate-policy", object{"mode": "off", "suites": []any{small["id"]}}).Want(http.StatusOK)
		check("few cases", "14 reviewed cases are new since the last improve run, and 16 are needed.")
		w.Do(http.MethodPut, "/api/v1/registry/"+w.entry+"/gate-policy", object{"mode": "off"}).Want(http.StatusOK)
		check("no suite", "0 reviewed cases are new since the last improve run, and 16 are needed.")
		w.gate("off")
		w.Exec(`INSERT INTO improve_policy_runs (run_id, org_id, skill_id, max_cost_usd, started_at)
			SELECT 'r', org_id, skill_id, 3, $1 FROM improve_policies`, store.Micros(time.Now().AddDate(0, 0, day)))
		check("no money", "The month's budget of $3.00 is spent.")
		w.Exec("DELETE FROM improve_policy_runs")
		w.grade("pdf", 200, 1)
		check("healthy", "Nothing to do: the skill is healthy.")
		w.Exec("UPDATE skills SET hidden = TRUE WHERE name = 'pdf'")
		check("hidden", "The skill is hidden or merged into another one.")
		w.set("off", 0).Want(http.StatusOK)
		w.Exec("UPDATE skills SET hidden = FALSE")
		check("off", "The skill is hidden or merged into another one.")
	})
}

// TestNightOnlyProposes: a gate that was enforced when the policy was set may be off
// at night.
func TestNightOnlyProposes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.gate("enforce")
		w.set("publish", 3).Want(http.StatusOK)
		w.gate("report")
		w.step(1)
		if note := apptest.Text(w.policy(), "note"); !strings.Contains(note, "It only proposes: the gate policy of pdf is report") {
			t.Errorf("the night says %q", note)
		}
	})
}

// TestNightPublishes: what a night has proved goes through the gate without a person.
func TestNightPublishes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.publishing(0)
		var got []object
		apptest.Eventually(t, "the version is published", func() bool {
			w.Work()
			got = w.Get("/api/v1/proposals").Want(http.StatusOK).List("proposals")
			return apptest.At(got[0], "outcome", "state") == "published"
		})
		if len(got) != 1 || got[0]["proved"] != true || got[0]["status"] != "applied" || apptest.At(got[0], "outcome", "version") != "2.0.1" {
			t.Errorf("got the proposals %v", got)
		}
		gate := w.Get("/api/v1/gates").Want(http.StatusOK).List("gates")
		if len(gate) != 1 || gate[0]["verdict"] != "pass" {
			t.Errorf("got the gates %v", gate)
		}
	})
}

// publishing makes a night that publishes a better version, whose gate asks so many people.
func (w *world) publishing(people int) {
	w.Client.T.Helper()
	var cases []object
	for i := range 24 { // the description has none of these words
		cases = append(cases,
			apptest.With(runstest.Trigger(fmt.Sprintf("book the supplier invoice %d in the ledger", i)), object{"id": fmt.Sprint("invoice-", i)}),
			apptest.With(runstest.Avoid(fmt.Sprintf("what is the weather in town %d", i)), object{"id": fmt.Sprint("weather-", i)}))
	}
	w.Patch(w.suite["id"].(string), object{"cases_json": cases}).Want(http.StatusOK)
	w.gateBy("enforce", people)
	w.set("publish", 3).Want(http.StatusOK)
	if !w.step(1) {
		w.Client.T.Fatalf("the night started nothing: %v", w.policy())
	}
	w.Work()
	if note := apptest.Text(w.night(1), "note"); !strings.Contains(note, "It is being published as a version") {
		w.Client.T.Fatalf("the night says %q", note)
	}
}

// TestNightWaitsForPeople: what a night has proved, and its gate lets pass, waits for the
// approvals that the policy asks for. Whoever set the policy of nights cannot give one.
func TestNightWaitsForPeople(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.publishing(1)
		state := func() (got any) {
			all := w.Get("/api/v1/proposals").Want(http.StatusOK).List("proposals")
			return fmt.Sprint(apptest.At(all[0], "outcome", "state"), ": ", apptest.At(all[0], "outcome", "message"))
		}
		await := func(want string) {
			t.Helper()
			apptest.Eventually(t, want, func() bool { w.Work(); return state() == want })
		}
		await("candidate: It waits for approval")
		gate := w.Get("/api/v1/gates").Want(http.StatusOK).List("gates")
		if len(gate) != 1 || gate[0]["verdict"] != "pass" {
			t.Errorf("got the gates %v", gate)
		}
		at := "/api/v1/registry/" + w.entry + "/versions/2.0.1/approvals"
		w.Post(at, object{"decision": "approve"}).WantErrorWith(http.StatusForbidden, "another person must approve it")
		w.Member(w.Client.Org, access.Member).Post(at, object{"decision": "approve"}).Want(http.StatusForbidden)
		ben := w.Member(w.Client.Org, access.AdminRole)
		ben.Post(at, object{"decision": "approve"}).Want(http.StatusOK)
		await("published: <nil>")
	})
}

// TestNightOnce: workers that make the same night start one run.
func TestNightOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.set("propose", 3).Want(http.StatusOK)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() { w.step(1) })
		}
		group.Wait()
		if n := w.started(); n != 1 {
			t.Errorf("%d runs were started", n)
		}
	})
}

func TestNightsAreSpread(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.set("propose", 3).Want(http.StatusOK)
		midnight := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
		offset := unattended.OffsetOf(w.Client.Org.ID)
		if offset < 0 || offset >= 6*time.Hour {
			t.Errorf("the night begins %v after midnight", offset)
		}
		for _, c := range []struct {
			at   time.Time
			want int
		}{
			{midnight.Add(-time.Second), 0}, {midnight.Add(offset - time.Second), 0}, {midnight.Add(offset), 1}, {midnight.Add(20 * time.Hour), 1},
		} {
			if err := w.nights.Begin(t.Context(), c.at); err != nil {
				t.Fatal(err)
			}
			if n := w.waiting(); n != c.want {
				t.Errorf("at %v %d nights have begun, want %d", c.at, n, c.want)
			}
		}
	})
}

// waiting counts the nights in the queue.
func (w *world) waiting() (n int) {
	w.Client.T.Helper()
	all, err := w.Queue.Counts(w.Client.T.Context())
	if err != nil {
		w.Client.T.Fatalf("%v", err)
	}
	for _, c := range all {
		if c.Kind == "improve.night" {
			n += c.Waiting
		}
	}
	return n
}
