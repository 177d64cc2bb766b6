package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// audit compares what the service stores with what it acknowledged, and looks
// for what a failure may have left behind. All processes must be running.
func audit(t *testing.T, l *load) []tally {
	t.Helper()
	calm(t, l)
	return compare(t, l)
}

// calm stops the writers and waits until the service has finished its jobs.
func calm(t *testing.T, l *load) {
	t.Helper()
	if err := l.finish(); err != nil {
		t.Error(err)
	}
	awaitIdle(t, l.site)
}

// compare is audit after calm.
func compare(t *testing.T, l *load) []tally {
	t.Helper()
	var all []tally
	for _, w := range l.writers {
		got, err := w.count(t.Context(), l.site)
		if err != nil {
			t.Errorf("%s: %v", w.kind(), err)
		}
		if got.lost > 0 || got.doubled > 0 {
			t.Errorf("%s: %d acknowledged, %d lost, %d doubled", got.kind, got.acked, got.lost, got.doubled)
		}
		all = append(all, got)
	}
	l.site.seen.mu.Lock()
	defer l.site.seen.mu.Unlock()
	for _, wrong := range l.site.seen.wrong {
		t.Errorf("%s\n%s", wrong.text, l.site.logged(wrong.requestID))
	}
	examine(t, l.site)
	checkFiles(t, l.site)
	return all
}

// idlePatience is longer than a lease and than the first backoffs of a job.
const idlePatience = 2 * time.Minute

// jobsOfVersionBefore counts the jobs that are left in River's table, where processes of the
// version before keep theirs.
func jobsOfVersionBefore(t *testing.T, db *store.DB) int {
	t.Helper()
	if db.Dialect().OneWriter() {
		return 0
	}
	rows, err := db.Query(t.Context(), `SELECT to_regclass('river_job') IS NOT NULL`)
	if has, err := store.One(rows, err, "Table", store.Value[bool]); err != nil || !has {
		return 0
	}
	rows, err = db.Query(t.Context(), `SELECT COUNT(*) FROM river_job WHERE state NOT IN ('completed', 'cancelled')`)
	left, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// awaitIdle waits until every job is done. None may be discarded.
func awaitIdle(t *testing.T, s *site) {
	t.Helper()
	db := s.open()
	queue, err := jobs.New(jobs.Options{DB: db, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), idlePatience)
	defer cancel()
	for {
		counts, err := queue.Counts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		left := slices.DeleteFunc(counts, func(c jobs.Count) bool { return c.Waiting+c.Running+c.Retrying+c.Discarded == 0 })
		if len(left) == 0 && jobsOfVersionBefore(t, db) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("jobs are not done: %+v", left)
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// examine runs the doctor on the site.
func examine(t *testing.T, s *site) {
	t.Helper()
	out, failed := s.run("doctor", "--json")
	var findings []struct{ Check, Status, Message string }
	if err := json.Unmarshal([]byte(out), &findings); err != nil {
		t.Fatalf("%v: %v\n%s", failed, err, out)
	}
	for _, f := range findings {
		// Not every machine can sandbox programs, or has much free disk space.
		if f.Status != "ok" && f.Check != "sandbox" && f.Check != "disk" {
			t.Errorf("doctor: %s: %s: %s", f.Check, f.Status, f.Message)
		}
	}
}

// A record is what a torture test did, and how long the service was unavailable
// each time.
type record struct {
	what       string
	kills      int
	recoveries []time.Duration
}

// print logs the figures of a torture test.
func (r *record) print(t *testing.T, l *load, all []tally) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %-28s %8s %6s %8s\n", r.what, "acknowledged writes", "number", "lost", "doubled")
	sum := tally{kind: "together"}
	for _, a := range append(all, sum) {
		if a.kind == sum.kind {
			a = sum
		}
		fmt.Fprintf(&b, "  %-28s %8d %6d %8d", a.kind, a.acked, a.lost, a.doubled)
		if a.repeated > 0 {
			fmt.Fprintf(&b, "   %d came again under their id", a.repeated)
		}
		if a.unconfirmed > 0 {
			fmt.Fprintf(&b, "   %d starts without an answer", a.unconfirmed)
		}
		b.WriteByte('\n')
		sum.acked, sum.lost, sum.doubled = sum.acked+a.acked, sum.lost+a.lost, sum.doubled+a.doubled
	}
	slices.Sort(r.recoveries)
	fmt.Fprintf(&b, "  %d times; back after p50 %s, max %s (n=%d); answers %v", r.kills,
		percentile(r.recoveries, 50), percentile(r.recoveries, 100), len(r.recoveries), l.site.seen.statuses)
	t.Log(b.String())
}

func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*p/100, len(sorted)-1)].Round(time.Millisecond)
}
