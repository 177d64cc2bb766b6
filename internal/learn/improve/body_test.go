package improve_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/improvetest"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// invoices is an organisation with the skill of improvetest, and a suite of so many
// of its cases.
func invoices(w *runstest.World, cases int) (c *client, body object) {
	w.T.Helper()
	c = w.Org("acme")
	suite := c.Create(object{
		"name": "Invoices", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": improvetest.Cases(cases),
	})
	return c, object{"source_id": "src_" + c.SourceOf(improvetest.SkillMD), "suite_id": suite["id"], "target": "body"}
}

func start(c *client, body object) object {
	c.T.Helper()
	return c.Post(improvePath, body).Want(http.StatusAccepted).Field("improve_run")
}

// markers returns the markers of the run's cases by what they are for.
func markers(w *runstest.World, run object) map[string][]string {
	w.T.Helper()
	rows, err := w.DB.Query(w.T.Context(), `SELECT cases FROM improve_searches WHERE run_id = $1`, run["id"])
	raw, err := store.One(rows, err, "Run", store.Value[string])
	if err != nil {
		w.T.Fatal(err)
	}
	all := map[string][]string{}
	for _, c := range (apptest.Response{T: w.T, Body: []byte(`{"cases":` + raw + `}`)}).List("cases") {
		part := c["part"].(string)
		all[part] = append(all[part], "marker-"+strings.TrimPrefix(c["id"].(string), "case-"))
	}
	return all
}

// TestBody mends the two faults of a skill in two rounds, and proves it. The writer
// is sent no word of a case that chooses or proves.
func TestBody(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := improvetest.NewModel(t)
		w := runstest.New(t, db, runstest.Scripted(model.Server))
		c, body := invoices(w, 25)
		signals := "7 of 9 signals say that the skill did its work with the grade C or F."
		err := db.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := w.Proposals.Propose(t.Context(), tx, proposals.Draft{
				OrgID: c.Org.ID, SkillName: "invoices", Finding: "low_grade", Type: proposals.Body, Reason: signals, Evidence: object{},
				ProposedBy: proposals.Contributors,
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		estimate := c.Post(improvePath+"/estimate", body).Want(http.StatusOK).Object()
		run := start(c, body)
		w.Work()
		run = c.AwaitImprove(run)
		proof, _ := run["proof"].(object)
		if run["status"] != "succeeded" || proof["proved"] != true || proof["winner"] != 1.0 || proof["worse"] != 0.0 {
			t.Fatalf("got %v", run)
		}
		if got, want := proof["better"], 4.0; got != want {
			t.Errorf("%v of 5 cases are better, want %v", got, want)
		}
		parts := markers(w, run)
		if len(parts["train"]) != 15 || len(parts["selection"]) != 5 || len(parts["proof"]) != 5 {
			t.Errorf("the parts are %v", parts)
		}
		sent := strings.Join(model.Written(), "\n")
		for part, all := range parts {
			for _, marker := range all {
				if strings.Contains(sent, marker) && part != "train" {
					t.Errorf("the writer was sent %s, which is for the %s", marker, part)
				}
			}
		}
		if !strings.Contains(sent, "marker-") || !strings.Contains(sent, signals) {
			t.Error("the writer was sent no case, or not what signals say")
		}
		p, err := w.Proposals.Get(t.Context(), c.Org.ID, run["proposal_id"].(string))
		if err != nil {
			t.Fatal(err)
		}
		if !p.Proved || p.Type != "body" || p.Target != "body" || len(p.Edits) != 2 || p.Proof.Better != 4 ||
			strings.Contains(*p.ProposedValue, improvetest.WrongCurrency) || strings.Contains(*p.ProposedValue, improvetest.NoTax) ||
			!strings.HasPrefix(p.SkillMD, "---\nname: invoices\n") || strings.HasPrefix(*p.ProposedValue, "---") ||
			!strings.Contains(p.Diff, "-"+improvetest.NoTax) {
			t.Errorf("the proposal is %+v", p)
		}
		cost, progress := run["cost"].(object), run["progress"].(object)
		if cost["requests"].(float64) != float64(len(model.Requests())) || cost["requests"].(float64) > estimate["calls"].(float64) ||
			progress["done"].(float64) > estimate["trials"].(float64) {
			t.Errorf("the cost is %v after %v, of %d requests; the estimate was %v", cost, progress, len(model.Requests()), estimate)
		}
		again := c.Post(improvePath+"/estimate", body).Want(http.StatusOK).Object()
		if estimate["measured"] != false || again["measured"] != true || again["calls"] != cost["requests"] {
			t.Errorf("after a run of %v requests, the estimate is %v; before it was %v", cost["requests"], again, estimate)
		}
		apptest.Eventually(t, "the end of its candidates", func() bool { return w.Count("cloud_sources") == 1 && w.Count("improve_sources") == 0 })
		if n := w.Count("improve_proofs WHERE times = 1"); n != 5 {
			t.Errorf("%d cases were part of a proof", n)
		}
		if made, labelled := w.Count("improve_trials"), w.Count("eval_run_purposes WHERE improve_run_id = $1", run["id"]); made != labelled {
			t.Errorf("%d of %d eval runs are labelled", labelled, made)
		}
	})
}

// TestBadWriters: a round in which nothing usable is written is an iteration that
// says why, and nothing is proposed.
func TestBadWriters(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := improvetest.NewModel(t)
		w := runstest.New(t, db, runstest.Scripted(model.Server))
		c, body := invoices(w, 16)
		w.Work()
		for _, bad := range improvetest.BadWriters() {
			model.SetWriter(bad.Writer)
			run := c.AwaitImprove(start(c, with(body, object{"max_iterations": 1})))
			all := apptest.List(t, run, "iterations")
			if len(all) != 1 || run["status"] != "no_winner" || run["proposal_id"] != nil {
				t.Fatalf("%s: got %v", bad.Name, run)
			}
			problem, _ := all[0]["problem"].(string)
			if all[0]["description"] != nil || !strings.Contains(problem, bad.Why) ||
				!strings.Contains(apptest.Text(run, "error"), bad.Why) {
				t.Errorf("%s: the problem is %q, the error %q, want %q", bad.Name, problem, run["error"], bad.Why)
			}
		}
		model.SetWriter(improvetest.Useless())
		run := c.AwaitImprove(start(c, with(body, object{"max_iterations": 10})))
		if n := len(apptest.List(t, run, "iterations")); n != 3 || run["status"] != "no_winner" {
			t.Errorf("after %d iterations without a new front the run is %v", n, run)
		}
		if n := w.Count("proposals"); n != 0 {
			t.Errorf("%d proposals were made", n)
		}
	})
}

// TestInterrupted stops the workers again and again, wherever they are: what was
// written is paid for once, but for the call in flight, and proposed once.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := improvetest.NewModel(t)
		w := runstest.New(t, db, runstest.Scripted(model.Server))
		c, body := invoices(w, 25)
		run := start(c, body)
		for range 6 {
			seen := len(model.Requests())
			other := w.Another(jobs.Options{}, runstest.Scripted(model.Server))
			stop := other.Work()
			apptest.Eventually(t, "some more requests", func() bool {
				return len(model.Requests()) > seen+15 || w.Count("improve_runs WHERE finished_at IS NOT NULL") > 0
			})
			stop()
		}
		w.Work()
		run = c.AwaitImprove(run)
		if run["status"] != "succeeded" || w.Count("proposals") != 1 {
			t.Fatalf("%d proposals of %v", w.Count("proposals"), run)
		}
		written := model.Count(improvetest.Write)
		if n := len(apptest.List(t, run, "iterations")); written > n+6 {
			t.Errorf("%d iterations were written by %d calls", n, written)
		}
		apptest.Eventually(t, "the end of its candidates", func() bool { return w.Count("cloud_sources") == 1 && w.Count("improve_sources") == 0 })
	})
}

// TestBudget stops at each of the limits, before the next step.
func TestBudget(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := improvetest.NewModel(t)
		w := runstest.New(t, db, runstest.Scripted(model.Server))
		c, body := invoices(w, 16)
		c.Post(improvePath, with(body, object{"max_calls": 10})).WantIssueWith("max_calls", "max_calls must be at least ")
		c.Post(improvePath, with(body, object{"max_cost_usd": 1})).WantIssueWith("max_cost_usd", "the price of scripted is unknown")
		c.Post(improvePath, with(body, object{"max_minutes": 0})).WantIssueWith("max_minutes", ">= 1")
		// Enough for the current version, one round and the proof.
		const calls = 3 // of a trial: an answer, a verdict, and whether its quotations are right
		most := calls*16 + calls*(8+8+4) + 2 + calls*2*(4*5+12)
		run := start(c, with(body, object{"max_calls": most, "max_iterations": 10}))
		// With this seed, the four cases that choose have both faults: with some, one round gains nothing there.
		w.Exec(`UPDATE improve_runs SET seed = 4 WHERE id = $1`, run["id"])
		w.Work()
		run = c.AwaitImprove(run)
		if got := run["cost"].(object)["requests"].(float64); got > float64(most) || got != float64(len(model.Requests())) {
			t.Errorf("%v calls were made, %d are allowed: %v", got, most, run)
		}
		if n := len(apptest.List(t, run, "iterations")); n != 1 || run["status"] != "no_winner" || run["proposal_id"] == nil {
			t.Errorf("%d iterations were made: %v", n, run)
		}
		if run["stopped_by"] != "max_calls" {
			t.Errorf("stopped by %v, want max_calls", run["stopped_by"])
		}
		late := make(chan struct{})
		release := sync.OnceFunc(func() { close(late) })
		t.Cleanup(release)
		model.Before(func(improvetest.Part) { <-late })
		run = start(c, with(body, object{"max_minutes": 1}))
		apptest.Eventually(t, "its start", func() bool { return w.Count("improve_runs WHERE id = $1 AND started_at IS NOT NULL", run["id"]) == 1 })
		w.Exec(`UPDATE improve_runs SET started_at = started_at - 61000000 WHERE id = $1`, run["id"])
		release()
		if run = c.AwaitImprove(run); run["status"] != "no_winner" || !strings.Contains(apptest.Text(run, "error"), "minute") ||
			run["stopped_by"] != "max_minutes" {
			t.Errorf("after the time is over: %v", run)
		}
	})
}

// TestNothingToGain: above 90 % a run ends before the writer is asked, or is refused
// if that is known.
func TestNothingToGain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := improvetest.NewModel(t)
		w := runstest.New(t, db, runstest.Scripted(model.Server))
		c := w.Org("acme")
		good := strings.NewReplacer(improvetest.WrongCurrency, "Write all amounts in euros.", improvetest.NoTax, "Name the tax.").
			Replace(improvetest.SkillMD)
		suite := c.Create(object{
			"name": "Invoices", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": improvetest.Cases(16),
		})
		source := c.SourceOf(good)
		body := object{"source_id": "src_" + source, "suite_id": suite["id"], "target": "both"}
		w.Work()
		run := c.AwaitImprove(start(c, body))
		if run["status"] != "no_winner" || !strings.Contains(apptest.Text(run, "error"), "nothing is to be gained") ||
			model.Count(improvetest.Write) != 0 {
			t.Errorf("got %v", run)
		}
		c.Finish(suite, object{"subject": object{"source_id": source}})
		c.Post(improvePath, body).WantErrorWith(http.StatusConflict, "100 % of the cases pass with the current version")
	})
}

// TestFewCases says how many cases are missing; those that were part of too many
// proofs prove nothing any more.
func TestFewCases(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := improvetest.NewModel(t)
		w := runstest.New(t, db, runstest.Scripted(model.Server))
		c, body := invoices(w, 13)
		c.Post(improvePath, body).WantErrorWith(http.StatusConflict, "the suite has 13: 3 are missing")
		c.Post(improvePath, with(body, object{"target": "head"})).WantIssueWith("target", "target")
		suite := c.Create(object{
			"name": "More", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": improvetest.Cases(20),
		})
		body["suite_id"] = suite["id"]
		run := start(c, body)
		w.Work()
		run = c.AwaitImprove(run)
		w.Exec(`UPDATE improve_proofs SET times = 5`)
		before := markers(w, run)["proof"]
		run = c.AwaitImprove(start(c, body))
		for _, marker := range markers(w, run)["proof"] {
			if slices.Contains(before, marker) {
				t.Errorf("%s is part of another proof", marker)
			}
		}
		w.Exec(`UPDATE improve_proofs SET times = 5`)
		for w.Count("improve_proofs WHERE times < 5") == 0 && w.Count("improve_proofs") < 20 {
			answer := c.Post(improvePath, body)
			if answer.Status == http.StatusConflict {
				answer.WantErrorWith(http.StatusConflict, "new cases are missing")
				return
			}
			c.AwaitImprove(answer.Want(http.StatusAccepted).Field("improve_run"))
			w.Exec(`UPDATE improve_proofs SET times = 5`)
		}
		t.Error("all cases were part of proofs")
	})
}

// TestChanged fails runs whose skill, suite or judge has changed.
func TestChanged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := improvetest.NewModel(t)
		w := runstest.New(t, db, runstest.Scripted(model.Server))
		c, body := invoices(w, 16)
		run := start(c, body)
		c.Patch(body["suite_id"].(string), object{"cases_json": improvetest.Cases(15)}).Want(http.StatusOK)
		stop := w.Work()
		if run = c.AwaitImprove(run); run["status"] != "failed_terminal" || !strings.HasPrefix(apptest.Text(run, "error"), "suite_changed: ") {
			t.Errorf("another suite gives %v", run)
		}
		c.Patch(body["suite_id"].(string), object{"cases_json": improvetest.Cases(16)}).Want(http.StatusOK)
		stop()
		run = start(c, body)
		another, err := judge.New(judge.Options{
			API: judge.OpenAI, URL: model.URL(judgetest.OpenAI), Model: "another", Key: "sk-secret", Timeout: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		other := w.Another(jobs.Options{}, func(w *runstest.World) { w.Runs.Judge, w.Improve.Judge = another, another })
		stop = other.Work()
		if run = c.AwaitImprove(run); run["status"] != "failed_terminal" || !strings.HasPrefix(apptest.Text(run, "error"), "judge_changed: ") {
			t.Errorf("another judge gives %v", run)
		}
		stop()
		run = start(c, body)
		w.Exec(`DELETE FROM improve_searches WHERE run_id = $1`, run["id"])
		w.Work()
		if run = c.AwaitImprove(run); run["status"] != "failed_transient" || run["target"] != "description" || run["cost"] != nil ||
			!strings.Contains(apptest.Text(run, "error"), "earlier version") {
			t.Errorf("a run of an earlier version gives %v", run)
		}
	})
}
