package gates_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// snapshot takes one of a folder, as the command line does.
func (w *world) snapshot(version string) string {
	w.T.Helper()
	pkg, err := skillpkg.Read(w.T.Context(), bytes.NewReader(archiveOf(version)), skillpkg.DefaultLimits())
	if err != nil {
		w.T.Fatal(err)
	}
	defer pkg.Close()
	caller := access.Caller{OrgID: w.Caller.Org.ID, UserID: w.User.ID}
	taken, err := w.Sources.CreateFrom(w.T.Context(), caller, sources.NewSource{Label: "gate: pdf", Type: sources.Upload}, pkg)
	if err != nil {
		w.T.Fatal(err)
	}
	return taken.Snapshot.ID
}

// TestAsk gates a snapshot as a push of it would be: the trials of the current
// version are reused, floors count, and nothing is published.
func TestAsk(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		w.model.decide(func(version, query string, _ int) bool { return version != "1.1.0" || query != "query 2" })
		path := "/api/v1/registry/" + w.entry + "/gates"
		bad, good := w.snapshot("1.1.0"), w.snapshot("1.2.0")
		ask := func(snapshot string, more object) object {
			body := apptest.With(object{"snapshot_id": snapshot, "suites": []any{w.suite["id"]}}, more)
			return w.decided(w.Post(path, body).Want(http.StatusAccepted).Text("gate", "id"))
		}
		gate := ask(bad, object{"version": "1.1.0"})
		if gate["verdict"] != "block" || gate["mode"] != "report" || gate["against"] != "1.0.0" || gate["version"] != "1.1.0" || gate["pull_request"] != nil {
			t.Errorf("the gate is %v, want a block", gate)
		}
		before := w.model.total("1.0.0")
		if gate := ask(good, nil); gate["verdict"] != "pass" || gate["version"] != "snapshot" {
			t.Errorf("the gate is %v, want a pass", gate)
		}
		if n := w.model.total("1.0.0"); n != before {
			t.Errorf("the current version was tried %d times more, want its trials reused", n-before)
		}
		w.want("1.0.0", "published", true)
		if n := w.Count("registry_versions"); n != 1 {
			t.Errorf("%d versions, want nothing published", n)
		}
		id := gate["id"].(string)
		w.Post("/api/v1/gates/"+id+"/override", object{"reason": "x"}).WantErrorWith(http.StatusConflict, "of a folder, which it does not publish")
		w.decided(w.Post("/api/v1/gates/"+id+"/rerun", nil).Want(http.StatusAccepted).Text("gate", "id"))

		// A floor of the policy blocks without a trial, although the policy is off.
		w.Do(http.MethodPut, "/api/v1/registry/"+w.entry+"/gate-policy", object{"policy": object{"mode": "off", "floors": object{"skill_md_tokens": 1}}}).
			Want(http.StatusOK)
		if gate := ask(good, nil); gate["verdict"] != "block" {
			t.Errorf("the gate is %v, want a block by the floor", gate)
		}

		w.Post(path, object{"snapshot_id": uuid.NewString()}).WantErrorWith(http.StatusNotFound, "not found")
		w.Post(path, object{"snapshot_id": good, "against": "9"}).WantErrorWith(http.StatusNotFound, "Version 9 not found")
		w.Post(path, object{"snapshot_id": good, "suites": []any{uuid.NewString()}}).WantIssueWith("suites", "eval suites of the organisation")
		w.Post(path, object{"snapshot_id": good, "trials": 0}).WantIssueWith("trials", "trials must be 1")
		eve := &runstest.Client{Caller: w.OrgWithPlan("evil", access.Team), World: w.World}
		eve.Post(path, object{"snapshot_id": good}).WantErrorWith(http.StatusNotFound, "Registry entry not found")
	})
}
