package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

type savedArgs struct {
	Name string `json:"name"`
}

func (savedArgs) Kind() string { return "test.saved" }

// savedRun is a run.
type savedRun struct {
	Name string `json:"name"`
}

func (savedRun) Kind() string { return "test.saved-run" }

func (savedRun) Org() string { return "acme" }

// TestSaved saves jobs of each database and restores them into each.
func TestSaved(t *testing.T) {
	for _, from := range []string{"sqlite", "postgres"} {
		for _, to := range []string{"sqlite", "postgres"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				source, target := newSavedQueue(t, from), newSavedQueue(t, to)
				source.enqueue(t, "plain", jobs.For("acme"))
				source.enqueue(t, "keyed", jobs.Unique("k"))
				source.restore(t, []jobs.Saved{{
					Kind: "test.saved", Args: json.RawMessage(`{"name": "later"}`), Attempt: 1, MaxAttempts: 3,
					RunAt: time.Now().Add(time.Hour), CreatedAt: time.Now(), LastError: "not yet",
				}})
				source.enqueueArgs(t, savedRun{"run"}, jobs.Unique("r"))
				want := source.save(t)
				if len(want) != 4 || want[0].ForOrg != "acme" || want[3].Org != "acme" {
					t.Fatalf("saved %+v, want four, the first for acme and the last a run", want)
				}
				old := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
				discarded := jobs.Saved{
					Kind: "test.saved", Args: json.RawMessage(`{"name": "lost"}`), Attempt: 10, MaxAttempts: 10,
					RunAt: old, CreatedAt: old, DiscardedAt: &old, LastError: "it broke",
				}
				want = slices.Insert(want, 3, discarded) // runs are saved last
				// A second job with the same unique key is not restored.
				target.restore(t, append(want, want[1]))
				got := target.save(t)
				if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(time.Millisecond), cmp.Comparer(sameJSON)); diff != "" {
					t.Errorf("jobs (-saved +restored):\n%s", diff)
				}
				target.enqueue(t, "keyed again", jobs.Unique("k")) // does nothing: the key is restored, too
				target.wantRuns(t, "plain", "keyed", "run")
			})
		}
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)) == nil && cmp.Equal(x, y)
}

type savedQueue struct {
	db    *store.DB
	queue *jobs.Queue

	mu   sync.Mutex
	runs map[string]int
}

func newSavedQueue(t *testing.T, engine string) *savedQueue {
	t.Helper()
	s := &savedQueue{db: storetest.Open(t, engine), runs: map[string]int{}}
	var err error
	s.queue, err = jobs.New(jobs.Options{DB: s.db, Log: slog.New(slog.DiscardHandler), Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ran := func(name string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.runs[name]++
		return nil
	}
	jobs.Handle(s.queue, func(_ context.Context, args savedArgs) error { return ran(args.Name) })
	jobs.Handle(s.queue, func(_ context.Context, args savedRun) error { return ran(args.Name) })
	return s
}

func (s *savedQueue) enqueue(t *testing.T, name string, opts ...jobs.Option) {
	t.Helper()
	s.enqueueArgs(t, savedArgs{name}, opts...)
}

func (s *savedQueue) enqueueArgs(t *testing.T, args jobs.Args, opts ...jobs.Option) {
	t.Helper()
	err := s.db.InTx(t.Context(), func(tx *store.Tx) error { return s.queue.Enqueue(t.Context(), tx, args, opts...) })
	if err != nil {
		t.Fatal(err)
	}
}

func (s *savedQueue) save(t *testing.T) (all []jobs.Saved) {
	t.Helper()
	err := s.db.Snapshot(t.Context(), func(tx *store.Tx) error {
		return s.queue.Save(t.Context(), tx, func(j jobs.Saved) error { all = append(all, j); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s *savedQueue) restore(t *testing.T, all []jobs.Saved) {
	t.Helper()
	err := s.db.LoadOnce(t.Context(), func(tx *store.Tx) error {
		for _, j := range all {
			if err := s.queue.Restore(t.Context(), tx, j); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantRuns runs the queue and checks that exactly these jobs run, once each.
func (s *savedQueue) wantRuns(t *testing.T, names ...string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.queue.Run(ctx) }()
	want := map[string]int{}
	for _, name := range names {
		want[name] = 1
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		done := cmp.Equal(want, s.runs)
		s.mu.Unlock()
		if done || time.Now().After(deadline) {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, s.runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}
