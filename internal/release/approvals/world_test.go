package approvals_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

type object = apptest.Object

// world has an entry whose versions need approvals, and people.
type world struct {
	*registrytest.World
	approvals          *approvals.Service
	ada, ben, cyd, dan *registrytest.Client // the owner, two admins, and a member
	entry              string
}

// wire adds gates and approvals to a server with the registry.
func wire(rw *registrytest.World) *world {
	w := &world{World: rw}
	gated := &gates.Service{DB: rw.DB, Jobs: rw.Queue, Registry: rw.Registry, Log: rw.Log}
	w.approvals = &approvals.Service{DB: rw.DB, Jobs: rw.Queue, Registry: rw.Registry, Gates: gated, Tally: approvals.Tally{Approvers: approvals.ByRole(access.AdminRole)}}
	gated.Approvals, rw.Release.Approvals, rw.Registry.OnPush = w.approvals, approvals.Promoting{Tally: w.approvals.Tally}, gated
	w.approvals.Register()
	gated.Mount(rw.API)
	w.approvals.Mount(rw.API)
	return w
}

func newWorld(t *testing.T, db *store.DB, policy object) *world {
	t.Helper()
	w := wire(registrytest.New(t, db))
	w.ada = w.Org("acme", access.Pro)
	org := auth.Organisation{ID: w.ada.Org.ID}
	w.ben, w.cyd, w.dan = w.Member(org, access.AdminRole), w.Member(org, access.AdminRole), w.Member(org, access.Member)
	w.entry = w.dan.Made("pdf", "1.0.0", registrytest.Skill(t, "one"))
	w.policy(policy)
	return w
}

func (w *world) policy(fields object) {
	w.T.Helper()
	policy := apptest.With(object{"mode": "off"}, fields)
	w.ada.Do(http.MethodPut, registrytest.EntryPath(w.entry)+"/gate-policy", object{"policy": policy}).Want(http.StatusOK)
}

func (w *world) path(version string) string {
	return registrytest.VersionPath(w.entry, version) + "/approvals"
}

// push pushes a candidate.
func (w *world) push(by *registrytest.Client, version string) {
	w.T.Helper()
	got := by.Push(w.entry, version, registrytest.Skill(w.T, "version "+version)).Want(http.StatusAccepted)
	if state := got.Text("version", "state"); state != "candidate" {
		w.T.Errorf("version %s is %s", version, state)
	}
}

func (w *world) answer(by *registrytest.Client, version, decision string) apptest.Response {
	w.T.Helper()
	return by.Post(w.path(version), object{"decision": decision})
}

// want checks the state of a version, and which one is current.
func (w *world) want(version, state, current string) {
	w.T.Helper()
	if got := w.ada.Versions(w.entry)[version]["state"]; got != state {
		w.T.Errorf("version %s is %v, want %s", version, got, state)
	}
	if got := w.ada.Current(w.entry); got != current {
		w.T.Errorf("version %s is current, want %s", got, current)
	}
}

// wantReview checks a response about a version.
func wantReview(r apptest.Response, state string, given, needed int, waits any) {
	r.T.Helper()
	o := r.Want(http.StatusOK).Object()
	got := fmt.Sprint(o["state"], o["given"], o["needed"], o["waits_for"])
	if want := fmt.Sprint(state, float64(given), float64(needed), waits); got != want {
		r.T.Errorf("%s: %s, want %s", r.What, got, want)
	}
}

// entryKey is a client with the key of a workflow that publishes the entry.
func (w *world) entryKey() *registrytest.Client {
	w.T.Helper()
	c := *w.cyd.Caller
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) (err error) {
		_, c.Key, err = w.Auth.CreateEntryKey(w.T.Context(), tx, auth.NewEntryKey{
			OrgID: w.ada.Org.ID, EntryID: w.entry, Name: "workflow", ExpiresAt: time.Now().Add(time.Hour),
		})
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return &registrytest.Client{Caller: &c}
}
