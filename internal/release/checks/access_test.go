package checks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestPullOfTwoOrganisations: an account has one organisation. A pull request into
// a repository that two have connected reaches only the one with the claim, and the
// other cannot read its gates.
func TestPullOfTwoOrganisations(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.GitHub)
		w.Work()
		eve := w.OrgWithPlan("eve", access.Team)
		// As it was before claims: a binding and a connection of another organisation.
		w.Exec(`INSERT INTO repohost_installations (id, org_id, installation_id, account_login, account_key, account_type, suspended,
			created_at, updated_at) VALUES ('i', $1, 99, 'acme', 'acme', 'User', FALSE, 1, 1)`, eve.Org.ID)
		w.Exec(`INSERT INTO repohost_settings (org_id, write_back_mode, updated_at) VALUES ($1, 'checks_and_prs', 1)`, eve.Org.ID)
		w.Exec(`
			INSERT INTO repohost_connections (id, org_id, entry_id, entry_name, installation_id, repo_id, repo_full_name, repo_key,
				default_branch, skill_path, auto_publish, write_back_enabled, tag_pattern, created_by, created_at, updated_at,
				configured_at, held_until, pull_requests)
			VALUES ('c', $1, 'e', 'pdf', 99, $2, 'acme/pdf', 'acme/pdf', 'main', '.', TRUE, TRUE, 'v*', $3, 1, 1, 1, 0, 'all')`,
			eve.Org.ID, w.host.ID("acme/pdf"), eve.User.ID)
		head := w.branch("topic", "bad")
		p := w.host.OpenPull("acme/pdf", "acme/pdf", "topic")
		w.event(p, "opened")
		w.send("pull_request", p.Event("opened", 99)).Want(http.StatusAccepted)
		w.Settle()
		if n := w.Count("pull_requests"); n != 1 || !strings.HasPrefix(w.verdict(head), "failure Block") {
			t.Errorf("%d pull requests, %q", n, w.verdict(head))
		}
		gate := w.Get("/api/v1/gates").Want(http.StatusOK).List("gates")[0]
		id := gate["id"].(string)
		eve.Get("/api/v1/gates/" + id).Want(http.StatusNotFound)
		eve.Post("/api/v1/gates/"+id+"/rerun", nil).Want(http.StatusNotFound)
		if all := eve.Get("/api/v1/gates").Want(http.StatusOK).List("gates"); len(all) != 0 {
			t.Errorf("eve sees the gates %v", all)
		}
		listed := w.Get(base + "/pull-requests").Want(http.StatusOK).List("pull_requests")
		if len(listed) != 1 || listed[0]["gate_id"] != id {
			t.Errorf("got the pull requests %v", listed)
		}
		eve.Get(base + "/pull-requests/" + listed[0]["id"].(string)).Want(http.StatusNotFound)
		if all := eve.Get(base + "/pull-requests?entry_id=" + w.entry).Want(http.StatusOK).List("pull_requests"); len(all) != 0 {
			t.Errorf("eve sees the pull requests %v", all)
		}
		if all, err := w.checks.Pulls(t.Context(), eve.Org.ID, w.connection); err != nil || len(all) != 0 {
			t.Errorf("eve sees the pull requests %v, %v", all, err)
		}
		// The button of another installation's check does nothing.
		gates := w.Count("gates")
		w.send("check_run", fmt.Sprintf(
			`{"action":"rerequested","check_run":{"head_sha":%q,"external_id":""},"repository":{"id":%d,"full_name":"acme/pdf"},"installation":{"id":99}}`,
			head, w.host.ID("acme/pdf"))).Want(http.StatusAccepted)
		w.Settle()
		if n := w.Count("gates"); n != gates {
			t.Errorf("%d gates, want %d", n, gates)
		}
		// Deleting the connection leaves nothing behind.
		w.Do(http.MethodDelete, base+"/connections/"+w.connection, nil).Want(http.StatusNoContent)
		w.Settle()
		if w.Count("pull_requests") != 0 || w.Count("cloud_sources") != 0 {
			t.Errorf("%d pull requests and %d sources are left", w.Count("pull_requests"), w.Count("cloud_sources"))
		}
	})
}
