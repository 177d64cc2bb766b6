package jobstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// enqueueFor enqueues jobs of organisations, in one transaction: "acme 1" is
// one of acme's.
func (n *node) enqueueFor(t *testing.T, names ...string) {
	t.Helper()
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error {
		for _, name := range names {
			if err := n.Enqueue(t.Context(), tx, note{name}, jobs.For(orgRun{name}.Org())); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// numbered is "org 1", "org 2" and so on.
func numbered(org string, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("%s %03d", org, i+1))
	}
	return names
}

// turns checks that a job waits for one job of every other organisation, not
// for all that these have enqueued before it, and that each organisation's
// jobs keep their order.
func turns(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{Workers: 1})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.enqueueFor(t, numbered("big", 300)...)
	n.enqueueFor(t, "acme 001", "zoo 001", "acme 002", "zoo 002", "acme 003")
	n.enqueue(t, note{"service 001"})
	n.start(t)
	d.atLeast(t, 306)
	for name, latest := range map[string]int{
		"acme 001": 4, "zoo 001": 4, "service 001": 4, "acme 002": 8, "zoo 002": 8, "acme 003": 12,
	} {
		if at := slices.Index(d.read(), name); at < 0 || at >= latest {
			t.Errorf("%s ran as number %d, want among the first %d of 306", name, at+1, latest)
		}
	}
	for _, org := range []string{"big", "acme", "zoo"} {
		ran := slices.DeleteFunc(d.read(), func(name string) bool { return !strings.HasPrefix(name, org) })
		if !slices.IsSorted(ran) {
			t.Errorf("the jobs of %s ran in the order %q", org, ran)
		}
	}
}

// latecomer checks that an organisation whose job comes while the queue is
// long need not wait for it.
func latecomer(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{Workers: 2})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error {
		if d.add(a.Name) == 100 {
			n.enqueueFor(t, "acme late")
		}
		return nil
	})
	n.enqueueFor(t, numbered("big", 500)...)
	n.start(t)
	d.atLeast(t, 501)
	if at := slices.Index(d.read(), "acme late"); at > 130 {
		t.Errorf("the latecomer ran as number %d", at+1)
	}
}

// sharedWorkers checks that jobs of one organisation that take long leave
// workers for others, and that what the service does for itself may have all.
func sharedWorkers(t *testing.T, w *world) {
	var d eventLog
	big, service := make(chan struct{}), make(chan struct{})
	defer close(service)
	n := w.node(t, jobs.Options{Workers: 4})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error {
		d.add(a.Name)
		switch {
		case !strings.HasSuffix(a.Name, "slow"):
		case orgRun(a).Org() == "big":
			<-big
		default:
			<-service
		}
		return nil
	})
	n.start(t)
	n.enqueueFor(t, "big 1 slow", "big 2 slow", "big 3 slow", "big 4 slow", "big 5 slow")
	d.atLeast(t, 3)
	n.enqueueFor(t, "acme 1", "acme 2", "zoo 1")
	d.wantAll(t, "big 1 slow", "big 2 slow", "big 3 slow", "acme 1", "acme 2", "zoo 1")
	n.wantCount(t, jobs.Count{Running: 3, Waiting: 2})
	close(big)
	n.wantCount(t, jobs.Count{})
	for i := range 4 {
		n.enqueue(t, note{fmt.Sprintf("service %d slow", i)})
	}
	n.wantCount(t, jobs.Count{Running: 4})
}

// unknownAmongMany has organisations that wait for jobs which only a newer
// version knows: others' turns come all the same.
func unknownAmongMany(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{Workers: 1})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error {
		for i := range 50 {
			if err := n.Enqueue(t.Context(), tx, other{}, jobs.For(fmt.Sprintf("org %02d", i))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n.enqueueFor(t, "zoo 1", "acme 1", "zoo 2")
	n.start(t)
	d.wantAll(t, "zoo 1", "acme 1", "zoo 2")
}
