package schedules_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

type object = apptest.Object

const path = "/api/v1/eval-schedules"

// given is a suite whose outputs are given: it needs neither a sandbox nor a model.
func given(c *runstest.Client, cases int) string {
	c.T.Helper()
	var all []object
	for range cases {
		all = append(all, runstest.Exact("a", "a"))
	}
	return c.Create(runstest.Deterministic(all...))["id"].(string)
}

func create(c *runstest.Client, fields object) api.EvalSchedule {
	c.T.Helper()
	var out struct{ Schedule api.EvalSchedule }
	c.Post(path, apptest.With(object{"entry_id": c.Entry()}, fields)).Want(http.StatusCreated).Into(&out)
	return out.Schedule
}

func read(c *runstest.Client, id string) api.EvalScheduleDetail {
	c.T.Helper()
	var out struct{ Schedule api.EvalScheduleDetail }
	c.Get(path + "/" + id).Want(http.StatusOK).Into(&out)
	return out.Schedule
}

// runs starts runs of a schedule one after the other, and waits for the end of each.
func runs(c *runstest.Client, id string, n int) {
	c.T.Helper()
	for range n {
		run := c.Post(path+"/"+id+"/run", nil).Want(http.StatusAccepted).Field("run")
		c.Await(run)
	}
}

// due makes a schedule due so long ago.
func due(c *runstest.Client, id string, ago time.Duration) {
	c.World.Exec("UPDATE eval_schedules SET next_at = $2 WHERE id = $1", id, store.Micros(store.Now().Add(-ago)))
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite := given(c, 1)
		before := time.Now()
		got := create(c, object{"suite_id": suite})
		if got.Every == nil || *got.Every != "24h" || got.Cron != nil || got.Trials != 3 || got.Baseline != "none" ||
			got.Version != "current" || !got.Enabled || got.PausedReason != nil || got.LastRunID != nil || got.Reference != nil ||
			got.MaxCostUSD != nil || got.MaxCostUSDMonth != nil || got.Skill != "pdf" || got.SourceID != nil || *got.EntryID != c.Entry() {
			t.Errorf("a schedule with defaults is %+v", got)
		}
		if next := time.Time(*got.NextAt); next.Before(before.Add(23*time.Hour)) || next.After(before.Add(25*time.Hour)) {
			t.Errorf("it is due at %s, want in 24 hours", next)
		}
		other := create(c, object{
			"suite_id": given(c, 1), "cron": "0 3 * * 1-5", "trials": 1, "version": "1.0.0", "enabled": false,
			"max_cost_usd": 1.5, "max_cost_usd_month": 20,
		})
		if other.Every != nil || *other.Cron != "0 3 * * 1-5" || other.NextAt != nil || other.Enabled || other.Version != "1.0.0" ||
			*other.MaxCostUSD != 1.5 || *other.MaxCostUSDMonth != 20 {
			t.Errorf("the other schedule is %+v", other)
		}
		source := create(c, object{"suite_id": suite, "entry_id": nil, "source_id": "src_" + c.Source(), "every": "7d"})
		if source.EntryID != nil || !strings.HasPrefix(*source.SourceID, "src_") || *source.Every != "7d" {
			t.Errorf("of a source it is %+v", source)
		}
		first := c.Get(path + "?limit=2").Want(http.StatusOK)
		if all := first.List("schedules"); len(all) != 2 || all[0]["id"] != source.ID {
			t.Errorf("the first page is %s", first.Body)
		}
		if rest := c.Get(path + "?limit=2&cursor=" + first.Text("next_cursor")).List("schedules"); len(rest) != 1 || rest[0]["id"] != got.ID {
			t.Errorf("the second page has %v", rest)
		}
		if found := c.Get(path + "?suite_id=" + suite + "&entry_id=" + c.Entry()).List("schedules"); len(found) != 1 {
			t.Errorf("of the suite and the entry there are %v", found)
		}

		patch := func(id string, body object) api.EvalSchedule {
			var out struct{ Schedule api.EvalSchedule }
			c.Do(http.MethodPatch, path+"/"+id, body).Want(http.StatusOK).Into(&out)
			return out.Schedule
		}
		if p := patch(got.ID, object{"enabled": false}); p.Enabled || p.NextAt != nil || p.PausedReason != nil {
			t.Errorf("paused, it is %+v", p)
		}
		if p := patch(got.ID, object{"enabled": true, "every": "1h"}); !p.Enabled || p.NextAt == nil || *p.Every != "1h" {
			t.Errorf("resumed, it is %+v", p)
		}
		if p := patch(other.ID, object{"max_cost_usd": nil, "trials": nil, "cron": "*/7 * * * *"}); p.MaxCostUSD != nil || p.Trials != 1 ||
			*p.MaxCostUSDMonth != 20 || *p.Cron != "*/7 * * * *" || p.NextAt != nil {
			t.Errorf("without a limit it is %+v", p)
		}
		if p := patch(other.ID, object{"every": "48h", "entry_id": suite}); p.Cron != nil || *p.Every != "48h" || *p.EntryID != c.Entry() {
			t.Errorf("with every in place of cron it is %+v", p)
		}

		viewer, stranger := w.Member(c.Org, access.Viewer), w.Org("other")
		viewer.Get(path + "/" + got.ID).Want(http.StatusOK)
		for _, by := range []struct {
			*runstest.Client
			status int
		}{{viewer, http.StatusForbidden}, {stranger, http.StatusNotFound}} {
			by.Post(path+"/"+got.ID+"/run", nil).Want(by.status)
			by.Do(http.MethodPatch, path+"/"+got.ID, object{"trials": 1}).Want(by.status)
			by.Do(http.MethodDelete, path+"/"+got.ID, nil).Want(by.status)
			by.Post(path, object{"suite_id": suite, "entry_id": c.Entry()}).Want(by.status)
		}
		stranger.Get(path + "/" + got.ID).Want(http.StatusNotFound)
		if all := stranger.Get(path).List("schedules"); len(all) != 0 {
			t.Errorf("another organisation sees %v", all)
		}
		c.Do(http.MethodDelete, path+"/"+got.ID, nil).Want(http.StatusNoContent)
		c.Get(path + "/" + got.ID).Want(http.StatusNotFound)
	})
}

func TestScheduleRefuses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite, entry := given(c, 1), c.Entry()
		fine := object{"suite_id": suite, "entry_id": entry}
		made := create(c, fine)
		for name, r := range map[string]struct {
			fields object
			field  string
		}{
			"both":             {object{"every": "24h", "cron": "0 3 * * *"}, "cron"},
			"cron nonsense":    {object{"cron": "every morning"}, "cron"},
			"a cron never due": {object{"cron": "0 0 31 2 *"}, "cron"},
			"a huge cron":      {object{"cron": strings.Repeat("1,", 5000) + "1 * * * *"}, "cron"},
			"too often":        {object{"every": "59m"}, "every"},
			"too seldom":       {object{"every": "31d"}, "every"},
			"a negative time":  {object{"every": "-24h"}, "every"},
			"no time":          {object{"every": "daily"}, "every"},
			"no trials":        {object{"trials": -1}, "trials"},
			"too many trials":  {object{"trials": 31}, "trials"},
			"a baseline":       {object{"baseline": "best"}, "baseline"},
			"a budget of 0":    {object{"max_cost_usd": 0}, "max_cost_usd"},
			"a month of 0":     {object{"max_cost_usd_month": 0}, "max_cost_usd_month"},
			"a negative month": {object{"max_cost_usd_month": -5}, "max_cost_usd_month"},
			"an unknown agent": {object{"agent": object{"name": "nobody"}}, "agent.name"},
			"a nameless agent": {object{"agent": object{"name": ""}}, "agent.name"},
		} {
			c.In(t).Post(path, apptest.With(fine, r.fields)).Want(http.StatusBadRequest).WantIssueWith(r.field, "")
			if _, subject := r.fields["source_id"]; !subject {
				if got := c.Do(http.MethodPatch, path+"/"+made.ID, r.fields); got.Status != http.StatusBadRequest {
					t.Errorf("%s: a change is %d %s, want 400", name, got.Status, got.Body)
				}
			}
		}
		c.Post(path, object{"suite_id": suite}).Want(http.StatusBadRequest).WantIssueWith("entry_id", "exactly one")
		c.Post(path, apptest.With(fine, object{"source_id": "src_" + c.Source()})).Want(http.StatusBadRequest)
		c.Post(path, apptest.With(fine, object{"source_id": "nonsense"})).Want(http.StatusBadRequest)
		c.Post(path, object{"entry_id": entry}).Want(http.StatusBadRequest)
		c.Post(path, apptest.With(fine, object{"version": "9.9.9"})).Want(http.StatusNotFound)
		c.Post(path, apptest.With(fine, object{"suite_id": entry})).Want(http.StatusNotFound)
		c.Post(path, apptest.With(fine, object{"entry_id": suite})).Want(http.StatusNotFound)
		broken := c.Create(runstest.Deterministic(object{"case_kind": "exact_match", "expected": "a"}))["id"]
		c.Post(path, apptest.With(fine, object{"suite_id": broken})).Want(http.StatusConflict)
		if n := w.Count("eval_schedules"); n != 1 {
			t.Errorf("there are %d schedules, want the first one", n)
		}
	})
}

// TestDue has a schedule that is due: two replicas start one run, and times that were missed are
// not made up for.
func TestDue(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		sch := create(c, object{"suite_id": given(c, 2), "every": "1h"})
		due(c, sch.ID, 5*time.Hour+time.Minute)
		other := w.Another(jobs.Options{})
		var replicas sync.WaitGroup
		now := store.Now()
		for range 4 {
			for _, of := range []*runstest.World{w, other} {
				replicas.Go(func() {
					if err := of.Schedules.StartDue(t.Context(), c.Org.ID, sch.ID, now); err != nil {
						t.Error(err)
					}
				})
			}
		}
		replicas.Wait()
		if n := w.Count("eval_runs"); n != 1 {
			t.Fatalf("%d runs were started, want 1", n)
		}
		got := read(c, sch.ID)
		if next := time.Time(*got.NextAt); !next.After(now) || next.After(now.Add(time.Hour)) {
			t.Errorf("it is due at %s, want within an hour of %s", next, now)
		}
		if len(got.Runs) != 1 || *got.LastRunID != got.Runs[0].RunID || got.Runs[0].DueAt == nil || got.Runs[0].Status != "running" {
			t.Errorf("its runs are %+v", got.Runs)
		}
		// The run is still under way at the next time: that is left out.
		due(c, sch.ID, time.Second)
		if err := w.Schedules.StartDue(t.Context(), c.Org.ID, sch.ID, now); err != nil {
			t.Fatal(err)
		}
		if n := w.Count("eval_runs"); n != 1 {
			t.Errorf("%d runs, want the one that is under way", n)
		}
		w.Work()
		w.Settle()
		if got := read(c, sch.ID).Runs[0]; got.Status != "succeeded" || *got.Score != 1 || got.Trials != 6 || !got.Counts || got.EndedAt == nil {
			t.Errorf("the run is recorded as %+v", got)
		}
		// The queue finds what is due by itself.
		due(c, sch.ID, 0)
		if err := w.Schedules.LookForDue(t.Context(), store.Now()); err != nil {
			t.Fatal(err)
		}
		w.Settle()
		if got := read(c, sch.ID); len(got.Runs) != 2 || got.Runs[0].Status != "succeeded" {
			t.Errorf("its runs are %+v, want a second one", got.Runs)
		}
		// A paused schedule has no time, whatever was enqueued before.
		c.Do(http.MethodPatch, path+"/"+sch.ID, object{"enabled": false}).Want(http.StatusOK)
		if err := w.Schedules.StartDue(t.Context(), c.Org.ID, sch.ID, now.Add(1000*time.Hour)); err != nil || w.Count("eval_runs") != 2 {
			t.Errorf("a paused schedule has %d runs: %v", w.Count("eval_runs"), err)
		}
	})
}

// TestDueIsWhole has a start that fails in the middle: neither run nor job is left, and the next
// try makes both.
func TestDueIsWhole(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		sch := create(c, object{"suite_id": given(c, 1)})
		due(c, sch.ID, time.Minute)
		w.Exec(`INSERT INTO eval_schedule_runs (run_id, schedule_id, due_at, status, started_at, ended_at)
			SELECT 'earlier', id, next_at, 'failed', 1, 1 FROM eval_schedules`)
		if err := w.Schedules.StartDue(t.Context(), c.Org.ID, sch.ID, store.Now()); err == nil {
			t.Fatal("a due time had two runs")
		}
		if runs, queued := w.Count("eval_runs"), w.Count("jobs WHERE kind = 'evals.execute'"); runs != 0 || queued != 0 {
			t.Errorf("%d runs and %d jobs are left of a start that failed", runs, queued)
		}
		w.Exec("DELETE FROM eval_schedule_runs")
		if err := w.Schedules.StartDue(t.Context(), c.Org.ID, sch.ID, store.Now()); err != nil {
			t.Fatal(err)
		}
		if runs, queued := w.Count("eval_runs"), w.Count("jobs WHERE kind = 'evals.execute'"); runs != 1 || queued != 1 {
			t.Errorf("the next try made %d runs and %d jobs", runs, queued)
		}
	})
}

// TestCantStart has what a schedule needs taken away: it says so, and goes on when it is back.
func TestCantStart(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		start := func(id string) api.EvalScheduleDetail {
			t.Helper()
			due(c, id, time.Second)
			if err := w.Schedules.StartDue(t.Context(), c.Org.ID, id, store.Now()); err != nil {
				t.Fatal(err)
			}
			return read(c, id)
		}
		suite := given(c, 1)
		ofSuite, ofEntry := create(c, object{"suite_id": suite}), create(c, object{"suite_id": given(c, 1), "entry_id": c.Fresh()})
		broken := create(c, object{"suite_id": given(c, 1)})
		run := start(ofSuite.ID)
		c.Do(http.MethodDelete, runstest.SuitesPath+"/"+suite, nil).Want(http.StatusNoContent)
		got := start(ofSuite.ID)
		if got.PausedReason == nil || !strings.Contains(*got.PausedReason, "suite not found") || got.NextAt == nil || !got.Enabled {
			t.Errorf("without its suite the schedule is %+v", got.EvalSchedule)
		}
		if len(got.Runs) != 1 || got.Runs[0].RunID != *run.LastRunID || got.Runs[0].Status != "deleted" {
			t.Errorf("its runs are %+v", got.Runs)
		}
		c.Post(path+"/"+ofSuite.ID+"/run", nil).Want(http.StatusNotFound)
		if r := c.Do(http.MethodPatch, path+"/"+ofSuite.ID, object{"max_cost_usd": 5}); r.Status != http.StatusOK {
			t.Errorf("a schedule without its suite can't be changed: %s", r.Body)
		}
		// Another suite in its place.
		c.Do(http.MethodPatch, path+"/"+ofSuite.ID, object{"suite_id": given(c, 1)}).Want(http.StatusOK)
		if got := start(ofSuite.ID); got.PausedReason != nil || len(got.Runs) != 2 {
			t.Errorf("with another suite it is %+v", got.EvalSchedule)
		}
		if err := w.Registry.Delete(t.Context(), c.Org.ID, *ofEntry.EntryID); err != nil {
			t.Fatal(err)
		}
		if got := start(ofEntry.ID); got.PausedReason == nil || got.LastRunID != nil {
			t.Errorf("without a version the schedule is %+v", got.EvalSchedule)
		}
		// A suite that can't be run for a while.
		cases := object{"cases_json": []object{{"case_kind": "exact_match", "expected": "a"}}}
		c.Patch(broken.SuiteID, cases).Want(http.StatusOK)
		if got := start(broken.ID); got.PausedReason == nil || !strings.Contains(*got.PausedReason, "cannot be run") {
			t.Errorf("with a broken suite the schedule is %+v", got.EvalSchedule)
		}
		c.Patch(broken.SuiteID, object{"cases_json": []object{runstest.Exact("a", "a")}}).Want(http.StatusOK)
		if got := start(broken.ID); got.PausedReason != nil || got.LastRunID == nil {
			t.Errorf("with a mended suite the schedule is %+v", got.EvalSchedule)
		}
		if got := start(broken.ID); len(got.Runs) != 1 {
			t.Errorf("runs %+v", got.Runs)
		}
		c.Do(http.MethodDelete, path+"/"+broken.ID, nil).Want(http.StatusNoContent)
		w.Work()
		w.Settle()
		if err := w.Schedules.StartDue(t.Context(), c.Org.ID, broken.ID, store.Now()); err != nil {
			t.Errorf("the job of a deleted schedule: %v", err)
		}
	})
}

// TestMonth has a budget for the month.
func TestMonth(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		sch := create(c, object{"suite_id": given(c, 1), "every": "1h", "max_cost_usd": 4, "max_cost_usd_month": 10})
		limit := func() any {
			run := c.Post(path+"/"+sch.ID+"/run", nil).Want(http.StatusAccepted).Field("run")
			return run["max_cost_usd"]
		}
		// Runs under way hold what they may cost.
		for i, want := range []float64{4, 4, 2} {
			if got := limit(); got != want {
				t.Errorf("run %d may cost %v, want %v", i, got, want)
			}
		}
		c.Post(path+"/"+sch.ID+"/run", nil).WantErrorWith(http.StatusConflict, "budget")
		w.Work()
		w.Settle()
		if got := read(c, sch.ID); got.MonthUSD != 0 || got.PausedReason != nil {
			t.Errorf("runs that cost nothing left %+v", got.EvalSchedule)
		}
		w.Exec("UPDATE eval_schedule_runs SET cost_micros = 4000000")
		now := store.Now()
		month := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		got := read(c, sch.ID)
		if got.MonthUSD != 12 || got.PausedReason == nil || !strings.Contains(*got.PausedReason, "$10.00") ||
			time.Time(*got.NextAt).Before(month) || time.Time(*got.NextAt).After(month.Add(time.Hour)) {
			t.Errorf("with a spent budget the schedule is %+v, due at %s", got.EvalSchedule, got.NextAt)
		}
		due(c, sch.ID, time.Second)
		if err := w.Schedules.StartDue(t.Context(), c.Org.ID, sch.ID, now); err != nil {
			t.Fatal(err)
		}
		if n := w.Count("eval_runs"); n != 3 {
			t.Errorf("a spent budget has %d runs", n)
		}
		if err := w.Schedules.StartDue(t.Context(), c.Org.ID, sch.ID, month.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if n := w.Count("eval_runs"); n != 4 {
			t.Errorf("in the next month there are %d runs, want one more", n)
		}
	})
}

// TestChanges has a model that answers by the skill and its own name: each run says what differed.
func TestChanges(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var mu sync.Mutex
		name := "model-1"
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			mu.Lock()
			defer mu.Unlock()
			text := "good"
			if strings.Contains(r.System, "version two") {
				text = "bad"
			}
			return judgetest.Reply{Text: text, Model: name, Input: 1, Output: 1}
		})
		w := runstest.New(t, db, runstest.Scripted(server))
		w.Work()
		c := w.Org("acme")
		var cases []object
		for range 4 {
			cases = append(cases, object{"case_kind": "exact_match", "prompt": "Be good.", "expected": "good"})
		}
		suite := c.Create(runstest.Deterministic(cases...))["id"].(string)
		entry := c.Publish("pdf", runstest.SkillText["1.0.0"])
		sch := create(c, object{"suite_id": suite, "entry_id": entry})
		runs(c, sch.ID, 2)
		if got := read(c, sch.ID); got.Reference != nil {
			t.Errorf("after 2 runs the reference is %+v", got.Reference)
		}
		runs(c, sch.ID, 1)
		want := api.ScheduleReference{Runs: 3, Trials: 36, Score: 1}
		if got := read(c, sch.ID); got.Reference == nil || *got.Reference != want || len(got.Runs[0].Changed) != 0 {
			t.Fatalf("after 3 runs the schedule is %+v, its runs %+v", got.EvalSchedule, got.Runs)
		}
		mu.Lock()
		name = "model-2"
		mu.Unlock()
		push(c, entry, "2.0.0")
		runs(c, sch.ID, 1)
		last := read(c, sch.ID)
		if r := last.Runs[0]; *r.Score != 0 || r.Reference == nil || *r.Reference != 1 || len(r.Changed) != 2 ||
			r.Changed[0] != (api.ScheduleChange{What: "skill", Before: "pdf 1.0.0", After: "pdf 2.0.0"}) ||
			r.Changed[1] != (api.ScheduleChange{What: "model", Before: "model-1", After: "model-2"}) {
			t.Errorf("with another version and another model the run is %+v", r)
		}
		if *last.Reference != want {
			t.Errorf("the reference is %+v before the new one is complete", last.Reference)
		}
		run := c.Run(last.Runs[0].RunID)
		if run["suite_version"] != 1.0 {
			t.Errorf("suite_version is %v, want 1", run["suite_version"])
		}
		c.Patch(suite, object{"name": "Other"}).Want(http.StatusOK)
		runs(c, sch.ID, 3)
		got := read(c, sch.ID)
		if r := got.Runs[2]; len(r.Changed) != 1 || r.Changed[0] != (api.ScheduleChange{What: "suite", Before: "version 1", After: "version 2"}) {
			t.Errorf("with a changed suite the run is %+v", r)
		}
		if want := (api.ScheduleReference{Runs: 3, Trials: 36}); *got.Reference != want {
			t.Errorf("after 3 runs of the new suite the reference is %+v, want %+v", got.Reference, want)
		}
	})
}

// push publishes the version two of the skill pdf.
func push(c *runstest.Client, entry, version string) {
	c.T.Helper()
	archive := runstest.Archive("pdf", runstest.SkillText["2.0.0"])
	_, _, _, err := c.World.Registry.Push(c.T.Context(), entry, registry.Publication{
		OrgID: c.Org.ID, UserID: c.User.ID, Name: "pdf", Type: registry.TypeSkill, Visibility: registry.Org,
		Version: version, Source: registry.FromCLI, Archive: bytes.NewReader(archive), Size: int64(len(archive)),
	})
	if err != nil {
		c.T.Fatalf("%v", err)
	}
}
