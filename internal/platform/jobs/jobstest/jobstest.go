// Package jobstest is the conformance suite of the job queue: it behaves the
// same on every database.
package jobstest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// Run runs the suite on one database, "sqlite" or "postgres". The calling
// package must also have the test that Child describes.
func Run(t *testing.T, database string) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, *world)
	}{
		{"Transaction", transaction},
		{"Announced", announced},
		{"Once", once},
		{"Retry", retry},
		{"RetryAfter", retryAfter},
		{"Discard", discard},
		{"Panic", panics},
		{"Timeout", timeout},
		{"Snooze", snooze},
		{"CancelByHandler", cancelByHandler},
		{"InsertOnly", insertOnly},
		{"UnknownKind", unknownKind},
		{"Counts", counts},
		{"Unique", unique},
		{"UniqueWhileRetrying", uniqueWhileRetrying},
		{"UniqueSuperseded", uniqueSuperseded},
		{"UniqueAfterDiscard", uniqueAfterDiscard},
		{"UniqueSeesSlowCause", uniqueSeesSlowCause},
		{"UniqueSeesAllCauses", uniqueSeesAllCauses},
		{"UniqueWaitsAlone", uniqueWaitsAlone},
		{"OrphanedKey", orphanedKey},
		{"Every", every},
		{"EveryMissed", everyMissed},
		{"EveryRunOnStart", everyRunOnStart},
		{"Drain", drain},
		{"DrainRunsOut", drainRunsOut},
		{"Crash", crash},
		{"CrashOfMany", crashOfMany},
		{"Turns", turns},
		{"TurnsOfLatecomer", latecomer},
		{"TurnsOfUnknown", unknownAmongMany},
		{"Share", sharedWorkers},
		{"RunsApart", runsApart},
		{"RunsInTurn", runsInTurn},
		{"RunsShared", runsShared},
		{"RunsOfReplicas", runsOfReplicas},
		{"RunsYield", runsYield},
		{"RunsCarriedOver", runsCarriedOver},
		{"RunLife", runLife},
		{"RunCrash", runCrash},
		{"NeedsRoom", needsRoom},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, &world{database: database, url: storetest.URL(t, database)})
		})
	}
}

// world is an empty database.
type world struct {
	database string
	url      string
}

// node is a queue on its own handle of the database, as another process has.
type node struct {
	*jobs.Queue
	db *store.DB
}

// node makes a queue. The options' DB and Log are set here; Poll is short.
func (w *world) node(t *testing.T, o jobs.Options) *node {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: w.url, MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	o.DB, o.Poll = db, cmp.Or(o.Poll, 20*time.Millisecond)
	o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	q, err := jobs.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &node{Queue: q, db: db}
}

// start runs the queue until the test ends or stop is called, which waits for
// Run to return.
func (n *node) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// enqueue enqueues a job in a transaction of its own.
func (n *node) enqueue(t *testing.T, args jobs.Args, opts ...jobs.Option) {
	t.Helper()
	err := n.db.InTx(t.Context(), func(tx *store.Tx) error { return n.Enqueue(t.Context(), tx, args, opts...) })
	if err != nil {
		t.Fatal(err)
	}
}

// enqueueLater inserts a job that is due in an hour.
func (n *node) enqueueLater(t *testing.T, args jobs.Args) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	saved := jobs.Saved{Kind: args.Kind(), Args: raw, MaxAttempts: 1, RunAt: time.Now().Add(time.Hour), CreatedAt: time.Now()}
	if run, ok := args.(jobs.RunArgs); ok {
		saved.Org = run.Org()
	}
	err = n.db.InTx(t.Context(), func(tx *store.Tx) error { return n.Restore(t.Context(), tx, saved) })
	if err != nil {
		t.Fatal(err)
	}
}

// count is the count of one kind, and zero if there is none.
func (n *node) count(t *testing.T, kind string) jobs.Count {
	t.Helper()
	all, err := n.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Kind == kind {
			c.Late = 0
			return c
		}
	}
	return jobs.Count{}
}

// wantCount waits until the jobs of kind note have these counts.
func (n *node) wantCount(t *testing.T, want jobs.Count) {
	t.Helper()
	if want != (jobs.Count{}) {
		want.Kind = note{}.Kind()
	}
	var got jobs.Count
	eventually(t,
		func() bool { got = n.count(t, note{}.Kind()); return got == want },
		func() string { return gocmp.Diff(want, got) })
}

// waitLimit bounds every wait for something that must happen.
const waitLimit = 2 * time.Minute

// eventually polls until it happened.
func eventually(t *testing.T, happened func() bool, why func() string) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !happened(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen in %v:\n%s", waitLimit, why())
		}
	}
}

// note is the job of most tests.
type note struct{ Name string }

func (note) Kind() string { return "test.note" }

// other is a job of another kind.
type other struct{}

func (other) Kind() string { return "test.other" }

// eventLog collects lines with the time at which they were added.
type eventLog struct {
	mu    sync.Mutex
	lines []string
	times []time.Time
}

// add returns the number of lines.
func (d *eventLog) add(line string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines, d.times = append(d.lines, line), append(d.times, time.Now())
	return len(d.lines)
}

func (d *eventLog) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// want waits until the log has that many lines and compares them.
func (d *eventLog) want(t *testing.T, lines ...string) {
	t.Helper()
	eventually(t, func() bool { return len(d.read()) >= len(lines) }, func() string { return gocmp.Diff(lines, d.read()) })
	if diff := gocmp.Diff(lines, d.read()); diff != "" {
		t.Fatal(diff)
	}
}

// atLeast waits until the log has so many lines; a schedule adds ever more.
func (d *eventLog) atLeast(t *testing.T, lines int) {
	t.Helper()
	eventually(t, func() bool { return len(d.read()) >= lines }, func() string { return fmt.Sprint(d.read()) })
}

// when is the time of a line.
func (d *eventLog) when(i int) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.times[i]
}

// least is what is measured of a wait at least. A queue waits by the clock of its
// database, of which it knows what a query said: that is behind by as long as the
// answer took, which on a busy machine is a tenth of a second.
func least(wait time.Duration) time.Duration { return wait / 2 }

// gap is the time between two lines.
func (d *eventLog) gap(from, to int) time.Duration { return d.when(to).Sub(d.when(from)) }
