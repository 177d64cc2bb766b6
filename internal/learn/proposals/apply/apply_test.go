package apply_test

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestVersion: without a gate the next patch is current at once, and follows what
// people do with it.
func TestVersion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.Git)
		path := w.propose()
		p := w.applyAs(path, "version").Want(http.StatusAccepted).Object()["proposal"].(object)
		if p["status"] != "approved" && p["status"] != "applied" {
			t.Errorf("status %v", p["status"])
		}
		p = w.await(path, "published")
		want := object{
			"kind": "version", "state": "published", "version": "1.0.1", "url": nil, "branch": nil, "message": nil, "observed_pass_rate": nil,
		}
		got := maps.Clone(p["outcome"].(object))
		delete(got, "updated_at")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcome (-want +got):\n%s", diff)
		}
		if p["status"] != "applied" || p["applied_at"] == nil || p["stale"] != false {
			t.Errorf("proposal %v", p)
		}
		if text := string(w.Get(w.versions() + "/1.0.1/files/SKILL.md").Want(http.StatusOK).Body); text != after {
			t.Errorf("SKILL.md %q", text)
		}
		if text := string(w.Get(w.versions() + "/1.0.1/files/scripts/run.sh").Want(http.StatusOK).Body); text != "#!/bin/sh\nexit 0\n" {
			t.Errorf("the script became %q", text)
		}
		same := w.applyAs(path, "version").Want(http.StatusAccepted).Object()["proposal"].(object)
		if diff := cmp.Diff(p, same); diff != "" {
			t.Errorf("applied twice (-first +second):\n%s", diff)
		}
		w.applyAs(path, "pull_request").WantError(http.StatusConflict, "The proposal is applied as a version already, which is published")
		if patch, _ := w.applyAs(path, "patch").Want(http.StatusOK).Object()["patch"].(string); !strings.Contains(patch, "+Read every page.") {
			t.Errorf("patch %q", patch)
		}
		w.Post(registry+"/"+w.entry+"/rollback", object{}).Want(http.StatusOK)
		if p = w.await(path, "rolled_back"); p["status"] != "applied" {
			t.Errorf("status %v", p["status"])
		}
		w.Post(registry+"/"+w.entry+"/rollback/undo", object{}).Want(http.StatusOK)
		w.await(path, "published")
		w.observe(1, 1, 0, 1)
		if p = w.await(path, "published"); p["outcome"].(object)["observed_pass_rate"] != 0.75 || p["projected_pass_rate"] != 0.9 {
			t.Errorf("promised %v, observed %v", p["projected_pass_rate"], p["outcome"])
		}
		w.Post(w.versions()+"/1.0.1/withdraw", object{"reason": "no good"}).Want(http.StatusOK)
		w.await(path, "withdrawn")
	})
}

// TestGate: a gate that is enforced makes it a candidate, and decides.
func TestGate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.Git)
		policy := func(tokens int) {
			w.Do(http.MethodPut, registry+"/"+w.entry+"/gate-policy", object{"policy": object{
				"mode": "enforce", "floors": object{"skill_md_tokens": tokens},
			}}).Want(http.StatusOK)
		}
		policy(1)
		path := w.propose()
		w.applyAs(path, "version").Want(http.StatusAccepted)
		p := w.await(path, "blocked")
		message, _ := p["outcome"].(object)["message"].(string)
		if p["status"] != "approved" || !strings.HasPrefix(message, "The gate says block: skill_md_tokens is") {
			t.Errorf("status %v, message %q", p["status"], message)
		}
		v := w.Get(w.versions()).Want(http.StatusOK).List("versions")
		if len(v) != 2 || v[0]["state"] != "candidate" {
			t.Errorf("versions %v", v)
		}
		w.Post("/api/v1/gates/"+v[0]["gate_id"].(string)+"/override", object{"reason": "it is fine"}).Want(http.StatusOK)
		if p = w.await(path, "published"); p["status"] != "applied" {
			t.Errorf("status %v", p["status"])
		}
		policy(10_000)
		second := w.propose() // made for the first words
		w.applyAs(second, "version").WantError(http.StatusConflict,
			"It was made for the words of version 1.0.0, and version 1.0.1 has others: refresh the proposal, or write its value again")
		w.Do(http.MethodPatch, second, object{"proposed_value": "# pdf\n\nRead all of it.\n"}).Want(http.StatusOK)
		w.applyAs(second, "version").Want(http.StatusAccepted)
		if p = w.await(second, "published"); p["outcome"].(object)["version"] != "1.0.2" || p["proved"] != false {
			t.Errorf("proposal %v", p)
		}
	})
}

// TestKilled: a job that was killed between its steps does not do them again.
func TestKilled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.Git)
		path := w.propose()
		w.applyAs(path, "version").Want(http.StatusAccepted)
		w.await(path, "published")
		w.Settle()
		// It was killed after the push, and the job runs again.
		w.Exec(`UPDATE proposal_outcomes SET state = 'queued', version_id = ''`)
		w.Exec(`UPDATE proposals SET status = 'approved', applied_at = NULL`)
		if err := w.apply.FollowAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := w.await(path, "published"); p["status"] != "applied" || p["outcome"].(object)["version"] != "1.0.1" {
			t.Errorf("proposal %v", p)
		}
		if v := w.Get(w.versions()).Want(http.StatusOK).List("versions"); len(v) != 2 {
			t.Errorf("%d versions, want 2", len(v))
		}
	})
}

// TestTaken: somebody pushed a version of the same name before the job ran.
func TestTaken(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.Git)
		path := w.propose()
		w.applyAs(path, "version").Want(http.StatusAccepted)
		w.await(path, "published")
		w.Settle()
		// As if 1.0.1 had been another's, with the words of 1.0.0.
		w.Post(registry+"/"+w.entry+"/rollback", object{}).Want(http.StatusOK)
		w.await(path, "rolled_back")
		w.push(w.versions(), "1.0.2", before).Want(http.StatusCreated)
		w.Settle()
		w.Exec(`UPDATE proposal_outcomes SET state = 'queued', version = '1.0.2', version_id = ''`)
		if err := w.apply.FollowAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := w.await(path, "published"); p["outcome"].(object)["version"] != "1.0.3" {
			t.Errorf("outcome %v", p["outcome"])
		}
	})
}

// TestPatch: git and patch accept the patch.
func TestPatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.Git)
	path := w.propose()
	a := w.applyAs(path, "patch").Want(http.StatusOK).Object()
	p := a["proposal"].(object)
	if p["status"] != "pending" || p["outcome"].(object)["state"] != "given" || p["outcome"].(object)["kind"] != "patch" {
		t.Errorf("proposal %v", p)
	}
	for _, program := range [][]string{{"git", "apply", "change.diff"}, {"patch", "-p1", "-i", "change.diff"}} {
		if _, err := exec.LookPath(program[0]); err != nil && os.Getenv("CI") == "" {
			t.Skip(err)
		}
		dir := t.TempDir()
		for name, text := range map[string]string{"SKILL.md": before, "change.diff": a["patch"].(string)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), program[0], program[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v: %s", program, err, out)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "SKILL.md")); string(got) != after {
			t.Errorf("%v made %q", program, got)
		}
	}
	w.applyAs(path, "version").Want(http.StatusAccepted) // a patch keeps nobody from it
	w.await(path, "published")
}

// TestRefused: who may not, what cannot be applied, and what is wrong.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.Git)
	path := w.propose()
	for _, body := range []object{{}, {"as": "x"}, {"as": 5}} {
		a := w.Post(path+"/apply", body).Want(http.StatusBadRequest).Object()
		if got := a["details"].(object)["path"]; !cmp.Equal(got, any([]any{"as"})) {
			t.Errorf("path %v of %v", got, body)
		}
	}
	other := w.OrgWithPlan("other", access.Team)
	other.Post(path+"/apply", object{"as": "version"}).WantError(http.StatusNotFound, "Proposal not found")
	w.Member(w.Caller.Org, access.Viewer).Post(path+"/apply", object{"as": "patch"}).
		WantError(http.StatusForbidden, "This needs the permission registry:push")
	pusher := w.WithKey(w.Caller.Org, w.User, auth.NewKey{Permissions: []access.Permission{access.Read, access.RegistryPush}})
	pusher.Post(path+"/apply", object{"as": "version"}).
		WantError(http.StatusForbidden, "The proposal is pending, and approving it needs the permission write")
	w.applyAs(path, "pull_request").WantError(http.StatusConflict, "No repository is connected to pdf: connect one, or publish a version")
	w.Do(http.MethodPatch, path, object{"status": "rejected"}).Want(http.StatusOK)
	w.applyAs(path, "version").WantError(http.StatusConflict, "A proposal that is rejected cannot be applied")
	if n := w.Count("proposal_outcomes"); n != 0 {
		t.Errorf("%d outcomes", n)
	}
}

// TestOldProposal: one with a value only is applied if the words are as it says.
func TestOldProposal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.Git)
	path := w.propose()
	w.Exec(`UPDATE proposals SET entry_id = '', base_version = '', base_digest = '', skill_md = '', diff = '', target = '',
		current_value = 'other words', status = 'approved'`)
	w.applyAs(path, "version").WantError(http.StatusConflict,
		"The body of pdf has changed since: refresh the proposal, or write its value again")
	w.Exec(`UPDATE proposals SET current_value = '# pdf' || CHAR(10) || CHAR(10) || 'Read it.' || CHAR(10)`)
	w.applyAs(path, "version").Want(http.StatusAccepted)
	w.await(path, "published")
	apptest.Eventually(t, "the words", func() bool {
		return string(w.Get(w.versions()+"/1.0.1/files/SKILL.md").Want(http.StatusOK).Body) == after
	})
}
