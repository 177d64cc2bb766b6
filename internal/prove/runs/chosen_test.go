package runs_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// TestChosenCases: a run may try some of the cases, with the seed of another.
func TestChosenCases(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite := c.Create(deterministic(
			with(exact("a", "a"), object{"id": "one"}), with(exact("a", "b"), object{"id": "two"}), with(exact("a", "a"), object{"id": "three"})))
		w.Work()
		run := c.Finish(suite, object{"case_ids": []string{"three", "two"}, "seed": 42, "trials": 2})
		if diff := cmp.Diff([]any{"fail", "pass"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts of two and three (-want +got):\n%s", diff)
		}
		if run["seed"] != 42.0 || apptest.List(t, run, "cases")[0]["id"] != "two" || run["progress"].(object)["total"] != 4.0 {
			t.Errorf("the run has seed %v, progress %v and cases %v", run["seed"], run["progress"], run["cases"])
		}
		for field, body := range map[string]object{
			"case_ids": {"case_ids": []string{"one", "four"}},
			"seed":     {"seed": 1 << 53},
		} {
			body["subject"] = object{"entry_id": c.Entry()}
			c.Post(suitesPath+"/"+suite["id"].(string)+"/runs", body).WantIssueWith(field, field)
		}
		c.Post(suitesPath+"/"+suite["id"].(string)+"/runs", object{
			"subject": object{"entry_id": c.Entry()}, "case_ids": []string{},
		}).Want(http.StatusBadRequest)
	})
}

// TestMadeForImproveRun: a run that was made for an improve run says so, and is
// neither in the list of its suite nor its newest.
func TestMadeForImproveRun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		source := c.Source()
		made := c.Create(deterministic(exact("a", "b")))
		suite, err := w.Suites.Get(t.Context(), c.Org.ID, made["id"].(string))
		if err != nil {
			t.Fatal(err)
		}
		id := store.NewID()
		caller := access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}
		start := func(improve *string) runs.Run {
			r, err := w.Runs.Start(t.Context(), caller, suite.ID, runs.NewRun{
				Subject: subject.Ref{SourceID: source}, Baseline: runs.NoBaseline, ImproveRunID: improve,
			})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		w.Work()
		ordinary, hidden := start(nil), start(&id)
		c.Await(object{"id": ordinary.ID})
		if got := c.Await(object{"id": hidden.ID}); got["improve_run_id"] != id {
			t.Errorf("the run is made for %v", got["improve_run_id"])
		}
		listed := c.Get(suitesPath + "/" + suite.ID + "/runs").Want(http.StatusOK).List("runs")
		if len(listed) != 1 || listed[0]["id"] != ordinary.ID {
			t.Errorf("listed are %v", listed)
		}
		newest, err := w.Runs.Newest(t.Context(), c.Org.ID, []suites.Suite{suite})
		if err != nil || newest[suite.ID].ID != ordinary.ID {
			t.Errorf("the newest is %v, %v", newest, err)
		}
	})
}
