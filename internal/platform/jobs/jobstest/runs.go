package jobstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// orgRun is a run: "acme 1" is one of the organisation acme.
type orgRun struct{ Name string }

func (orgRun) Kind() string { return "test.run" }

// Org is the first word of the name.
func (s orgRun) Org() string {
	org, _, _ := strings.Cut(s.Name, " ")
	return org
}

// blockedRuns logs runs as they start, and blocks each until its channel of
// release is closed or the test is over.
type blockedRuns struct {
	eventLog
	mu       sync.Mutex
	released map[string]chan struct{}
}

func (s *blockedRuns) handle(t *testing.T, n *node) {
	t.Helper()
	jobs.Handle(n.Queue, func(ctx context.Context, a orgRun) error {
		s.add(a.Name)
		select {
		case <-s.release(a.Name):
		case <-ctx.Done():
		case <-t.Context().Done():
		}
		return nil
	})
}

// release is the channel that ends a run when it is closed, before or after the
// run has started.
func (s *blockedRuns) release(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released == nil {
		s.released = map[string]chan struct{}{}
	}
	if s.released[name] == nil {
		s.released[name] = make(chan struct{})
	}
	return s.released[name]
}

// enqueueRuns enqueues one run after the other, so that their order is known.
func (n *node) enqueueRuns(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		n.enqueue(t, orgRun{name})
	}
}

// runsApart checks that other jobs do not wait while all run workers are busy.
func runsApart(t *testing.T, w *world) {
	var s blockedRuns
	var d eventLog
	n := w.node(t, jobs.Options{Workers: 1, RunWorkers: 1})
	s.handle(t, n)
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.start(t)
	n.enqueueRuns(t, "acme 1", "acme 2", "acme 3")
	s.want(t, "acme 1")
	n.enqueue(t, note{"alert"})
	d.want(t, "alert")
	n.enqueue(t, note{"delivery"})
	d.want(t, "alert", "delivery")
	s.want(t, "acme 1")
}

// runsInTurn checks that with one worker organisations are served round robin,
// however many runs each has and however long these have waited.
func runsInTurn(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{RunWorkers: 1})
	jobs.Handle(n.Queue, func(_ context.Context, a orgRun) error { d.add(a.Name); return nil })
	n.enqueueRuns(t, "big 1", "big 2", "big 3", "big 4", "acme 1", "evil 1", "acme 2")
	n.start(t)
	d.want(t, "big 1", "acme 1", "evil 1", "big 2", "acme 2", "big 3", "big 4")
}

// runsShared checks that runs of one organisation that never end leave one
// worker for others.
func runsShared(t *testing.T, w *world) {
	var s blockedRuns
	n := w.node(t, jobs.Options{RunWorkers: 3})
	s.handle(t, n)
	n.start(t)
	n.enqueueRuns(t, "big 1", "big 2", "big 3", "big 4")
	s.wantAll(t, "big 1", "big 2")
	n.enqueueRuns(t, "acme 1", "acme 2")
	s.wantAll(t, "big 1", "big 2", "acme 1")
	close(s.release("big 1")) // acme has one, and so has big, whose turn is longer ago
	s.wantAll(t, "big 1", "big 2", "acme 1", "big 3")
	close(s.release("big 2"))
	close(s.release("big 3"))
	s.wantAll(t, "big 1", "big 2", "acme 1", "big 3", "acme 2", "big 4")
}

// wantAll waits until the log has these lines, in any order.
func (d *eventLog) wantAll(t *testing.T, lines ...string) {
	t.Helper()
	slices.Sort(lines)
	eventually(t, func() bool { return slices.Equal(lines, slices.Sorted(slices.Values(d.read()))) }, func() string {
		return cmp.Diff(lines, d.read())
	})
}

// runsOfReplicas checks that two processes share runs fairly: the first free
// worker of either claims a run of the organisation that has none.
func runsOfReplicas(t *testing.T, w *world) {
	var s blockedRuns
	one, two := w.node(t, jobs.Options{RunWorkers: 1}), w.node(t, jobs.Options{RunWorkers: 1})
	for _, n := range []*node{one, two} {
		s.handle(t, n)
		n.start(t)
	}
	one.enqueueRuns(t, "big 1", "big 2", "big 3", "big 4")
	eventually(t, func() bool { return len(s.read()) == 2 }, func() string { return fmt.Sprint(s.read()) })
	two.enqueueRuns(t, "acme 1", "acme 2")
	close(s.release(s.read()[0]))
	eventually(t, func() bool { return len(s.read()) == 3 }, func() string { return fmt.Sprint(s.read()) })
	close(s.release(s.read()[1])) // each has one: it is big's turn
	eventually(t, func() bool { return len(s.read()) == 4 }, func() string { return fmt.Sprint(s.read()) })
	var orgs []string
	for _, name := range s.read() {
		orgs = append(orgs, orgRun{name}.Org())
	}
	if diff := cmp.Diff([]string{"big", "big", "acme", "big"}, orgs); diff != "" {
		t.Errorf("whose runs were claimed (-want +got):\n%s", diff)
	}
}

// runsYield has a long run that yields its worker when others wait.
func runsYield(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{RunWorkers: 1})
	jobs.Handle(n.Queue, func(ctx context.Context, a orgRun) error {
		d.add(a.Name)
		for a.Org() == "big" && len(d.read()) < 3 {
			if others, err := n.OthersWait(ctx, a.Org()); others || err != nil {
				return jobs.Snooze(0)
			}
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	n.start(t)
	n.enqueueRuns(t, "big 1")
	d.want(t, "big 1")
	n.enqueueRuns(t, "big 2") // for its own organisation it does not yield
	time.Sleep(100 * time.Millisecond)
	d.want(t, "big 1")
	n.enqueueRuns(t, "acme 1")
	eventually(t, func() bool { return len(d.read()) == 4 }, func() string { return fmt.Sprint(d.read()) })
	if got := d.read(); got[1] != "acme 1" || !slices.Contains(got[2:], "big 1") {
		t.Errorf("got %q, want acme's run second, and the first again", got)
	}
}

// runsCarriedOver has runs that were enqueued as plain jobs, by a version
// without runs. One worker moves them in the order in which they are due.
func runsCarriedOver(t *testing.T, w *world) {
	var s blockedRuns
	n := w.node(t, jobs.Options{Workers: 1, RunWorkers: 1})
	s.handle(t, n)
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error {
		for i, name := range []string{"big 1", "acme 1", "big 2"} {
			if err := n.Restore(t.Context(), tx, jobs.Saved{
				Kind: orgRun{}.Kind(), Args: fmt.Appendf(nil, `{"Name": %q}`, name), Key: name, MaxAttempts: 1,
				RunAt: time.Now().Add(time.Duration(i-3) * time.Second), CreatedAt: time.Now(),
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.start(t)
	s.want(t, "big 1")
	n.enqueue(t, orgRun{"big dropped: one waits"}, jobs.Unique("big 2"))
	close(s.release("big 1"))
	s.want(t, "big 1", "acme 1")
	close(s.release("acme 1"))
	close(s.release("big 2"))
	s.want(t, "big 1", "acme 1", "big 2")
	eventually(t, func() bool { return n.count(t, orgRun{}.Kind()) == jobs.Count{} }, func() string { return "jobs are left" })
}

// runLife checks that runs can do what other jobs can: fail, be retried, snooze,
// be discarded and be unique.
func runLife(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{RunWorkers: 1})
	jobs.Handle(n.Queue, func(ctx context.Context, a orgRun) error {
		number, last := jobs.Attempt(ctx)
		d.add(fmt.Sprintf("%s, %d of %d", a.Name, number, last))
		switch {
		case a.Name == "acme fails" && number == 1, a.Name == "acme hopeless":
			return errBoom
		case a.Name == "acme waits" && len(d.read()) < 6:
			return jobs.Snooze(10 * time.Millisecond)
		case a.Name == "acme panics" && number == 1:
			panic("boom")
		}
		return nil
	}, noWait())
	kind := orgRun{}.Kind()
	n.enqueue(t, orgRun{"acme fails"}, jobs.Attempts(2), jobs.Unique("k"))
	n.enqueue(t, orgRun{"acme dropped"}, jobs.Unique("k"))
	n.enqueueLater(t, orgRun{"acme later"})
	n.start(t)
	d.want(t, "acme fails, 1 of 2", "acme fails, 2 of 2")
	n.enqueue(t, orgRun{"acme hopeless"}, jobs.Attempts(1))
	d.want(t, "acme fails, 1 of 2", "acme fails, 2 of 2", "acme hopeless, 1 of 1")
	n.enqueue(t, orgRun{"acme waits"}, jobs.Attempts(1))
	eventually(t, func() bool { return len(d.read()) == 6 }, func() string { return fmt.Sprint(d.read()) })
	n.enqueue(t, orgRun{"acme panics"}, jobs.Attempts(2))
	want := jobs.Count{Kind: kind, Waiting: 1, Discarded: 1}
	eventually(t, func() bool { return len(d.read()) == 8 && n.count(t, kind) == want }, func() string {
		return fmt.Sprint(d.read()) + cmp.Diff(want, n.count(t, kind))
	})
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error { return n.Enqueue(t.Context(), tx, orgRun{}) })
	if err == nil {
		t.Error("a run of no organisation was enqueued")
	}
}

// needsRoom checks that on a full disk only jobs of a kind with NeedsRoom wait.
func needsRoom(t *testing.T, w *world) {
	var d eventLog
	var mu sync.Mutex
	full := true
	room := func() bool { mu.Lock(); defer mu.Unlock(); return !full }
	n := w.node(t, jobs.Options{Room: room, RoomWait: time.Second})
	jobs.Handle(n.Queue, func(_ context.Context, a orgRun) error { d.add(a.Name); return nil }, jobs.NeedsRoom())
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.start(t)
	n.enqueue(t, orgRun{"acme 1"}, jobs.Attempts(1))
	n.enqueue(t, note{"delete"})
	d.want(t, "delete")
	eventually(t, func() bool {
		return n.count(t, orgRun{}.Kind()) == jobs.Count{Kind: orgRun{}.Kind(), Waiting: 1}
	}, func() string { return "the run was not snoozed" })
	mu.Lock()
	full = false
	mu.Unlock()
	d.want(t, "delete", "acme 1")
}
