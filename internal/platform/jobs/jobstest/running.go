package jobstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

var errBoom = errors.New("boom")

// transaction checks that a job is enqueued by the commit of its transaction, and
// not at all by one that rolls back: the transactional outbox.
func transaction(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.start(t)
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error {
		return errors.Join(n.Enqueue(t.Context(), tx, note{"rolled back"}), errBoom)
	})
	if !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	err = n.db.InTx(t.Context(), func(tx *store.Tx) error {
		return errors.Join(n.Enqueue(t.Context(), tx, note{"committed"}), n.Enqueue(t.Context(), tx, note{"too"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(d.read()) == 2 }, func() string { return fmt.Sprint(d.read()) })
	n.wantCount(t, jobs.Count{})
	got := d.read()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"committed", "too"}, got); diff != "" {
		t.Error(diff)
	}
}

// announced checks that a queue that hardly polls is notified of new jobs, on PostgreSQL
// also of those of other processes.
func announced(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{Poll: time.Hour})
	if n.db.Pooled() {
		t.Skip("nothing is announced through a pooler: jobs are polled")
	}
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	n.start(t)
	for i := range 20 {
		n.enqueue(t, note{fmt.Sprint(i)})
	}
	d.atLeast(t, 20)
	if w.database == "sqlite" {
		return
	}
	listening := `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`
	eventually(t, func() bool {
		rows, err := n.db.Query(t.Context(), listening)
		pids, err := store.All(rows, err, store.Value[int64])
		return err == nil && len(pids) > 0
	}, func() string { return "the queue does not listen" })
	other := w.node(t, jobs.Options{})
	for i := range 20 {
		other.enqueue(t, note{fmt.Sprint(20 + i)})
	}
	d.atLeast(t, 40)
}

// once checks that two processes that claim from one queue run each job once, as
// long as none of them dies.
func once(t *testing.T, w *world) {
	var d eventLog
	one, two := w.node(t, jobs.Options{Workers: 4}), w.node(t, jobs.Options{Workers: 4})
	for _, n := range []*node{one, two} {
		jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
		n.start(t)
	}
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("%03d", i))
		[]*node{one, two}[i%2].enqueue(t, note{want[i]})
	}
	one.wantCount(t, jobs.Count{})
	got := d.read()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// retry checks the number of the attempt and the backoff between attempts. The
// waits have lower bounds only: a busy machine may take longer.
func retry(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(ctx context.Context, a note) error {
		number, last := jobs.Attempt(ctx)
		if d.add(fmt.Sprintf("%s %d of %d", a.Name, number, last)) < 3 {
			return errBoom
		}
		return nil
	}, jobs.Backoff(func(attempt int) time.Duration { return time.Duration(attempt) * 500 * time.Millisecond }))
	n.start(t)
	n.enqueue(t, note{"a"}, jobs.Attempts(4))
	d.want(t, "a 1 of 4", "a 2 of 4", "a 3 of 4")
	n.wantCount(t, jobs.Count{})
	if first, second := d.gap(0, 1), d.gap(1, 2); first < least(500*time.Millisecond) || second < least(time.Second) {
		t.Errorf("retried after %v and %v, want about 500 ms and a second", first, second)
	}
}

// retryAfter checks that a handler's own wait, e.g. that of a Retry-After header,
// takes precedence over the backoff, also when it is shorter.
func retryAfter(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(ctx context.Context, _ note) error {
		number, _ := jobs.Attempt(ctx)
		switch d.add(fmt.Sprint(number)) {
		case 1:
			return fmt.Errorf("wrapped: %w", jobs.RetryAfter(0, errBoom))
		case 2:
			return jobs.RetryAfter(time.Second, errBoom)
		}
		return nil
	}, jobs.Backoff(func(int) time.Duration { return time.Hour }))
	n.start(t)
	n.enqueue(t, note{"a"}, jobs.Attempts(3))
	d.want(t, "1", "2", "3")
	n.wantCount(t, jobs.Count{})
	if gap := d.gap(1, 2); gap < least(time.Second) {
		t.Errorf("retried after %v, want about a second", gap)
	}
}

// discard checks that a job without attempts left is kept for inspection.
func discard(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(context.Context, note) error { d.add("ran"); return errBoom }, noWait())
	n.start(t)
	n.enqueue(t, note{"a"}, jobs.Attempts(2))
	n.wantCount(t, jobs.Count{Discarded: 1})
	d.want(t, "ran", "ran")
}

// noWait retries at once.
func noWait() jobs.HandleOption { return jobs.Backoff(func(int) time.Duration { return 0 }) }

// panics checks that a panic fails the attempt, not the process.
func panics(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(context.Context, note) error {
		if d.add("ran") == 1 {
			panic("boom \x00 \xff") // PostgreSQL's JSON refuses both
		}
		return nil
	}, noWait())
	n.start(t)
	n.enqueue(t, note{"a"})
	d.want(t, "ran", "ran")
	n.wantCount(t, jobs.Count{})
}

// timeout checks that the context of an attempt ends, and that the next one gets
// a fresh context.
func timeout(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(ctx context.Context, _ note) error {
		number, _ := jobs.Attempt(ctx)
		if number == 1 {
			<-ctx.Done()
		}
		d.add(fmt.Sprintf("%d %v", number, ctx.Err()))
		return ctx.Err()
	}, noWait(), jobs.Timeout(300*time.Millisecond))
	n.start(t)
	n.enqueue(t, note{"a"})
	d.want(t, "1 context deadline exceeded", "2 <nil>")
	n.wantCount(t, jobs.Count{})
}

// snooze checks that a snoozed job runs again without using up an attempt: it may
// snooze more often than it has attempts.
func snooze(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(ctx context.Context, _ note) error {
		number, last := jobs.Attempt(ctx)
		if d.add(fmt.Sprintf("%d of %d", number, last)) < 3 {
			return jobs.Snooze(500 * time.Millisecond)
		}
		return nil
	})
	n.start(t)
	n.enqueue(t, note{"a"}, jobs.Attempts(1))
	d.want(t, "1 of 1", "1 of 1", "1 of 1")
	n.wantCount(t, jobs.Count{})
	if gap := d.gap(0, 1); gap < least(500*time.Millisecond) {
		t.Errorf("ran again after %v, want about 500 ms", gap)
	}
}

// cancelByHandler checks that a wrapped Cancel ends a job, and that it does not
// count as discarded: its handler has decided.
func cancelByHandler(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(context.Context, note) error {
		d.add("ran")
		return fmt.Errorf("wrapped: %w", jobs.Cancel(errBoom))
	}, noWait())
	n.start(t)
	n.enqueue(t, note{"a"})
	d.want(t, "ran")
	n.wantCount(t, jobs.Count{})
	d.want(t, "ran")
}

// insertOnly has a process that only enqueues, as one with the role web does.
func insertOnly(t *testing.T, w *world) {
	var d eventLog
	web, worker := w.node(t, jobs.Options{}), w.node(t, jobs.Options{})
	web.enqueue(t, note{"before"})
	jobs.Handle(worker.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	worker.start(t)
	d.want(t, "before")
	web.enqueue(t, note{"after"})
	d.want(t, "before", "after")
	if err := web.Run(t.Context()); err == nil {
		t.Error("Run without any handler returned nil")
	}
	err := web.db.InTx(t.Context(), func(tx *store.Tx) error {
		return web.Enqueue(t.Context(), tx, note{"none"}, jobs.Attempts(0))
	})
	if err == nil {
		t.Error("a job without attempts was enqueued")
	}
}

// unknownKind has an old binary, which must leave jobs of a new kind alone.
func unknownKind(t *testing.T, w *world) {
	var d eventLog
	old, young := w.node(t, jobs.Options{}), w.node(t, jobs.Options{})
	jobs.Handle(old.Queue, func(context.Context, other) error { d.add("other"); return nil })
	old.enqueue(t, note{"a"}, jobs.Attempts(1))
	old.enqueue(t, other{})
	old.start(t)
	d.want(t, "other")
	old.wantCount(t, jobs.Count{Waiting: 1})
	jobs.Handle(young.Queue, func(context.Context, note) error { d.add("note"); return nil })
	young.start(t)
	d.want(t, "other", "note")
}

// counts checks the figures of each state. A job that is due in the future is not
// late.
func counts(t *testing.T, w *world) {
	n := w.node(t, jobs.Options{})
	n.enqueue(t, note{"late"})
	n.enqueueLater(t, note{"future"})
	n.enqueueLater(t, other{})
	time.Sleep(10 * time.Millisecond)
	got, err := n.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Late < 10*time.Millisecond || got[0].Late > time.Hour {
		t.Fatalf("got %v, want notes that are late by 10 ms", got)
	}
	got[0].Late = 0
	want := []jobs.Count{{Kind: "test.note", Waiting: 2}, {Kind: "test.other", Waiting: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	running, end := make(chan struct{}), make(chan struct{})
	jobs.Handle(n.Queue, func(context.Context, note) error {
		close(running)
		<-end
		return errBoom
	}, jobs.Backoff(func(int) time.Duration { return time.Hour }))
	n.start(t)
	<-running
	n.wantCount(t, jobs.Count{Waiting: 1, Running: 1})
	close(end)
	n.wantCount(t, jobs.Count{Waiting: 1, Retrying: 1})
}
