package alerts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// The environment of a child process.
const (
	crashStep     = "ALERTS_TEST_CRASH_STEP"
	crashDatabase = "ALERTS_TEST_CRASH_DATABASE"
	crashOrg      = "ALERTS_TEST_CRASH_ORG"
)

// The steps at which a process dies.
const (
	beforeCommit = "before the evaluation commits"
	afterCommit  = "after the evaluation has committed"
	beforeSend   = "before the notice is sent"
	duringSend   = "after the notice was sent"
	beforeRecord = "before the delivery is recorded"
	afterRecord  = "after the delivery was recorded"
	anywhere     = "anywhere"
)

// TestChildProcess is started by TestCrash and TestCrashes in a process of its
// own, which is killed.
func TestChildProcess(t *testing.T) {
	step, org := os.Getenv(crashStep), os.Getenv(crashOrg)
	if step == "" {
		return // not started as a child
	}
	db, err := store.Open(t.Context(), store.Options{URL: os.Getenv(crashDatabase), MaxConns: 6})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, db, setup{interval: 30 * time.Millisecond})
	switch step {
	case beforeCommit:
		transitions := 0
		w.alerts.OnTransition(func() {
			if transitions++; transitions == 2 { // the transaction has written much
				die()
			}
		})
		err = w.alerts.Evaluate(t.Context(), org)
	case afterCommit:
		if err = w.alerts.Evaluate(t.Context(), org); err == nil {
			die()
		}
	case afterRecord:
		if err = w.deliverAll(org); err == nil {
			die()
		}
	case beforeSend:
		w.guard.onDial = die
		fallthrough
	default: // the parent kills it
		err = w.Queue.Run(t.Context())
	}
	t.Fatalf("still alive: %v", err)
}

// die kills the process without any cleanup, like a power cut.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until it arrives
}

// deliverAll makes an attempt of every delivery of an organisation.
func (w *world) deliverAll(org string) error {
	rows, err := w.DB.Query(w.T.Context(), `SELECT id FROM alert_deliveries WHERE org_id = $1`, org)
	ids, err := store.All(rows, err, store.Value[string])
	for _, id := range ids {
		err = errors.Join(err, w.alerts.Deliver(w.T.Context(), id))
	}
	return err
}

// A child is a process that runs TestChildProcess.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  bytes.Buffer
	died chan struct{}
}

func startChild(t *testing.T, step, databaseURL, org string) *child {
	t.Helper()
	c := &child{t: t, died: make(chan struct{})}
	c.cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildProcess$", "-test.timeout=3m", "-test.v")
	c.cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), crashStep+"="+step, crashDatabase+"="+databaseURL, crashOrg+"="+org)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // wantKilled looks at how it ended
		close(c.died)
	}()
	return c
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may be dead already
	<-c.died
}

// wantKilled waits for the process to end, which must be by SIGKILL.
func (c *child) wantKilled() {
	c.t.Helper()
	select {
	case <-c.died:
	case <-time.After(2 * time.Minute):
		c.kill()
		c.t.Fatalf("the process did not die:\n%s", &c.out)
	}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL {
		c.t.Fatalf("the process ended with %v:\n%s", c.cmd.ProcessState, &c.out)
	}
}

// eachURL is storetest.Each for tests that open the database several times.
func eachURL(t *testing.T, test func(t *testing.T, url string, db *store.DB)) {
	t.Helper()
	for _, name := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t, name)
			db, err := store.Open(t.Context(), store.Options{URL: url, MaxConns: 6})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			test(t, url, db)
		})
	}
}

// TestCrash kills the process at every step of a notification. After a restart
// there is one event for each transition and one delivery for each event, and the
// receiver gets each under one id.
func TestCrash(t *testing.T) {
	t.Parallel()
	eachURL(t, func(t *testing.T, url string, db *store.DB) {
		for _, c := range []struct {
			step   string
			skills []string
			sent   int // how often each notice is sent
		}{
			{beforeCommit, []string{"pdf", "csv"}, 1},
			{afterCommit, []string{"pdf", "csv"}, 1},
			{beforeSend, []string{"pdf"}, 1},
			{duringSend, []string{"pdf"}, 2},
			{beforeRecord, []string{"pdf"}, 2},
			{afterRecord, []string{"pdf", "csv"}, 1},
		} {
			t.Run(c.step, func(t *testing.T) {
				before := newWorld(t, db, setup{})
				ada := before.org(c.step)
				hook := notifytest.Receive(t, notifytest.Answering(http.StatusOK))
				children := make(chan *child, 1)
				switch c.step {
				case duringSend:
					hook = notifytest.Receive(t, func(http.ResponseWriter, *http.Request) { (<-children).kill() }, notifytest.Answering(http.StatusOK))
				case beforeRecord:
					hold := func(http.ResponseWriter, *http.Request) { before.holdUp(ada.Org.ID, <-children) }
					hook = notifytest.Receive(t, hold, notifytest.Answering(http.StatusOK))
				}
				ada.alert(passRate(hook.URL))
				for _, skill := range c.skills {
					ada.sessions(skill, repeat(0, 5)...)
				}
				if c.step != beforeCommit && c.step != afterCommit {
					before.evaluate(ada, 1)
				}
				process := startChild(t, c.step, url, ada.Org.ID)
				children <- process
				process.wantKilled()

				after := newWorld(t, db, setup{lease: 2 * time.Second})
				stop := after.Work()
				after.evaluate(ada, 3)
				after.Settle()
				stop()
				var want []string
				for _, skill := range c.skills {
					want = append(want, "firing "+skill)
				}
				after.wantAllSent(ada, hook, want, c.sent)
			})
		}
	})
}

// holdUp locks the delivery so that the child cannot record it until it is dead,
// and returns when the lock is held: then the receiver responds.
func (w *world) holdUp(org string, c *child) {
	held := make(chan struct{})
	go func() {
		_ = w.DB.InTx(context.Background(), func(tx *store.Tx) error {
			_, err := tx.Exec(context.Background(), `UPDATE alert_deliveries SET detail = detail WHERE org_id = $1`, org)
			close(held)
			time.Sleep(100 * time.Millisecond) // for the child to read the answer
			c.kill()
			return errors.Join(err, errors.New("nothing is to be changed"))
		})
	}()
	<-held
}

// wantAllSent compares the events, in any order, and wants each delivered and
// sent that often under its id.
func (w *world) wantAllSent(c *client, hook *notifytest.Receiver, want []string, sent int) {
	t := c.T
	t.Helper()
	got := c.events()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	told := map[string]int{}
	for _, r := range hook.Requests() {
		told[r.ID()]++
	}
	wanted := map[string]int{}
	for _, e := range c.Get("/api/v1/alert-events?per_page=100").List("events") {
		wanted[e["id"].(string)] = sent
	}
	if diff := cmp.Diff(wanted, told); diff != "" {
		t.Errorf("notices by id (-want +got):\n%s", diff)
	}
	if n := w.Count("alert_deliveries WHERE org_id = $1 AND status = 'delivered' AND attempts = 1", c.Org.ID); n != len(want) {
		t.Errorf("%d deliveries have arrived at the first recorded attempt, want %d", n, len(want))
	}
}

// TestCrashes kills the process at random times while two skills fail and
// recover. In the end every transition was notified, once and in order.
func TestCrashes(t *testing.T) {
	t.Parallel()
	eachURL(t, func(t *testing.T, url string, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(http.StatusOK))
		ada.alert(passRate(hook.URL))
		for _, grades := range [][]float64{repeat(0, 10), repeat(1, 45), repeat(0, 10), repeat(1, 45)} { // 0, 0.82, 0.69, 0.82
			for _, skill := range []string{"pdf", "csv"} {
				ada.sessions(skill, grades...)
			}
			process := startChild(t, anywhere, url, ada.Org.ID)
			time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond) // when does not matter
			process.kill()
			process.wantKilled()
			w.evaluate(ada, 2) // at the latest
		}
		after := newWorld(t, db, setup{lease: 2 * time.Second})
		after.Work()
		after.Settle()
		want := map[string][]string{}
		for _, skill := range []string{"pdf", "csv"} {
			want[skill] = []string{"1 firing", "2 resolved", "3 firing", "4 resolved"}
		}
		got, seen := map[string][]string{}, map[string]bool{}
		for _, r := range hook.Requests() {
			notice := r.Object(t)
			skill := notice["skill"].(string)
			if !seen[r.ID()] {
				got[skill] = append(got[skill], fmt.Sprint(notice["sequence"], " ", notice["status"]))
			}
			seen[r.ID()] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("notices by skill (-want +got):\n%s", diff)
		}
		if n := after.Count("alert_deliveries WHERE status = 'delivered'"); n != len(seen) {
			t.Errorf("%d deliveries have arrived, want %d", n, len(seen))
		}
	})
}
