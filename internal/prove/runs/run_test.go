package runs_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// TestRun checks every field of a run, queued and finished.
func TestRun(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite := c.Create(deterministic(
			with(exact("a", "a"), object{"id": "one", "name": "First"}), with(exact("a", "b"), object{"id": "two"})))
		run := c.Start(suite)
		queued := apptest.Plain(t, object{
			"id": run["id"], "suite_id": suite["id"], "status": "queued",
			"subject": object{"entry_id": c.Entry(), "name": "pdf", "content_hash": contentHash(c), "label": "2.0.0"},
			"trials":  1, "baseline": "none", "seed": run["seed"], "judge": nil,
			"progress":     object{"done": 0, "total": 2},
			"totals":       object{"cases": 2, "passed": 0, "failed": 0, "errors": 0, "skipped": 0},
			"trial_errors": 0, "suite_version": 1, "reliable": true,
			"score": nil, "score_interval": nil, "lift": nil,
			"pass_rate": nil, "pass_rate_interval": nil, "pass_k": nil, "baseline_result": nil, "error": nil,
			"agent": nil, "imported": nil, "catalog": nil,
			"improve_run_id": nil, "max_cost_usd": nil, "estimate_usd": nil, "cost_usd_by_variant": object{},
			"cost": object{
				"usd": 0, "requests": 0, "tokens": object{"input": 0, "output": 0, "cache_read": 0, "cache_write": 0},
			},
			"created_at": run["created_at"], "started_at": nil, "finished_at": nil,
			"cases": []object{
				{"id": "one", "name": "First", "title": "First", "case_kind": "exact_match", "verdict": nil, "score": nil, "baseline_verdict": nil, "trials": []any{}, "cost_usd_by_variant": object{}},
				{"id": "two", "name": "", "title": "two", "case_kind": "exact_match", "verdict": nil, "score": nil, "baseline_verdict": nil, "trials": []any{}, "cost_usd_by_variant": object{}},
			},
		}).(object)
		if diff := cmp.Diff(queued, run); diff != "" {
			t.Errorf("queued (-want +got):\n%s", diff)
		}
		w.Work()
		run = c.Await(run)
		for _, one := range apptest.List(t, run, "cases") {
			apptest.List(t, one, "trials")[0]["duration_ms"] = 0.0 // or 1, on a busy machine
		}
		trial := func(verdict string, score float64, summary, output string) []object {
			return []object{{
				"n": 1, "variant": "skill", "verdict": verdict, "score": score, "evidence": object{"summary": summary},
				"output_tail": output, "duration_ms": 0, "cost_usd": nil, "error": nil,
				"activated": nil, "turns": nil, "tool_calls": nil, "session_id": nil,
			}}
		}
		want := with(queued, object{
			"status": "succeeded", "progress": object{"done": 2, "total": 2},
			"totals": object{"cases": 2, "passed": 1, "failed": 1, "errors": 0, "skipped": 0},
			"score":  0.5, "score_interval": run["pass_rate_interval"],
			"pass_rate": 0.5, "pass_rate_interval": run["pass_rate_interval"], "pass_k": 0.5,
			"started_at": run["started_at"], "finished_at": run["finished_at"],
			"cases": []object{
				{
					"id": "one", "name": "First", "title": "First", "case_kind": "exact_match", "verdict": "pass", "score": 1, "baseline_verdict": nil,
					"cost_usd_by_variant": object{}, "trials": trial("pass", 1, "the output is as expected", "a"),
				},
				{
					"id": "two", "name": "", "title": "two", "case_kind": "exact_match", "verdict": "fail", "score": 0, "baseline_verdict": nil,
					"cost_usd_by_variant": object{}, "trials": trial("fail", 0, `first difference at line 1, column 1: expected "b", got "a"`, "a"),
				},
			},
		})
		if diff := cmp.Diff(apptest.Plain(t, want), any(run)); diff != "" {
			t.Errorf("finished (-want +got):\n%s", diff)
		}
		low, high := run["pass_rate_interval"].([]any)[0].(float64), run["pass_rate_interval"].([]any)[1].(float64)
		if low <= 0 || high >= 1 || low+high < 0.999 || low+high > 1.001 {
			t.Errorf("interval is %v", run["pass_rate_interval"])
		}
		c.Get(suitesPath + "/" + suite["id"].(string) + "/runs?per_page=5").Want(http.StatusOK).WantBody(object{
			"runs":       []object{without(run, "cases", "cost_usd_by_variant")},
			"pagination": object{"page": 1, "per_page": 5, "total": 1},
		})
	})
}

// contentHash is that of the entry's current version.
func contentHash(c *runstest.Client) string {
	c.T.Helper()
	_, v, err := c.World.Registry.Find(c.T.Context(), c.Org.ID, c.Entry(), "")
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	return v.ContentHash
}

// TestRunRefused has a row for every error of a start.
func TestRunRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		good := c.Create(deterministic(exact("a", "a")))["id"].(string)
		incomplete := c.Create(deterministic(object{"case_kind": "exact_match", "output": "a"}))["id"].(string)
		rubric := c.Create(with(deterministic(exact("a", "a")), object{"verifier_kind": "structured_rubric"}))["id"].(string)
		entry, own, foreign := object{"entry_id": c.Entry()}, c.Source(), w.Org("other").Source()
		for _, row := range []struct {
			name, suite string
			body        object
			status      int
			part        string
			path        string
		}{
			{"no subject", good, object{}, 400, "subject", "subject"},
			{"empty subject", good, object{"subject": object{}}, 400, "exactly one", "subject"},
			{"two subjects", good, object{"subject": object{"entry_id": c.Entry(), "source_id": own}}, 400, "exactly one", "subject"},
			{"version of a source", good, object{"subject": object{"source_id": own, "version": "1"}}, 400, "entry_id", "subject.version"},
			{"no source id", good, object{"subject": object{"source_id": "src_x"}}, 400, "cloud source", "subject.source_id"},
			{"no trials", good, object{"subject": entry, "trials": 0}, 400, ">= 1", "trials"},
			{"too many trials", good, object{"subject": entry, "trials": 31}, 400, "<= 30", "trials"},
			{"trials no number", good, object{"subject": entry, "trials": "3"}, 400, "integer", "trials"},
			{"unknown baseline", good, object{"subject": entry, "baseline": "best"}, 400, "none", "baseline"},
			{"no such suite", "00000000-0000-4000-8000-000000000000", object{"subject": entry}, 404, "Eval suite not found", ""},
			{"no such entry", good, object{"subject": object{"entry_id": "x"}}, 404, "Registry entry not found", ""},
			{"no such version", good, object{"subject": object{"entry_id": c.Entry(), "version": "9"}}, 404, "Version 9 not found", ""},
			{"another's source", good, object{"subject": object{"source_id": "src_" + foreign}}, 403, "another organisation", ""},
			{"incomplete case", incomplete, object{"subject": entry}, 409, "cases_json.0.expected: expected is required", ""},
			{"structured rubric", rubric, object{"subject": entry}, 409, "structured_rubric", ""},
			{"nothing before", good, object{"subject": object{"entry_id": c.Fresh()}, "baseline": "previous"}, 409, "no version before", ""},
		} {
			t.Run(row.name, func(t *testing.T) {
				a := c.In(t).Post(suitesPath+"/"+row.suite+"/runs", row.body)
				if row.status == http.StatusBadRequest {
					a.WantIssueWith(row.path, row.part)
				} else {
					a.WantErrorWith(row.status, row.part)
				}
			})
		}
		if n := w.Count("eval_runs"); n != 0 {
			t.Errorf("%d runs were made", n)
		}
	})
}

func TestRunAccess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		viewer, stranger := w.Member(c.Org, access.Viewer), w.Org("other")
		suite := c.Create(deterministic(exact("a", "a")))
		id := suite["id"].(string)
		run := c.Start(suite)["id"].(string)
		viewer.Post(suitesPath+"/"+id+"/runs", object{"subject": object{"entry_id": c.Entry()}}).WantErrorWith(403, "write")
		viewer.Post(runsPath+run+"/cancel", nil).WantErrorWith(403, "write")
		viewer.Get(runsPath + run).Want(http.StatusOK)
		viewer.Get(suitesPath + "/" + id + "/runs").Want(http.StatusOK)
		stranger.Get(runsPath+run).WantErrorWith(404, "Eval run not found")
		stranger.Get(runsPath+run+"/events").WantErrorWith(404, "Eval run not found")
		stranger.Post(runsPath+run+"/cancel", nil).WantErrorWith(404, "Eval run not found")
		stranger.Get(suitesPath+"/"+id+"/runs").WantErrorWith(404, "Eval suite not found")
		stranger.Post(suitesPath+"/"+id+"/runs", object{"subject": object{"entry_id": c.Entry()}}).WantErrorWith(404,
			"Eval suite not found")
		c.Get(runsPath+run+"?case_id=nothing").WantErrorWith(404, "Case not found")
	})
}

// counting counts the queries that go through it.
type counting struct {
	store.Querier
	queries int
}

func (c *counting) Query(ctx context.Context, sql string, args ...any) (store.Rows, error) {
	c.queries++
	return c.Querier.Query(ctx, sql, args...)
}

// TestNewestRuns: the last runs of many suites are one query.
func TestNewestRuns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c, stranger := w.Org("acme"), w.Org("other")
		var asked []suites.Suite
		want := map[string]string{}
		for n := range 4 {
			suite := c.Create(deterministic(exact("a", "a")))
			id := suite["id"].(string)
			asked = append(asked, suites.Suite{ID: id})
			for range n { // the first was never run
				want[id] = c.Start(suite)["id"].(string)
			}
		}
		theirs := stranger.Create(deterministic(exact("a", "a")))
		stranger.Start(theirs)
		c.Start(c.Create(deterministic(exact("a", "a")))) // not among the suites asked for
		asked = append(asked, suites.Suite{ID: theirs["id"].(string)})
		found, err := w.Runs.Newest(t.Context(), c.Org.ID, asked)
		got := map[string]string{}
		for suite, run := range found {
			got[suite] = run.ID
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("newest runs (-want +got):\n%s%v", diff, err)
		}
		if found, err := w.Runs.Newest(t.Context(), c.Org.ID, nil); len(found) != 0 || err != nil {
			t.Errorf("of no suites: %v, %v", found, err)
		}
		counter, ids := &counting{Querier: db}, make([]string, len(asked))
		for i, s := range asked {
			ids[i] = s.ID
		}
		if found, err := runs.NewestRunsOf(t.Context(), counter, c.Org.ID, ids); counter.queries != 1 || len(found) != 3 || err != nil {
			t.Errorf("%d runs by %d queries, %v; want 3 by one", len(found), counter.queries, err)
		}
	})
}

// TestRunKeepsItsCases changes and deletes the suite under its runs.
func TestRunKeepsItsCases(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite := c.Create(deterministic(exact("a", "a")))
		id := suite["id"].(string)
		run := c.Start(suite)
		c.Patch(id, object{"cases_json": []object{exact("a", "b"), exact("c", "d")}}).Want(http.StatusOK)
		w.Work()
		run = c.Await(run)
		if diff := cmp.Diff([]any{"pass"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		c.Do(http.MethodDelete, suitesPath+"/"+id, nil).Want(http.StatusNoContent)
		c.Get(runsPath+run["id"].(string)).WantErrorWith(404, "Eval run not found")
		for _, table := range []string{"eval_runs", "eval_run_trials", "eval_run_cases", "eval_run_events"} {
			if n := w.Count(table); n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
	})
}

func TestRunOutputTails(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		w.Work()
		c := w.Org("acme")
		long := strings.Repeat("x", 100<<10) + "end"
		suite := c.Create(deterministic(with(exact(long, long), object{"id": "long"}), exact("\x00a", "\x00a")))
		run := c.Finish(suite)
		if diff := cmp.Diff([]any{"pass", "pass"}, verdicts(t, run)); diff != "" {
			t.Errorf("verdicts (-want +got):\n%s", diff)
		}
		tailOf := func(run object) string {
			return apptest.List(t, apptest.List(t, run, "cases")[0], "trials")[0]["output_tail"].(string)
		}
		if got := tailOf(run); len(got) != 4<<10 || !strings.HasSuffix(got, "end") {
			t.Errorf("tail of %d bytes", len(got))
		}
		one := c.Get(runsPath + run["id"].(string) + "?case_id=long").Want(http.StatusOK).Field("run")
		if got := tailOf(one); len(got) != 64<<10 || len(apptest.List(t, one, "cases")) != 1 {
			t.Errorf("tail of %d bytes", len(got))
		}
	})
}
