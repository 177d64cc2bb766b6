package checks_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// reconcile compares all connections with their repositories.
func (w *world) reconcile() {
	w.T.Helper()
	w.Exec(`UPDATE repohost_connections SET reconcile_at = 0`) // all are due
	if err := w.repohost.ReconcileDue(w.T.Context()); err != nil {
		w.T.Fatalf("reconcile: %v", err)
	}
	w.Settle()
}

// TestLostPullWebhooks: whatever happens to pull requests while no webhook arrives is
// found by the reconciliation, once, and a second one finds nothing to do.
func TestLostPullWebhooks(t *testing.T) {
	t.Parallel()
	onBoth(t, testLostPullWebhooks)
}

// onBoth runs a test on both databases, and on each code host.
func onBoth(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	for on, database := range map[host.Provider]string{host.Gitea: "sqlite", host.GitHub: "postgres", host.GitLab: "sqlite"} {
		t.Run(string(on)+" "+database, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, storetest.Open(t, database), on))
		})
	}
}

func testLostPullWebhooks(t *testing.T, w *world) {
	t.Helper()
	old := w.branch("old", "bad")
	before := w.host.OpenPull("acme/pdf", "acme/pdf", "old")
	before.Set(func(p *hosttest.OpenedPull) { p.CreatedAt = time.Now().Add(-time.Hour) })
	w.Work()
	w.reconcile()
	if got := strings.TrimSpace(w.verdict(old)); got != "" || w.Count("pull_requests") != 0 {
		t.Errorf("open before the connection: got %q", got)
	}

	bad := w.branch("topic", "bad")
	p := w.host.OpenPull("acme/pdf", "acme/pdf", "topic")
	w.reconcile()
	if got := w.verdict(bad); !strings.HasPrefix(got, "failure Block") {
		t.Errorf("opened: got %q", got)
	}
	asked, gates, requests := w.model.asked("bad"), w.Count("gates"), len(w.lists())
	w.reconcile()
	if n := len(w.lists()); n != requests+1 || w.model.asked("bad") != asked || w.Count("gates") != gates {
		t.Errorf("nothing was lost: %d requests about pull requests, want 1, %d gates, want %d", n-requests, w.Count("gates"), gates)
	}

	good := w.branch("topic", "good")
	p.Update()
	w.reconcile()
	if got := w.verdict(good); !strings.HasPrefix(got, "success Pass") {
		t.Errorf("another head: got %q", got)
	}
	p.Set(func(p *hosttest.OpenedPull) { p.Draft = true })
	w.reconcile()
	if w.Count("pull_requests WHERE status = 'skipped'") != 1 || w.Count("cloud_sources") != 0 {
		t.Error("it is a draft now")
	}
	p.Set(func(p *hosttest.OpenedPull) { p.Draft = false })
	w.reconcile()
	if w.Count("pull_requests WHERE status = 'decided'") != 1 || w.Count("gates") != gates+2 {
		t.Errorf("it is ready for review: %d gates", w.Count("gates"))
	}

	p.Set(func(p *hosttest.OpenedPull) { p.Closed = true })
	w.reconcile()
	if w.Count("pull_requests WHERE status = 'closed'") != 1 || w.Count("cloud_sources") != 0 {
		t.Error("closed or merged")
	}
	p.Set(func(p *hosttest.OpenedPull) { p.Closed = false })
	w.reconcile()
	if w.Count("pull_requests WHERE status = 'decided'") != 1 {
		t.Error("reopened")
	}

	// The permission is missing, and then the host fails for a moment.
	w.host.Break(hosttest.Fault{On: "GET ", Answer: hosttest.Status(403)})
	w.reconcile()
	w.host.Break(hosttest.Fault{On: w.pullsAt(), Answer: hosttest.Status(403), Always: true})
	w.reconcile()
	if w.Count("pull_requests WHERE status = 'decided'") != 1 {
		t.Error("a list that cannot be read says nothing")
	}
	w.host.Mend()
	last := w.branch("topic", "bad")
	p.Update()
	w.host.Break(hosttest.Fault{On: w.pullsAt(), Answer: hosttest.Status(502)})
	w.reconcile()
	if got := w.verdict(last); !strings.HasPrefix(got, "failure Block") {
		t.Errorf("after a moment: got %q", got)
	}

	// Turned off: what is held is given up, at once and once.
	w.Do(http.MethodPatch, base+"/connections/"+w.connection, object{"pull_requests": "off"}).Want(http.StatusOK)
	w.reconcile()
	if w.Count("pull_requests WHERE status = 'skipped'") != 1 || w.Count("cloud_sources") != 0 {
		t.Error("turned off")
	}
	requests = len(w.lists())
	w.reconcile()
	if n := len(w.lists()); n != requests {
		t.Errorf("turned off: %d requests about pull requests, want none", n-requests)
	}
}

// TestManyOpenPulls: of more pull requests than are listed those that changed last
// are looked at, and the others are not taken for closed.
func TestManyOpenPulls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.Gitea)
	w.Work()
	w.branch("topic", "good")
	p := w.host.OpenPull("acme/pdf", "acme/pdf", "topic")
	w.event(p, "opened")
	w.Settle()
	w.host.Break(hosttest.Fault{On: "GET /api/v1/repos/acme/pdf/pulls", Always: true, Answer: func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Link", `<http://`+r.Host+`/api/v1/repos/acme/pdf/pulls?page=2>; rel="next"`)
		_, _ = rw.Write([]byte("[]"))
	}})
	w.reconcile()
	if n := len(w.host.Requests("/pulls?")); n != host.MaxPullPages || w.Count("pull_requests WHERE status = 'decided'") != 1 {
		t.Errorf("%d requests, want %d", n, host.MaxPullPages)
	}
}

// TestEntryDeletedWithOpenPulls: what is held for the pull requests of an entry goes
// with it, its gates end, and checks do not wait for ever.
func TestEntryDeletedWithOpenPulls(t *testing.T) {
	t.Parallel()
	onBoth(t, testEntryDeleted)
}

func testEntryDeleted(t *testing.T, w *world) {
	t.Helper()
	w.model.held = make(chan struct{})
	w.Work()
	decided := w.branch("done", "bad")
	w.event(w.host.OpenPull("acme/pdf", "acme/pdf", "done"), "opened")
	w.Settle()
	slow := w.branch("topic", "slow")
	p := w.host.OpenPull("acme/pdf", "acme/pdf", "topic")
	w.event(p, "opened")
	apptest.Eventually(t, "the gate to run", func() bool { return strings.Contains(w.verdict(slow), "The gate is") })
	w.Do(http.MethodDelete, "/api/v1/registry/"+w.entry, nil).Want(http.StatusNoContent)
	close(w.model.held)
	w.Settle()
	ended := map[host.Provider]string{host.GitHub: "cancelled", host.Gitea: "error", host.GitLab: "failure"}[w.repohost.Host.Provider()]
	if got := w.verdict(slow); got != ended+" The entry was deleted" {
		t.Errorf("the check of a gate that was running: got %q", got)
	}
	if got := w.verdict(decided); !strings.HasPrefix(got, "failure Block") {
		t.Errorf("a verdict stays: got %q", got)
	}
	if w.Count("pull_requests WHERE status <> 'closed'") != 0 || w.Count("cloud_sources") != 0 || w.Count("gates") != 0 ||
		w.Count("eval_runs WHERE status IN ('queued', 'running')") != 0 {
		t.Errorf("left: %d pull requests, %d sources, %d gates, %d runs", w.Count("pull_requests WHERE status <> 'closed'"),
			w.Count("cloud_sources"), w.Count("gates"), w.Count("eval_runs WHERE status IN ('queued', 'running')"))
	}
	// What comes later finds nothing to gate.
	requests := len(w.lists())
	w.event(p, "synchronize")
	w.event(w.host.OpenPull("acme/pdf", "acme/pdf", "topic"), "opened")
	w.reconcile()
	if n := len(w.lists()); n != requests || w.Count("pull_requests WHERE status <> 'closed'") != 0 {
		t.Errorf("%d requests about pull requests, want none", n-requests)
	}
}
