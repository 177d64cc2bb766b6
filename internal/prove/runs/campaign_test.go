package runs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
)

// A purpose is a row of a campaign's table, whose key is the arm.
type purpose struct {
	table  map[string]string // runs by arm
	arm    string
	run    string
	reused bool
}

func (p purpose) Made() (runID string, reused bool) { return p.run, p.reused }

func (p purpose) Insert(context.Context, *store.Tx) (isNew bool, err error) {
	if p.table[p.arm] != "" {
		return false, nil
	}
	p.table[p.arm] = p.run
	return true, nil
}

// campaign plans and starts the runs of a suite.
type campaign struct {
	*runstest.World
	c     *runstest.Client
	suite string
	table map[string]string
}

func (w campaign) plan(arm string) runs.Planned[purpose] {
	w.T.Helper()
	caller := access.Caller{OrgID: w.c.Org.ID, UserID: w.c.User.ID}
	r, err := w.Runs.Plan(w.T.Context(), caller, w.suite, runs.NewRun{
		Subject: subject.Ref{EntryID: w.c.Entry()}, Baseline: runs.NoBaseline,
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return runs.Planned[purpose]{For: purpose{table: w.table, arm: arm, run: r.ID}, Run: &r}
}

// start starts planned runs; the transaction ends with cause.
func (w campaign) start(cause error, all ...runs.Planned[purpose]) (started bool, err error) {
	err = w.DB.InTx(w.T.Context(), func(tx *store.Tx) error {
		if started, err = runs.StartPlanned(w.T.Context(), tx, w.Runs, all); err != nil {
			return err
		}
		return cause
	})
	return started, err
}

func (w campaign) look(orgID string, all ...purpose) runs.Campaign {
	w.T.Helper()
	at, err := runs.LookAt(w.T.Context(), w.Runs, orgID, all)
	if err != nil {
		w.T.Fatal(err)
	}
	return at
}

// TestCampaign follows the runs of a campaign from their plans to their ends.
func TestCampaign(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, metered(judgetest.Model{Route: router}))
		world := runstest.New(t, db, runstest.Scripted(server), func(w *runstest.World) {
			w.Runs.Prices = prices{{Match: "scripted", Input: 3, Output: 15}}
		})
		c := world.Org("acme")
		suite := c.Create(judged(trigger("a"), trigger("b")))
		w := campaign{world, c, suite["id"].(string), map[string]string{}}

		// A cause that is not committed starts nothing.
		lost := errors.New("lost")
		if _, err := w.start(lost, w.plan("rolled back")); !errors.Is(err, lost) || w.Count("eval_runs") != 0 {
			t.Fatalf("%v, and %d runs", err, w.Count("eval_runs"))
		}
		fresh, current := w.plan("new"), w.plan("current")
		if started, err := w.start(nil, fresh, current); !started || err != nil {
			t.Fatal(started, err)
		}
		// Of two workers that make a step, one does.
		if started, err := w.start(nil, w.plan("new"), w.plan("current")); started || err != nil || w.Count("eval_runs") != 2 {
			t.Fatalf("started again: %v, %v, and %d runs", started, err, w.Count("eval_runs"))
		}
		// A step of which another worker has made a part cannot be made whole: none of it stays.
		if started, err := w.start(nil, w.plan("third"), w.plan("current")); started || err == nil || w.Count("eval_runs") != 2 {
			t.Fatalf("half started: %v, %v, and %d runs", started, err, w.Count("eval_runs"))
		}
		at := w.look(c.Org.ID, fresh.For, current.For)
		if at.Over || at.Done != 0 || at.StartedAt != nil || len(at.Runs) != 2 || len(at.Stopped) != 0 || at.Deleted {
			t.Errorf("while they wait: %+v", at)
		}

		w.Work()
		c.Await(object{"id": fresh.For.run})
		c.Await(object{"id": current.For.run})
		at = w.look(c.Org.ID, fresh.For, current.For)
		first := at.Runs[fresh.For.run].StartedAt
		if second := at.Runs[current.For.run].StartedAt; second.Before(*first) {
			first = second
		}
		// Two runs of two cases: four requests of 1000 tokens for 3 dollars a million, and 100 for 15.
		if !at.Over || at.Done != 4 || at.Cost.Requests != 4 || at.Cost.Micros != 4*4500 || !at.StartedAt.Equal(*first) {
			t.Errorf("at the end: %+v", at)
		}
		// The next campaign shares a run: it has its trials, and pays for its own only.
		shared := purpose{table: w.table, arm: "shared", run: current.For.run, reused: true}
		if started, err := w.start(nil, runs.Planned[purpose]{For: shared}); !started || err != nil || w.Count("eval_runs") != 2 {
			t.Errorf("sharing a run: %v, %v, and %d runs", started, err, w.Count("eval_runs"))
		}
		at = w.look(c.Org.ID, fresh.For, shared)
		if at.Done != 4 || at.Cost.Micros != 2*4500 || !at.StartedAt.Equal(*at.Runs[fresh.For.run].StartedAt) {
			t.Errorf("with a shared run: %+v", at)
		}
		if at = w.look(world.Org("other").Org.ID, fresh.For); !at.Deleted || len(at.Runs) != 0 {
			t.Errorf("another organisation sees %+v", at)
		}
	})
}

// TestCancelAll: what is over stays as it is, and what is not is stopped, once.
func TestCancelAll(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		world := runstest.New(t, db)
		c := world.Org("acme")
		suite := c.Create(deterministic(exact("a", "b")))
		w := campaign{world, c, suite["id"].(string), map[string]string{}}
		ended, open := w.plan("ended"), w.plan("open")
		if _, err := w.start(nil, ended, open); err != nil {
			t.Fatal(err)
		}
		w.Exec(`UPDATE eval_runs SET status = 'budget_spent' WHERE id = $1`, ended.For.run)
		all := []purpose{ended.For, open.For, {run: store.NewID()}}
		other := world.Org("other").Org.ID
		for _, orgID := range []string{other, c.Org.ID, c.Org.ID} {
			if err := runs.CancelAll(t.Context(), w.Runs, orgID, all); err != nil {
				t.Fatal(err)
			}
			if at := w.look(c.Org.ID, open.For); at.Over == (orgID == other) {
				t.Errorf("cancelled: %v", at.Over)
			}
		}
		at := w.look(c.Org.ID, all...)
		if !at.Over || !at.Deleted || len(at.Stopped) != 2 || at.Stopped[0].Status != runs.BudgetSpent ||
			at.Stopped[1].Status != runs.Cancelled {
			t.Errorf("stopped: %+v", at)
		}
		if n := w.Count("audit_entries WHERE action = 'evals.run.cancel'"); n != 1 {
			t.Errorf("%d cancellations", n)
		}
	})
}

// TestPoll: a cause looks at its runs soon in the beginning, and less often later.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{0, "100ms"}, {time.Second, "100ms"}, {20 * time.Second, "1s"}, {time.Hour, "2s"}} {
			started := now.Add(-c.after)
			if got := runs.Poll(&started, 100*time.Millisecond, 2*time.Second).Error(); got != "snoozed for "+c.want {
				t.Errorf("after %v: %s, want %s", c.after, got, c.want)
			}
		}
		if got := runs.Elapsed(nil); got != 0 {
			t.Errorf("before the start: %v", got)
		}
	})
}
