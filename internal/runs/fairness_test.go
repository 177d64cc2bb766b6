package runs_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
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
		w := newWorld(t, db, scripted(server))
		big, small := w.org("big"), w.org("small")
		endless := big.Create(judged(trigger("an endless pdf")))
		for range 6 {
			big.start(endless)
		}
		w.Work()
		eventually(t, "the first of them", func() bool { return len(server.Requests()) > 0 })
		if run := small.finished(small.Create(judged(trigger("a pdf")))); run["status"] != "succeeded" {
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
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			time.Sleep(50 * time.Millisecond)
			return model.Respond(r)
		})
		w := newWorld(t, db, scripted(server))
		big, small := w.org("big"), w.org("small")
		var cases []object
		for i := range 60 {
			cases = append(cases, trigger(fmt.Sprintf("%d pdf", i)))
		}
		long := big.start(big.Create(judged(cases...)))
		short := small.Create(judged(trigger("a pdf")))
		w.workAlone(scripted(server), func(w *runstest.World) { w.Runs.Concurrency = 1; w.Runs.SetSlice(time.Millisecond) })
		eventually(t, "the long run", func() bool { return len(server.Requests()) > 0 })
		small.finished(short)
		if w.Count("eval_runs WHERE id = $1 AND finished_at IS NULL", long["id"]) != 1 {
			t.Error("the short run waited for the end of the long one")
		}
		w.wantComplete(t, big.await(long), 60, 60)
	})
}

// workAlone runs jobs on the world's database with one worker for runs.
func (w *world) workAlone(set ...func(*runstest.World)) {
	w.T.Helper()
	other := w.Another(append(set, func(other *runstest.World) {
		other.Queue = runstest.NewQueue(w.T, w.DB, 1)
		other.Runs.Jobs = other.Queue
	})...)
	other.Runs.Register()
	other.Work()
}
