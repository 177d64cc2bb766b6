package improve_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// step makes an iteration without the queue and returns the run.
func step(c *client, run object, n int) object {
	c.T.Helper()
	if err := c.World.Improve.Iterate(c.T.Context(), c.Org.ID, run["id"].(string), n); err != nil {
		c.T.Fatalf("%v", err)
	}
	return c.ImproveRun(run["id"])
}

// TestImproveWriter checks what a model is sent: the training queries, never one
// that is held out, and the descriptions that were tried.
func TestImproveWriter(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := writing(t, "Paints in yellow.", "Paints in red.")
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		run := c.Improve(c.Create(colours()), object{"max_iterations": 2})
		for n := range 3 {
			run = step(c, run, n)
		}
		if winner := run["winner"].(object); run["status"] != "succeeded" || winner["n"] != 2.0 ||
			winner["description"] != "Paints in red." || winner["pass_rate"] != 1.0 {
			t.Fatalf("got %v", run)
		}
		first := apptest.List(t, run, "iterations")[0]
		if first["reason"] != "as scripted" || first["problem"] != nil || first["train"].(object)["passed"] != 3.0 ||
			first["holdout"].(object)["passed"] != 2.0 {
			t.Errorf("the first iteration is %v", first)
		}
		hidden := heldOut(w, run)
		if len(hidden) != 4 {
			t.Fatalf("held out are %v", hidden)
		}
		var asked []judgetest.Request
		for _, r := range server.Requests() {
			if isRewrite(r) {
				asked = append(asked, r)
			}
		}
		if len(asked) != 2 {
			t.Fatalf("%d descriptions were asked for", len(asked))
		}
		for _, r := range asked {
			for _, query := range []string{
				"one red", "two red", "three red", "four red", "five red", "one blue",
				"two blue", "three blue", "four blue", "five blue",
			} {
				if shown := strings.Contains(string(r.Body), query); shown == slices.Contains(hidden, query) {
					t.Errorf("%q is shown: %t", query, shown)
				}
			}
			if !strings.Contains(r.User, "Use version two.") || !strings.Contains(r.User, "should load the skill, loaded no skill: ") ||
				!strings.Contains(r.User, "should not load the skill, loaded no skill: ") {
				t.Errorf("the model is shown %s", r.User)
			}
		}
		if !strings.Contains(asked[1].User, "- 3 of 6: Paints in yellow.") {
			t.Errorf("the model is shown %s", asked[1].User)
		}
	})
}

// heldOut returns the held-out queries of a run.
func heldOut(w *runstest.World, run object) (all []string) {
	w.T.Helper()
	rows, err := w.DB.Query(w.T.Context(), `SELECT queries FROM improve_runs WHERE id = $1`, run["id"])
	raw, err := store.One(rows, err, "Run", store.Value[string])
	if err != nil {
		w.T.Fatal(err)
	}
	for _, q := range (apptest.Response{T: w.T, Body: []byte(`{"queries":` + raw + `}`)}).List("queries") {
		if q["held_out"] == true {
			all = append(all, q["query"].(string))
		}
	}
	return all
}

// TestImproveNoWinner keeps the current description: because it is perfect,
// because nothing is better, or because the better one has a query without a
// verdict.
func TestImproveNoWinner(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := writing(t, "Says nothing new.", "Paints in blue and red.", "Paints in red")
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		tables := []object{avoid("a red"), avoid("b red")}
		for _, n := range []string{"one", "two", "three", "four", "five"} {
			tables = append(tables, trigger(n+" tables"))
		}
		perfect := step(c, c.Improve(c.Create(judged(tables...))), 0)
		if perfect["status"] != "no_winner" || len(apptest.List(t, perfect, "iterations")) != 0 || perfect["winner"] != nil ||
			perfect["error"] != nil {
			t.Errorf("a perfect description gives %v", perfect)
		}
		run := c.Improve(c.Create(colours()), object{"max_iterations": 2})
		for n := range 3 {
			run = step(c, run, n)
		}
		if run["status"] != "no_winner" || run["proposal_id"] != nil || len(apptest.List(t, run, "iterations")) != 2 {
			t.Errorf("a tie gives %v", run)
		}
		run = c.Improve(c.Create(colours()), object{"max_iterations": 1})
		step(c, run, 0)
		mute := heldOut(w, run)[0]
		refusing := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			switch {
			case isRewrite(r):
				return judgetest.JSON(object{"reason": "as scripted", "description": "Paints in red"})
			case r.User == mute:
				return judgetest.Text("I would rather not.")
			}
			return byWord(r)
		})
		err := w.Another(jobs.Options{}, runstest.Scripted(refusing)).Improve.Iterate(t.Context(), c.Org.ID, run["id"].(string), 1)
		if err != nil {
			t.Fatal(err)
		}
		run = c.ImproveRun(run["id"])
		it := apptest.List(t, run, "iterations")[0]
		problem, _ := it["problem"].(string)
		if run["status"] != "no_winner" || it["errors"] != 1.0 || it["holdout"].(object)["cases"] != 3.0 ||
			!strings.HasPrefix(problem, "1 of 10 queries have no verdict; the last: judge_unusable") {
			t.Errorf("a query without a verdict gives %v", run)
		}
		if n := w.Count("proposals"); n != 0 {
			t.Errorf("%d proposals were made", n)
		}
	})
}

// TestImproveUnusable continues after answers that are no description.
func TestImproveUnusable(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		bad := []string{"<b>red</b>", "Extracts tables from PDF files."}
		server := writing(t, append(bad, strings.Repeat("red ", 300), "", "Paints in red.")...)
		c := runstest.New(t, db, runstest.Scripted(server)).Org("acme")
		run := c.Improve(c.Create(colours()), object{"max_iterations": 5})
		for n := range 4 { // an answer that cannot be used is asked for once more
			run = step(c, run, n)
		}
		var problems []any
		for _, it := range apptest.List(t, run, "iterations")[:2] {
			if it["description"] != nil || it["train"] != nil || it["holdout"] != nil {
				t.Errorf("an unusable iteration is %v", it)
			}
			problems = append(problems, it["problem"])
		}
		want := []any{"judge_unusable: the description was tried before", "judge_unusable: the description is empty"}
		if diff := cmp.Diff(want, problems); diff != "" {
			t.Errorf("problems (-want +got):\n%s", diff)
		}
		if run["status"] != "succeeded" || run["winner"].(object)["n"] != 3.0 {
			t.Errorf("got %v", run)
		}
	})
}

// TestImproveTwice makes every iteration twice, and the last by two processes at
// once: each result is stored once.
func TestImproveTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := writing(t, "Paints in yellow.", "Paints in red.", "Paints in red.", "Paints in red.")
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		run := c.Improve(c.Create(colours()), object{"max_iterations": 2})
		for n := range 2 {
			step(c, run, n)
			before := len(server.Requests())
			if run = step(c, run, n); len(server.Requests()) != before || run["status"] != "running" {
				t.Errorf("iteration %d was made again: %v", n, run)
			}
		}
		var wg sync.WaitGroup
		for range 2 {
			s := w.Another(jobs.Options{}, runstest.Scripted(server))
			wg.Go(func() {
				if err := s.Improve.Iterate(t.Context(), c.Org.ID, run["id"].(string), 2); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		run = c.ImproveRun(run["id"])
		if run["status"] != "succeeded" || len(apptest.List(t, run, "iterations")) != 2 || run["proposal_id"] == nil ||
			w.Count("proposals") != 1 {
			t.Errorf("%d proposals of %v", w.Count("proposals"), run)
		}
	})
}

// TestImproveResume stops a worker in the middle of an iteration: those before
// it are kept, and the queue makes the rest.
func TestImproveResume(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := writing(t, "Paints in red.", "Paints in red.")
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		run := c.Improve(c.Create(colours()), object{"max_iterations": 1})
		step(c, run, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var once sync.Once
		stopping := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			if !isRewrite(r) {
				once.Do(cancel)
				return judgetest.Hang()
			}
			return judgetest.JSON(object{"reason": "as scripted", "description": "Paints in red."})
		})
		other := w.Another(jobs.Options{}, runstest.Scripted(stopping))
		if err := other.Improve.Iterate(ctx, c.Org.ID, run["id"].(string), 1); err == nil {
			t.Error("a stopped worker has made its iteration")
		}
		if got := c.ImproveRun(run["id"]); got["status"] != "running" || got["error"] != nil ||
			len(apptest.List(t, got, "iterations")) != 0 {
			t.Errorf("a stopped worker leaves %v", got)
		}
		w.Work() // the queue has a job for each iteration
		if run = c.AwaitImprove(run); run["status"] != "succeeded" || w.Count("proposals") != 1 {
			t.Errorf("got %v", run)
		}
	})
}

func TestImproveCancel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Hang() })
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		suite := c.Create(colours())
		cancel := func(run object) apptest.Response { return c.Post(improvePath+"/"+run["id"].(string)+"/cancel", nil) }
		queued := c.Improve(suite)
		got := cancel(queued).Want(http.StatusOK).Field("improve_run")
		if got["status"] != "cancelled" || got["finished_at"] == nil {
			t.Errorf("a queued run becomes %v", got)
		}
		if diff := cmp.Diff(got, cancel(queued).Want(http.StatusOK).Field("improve_run")); diff != "" {
			t.Errorf("cancelled again (-first +second):\n%s", diff)
		}
		run := c.Improve(suite)
		ended := make(chan error, 1)
		go func() { ended <- w.Improve.Iterate(t.Context(), c.Org.ID, run["id"].(string), 0) }()
		apptest.Eventually(t, "the first request", func() bool { return len(server.Requests()) > 0 })
		cancel(run).Want(http.StatusOK)
		start := time.Now()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 5*time.Second { // a second, and a busy machine
			t.Errorf("the worker noticed after %v", took)
		}
		if got := c.ImproveRun(run["id"]); got["status"] != "cancelled" || got["error"] != nil {
			t.Errorf("a running run becomes %v", got)
		}
		done := runstest.New(t, db).Org("done")
		over := step(done, done.Improve(done.Create(judged(trigger("pdf tables"), trigger("extracts tables"), avoid("a"),
			avoid("b")))), 0)
		done.Post(improvePath+"/"+over["id"].(string)+"/cancel", nil).WantErrorWith(http.StatusConflict,
			"already over: its status is no_winner")
	})
}

// TestImproveFails has a row for each way in which an improve run ends without
// an answer.
func TestImproveFails(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, row := range []struct {
			name   string
			reply  judgetest.Reply
			n      int // the iteration that fails
			status string
			part   string
		}{
			{"wrong key", judgetest.Fail(401, "no"), 0, "failed_terminal", "judge_rejected: "},
			{"wrong key for the writer", judgetest.Fail(403, "no"), 1, "failed_terminal", "check --judge-key"},
			{"no such model", judgetest.Fail(404, "no such model"), 0, "failed_terminal", "--judge-model"},
			{"never a verdict", judgetest.Fail(400, "no"), 0, "failed_terminal", "10 of 10 queries have no verdict; the last: judge_rejected"},
			{"overloaded", judgetest.RateLimited(2 * time.Minute), 0, "failed_transient", "judge_unavailable: "},
			{"overloaded writer", judgetest.RateLimited(2 * time.Minute), 1, "failed_transient", "HTTP 429"},
		} {
			t.Run(row.name, func(t *testing.T) {
				server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
					if row.n == 1 && !isRewrite(r) {
						return byWord(r)
					}
					return row.reply
				})
				w := runstest.New(t, db, runstest.Scripted(server))
				c := w.Org(row.name)
				run := c.Improve(c.Create(colours()))
				for n := range row.n + 1 {
					run = step(c, run, n)
				}
				problem, _ := run["error"].(string)
				if run["status"] != row.status || !strings.Contains(problem, row.part) ||
					strings.Contains(problem, "sk-secret") || run["finished_at"] == nil {
					t.Errorf("got %v", run)
				}
			})
		}
	})
}

// TestImproveRetries keeps a run running as long as the queue retries.
func TestImproveRetries(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := writing(t, "Paints in red.")
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		server.Then(slices.Repeat([]judgetest.Reply{judgetest.RateLimited(2 * time.Minute)}, 40)...)
		stop := w.Work()
		run := c.Improve(c.Create(colours()), object{"max_iterations": 1})
		apptest.Eventually(t, "a failed attempt", func() bool {
			counts, err := w.Queue.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(counts, func(n jobs.Count) bool { return n.Kind == "evals.improve" && n.Retrying == 1 })
		})
		stop()
		if got := c.ImproveRun(run["id"]); got["status"] != "running" || got["error"] != nil {
			t.Errorf("a judge that is away for a moment leaves %v", got)
		}
	})
}

// TestImproveChanged fails runs whose skill or judge has changed.
func TestImproveChanged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite := c.Create(improvable())
		run := step(c, c.Improve(suite), 0)
		other := w.Another(jobs.Options{}, runstest.Scripted(writing(t)))
		if err := other.Improve.Iterate(t.Context(), c.Org.ID, run["id"].(string), 1); err != nil {
			t.Fatal(err)
		}
		if run = c.ImproveRun(run["id"]); run["status"] != "failed_terminal" ||
			!strings.HasPrefix(run["error"].(string), "judge_changed: ") {
			t.Errorf("another judge gives %v", run)
		}
		run = step(c, c.Improve(suite), 0)
		if err := w.Registry.Delete(t.Context(), c.Org.ID, c.Entry()); err != nil {
			t.Fatal(err)
		}
		if run = step(c, run, 1); run["status"] != "failed_terminal" || run["error"] != "subject_gone: Registry entry not found" {
			t.Errorf("a skill that is gone gives %v", run)
		}
	})
}

// improveEvents opens the stream of an improve run; what it returns reads it to
// its end.
func improveEvents(c *client, id, after string) func() *httptest.ResponseRecorder {
	c.T.Helper()
	stream, err := c.World.Improve.Events(c.T.Context(), c.Org.ID, id, after)
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	return func() *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		stream(recorder, httptest.NewRequestWithContext(c.T.Context(), http.MethodGet, "/", nil))
		return recorder
	}
}

// TestImproveEvents: a client gets an event for every step, and one for the end.
func TestImproveEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db, runstest.Scripted(writing(t, "Things that are red.")))
		c := w.Org("acme")
		run := c.Improve(c.Create(colours()))
		id := run["id"].(string)
		read, events := make(chan string, 1), improveEvents(c, id, "")
		go func() { read <- events().Body.String() }()
		for n := range 2 {
			run = step(c, run, n)
		}
		if run["status"] != "succeeded" {
			t.Fatalf("the run is %v", run)
		}
		const end = "id: 1\nevent: status\n" +
			`data: {"status":"succeeded","progress":{"done":60,"total":60},"iterations":2,"finished_at":"`
		if got := <-read; !strings.HasPrefix(got, ": ok\n\nid: ") || strings.Count(got, end) != 1 ||
			strings.Count(got, "id: 1\n") != 1 {
			t.Errorf("a client from the start gets\n%s\nwant the end once: %s", got, end)
		}
		// A client that left before the end gets it, one that saw it gets 204.
		if got := improveEvents(c, id, "0")(); !strings.Contains(got.Body.String(), end) {
			t.Errorf("a client that reconnects gets %s", got.Body)
		}
		if got := improveEvents(c, id, "1")(); got.Code != http.StatusNoContent {
			t.Errorf("a client that saw the end gets %d %s", got.Code, got.Body)
		}
		if _, err := w.Improve.Events(t.Context(), c.Org.ID, id, "x"); !fault.Is(err, fault.Malformed) {
			t.Errorf("no id of an event: %v", err)
		}
		if _, err := w.Improve.Events(t.Context(), w.Org("other").Org.ID, id, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("another organisation's: %v", err)
		}
	})
}

// TestImproveEventsEnd: the stream of a queued run ends when the service stops.
func TestImproveEventsEnd(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		closing := make(chan struct{})
		w := runstest.New(t, db, func(w *runstest.World) { w.Runs.Closing = closing })
		c := w.Org("acme")
		id := c.Improve(c.Create(colours()))["id"].(string)
		ended, events := make(chan string, 1), improveEvents(c, id, "")
		go func() { ended <- events().Body.String() }()
		close(closing)
		if got := <-ended; !strings.Contains(got, `"status":"queued"`) {
			t.Errorf("when the service stops: %s", got)
		}
	})
}
