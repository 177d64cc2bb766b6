package evals_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestRunsOfOthers has an organisation with more runs than there are workers,
// none of which ends. Another's does.
func TestRunsOfOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		end := make(chan struct{})
		model := judgetest.Model{Route: router}
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			if strings.Contains(r.User, "endless") {
				<-end
			}
			return model.Respond(r)
		})
		t.Cleanup(sync.OnceFunc(func() { close(end) }))
		w := newWorld(t, db, scripted(t, server, time.Minute))
		big, small := w.org("big"), w.org("small")
		endless := big.create(judged(trigger("an endless pdf")))
		for range 6 {
			big.start(endless)
		}
		w.work()
		eventually(t, "the first of them", func() bool { return len(server.Requests()) > 0 })
		if run := small.finished(small.create(judged(trigger("a pdf")))); run["status"] != "succeeded" {
			t.Errorf("got %v, want a run that succeeded", run)
		}
	})
}

// TestRunYields has one worker, and a run that takes long. It lets another
// organisation's run in between two of its trials, and loses none.
func TestRunYields(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := judgetest.Model{Route: router}
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			time.Sleep(50 * time.Millisecond)
			return model.Respond(r)
		})
		w := newWorld(t, db, scripted(t, server, time.Minute))
		big, small := w.org("big"), w.org("small")
		var cases []object
		for i := range 60 {
			cases = append(cases, trigger(fmt.Sprintf("%d pdf", i)))
		}
		long := big.start(big.create(judged(cases...)))
		short := small.create(judged(trigger("a pdf")))
		w.workAlone(scripted(t, server, time.Minute), func(s *evals.Service) { s.Concurrency = 1; s.SetSlice(time.Millisecond) })
		eventually(t, "the long run", func() bool { return len(server.Requests()) > 0 })
		small.finished(short)
		if w.count("eval_runs WHERE id = $1 AND finished_at IS NULL", long["id"]) != 1 {
			t.Error("the short run waited for the end of the long one")
		}
		w.wantComplete(t, big.await(long), 60, 60)
	})
}

// workAlone runs jobs on the world's database with one worker for runs.
func (w *world) workAlone(set ...func(*evals.Service)) {
	w.t.Helper()
	queue, err := jobs.New(jobs.Options{DB: w.db, Log: w.evals.Log, Poll: 20 * time.Millisecond, RunWorkers: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.another(append(set, func(s *evals.Service) { s.Jobs = queue })...).Register()
	w.queue = queue
	w.work()
}
