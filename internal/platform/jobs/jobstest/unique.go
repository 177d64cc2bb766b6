package jobstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// unique checks that a key is taken while its job waits, and free as soon as the job
// starts or its transaction rolls back: what changes after the start needs another
// job.
func unique(t *testing.T, w *world) {
	var d eventLog
	started, end := make(chan struct{}, 10), make(chan struct{})
	n := w.node(t, jobs.Options{Workers: 1})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error {
		d.add(a.Name)
		started <- struct{}{}
		<-end
		return nil
	})
	n.enqueue(t, note{"first"}, jobs.Unique("k"))
	n.enqueue(t, note{"dropped: one waits"}, jobs.Unique("k"))
	n.wantCount(t, jobs.Count{Waiting: 1})
	n.start(t)
	<-started
	n.enqueue(t, note{"second: one only runs"}, jobs.Unique("k"))
	n.enqueue(t, note{"dropped: one waits again"}, jobs.Unique("k"))
	n.wantCount(t, jobs.Count{Running: 1, Waiting: 1})
	n.enqueue(t, note{"another key"}, jobs.Unique("l"))
	n.enqueue(t, note{"no key"})
	close(end)
	d.want(t, "first", "second: one only runs", "another key", "no key")
	n.wantCount(t, jobs.Count{})
	rolledBack(t, n)
	n.enqueue(t, note{"again"}, jobs.Unique("k"))
	n.wantCount(t, jobs.Count{})
	if last := d.read()[4:]; len(last) != 1 || last[0] != "again" {
		t.Errorf("got %q, want that the key of a rolled back job is free", last)
	}
}

// rolledBack enqueues a job with the key k in a transaction that fails.
func rolledBack(t *testing.T, n *node) {
	t.Helper()
	_ = n.db.InTx(t.Context(), func(tx *store.Tx) error {
		if err := n.Enqueue(t.Context(), tx, note{"rolled back"}, jobs.Unique("k")); err != nil {
			t.Error(err)
		}
		return errBoom
	})
}

// uniqueWhileRetrying checks that a job which waits for its retry has its key.
func uniqueWhileRetrying(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(context.Context, note) error { d.add("ran"); return errBoom },
		jobs.Backoff(func(int) time.Duration { return time.Hour }))
	n.start(t)
	n.enqueue(t, note{"a"}, jobs.Unique("k"))
	n.wantCount(t, jobs.Count{Retrying: 1})
	n.enqueue(t, note{"dropped"}, jobs.Unique("k"))
	n.wantCount(t, jobs.Count{Retrying: 1})
	d.want(t, "ran")
}

// uniqueSuperseded has a job that fails while another with its key waits: it is
// not retried.
func uniqueSuperseded(t *testing.T, w *world) {
	var d eventLog
	started, end := make(chan struct{}), make(chan struct{})
	n := w.node(t, jobs.Options{Workers: 1})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error {
		d.add(a.Name)
		if a.Name == "second" {
			return nil
		}
		close(started)
		<-end
		return errBoom
	}, jobs.Backoff(func(int) time.Duration { return time.Hour }))
	n.start(t)
	n.enqueue(t, note{"first"}, jobs.Unique("k"))
	<-started
	n.enqueue(t, note{"second"}, jobs.Unique("k"))
	close(end)
	d.want(t, "first", "second")
	n.wantCount(t, jobs.Count{})
}

// uniqueAfterDiscard checks that a discarded job has not: it would block its
// successors for 14 days.
func uniqueAfterDiscard(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return errBoom }, noWait())
	n.start(t)
	n.enqueue(t, note{"first"}, jobs.Unique("k"), jobs.Attempts(1))
	n.wantCount(t, jobs.Count{Discarded: 1})
	n.enqueue(t, note{"second"}, jobs.Unique("k"), jobs.Attempts(1))
	n.wantCount(t, jobs.Count{Discarded: 2})
	d.want(t, "first", "second")
}

// uniqueSeesSlowCause has a transaction that enqueues nothing, because a job
// waits, and commits when a worker would start that job. The job must see what
// the transaction changed.
func uniqueSeesSlowCause(t *testing.T, w *world) {
	var d eventLog
	n, slow := w.node(t, jobs.Options{}), w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(context.Context, note) error {
		d.add(fmt.Sprintf("sees %d", n.count(t, other{}.Kind()).Waiting))
		return nil
	})
	n.enqueue(t, note{"a"}, jobs.Unique("k"))
	dropped, commit, committed := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		committed <- slow.db.InTx(t.Context(), func(tx *store.Tx) error {
			err := errors.Join(
				slow.Enqueue(t.Context(), tx, other{}),
				slow.Enqueue(t.Context(), tx, note{"dropped"}, jobs.Unique("k")))
			close(dropped)
			<-commit
			return err
		})
	}()
	<-dropped
	n.start(t)
	time.Sleep(300 * time.Millisecond) // in which a wrong queue would start the job
	close(commit)
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	d.want(t, "sees 1")
}

// uniqueWaitsAlone has a job that must not start before a slow transaction ends. Other jobs
// of its organisation run meanwhile.
func uniqueWaitsAlone(t *testing.T, w *world) {
	if w.database == "sqlite" {
		t.Skip("all writers wait for a slow transaction: there is one at a time")
	}
	var d eventLog
	n, slow := w.node(t, jobs.Options{}), w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.enqueue(t, note{"waits"}, jobs.Unique("k"))
	err := slow.db.InTx(t.Context(), func(tx *store.Tx) error {
		if err := slow.Enqueue(t.Context(), tx, note{"dropped"}, jobs.Unique("k")); err != nil {
			return err
		}
		n.start(t)
		n.enqueue(t, note{"another"})
		// A claim gives up after ten seconds: by then others would have run in any case.
		for deadline := time.Now().Add(9 * time.Second); len(d.read()) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				return errors.New("another job waits, too")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.want(t, "another", "waits")
}

// uniqueSeesAllCauses has many transactions that each change something and
// enqueue the same job. The last job must see all the changes.
func uniqueSeesAllCauses(t *testing.T, w *world) {
	const many = 25
	var seen atomic.Int64
	nodes := []*node{w.node(t, jobs.Options{}), w.node(t, jobs.Options{})}
	for _, n := range nodes {
		jobs.Handle(n.Queue, func(context.Context, note) error {
			changes := int64(n.count(t, other{}.Kind()).Waiting)
			for old := seen.Load(); old < changes && !seen.CompareAndSwap(old, changes); old = seen.Load() {
			}
			return nil
		})
		n.start(t)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		n := nodes[i%2]
		wg.Go(func() {
			for range many {
				err := n.db.InTx(t.Context(), func(tx *store.Tx) error {
					return errors.Join(
						n.Enqueue(t.Context(), tx, other{}),
						n.Enqueue(t.Context(), tx, note{}, jobs.Unique("k")))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	nodes[0].wantCount(t, jobs.Count{})
	if got := seen.Load(); got != 4*many {
		t.Errorf("the last job saw %d changes, want %d", got, 4*many)
	}
}

// orphanedKey has a key whose job was deleted by hand: it is swept.
func orphanedKey(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.enqueue(t, other{}, jobs.Unique("kept")) // it waits, since its kind has no handler
	_, err := n.db.Exec(t.Context(), `INSERT INTO job_keys (kind, unique_key) VALUES ('test.note', 'orphan')`)
	if err != nil {
		t.Fatal(err)
	}
	n.start(t)
	eventually(t, func() bool {
		n.enqueue(t, note{"a"}, jobs.Unique("orphan"))
		return len(d.read()) > 0
	}, func() string { return "the key was not freed" })
	n.enqueue(t, other{}, jobs.Unique("kept"))
	if got, want := n.count(t, other{}.Kind()), (jobs.Count{Kind: other{}.Kind(), Waiting: 1}); got != want {
		t.Errorf("got %v, want %v: the key of a waiting job was deleted", got, want)
	}
}
