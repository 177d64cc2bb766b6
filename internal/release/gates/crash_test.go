package gates_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestCrashes: a gate whose job is killed after any time, and started twice at
// once, comes to one outcome.
func TestCrashes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.model.decide(func(version, query string, _ int) bool { return version != "1.1.0" || query != "query 2" })
		id := w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id")
		w.Work() // which has the job of the gate as well
		for kill := time.Duration(0); ; kill += 3 * time.Millisecond {
			ctx, cancel := context.WithTimeout(t.Context(), kill)
			var workers sync.WaitGroup
			for range 2 {
				workers.Go(func() {
					_, err := w.gates.Advance(ctx, w.Caller.Org.ID, id)
					// A killed query may cost the next one its connection (Unavailable): the queue
					// tries such a job again, as this loop does.
					again := fault.Is(err, fault.Conflict) || fault.Is(err, fault.Unavailable)
					if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) && !again {
						t.Error(err)
					}
				})
			}
			workers.Wait()
			cancel()
			rows, err := db.Query(t.Context(), `SELECT COUNT(*) FROM gates WHERE decided_at IS NOT NULL`)
			if n, err := store.One(rows, err, "Count", store.Value[int]); err == nil && n > 0 {
				break // an error is that of a connection which a killed query spoiled
			}
			time.Sleep(10 * time.Millisecond) // a killed query costs PostgreSQL a connection
		}
		gate := w.gate(id)
		if gate["verdict"] != "block" {
			t.Errorf("the gate says %v", gate)
		}
		w.want("1.1.0", "candidate", false)
		for table, want := range map[string]int{
			"gate_runs": 4, "eval_runs": 4, "gates": 1, "audit_entries WHERE action = 'gates.gate.decide'": 1,
			"registry_currents": 1,
		} {
			if n := w.Count(table); n != want {
				t.Errorf("%d rows of %s, want %d", n, table, want)
			}
		}
	})
}

// TestGivenOutputs: an output that is given does not vary. When the suite is
// brought up to date for a new version, one case that passed before and fails now
// blocks.
func TestGivenOutputs(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		given := func(outputs ...string) (all []object) {
			for i, output := range outputs {
				all = append(all, apptest.With(runstest.Exact(output, "good"), object{"id": string(rune('a' + i))}))
			}
			return all
		}
		w.suite = w.Create(runstest.Deterministic(given("good", "good", "bad")...))
		w.enforce(object{"min_cases": 3})
		if gate := w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id")); gate["verdict"] != "pass" {
			t.Fatalf("the gate of equal outputs says %v", gate)
		}
		w.Patch(w.suite["id"].(string), object{"cases_json": given("good", "bad", "good")}).Want(http.StatusOK)
		gate := w.decided(w.push("1.2.0").Want(http.StatusAccepted).Text("gate", "id"))
		suite := apptest.List(t, gate, "suites")[0]
		if gate["verdict"] != "block" || suite["sign_test_p"] != nil || len(suite["run_ids"].([]any)) != 2 {
			t.Errorf("the gate of a worse output says %v", gate)
		}
		if broken := suite["broken"].([]any); len(broken) != 1 || broken[0] != "b" {
			t.Errorf("broken: %v", broken)
		}
		w.want("1.2.0", "candidate", false)
	})
}
