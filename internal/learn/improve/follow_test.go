package improve_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/improvetest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestCancel ends a run with its eval runs, and a suite that is deleted leaves no
// candidates behind.
func TestCancel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		model := improvetest.NewModel(t)
		w := runstest.New(t, db, runstest.Scripted(model.Server))
		c, body := invoices(w, 16)
		cancel := func(run object) apptest.Response { return c.Post(improvePath+"/"+run["id"].(string)+"/cancel", nil) }
		queued := start(c, body)
		if got := cancel(queued).Want(http.StatusOK).Field("improve_run"); got["status"] != "cancelled" || got["finished_at"] == nil {
			t.Errorf("a queued run becomes %v", got)
		}
		cancel(queued).Want(http.StatusOK) // twice is no error
		run := start(c, body)
		// The candidate's first answer waits until the run is cancelled.
		held, release := make(chan struct{}), make(chan struct{})
		model.Before(func(p improvetest.Part) {
			if p == improvetest.Answer && model.Count(improvetest.Write) > 0 {
				select {
				case held <- struct{}{}:
				default:
				}
				<-release
			}
		})
		w.Work()
		<-held
		if n := w.Count("improve_sources"); n != 1 {
			t.Errorf("%d candidates are held", n)
		}
		cancel(run).Want(http.StatusOK)
		close(release)
		apptest.Eventually(t, "the end of its eval runs and candidates", func() bool {
			return w.Count("eval_runs WHERE finished_at IS NULL") == 0 && w.Count("improve_sources") == 0 && w.Count("cloud_sources") == 1
		})
		if got := c.ImproveRun(run["id"]); got["status"] != "cancelled" || got["error"] != nil {
			t.Errorf("a running run becomes %v", got)
		}
		model.Before(nil)
		over := c.AwaitImprove(start(c, body))
		cancel(over).WantErrorWith(http.StatusConflict, "already over: its status is ")
	})
}

// TestFails has a row for each way in which the judge ends a run.
func TestFails(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, row := range []struct {
			name   string
			reply  judgetest.Reply
			writer bool // only the writer fails
			status string
			part   string
		}{
			{"wrong key", judgetest.Fail(401, "no"), false, "failed_terminal", "judge_rejected: "},
			{"wrong key for the writer", judgetest.Fail(403, "no"), true, "failed_terminal", "check --judge-key"},
			{"never a verdict", judgetest.Fail(400, "no"), false, "failed_terminal", "10 of 10 cases have no verdict; the last: judge_rejected"},
		} {
			t.Run(row.name, func(t *testing.T) {
				server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
					if row.writer && !isRewrite(r) {
						return byWord(r)
					}
					return row.reply
				})
				w := runstest.New(t, db, runstest.Scripted(server))
				c := w.Org(row.name)
				run := c.Improve(c.Create(colours()))
				stop := w.Work()
				run = c.AwaitImprove(run)
				stop()
				problem := apptest.Text(run, "error")
				if run["status"] != row.status || !strings.Contains(problem, row.part) || strings.Contains(problem, "sk-secret") {
					t.Errorf("got %v", run)
				}
			})
		}
	})
}

// TestEvents: a client gets an event for every step, and one for the end.
func TestEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db, runstest.Scripted(writing(t, "Things that are red.", "Things that are red.", "Things that are red.")))
		c := w.Org("acme")
		id := c.Improve(c.Create(colours()))["id"].(string)
		events := func(after string) *httptest.ResponseRecorder {
			stream, err := w.Improve.Events(t.Context(), c.Org.ID, id, after)
			if err != nil {
				t.Fatal(err)
			}
			recorder := httptest.NewRecorder()
			stream(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			return recorder
		}
		w.Work()
		const end = "id: 1\nevent: status\n" + `data: {"status":"`
		if got := events("").Body.String(); !strings.HasPrefix(got, ": ok\n\nid: ") || strings.Count(got, end) != 1 {
			t.Errorf("a client from the start gets\n%s\nwant the end once: %s", got, end)
		}
		if got := events("0"); !strings.Contains(got.Body.String(), end) {
			t.Errorf("a client that reconnects gets %s", got.Body)
		}
		if got := events("1"); got.Code != http.StatusNoContent {
			t.Errorf("a client that saw the end gets %d %s", got.Code, got.Body)
		}
		if _, err := w.Improve.Events(t.Context(), c.Org.ID, id, "x"); !fault.Is(err, fault.Malformed) {
			t.Errorf("no id of an event: %v", err)
		}
		if _, err := w.Improve.Events(t.Context(), w.Org("other").Org.ID, id, ""); !fault.Is(err, fault.NotFound) {
			t.Errorf("another organisation's: %v", err)
		}
	})
}
