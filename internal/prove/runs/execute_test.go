package runs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := judgetest.Model{Route: router}
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			if r.User == "never" {
				return judgetest.Hang()
			}
			return model.Respond(r)
		})
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		suite := c.Create(judged(trigger("the pdf"), trigger("never"), avoid("rain")))
		cancel := func(run object) apptest.Response { return c.Post(runsPath+run["id"].(string)+"/cancel", nil) }

		queued := c.Start(suite)
		got := cancel(queued).Want(http.StatusOK).Field("run")
		if diff := cmp.Diff([]any{"skipped", "skipped", "skipped"}, verdicts(t, got)); got["status"] != "cancelled" || diff != "" {
			t.Errorf("a queued run becomes %v", got)
		}
		again := cancel(queued).Want(http.StatusOK).Field("run")
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("cancelled again (-first +second):\n%s", diff)
		}

		w.Work()
		run := c.Start(suite)
		apptest.Eventually(t, "two of three cases", func() bool {
			run = c.Run(run["id"])
			return run["progress"].(object)["done"] == 2.0
		})
		got = cancel(run).Want(http.StatusOK).Field("run")
		if diff := cmp.Diff([]any{"pass", "skipped", "pass"}, verdicts(t, got)); got["status"] != "cancelled" || diff != "" {
			t.Errorf("a running run becomes %v", got)
		}
		if diff := cmp.Diff(apptest.Plain(t, object{"cases": 3, "passed": 2, "failed": 0, "errors": 0, "skipped": 1}),
			got["totals"]); diff != "" {
			t.Errorf("totals (-want +got):\n%s", diff)
		}
		// The model never answers, and would be waited for longer than this.
		apptest.Eventually(t, "the worker to notice", func() bool { return unfinishedJobs(w) == 0 })
		over := c.Finish(c.Create(judged(trigger("the pdf"))))
		cancel(over).WantErrorWith(http.StatusConflict, "already over")
	})
}

// unfinishedJobs counts the jobs of runs that are not done.
func unfinishedJobs(w *runstest.World) (n int) {
	w.T.Helper()
	counts, err := w.Queue.Counts(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	for _, c := range counts {
		if c.Kind == "evals.execute" {
			n += c.Waiting + c.Running + c.Retrying
		}
	}
	return n
}

// TestResume stops workers at random moments: finished trials are kept, and the
// others are made once.
func TestResume(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var left atomic.Int64 // requests until the worker is stopped
		var stop atomic.Value // of context.CancelFunc
		model := judgetest.Model{Route: router}
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			if left.Add(-1) == 0 {
				stop.Load().(context.CancelFunc)()
			}
			return model.Respond(r)
		})
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		var cases []object
		for i := range 20 {
			cases = append(cases, trigger(fmt.Sprintf("%d pdf", i)), avoid(fmt.Sprintf("%d pdf", i)), trigger(fmt.Sprintf("%d rain", i)))
		}
		run := c.Start(c.Create(judged(cases...)), object{"trials": 2})
		id, stops := run["id"].(string), 0
		for {
			ctx, cancel := context.WithCancel(t.Context())
			left.Store(1 + rand.Int64N(40))
			stop.Store(cancel)
			err := w.Another(jobs.Options{}, runstest.Scripted(server)).Runs.Execute(ctx, c.Org.ID, id)
			cancel()
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if stops++; stops > 200 {
				t.Fatal("the run does not get on")
			}
			if got := c.Run(id); got["status"] != "running" || got["error"] != nil {
				t.Fatalf("a stopped worker leaves %v", without(got, "cases"))
			}
		}
		if stops == 0 {
			t.Error("no worker was stopped")
		}
		run = c.Run(id)
		wantComplete(t, w, run, 60, 120)
		if diff := cmp.Diff(apptest.Plain(t, object{"cases": 60, "passed": 20, "failed": 40, "errors": 0, "skipped": 0}),
			run["totals"]); diff != "" {
			t.Errorf("totals (-want +got):\n%s", diff)
		}
	})
}

// wantComplete checks that every trial of a run and every event exists once.
func wantComplete(t *testing.T, w *runstest.World, run object, cases, trials int) {
	t.Helper()
	id := run["id"].(string)
	if diff := cmp.Diff(apptest.Plain(t, object{"done": trials, "total": trials}),
		run["progress"]); run["status"] != "succeeded" || diff != "" {
		t.Errorf("%v, progress (-want +got):\n%s", run["status"], diff)
	}
	if n := w.Count("eval_run_trials WHERE run_id = $1", id); n != trials {
		t.Errorf("%d trials are kept, want %d", n, trials)
	}
	if n := w.Count("eval_run_cases WHERE run_id = $1", id); n != cases {
		t.Errorf("%d cases are kept, want %d", n, cases)
	}
	if n := w.Count("eval_run_events WHERE run_id = $1 AND name = 'status'", id); n != 2 {
		t.Errorf("%d events of status, want 2", n)
	}
	for _, c := range apptest.List(t, run, "cases") {
		seen := map[string]bool{}
		for _, trial := range apptest.List(t, c, "trials") {
			seen[fmt.Sprint(trial["variant"], trial["n"])] = true
		}
		if len(seen) != trials/cases {
			t.Errorf("case %v has the trials %v", c["id"], seen)
		}
	}
}

// TestTwoWorkers lets two processes work on one run at once.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, judgetest.Model{Route: router}.Respond)
		server.Latency = 5 * time.Millisecond
		w := runstest.New(t, db, runstest.Scripted(server))
		c := w.Org("acme")
		var cases []object
		for i := range 50 {
			cases = append(cases, trigger(fmt.Sprintf("%d pdf", i)))
		}
		id := c.Start(c.Create(judged(cases...)), object{"trials": 3})["id"].(string)
		var wg sync.WaitGroup
		for range 2 {
			s := w.Another(jobs.Options{}, runstest.Scripted(server))
			wg.Go(func() {
				if err := s.Runs.Execute(t.Context(), c.Org.ID, id); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		wantComplete(t, w, c.Run(id), 50, 150)
	})
}

// TestManyTrials is a run that is over in a few batches.
func TestManyTrials(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		w.Work()
		c := w.Org("acme")
		var cases []object
		for i := range 100 {
			cases = append(cases, exact(strconv.Itoa(i), strconv.Itoa(i-i%2)))
		}
		run := c.Finish(c.Create(deterministic(cases...)), object{"trials": 30})
		wantComplete(t, w, run, 100, 3000)
		if run["pass_rate"] != 0.5 || run["pass_k"] != 0.5 {
			t.Errorf("got %v", without(run, "cases"))
		}
	})
}

// frame is one server-sent event.
type frame struct {
	ID         int64
	Name, Data string
}

// events follows a run from an event on, until the server ends the stream or
// stop says so.
func events(c *runstest.Client, id, after string, stop func(frame) bool) (all []frame) {
	c.T.Helper()
	req, err := http.NewRequestWithContext(c.T.Context(), http.MethodGet, c.World.Server.URL+runsPath+id+"/events", nil)
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := c.World.Server.Client().Do(req)
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		c.T.Fatalf("events: %s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	var f frame
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			f.ID, _ = strconv.ParseInt(value, 10, 64)
		case "event":
			f.Name = value
		case "data":
			f.Data = value
			all = append(all, f)
			if stop != nil && stop(f) {
				return all
			}
		}
	}
	return all
}

func TestEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		release := make(chan struct{})
		model := judgetest.Model{Route: router}
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			if r.User == "wait" {
				<-release
			}
			return model.Respond(r)
		})
		w := runstest.New(t, db, runstest.Scripted(server))
		w.Work()
		c := w.Org("acme")
		run := c.Start(c.Create(judged(with(trigger("the pdf"), object{"id": "one"}), with(trigger("wait"), object{"id": "two"}))))
		id := run["id"].(string)
		first := events(c, id, "", func(f frame) bool { return f.Name == "case" })
		if diff := cmp.Diff([]string{"status", "case"}, []string{first[0].Name, first[len(first)-1].Name}); diff != "" {
			t.Errorf("first events (-want +got):\n%s", diff)
		}
		if data := first[len(first)-1].Data; !strings.Contains(data, `"id":"one"`) || !strings.Contains(data, `"verdict":"pass"`) {
			t.Errorf("case: %s", data)
		}
		seen := first[len(first)-1].ID
		close(release)
		rest := events(c, id, strconv.FormatInt(seen, 10), nil)
		for i, f := range append(first, rest...) {
			if f.ID != int64(i+1) {
				t.Fatalf("event %d has the id %d", i+1, f.ID)
			}
		}
		last := rest[len(rest)-1]
		if last.Name != "status" || !strings.Contains(last.Data, `"status":"succeeded"`) ||
			!strings.Contains(last.Data, `"pass_rate":0.5`) {
			t.Errorf("last event: %v", last)
		}
		if all := events(c, id, "", nil); len(all) != len(first)+len(rest) {
			t.Errorf("%d events in all, %d and %d in parts", len(all), len(first), len(rest))
		}
		reconnect := func(lastEventID string) apptest.Response {
			return c.Do(http.MethodGet, runsPath+id+"/events", nil, "Last-Event-ID: "+lastEventID)
		}
		reconnect(strconv.FormatInt(last.ID, 10)).Want(http.StatusNoContent)
		reconnect("x").WantIssueWith("Last-Event-ID", "id of an event")
	})
}

// TestClosing ends streams when the service stops.
func TestClosing(t *testing.T) {
	t.Parallel()
	closing := make(chan struct{})
	w := runstest.New(t, storetest.Open(t, "sqlite"), func(w *runstest.World) { w.Runs.Closing = closing })
	c := w.Org("acme")
	run := c.Start(c.Create(deterministic(exact("a", "a")))) // it stays queued
	time.AfterFunc(10*time.Millisecond, func() { close(closing) })
	if all := events(c, run["id"].(string), "", nil); len(all) != 0 {
		t.Errorf("got %v", all)
	}
}
