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

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// stint is a run: "acme 1" is one of the organisation acme.
type stint struct{ Name string }

func (stint) Kind() string { return "test.stint" }

// Org is the first word of the name.
func (s stint) Org() string {
	org, _, _ := strings.Cut(s.Name, " ")
	return org
}

// stage has runs that go on until they are told to end.
type stage struct {
	diary
	mu  sync.Mutex
	end map[string]chan struct{}
}

func (s *stage) handle(n *node) {
	jobs.Handle(n.Queue, func(ctx context.Context, a stint) error {
		s.add(a.Name)
		select {
		case <-s.curtain(a.Name):
		case <-ctx.Done():
		}
		return nil
	})
}

func (s *stage) curtain(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		s.end = map[string]chan struct{}{}
	}
	if s.end[name] == nil {
		s.end[name] = make(chan struct{})
	}
	return s.end[name]
}

func (n *node) stints(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		n.enqueue(t, stint{name})
	}
}

// runsApart fills the lane of runs, and must not keep other jobs waiting.
func runsApart(t *testing.T, w *world) {
	var s stage
	var d diary
	n := w.node(t, jobs.Options{Workers: 1, RunWorkers: 1})
	s.handle(n)
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.start(t)
	n.stints(t, "acme 1", "acme 2", "acme 3")
	s.want(t, "acme 1")
	n.enqueue(t, note{"alert"})
	d.want(t, "alert")
	n.enqueue(t, note{"delivery"})
	d.want(t, "alert", "delivery")
	s.want(t, "acme 1")
}

// runsInTurn has one worker: organisations take turns, however many runs one
// of them has and however long they have waited.
func runsInTurn(t *testing.T, w *world) {
	var d diary
	n := w.node(t, jobs.Options{RunWorkers: 1})
	jobs.Handle(n.Queue, func(_ context.Context, a stint) error { d.add(a.Name); return nil })
	n.stints(t, "big 1", "big 2", "big 3", "big 4", "acme 1", "evil 1", "acme 2")
	n.start(t)
	d.want(t, "big 1", "acme 1", "evil 1", "big 2", "acme 2", "big 3", "big 4")
}

// runsShared has an organisation whose runs do not end. They take all workers
// but one.
func runsShared(t *testing.T, w *world) {
	var s stage
	n := w.node(t, jobs.Options{RunWorkers: 3})
	s.handle(n)
	n.start(t)
	n.stints(t, "big 1", "big 2", "big 3", "big 4")
	s.wantAll(t, "big 1", "big 2")
	n.stints(t, "acme 1", "acme 2")
	s.wantAll(t, "big 1", "big 2", "acme 1")
	close(s.curtain("big 1")) // acme has one, and so has big, whose turn is longer ago
	s.wantAll(t, "big 1", "big 2", "acme 1", "big 3")
	close(s.curtain("big 2"))
	close(s.curtain("big 3"))
	s.wantAll(t, "big 1", "big 2", "acme 1", "big 3", "acme 2", "big 4")
}

// wantAll waits until the diary has the lines, in whatever order.
func (d *diary) wantAll(t *testing.T, lines ...string) {
	t.Helper()
	slices.Sort(lines)
	eventually(t, func() bool { return slices.Equal(lines, slices.Sorted(slices.Values(d.read()))) }, func() string {
		return cmp.Diff(lines, d.read())
	})
}

// runsOfReplicas fills the workers of two processes. The first that is free
// takes the run of the organisation that has none, and the share is counted
// over both.
func runsOfReplicas(t *testing.T, w *world) {
	var s stage
	one, two := w.node(t, jobs.Options{RunWorkers: 1}), w.node(t, jobs.Options{RunWorkers: 1})
	for _, n := range []*node{one, two} {
		s.handle(n)
		n.start(t)
	}
	one.stints(t, "big 1", "big 2", "big 3", "big 4")
	eventually(t, func() bool { return len(s.read()) == 2 }, func() string { return fmt.Sprint(s.read()) })
	two.stints(t, "acme 1", "acme 2")
	close(s.curtain(s.read()[0]))
	eventually(t, func() bool { return len(s.read()) == 3 }, func() string { return fmt.Sprint(s.read()) })
	close(s.curtain(s.read()[1])) // each has one: it is big's turn
	eventually(t, func() bool { return len(s.read()) == 4 }, func() string { return fmt.Sprint(s.read()) })
	var orgs []string
	for _, name := range s.read() {
		orgs = append(orgs, stint{name}.Org())
	}
	if diff := cmp.Diff([]string{"big", "big", "acme", "big"}, orgs); diff != "" {
		t.Errorf("whose runs were claimed (-want +got):\n%s", diff)
	}
}

// runsYield has a long run that lets others in.
func runsYield(t *testing.T, w *world) {
	var d diary
	n := w.node(t, jobs.Options{RunWorkers: 1})
	jobs.Handle(n.Queue, func(ctx context.Context, a stint) error {
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
	n.stints(t, "big 1")
	d.want(t, "big 1")
	n.stints(t, "big 2") // for its own organisation it does not yield
	time.Sleep(100 * time.Millisecond)
	d.want(t, "big 1")
	n.stints(t, "acme 1")
	eventually(t, func() bool { return len(d.read()) == 4 }, func() string { return fmt.Sprint(d.read()) })
	if got := d.read(); got[1] != "acme 1" || !slices.Contains(got[2:], "big 1") {
		t.Errorf("got %q, want acme's run second, and the first again", got)
	}
}

// runsCarriedOver has runs that were enqueued as plain jobs, by a version
// without runs. One worker moves them in the order in which they are due.
func runsCarriedOver(t *testing.T, w *world) {
	var s stage
	n := w.node(t, jobs.Options{Workers: 1, RunWorkers: 1})
	s.handle(n)
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error {
		for i, name := range []string{"big 1", "acme 1", "big 2"} {
			if err := n.Restore(t.Context(), tx, jobs.Saved{
				Kind: stint{}.Kind(), Args: fmt.Appendf(nil, `{"Name": %q}`, name), Key: name, MaxAttempts: 1,
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
	n.enqueue(t, stint{"big dropped: one waits"}, jobs.Unique("big 2"))
	close(s.curtain("big 1"))
	s.want(t, "big 1", "acme 1")
	close(s.curtain("acme 1"))
	close(s.curtain("big 2"))
	s.want(t, "big 1", "acme 1", "big 2")
	eventually(t, func() bool { return n.count(t, stint{}.Kind()) == jobs.Count{} }, func() string { return "jobs are left" })
}

// runLife is what all jobs can do: fail, wait, be given up and be unique.
func runLife(t *testing.T, w *world) {
	var d diary
	n := w.node(t, jobs.Options{RunWorkers: 1})
	jobs.Handle(n.Queue, func(ctx context.Context, a stint) error {
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
	kind := stint{}.Kind()
	n.enqueue(t, stint{"acme fails"}, jobs.Attempts(2), jobs.Unique("k"))
	n.enqueue(t, stint{"acme dropped"}, jobs.Unique("k"))
	n.enqueueLater(t, stint{"acme later"})
	n.start(t)
	d.want(t, "acme fails, 1 of 2", "acme fails, 2 of 2")
	n.enqueue(t, stint{"acme hopeless"}, jobs.Attempts(1))
	d.want(t, "acme fails, 1 of 2", "acme fails, 2 of 2", "acme hopeless, 1 of 1")
	n.enqueue(t, stint{"acme waits"}, jobs.Attempts(1))
	eventually(t, func() bool { return len(d.read()) == 6 }, func() string { return fmt.Sprint(d.read()) })
	n.enqueue(t, stint{"acme panics"}, jobs.Attempts(2))
	want := jobs.Count{Kind: kind, Waiting: 1, Discarded: 1}
	eventually(t, func() bool { return len(d.read()) == 8 && n.count(t, kind) == want }, func() string {
		return fmt.Sprint(d.read()) + cmp.Diff(want, n.count(t, kind))
	})
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error { return n.Enqueue(t.Context(), tx, stint{}) })
	if err == nil {
		t.Error("a run of no organisation was enqueued")
	}
}

// needsRoom has a disk without room: what needs some waits, all else goes on.
func needsRoom(t *testing.T, w *world) {
	var d diary
	var mu sync.Mutex
	full := true
	n := w.node(t, jobs.Options{Room: func() bool { mu.Lock(); defer mu.Unlock(); return !full }})
	jobs.Handle(n.Queue, func(_ context.Context, a stint) error { d.add(a.Name); return nil }, jobs.NeedsRoom())
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.start(t)
	n.enqueue(t, stint{"acme 1"}, jobs.Attempts(1))
	n.enqueue(t, note{"delete"})
	d.want(t, "delete")
	eventually(t, func() bool {
		return n.count(t, stint{}.Kind()) == jobs.Count{Kind: stint{}.Kind(), Waiting: 1}
	}, func() string { return "the run does not wait" })
	mu.Lock()
	full = false
	mu.Unlock()
	d.want(t, "delete", "acme 1")
}
