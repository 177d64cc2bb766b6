package report_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/web/overview/report"
)

const (
	reportPath = "/api/v1/catalogue-report"
	pdfText    = "---\nname: pdf\ndescription: Fills fields of documents, forms and sheets of all sorts. Also questionnaires and applications.\n---\nFill them.\n"
)

// signer records the runs that it would sign.
type signer struct{ ids *[]string }

// RunEnded implements runs.OnEnded.
func (s signer) RunEnded(_ context.Context, _ *store.Tx, r runs.Run) error {
	*s.ids = append(*s.ids, r.ID)
	return nil
}

// catalogWorld has runs whose catalogues the report lists, and the runs that were signed.
func catalogWorld(t *testing.T, db *store.DB) (w *runstest.World, signed *[]string) {
	t.Helper()
	signed = new([]string)
	w = runstest.New(t, db, func(w *runstest.World) {
		known := &costs.Service{DB: w.DB, Jobs: w.Queue, Prices: pricing.Embedded()}
		reports := &report.Service{DB: w.DB, Costs: known}
		reports.Mount(w.API)
		w.Runs.Catalogs = reports
		w.Runs.OnEnded = signer{signed}
	})
	return w, signed
}

func verdictsOf(t *testing.T, run object) (all []any) {
	t.Helper()
	for _, c := range apptest.List(t, run, "cases") {
		all = append(all, c["verdict"])
	}
	return all
}

func TestRunsOnACatalogue(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, signed := catalogWorld(t, db)
		w.Work()
		other := w.Org("globex")
		other.Publish("secret", "---\nname: secret\ndescription: Answers questionnaires.\n---\n")
		c := w.Org("acme")
		c.Publish("weather", "---\nname: weather\ndescription: Tells the weather of tomorrow.\n---\n")
		on := object{"subject": object{"entry_id": c.Publish("pdf", pdfText)}}
		suite := c.Create(runstest.Judged(
			runstest.Trigger("answer the questionnaires and the application"), runstest.Trigger("fill the pdf"), runstest.Avoid("the weather of tomorrow")))
		normal := c.Finish(suite, on, object{"seed": 7})
		cut := c.Finish(suite, on, object{"seed": 7, "catalog": "claude-code", "context_window": 1000})
		if got := c.Get(reportPath + "?context_window=1000").Want(http.StatusOK).Object()["routing"].(object)["measured"]; got != nil {
			t.Errorf("without a run on whole descriptions, measured is %v", got)
		}
		full := c.Finish(suite, on, object{"seed": 7, "catalog": "full"})

		if diff := cmp.Diff([]any{"fail", "pass", "pass"}, verdictsOf(t, cut)); diff != "" {
			t.Errorf("verdicts with what is listed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]any{"pass", "pass", "pass"}, verdictsOf(t, full)); diff != "" {
			t.Errorf("verdicts with whole descriptions (-want +got):\n%s", diff)
		}
		pair := full["catalog"].(object)["pair"]
		if diff := cmp.Diff(apptest.Plain(t, object{"catalog": "claude-code", "context_window": 1000, "skills": 2, "pair": pair}), cut["catalog"]); diff != "" {
			t.Errorf("catalog (-want +got):\n%s", diff)
		}
		if normal["catalog"] != nil || full["catalog"].(object)["context_window"] != 0.0 {
			t.Errorf("catalogs are %v and %v", normal["catalog"], full["catalog"])
		}
		if n := w.Count(`eval_run_catalogs WHERE skills LIKE '%secret%'`); n != 0 {
			t.Error("the catalogue has skills of another organisation")
		}

		got := c.Get(reportPath + "?context_window=1000").Want(http.StatusOK).Object()["routing"].(object)
		want := apptest.Plain(t, object{
			"judges": []string{report.Router}, "cases": 2, "right": 2, "right_truncated": 1, "recall": 1.0, "recall_truncated": 0.5,
			"lost": 1, "won": 0, "p_value": 1.0, "pairs": []object{{
				"suite_id": suite["id"], "suite": suite["name"], "skill": "pdf", "full_run_id": full["id"], "run_id": cut["id"],
				"cases": 2, "right": 2, "right_truncated": 1,
			}},
		})
		if diff := cmp.Diff(want, got["measured"]); diff != "" {
			t.Errorf("measured (-want +got):\n%s", diff)
		}
		for _, query := range []string{"", "?agent=codex&context_window=1000"} {
			if got := c.Get(reportPath + query).Want(http.StatusOK).Object()["routing"].(object)["measured"]; got != nil {
				t.Errorf("%q: measured is %v for another listing", query, got)
			}
		}
		// Runs on a catalogue count for nothing else.
		newest, err := w.Runs.Newest(t.Context(), c.Org.ID, []suites.Suite{{ID: suite["id"].(string)}})
		if err != nil || newest[suite["id"].(string)].ID != normal["id"] {
			t.Errorf("the newest run is %v, %v; want %v", newest, err, normal["id"])
		}
		if diff := cmp.Diff([]string{normal["id"].(string)}, *signed); diff != "" {
			t.Errorf("signed runs (-want +got):\n%s", diff)
		}
		if listed := c.Get(runstest.SuitesPath + "/" + suite["id"].(string) + "/runs").Want(http.StatusOK).Object(); len(apptest.List(t, listed, "runs")) != 3 {
			t.Errorf("the suite lists %v", listed["runs"])
		}
		if other.Get(reportPath + "?context_window=1000").Want(http.StatusOK).Object()["routing"].(object)["measured"] != nil {
			t.Error("another organisation sees the runs")
		}
	})
}

// TestCatalogIsACondition: gates reuse runs of equal conditions, so a run on a catalogue
// must have others than one without, and than one on another catalogue.
func TestCatalogIsACondition(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, _ := catalogWorld(t, db)
		c := w.Org("acme")
		entry := c.Publish("pdf", pdfText)
		suite := c.Create(runstest.Judged(runstest.Trigger("fill the pdf")))
		seen := map[string]string{}
		for _, catalog := range []string{"", "full", "codex", "claude-code"} {
			n := runs.NewRun{Subject: subject.Ref{EntryID: entry}, Seed: 7}
			if catalog != "" {
				n.Catalog = &catalogue.Choice{Catalog: catalog}
			}
			r, err := w.Runs.Plan(t.Context(), access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}, suite["id"].(string), n)
			if err != nil {
				t.Fatalf("%v", err)
			}
			conditions, err := r.Conditions()
			if before, known := seen[conditions]; known || err != nil {
				t.Errorf("%q has the conditions of %q, %v", catalog, before, err)
			}
			seen[conditions] = catalog
		}
	})
}

func TestRefusedCatalogs(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, _ := catalogWorld(t, db)
		c := w.Org("acme")
		entry := c.Publish("pdf", pdfText, strings.Replace(pdfText, "Fill them", "Fill all", 1))
		hidden := c.Publish("hidden", "---\nname: hidden\ndescription: Is not for models.\ndisable-model-invocation: true\n---\n")
		triggers := c.Create(runstest.Judged(runstest.Trigger("fill the pdf")))
		checks := c.Create(runstest.Deterministic(runstest.Exact("a", "a")))
		for name, test := range map[string]struct {
			suite   object
			entry   string
			body    object
			status  int
			message string
		}{
			"unknown":         {triggers, entry, object{"catalog": "cursor"}, 400, "catalog"},
			"window alone":    {triggers, entry, object{"context_window": 2000}, 400, "context_window"},
			"window of full":  {triggers, entry, object{"catalog": "full", "context_window": 2000}, 400, "context_window"},
			"tiny window":     {triggers, entry, object{"catalog": "codex", "context_window": 999}, 400, "context_window"},
			"negative window": {triggers, entry, object{"catalog": "codex", "context_window": -1}, 400, "context_window"},
			"baseline":        {triggers, entry, object{"catalog": "codex", "baseline": "previous"}, 400, "baseline"},
			"agent":           {triggers, entry, object{"catalog": "codex", "agent": object{"name": "claude-code"}}, 400, "agent"},
			"no triggers":     {checks, entry, object{"catalog": "codex"}, 409, "trigger queries"},
			"hidden":          {triggers, hidden, object{"catalog": "claude-code"}, 409, "hides it from the model"},
		} {
			body := object{"subject": object{"entry_id": test.entry}}
			for k, v := range test.body {
				body[k] = v
			}
			got := c.Post(runstest.SuitesPath+"/"+test.suite["id"].(string)+"/runs", body).Want(test.status)
			if !strings.Contains(string(got.Body), test.message) {
				t.Errorf("%s: %s, want %q", name, got.Body, test.message)
			}
		}
		if n := w.Count("eval_runs"); n != 0 {
			t.Errorf("%d runs were stored", n)
		}
	})
}
