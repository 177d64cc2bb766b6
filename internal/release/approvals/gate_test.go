package approvals_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// gated is a world whose gates decide by the length of SKILL.md, without trials. Jobs
// run when it says so.
type gated struct {
	*apptest.World
	*registrytest.Client
	ben   *registrytest.Client
	entry string
}

func newGated(t *testing.T, db *store.DB, mode string) *gated {
	t.Helper()
	rw := runstest.New(t, db, func(rw *runstest.World) {
		g := &gates.Service{
			DB: db, Jobs: rw.Queue, Registry: rw.Registry, Sources: rw.Sources, Suites: rw.Suites, Runs: rw.Runs, Log: rw.Log,
		}
		g.Register()
		released := &release.Service{DB: db, Registry: rw.Registry}
		people := &approvals.Service{DB: db, Registry: rw.Registry, Gates: g, Tally: approvals.Tally{Approvers: approvals.ByRole(access.AdminRole)}}
		rw.Registry.OnPush, rw.Registry.OnEntryDeleted, g.Approvals, released.Approvals = g, g, people, approvals.Promoting{Tally: people.Tally}
		g.Mount(rw.API)
		released.Mount(rw.API)
		people.Mount(rw.API)
	})
	rw.Registry.Mount(rw.API)
	w := &gated{World: rw.World, Client: &registrytest.Client{Caller: rw.OrgWithPlan("acme", access.Pro)}}
	w.ben = &registrytest.Client{Caller: rw.World.Member(w.Client.Org, access.AdminRole)}
	w.entry = w.Made("pdf", "1.0.0", registrytest.Skill(t, "one"))
	w.Do(http.MethodPut, registrytest.EntryPath(w.entry)+"/gate-policy", object{
		"mode": mode, "approvals": 1, "floors": object{"skill_md_tokens": 100},
	}).Want(http.StatusOK)
	return w
}

// push pushes a candidate that the gate lets pass, unless it is long, and returns the
// gate's id.
func (w *gated) push(version string, long bool) string {
	w.Client.T.Helper()
	description := "version " + version
	if long {
		description += fmt.Sprintf("%1000s", "x")
	}
	return w.Push(w.entry, version, registrytest.Skill(w.Client.T, description)).Want(http.StatusAccepted).Text("gate", "id")
}

func (w *gated) approve(version string) apptest.Response {
	w.Client.T.Helper()
	return w.ben.Post(registrytest.VersionPath(w.entry, version)+"/approvals", object{"decision": "approve"})
}

func (w *gated) decide() {
	w.Client.T.Helper()
	stop := w.Work()
	w.Settle()
	stop()
}

func (w *gated) wantCurrent(version string) {
	w.Client.T.Helper()
	if got := w.Current(w.entry); got != version {
		w.Client.T.Errorf("version %s is current, want %s", got, version)
	}
}

// TestGateAndPeople joins the verdict of a gate and the approval of a person, in both
// orders.
func TestGateAndPeople(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newGated(t, db, "enforce")
		w.push("1.1.0", false)
		wantReview(w.approve("1.1.0"), "candidate", 1, 1, "its gate is running")
		w.wantCurrent("1.0.0")
		w.decide()
		w.wantCurrent("1.1.0")

		w.push("1.2.0", false)
		w.decide()
		w.wantCurrent("1.1.0")
		wantReview(w.approve("1.2.0"), "published", 1, 1, nil)
		w.wantCurrent("1.2.0")

		blocked := w.push("1.3.0", true)
		w.decide()
		wantReview(w.approve("1.3.0"), "candidate", 1, 1, "its gate says block")
		w.Post(registrytest.VersionPath(w.entry, "1.3.0")+"/approvals/override", object{"reason": "now"}).
			WantErrorWith(http.StatusConflict, "its gate says block")
		w.wantCurrent("1.2.0")
		w.Post("/api/v1/gates/"+blocked+"/override", object{"reason": "it must be long"}).Want(http.StatusOK)
		w.wantCurrent("1.3.0")

		// An override of the gate does not speak for the people.
		blocked = w.push("1.4.0", true)
		w.Post("/api/v1/gates/"+blocked+"/override", object{"reason": "now"}).Want(http.StatusOK)
		w.decide()
		w.wantCurrent("1.3.0")
		wantReview(w.approve("1.4.0"), "published", 1, 1, nil)
		w.wantCurrent("1.4.0")
	})
}

// TestGateOutOfDate rolls back while a candidate that its gate let pass waits for
// people: the comparison was with another version.
func TestGateOutOfDate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newGated(t, db, "enforce")
		w.push("1.1.0", false)
		w.approve("1.1.0").Want(http.StatusOK)
		w.decide()
		first := w.push("1.2.0", false)
		w.decide()
		w.Post(registrytest.EntryPath(w.entry)+"/rollback", nil).Want(http.StatusOK)
		w.wantCurrent("1.0.0")
		wantReview(w.approve("1.2.0"), "candidate", 1, 1, "its gate is running")
		if now := w.Versions(w.entry)["1.2.0"]["gate_id"]; now == first {
			t.Error("the gate does not run again")
		}
		w.decide()
		w.wantCurrent("1.2.0")
	})
}

// TestReportedGate asks people only: a gate that reports keeps nothing back.
func TestReportedGate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newGated(t, db, "report")
		w.push("1.1.0", true)
		w.decide()
		w.wantCurrent("1.0.0")
		wantReview(w.approve("1.1.0"), "published", 1, 1, nil)
		w.wantCurrent("1.1.0")
		w.Do(http.MethodDelete, registrytest.EntryPath(w.entry), nil).Want(http.StatusNoContent)
		if n := w.Count("version_approvals"); n != 0 {
			t.Errorf("%d approvals outlived their entry", n)
		}
	})
}
