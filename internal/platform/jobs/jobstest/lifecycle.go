package jobstest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// every has two processes with the same schedule, whose job takes longer than
// the interval. Only one job may run at a time.
func every(t *testing.T, w *world) {
	const interval = 100 * time.Millisecond
	var d eventLog
	var running atomic.Int32
	began := time.Now()
	for range 2 {
		n := w.node(t, jobs.Options{})
		jobs.Handle(n.Queue, func(context.Context, note) error {
			if running.Add(1) > 1 {
				t.Error("two ran at once")
			}
			d.add("ran")
			time.Sleep(2 * interval)
			running.Add(-1)
			return nil
		})
		n.Every(interval, note{})
		n.start(t)
	}
	d.atLeast(t, 3)
	if first := d.when(0).Sub(began); first < least(interval) {
		t.Errorf("the first ran after %v, want an interval", first)
	}
}

// everyMissed has a schedule whose time passes while no process runs. The next
// process makes up for it once, although its own interval has not passed.
func everyMissed(t *testing.T, w *world) {
	const interval = 200 * time.Millisecond
	var d eventLog
	handle := func(n *node) {
		jobs.Handle(n.Queue, func(context.Context, note) error { d.add("ran"); return nil })
	}
	first, second := w.node(t, jobs.Options{}), w.node(t, jobs.Options{})
	handle(first)
	first.Every(interval, note{})
	stop := first.start(t)
	d.atLeast(t, 1)
	stop()
	time.Sleep(2 * interval)
	missed := len(d.read())
	handle(second)
	second.Every(time.Hour, note{})
	second.start(t)
	eventually(t, func() bool { return len(d.read()) == missed+1 }, func() string { return "the missed job does not run" })
	second.wantCount(t, jobs.Count{})
	if got := len(d.read()); got != missed+1 {
		t.Errorf("%d jobs ran, want one", got-missed)
	}
}

// everyRunOnStart has two schedules that are not due, of which one also runs when
// the process starts.
func everyRunOnStart(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { d.add(a.Name); return nil })
	jobs.Handle(n.Queue, func(context.Context, other) error { d.add("other"); return nil })
	n.Every(time.Hour, other{})
	n.Every(time.Hour, note{"a"}, jobs.RunOnStart())
	n.start(t)
	d.want(t, "a")
	n.wantCount(t, jobs.Count{})
	d.want(t, "a")
}

// drain stops the queue during a job: the job ends undisturbed, and no other one is
// claimed.
func drain(t *testing.T, w *world) {
	var d eventLog
	started, end := make(chan struct{}), make(chan struct{})
	n := w.node(t, jobs.Options{Workers: 1})
	jobs.Handle(n.Queue, func(ctx context.Context, a note) error {
		close(started)
		<-end
		d.add(fmt.Sprintf("%s %v", a.Name, ctx.Err()))
		return nil
	})
	n.enqueue(t, note{"a"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-started
	n.enqueue(t, note{"left waiting"})
	cancel()
	select {
	case err := <-ended:
		t.Fatalf("Run = %v while a job ran", err)
	case <-time.After(200 * time.Millisecond):
	}
	close(end)
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	d.want(t, "a <nil>")
	n.wantCount(t, jobs.Count{Waiting: 1})
}

// drainRunsOut has a job that takes longer than the queue drains: it is interrupted
// and runs again elsewhere. That does not use up an attempt, since a deployment
// is not the job's failure, and the job keeps its unique key.
func drainRunsOut(t *testing.T, w *world) {
	var d eventLog
	handle := func(n *node, wait bool) {
		jobs.Handle(n.Queue, func(ctx context.Context, _ note) error {
			number, _ := jobs.Attempt(ctx)
			d.add(fmt.Sprintf("attempt %d", number))
			if wait {
				<-ctx.Done()
				return errBoom
			}
			return nil
		})
	}
	first, second := w.node(t, jobs.Options{Drain: 100 * time.Millisecond}), w.node(t, jobs.Options{})
	handle(first, true)
	stop := first.start(t)
	first.enqueue(t, note{"a"}, jobs.Attempts(1), jobs.Unique("k"))
	d.want(t, "attempt 1")
	stop()
	first.wantCount(t, jobs.Count{Waiting: 1})
	first.enqueue(t, note{"dropped"}, jobs.Unique("k"))
	handle(second, false)
	second.start(t)
	d.want(t, "attempt 1", "attempt 1")
	second.wantCount(t, jobs.Count{})
}

// childURL and childFile are environment variables of a child process.
const (
	childURL  = "JOBSTEST_URL"
	childFile = "JOBSTEST_FILE"
)

// ChildTest is the name of the test that must call Child.
const ChildTest = "TestWorkerProcess"

// Child runs jobs in a process of its own, until that is killed. The package
// that calls Run must have a test of the name ChildTest that calls Child; in the
// parent process it is skipped.
func Child(t *testing.T) {
	url := os.Getenv(childURL)
	if url == "" {
		t.Skip("only for the child processes of other tests")
	}
	n := (&world{url: url}).node(t, jobs.Options{Workers: 4})
	jobs.Handle(n.Queue, func(_ context.Context, a note) error {
		if strings.HasPrefix(a.Name, "hang") {
			fmt.Println("started", a.Name)
			select {}
		}
		return appendLine(os.Getenv(childFile), a.Name)
	})
	jobs.Handle(n.Queue, func(_ context.Context, a orgRun) error {
		fmt.Println("started", a.Name)
		select {}
	})
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}

// child starts a process that runs jobs. It returns its output and a function
// that kills it.
func (w *world) child(t *testing.T, file string) (out io.Reader, kill func()) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary, "-test.run=^"+ChildTest+"$", "-test.timeout=2m")
	c.Env = append(os.Environ(), childURL+"="+w.url, childFile+"="+file)
	c.Stderr = t.Output()
	if out, err = c.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	t.Cleanup(kill)
	return out, kill
}

// lease is short on PostgreSQL, where a killed process is noticed when its lease
// runs out. On SQLite the next start notices it at once.
func (w *world) lease() time.Duration {
	if w.database == "postgres" {
		return 1500 * time.Millisecond
	}
	return 0
}

// crash kills a process with SIGKILL during two jobs. The other process reclaims
// both: one runs again, and the one without attempts left is discarded, so that a
// job which kills its process does not do so forever.
func crash(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{Lease: w.lease()})
	n.enqueue(t, note{"hang a"}, jobs.Unique("k"))
	n.enqueue(t, note{"hang b"}, jobs.Attempts(1))
	out, kill := w.child(t, "")
	lines := bufio.NewScanner(out)
	for started := 0; started < 2; {
		if !lines.Scan() {
			t.Fatalf("the child ended: %v", lines.Err())
		}
		if strings.HasPrefix(lines.Text(), "started hang") {
			started++
		}
	}
	n.wantCount(t, jobs.Count{Running: 2})
	kill()
	n.wantCount(t, jobs.Count{Running: 2})
	jobs.Handle(n.Queue, func(ctx context.Context, a note) error {
		number, _ := jobs.Attempt(ctx)
		d.add(fmt.Sprintf("%s attempt %d", a.Name, number))
		return nil
	})
	n.start(t)
	d.want(t, "hang a attempt 2")
	n.wantCount(t, jobs.Count{Discarded: 1})
	n.enqueue(t, note{"same key"}, jobs.Unique("k"))
	d.want(t, "hang a attempt 2", "same key attempt 1")
}

// runCrash kills a process during a run, which another process must reclaim.
func runCrash(t *testing.T, w *world) {
	var d eventLog
	n := w.node(t, jobs.Options{Lease: w.lease(), RunWorkers: 1})
	n.enqueue(t, orgRun{"acme 1"}, jobs.Unique("k"))
	out, kill := w.child(t, "")
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			t.Fatalf("the child ended: %v", lines.Err())
		}
		if lines.Text() == "started acme 1" {
			break
		}
	}
	kill()
	jobs.Handle(n.Queue, func(ctx context.Context, a orgRun) error {
		number, _ := jobs.Attempt(ctx)
		d.add(fmt.Sprintf("%s attempt %d", a.Name, number))
		return nil
	})
	n.start(t)
	d.want(t, "acme 1 attempt 2")
	n.enqueue(t, orgRun{"acme 2"}, jobs.Unique("k"))
	d.want(t, "acme 1 attempt 2", "acme 2 attempt 1")
}

// crashOfMany kills a process at some point of many jobs. All must run.
func crashOfMany(t *testing.T, w *world) {
	const many = 200
	file := filepath.Join(t.TempDir(), "effects")
	n := w.node(t, jobs.Options{Lease: w.lease()})
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error {
		for i := range many {
			if err := n.Enqueue(t.Context(), tx, note{fmt.Sprint(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, kill := w.child(t, file)
	effects := func() map[string]bool {
		raw, _ := os.ReadFile(file)
		seen := map[string]bool{}
		for line := range strings.Lines(string(raw)) {
			seen[strings.TrimSpace(line)] = true
		}
		return seen
	}
	eventually(t, func() bool { return len(effects()) > many/8 }, func() string { return "the child runs no jobs" })
	kill()
	jobs.Handle(n.Queue, func(_ context.Context, a note) error { return appendLine(file, a.Name) })
	n.start(t)
	n.wantCount(t, jobs.Count{})
	if seen := effects(); len(seen) != many {
		t.Errorf("%d of %d jobs ran", len(seen), many)
	}
}
