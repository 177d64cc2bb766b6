package runs_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestRunsOfOthers: an organisation with more endless runs than there are workers
// does not block the run of another one.
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
		w := runstest.New(t, db, runstest.Scripted(server))
		big, small := w.Org("big"), w.Org("small")
		endless := big.Create(judged(trigger("an endless pdf")))
		for range 6 {
			big.Start(endless)
		}
		w.Work()
		apptest.Eventually(t, "the first of them", func() bool { return len(server.Requests()) > 0 })
		if run := small.Finish(small.Create(judged(trigger("a pdf")))); run["status"] != "succeeded" {
			t.Errorf("got %v, want a run that succeeded", run)
		}
	})
}

// TestRunYields: with one worker, a long run lets another organisation's run in
// between two of its trials, and loses none.
func TestRunYields(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := judgetest.Model{Route: router}
		waits := make(chan struct{}) // closed when the short run waits
		release := sync.OnceFunc(func() { close(waits) })
		t.Cleanup(release)
		var begun atomic.Bool // the short run
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			<-waits
			if strings.Contains(r.User, "a pdf") {
				begun.Store(true)
			}
			if !begun.Load() { // a run looks every second whether another one waits
				time.Sleep(100 * time.Millisecond)
			}
			return model.Respond(r)
		})
		w := runstest.New(t, db, runstest.Scripted(server))
		big, small := w.Org("big"), w.Org("small")
		var cases []object
		for i := range 60 {
			cases = append(cases, trigger(fmt.Sprintf("%d pdf", i)))
		}
		long := big.Start(big.Create(judged(cases...)))
		short := small.Create(judged(trigger("a pdf")))
		w.Another(jobs.Options{RunWorkers: 1}, runstest.Scripted(server), func(w *runstest.World) {
			w.Runs.Concurrency = 1
			w.Runs.SetSlice(time.Millisecond)
		}).Work()
		apptest.Eventually(t, "the long run", func() bool { return len(server.Requests()) > 0 })
		run := small.Start(short)
		release()
		first, second := small.Await(run), big.Await(long)
		if first["finished_at"].(string) >= second["finished_at"].(string) {
			t.Error("the short run waited for the end of the long one")
		}
		wantComplete(t, w, second, 60, 60)
	})
}
