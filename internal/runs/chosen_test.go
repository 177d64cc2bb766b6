package runs_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
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
