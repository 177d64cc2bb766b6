package apply_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestPullRequest: answers of the code host are lost twice, and there is one branch
// and one pull request, whose merge comes back.
func TestPullRequest(t *testing.T) {
	t.Parallel()
	for _, on := range []host.Provider{host.GitHub, host.Gitea, host.GitLab} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				w := newWorld(t, db, on)
				w.connect("checks_and_prs", true)
				lost := map[host.Provider]string{
					host.GitHub: "POST /repos/acme/mono/git/refs", host.Gitea: "PUT /api/v1/repos/acme/mono/contents",
					host.GitLab: "POST /api/v4/projects/1000/repository/commits",
				}
				w.host.Break(hosttest.Fault{On: lost[on]}, hosttest.Fault{On: "POST " + map[host.Provider]string{
					host.GitHub: "/repos/acme/mono/pulls", host.Gitea: "/api/v1/repos/acme/mono/pulls",
					host.GitLab: "/api/v4/projects/1000/merge_requests",
				}[on]})
				path := w.propose()
				w.applyAs(path, "pull_request").Want(http.StatusAccepted)
				p := w.await(path, "open")
				all := w.host.Pulls()
				o := p["outcome"].(object)
				at := "https://code.example/acme/mono/pull/1"
				if on == host.GitLab {
					at = "https://gitlab.example/acme/mono/-/merge_requests/1"
				}
				if len(all) != 1 || o["url"] != at || o["kind"] != "pull_request" || p["status"] != "approved" {
					t.Fatalf("%d pull requests, outcome %v, status %v", len(all), o, p["status"])
				}
				branch := "whetstone-proposal-" + idOf(path)
				if all[0].Branch != branch || o["branch"] != branch || all[0].Title != "Improve the instructions of pdf" {
					t.Errorf("pull request %+v", all[0])
				}
				for _, want := range []string{
					"More cases &lt;pass>.", "Proved on 10 held-out cases", "90 % pass, and 50 %", "4 cases got better, 0 worse (p = 0.01)",
					"between +10 and +60 points", "replace: pages were missed (cases: case-1)", "/proposals/" + idOf(path),
				} {
					if !strings.Contains(all[0].Body, want) {
						t.Errorf("the description lacks %q: %s", want, all[0].Body)
					}
				}
				if n := w.repos.Git("acme/mono", "rev-list", "--count", "main.."+branch); n != "1" {
					t.Errorf("%s commits, want 1", n)
				}
				if text := w.repos.Git("acme/mono", "show", branch+":skills/pdf/SKILL.md"); text+"\n" != after {
					t.Errorf("SKILL.md %q", text)
				}
				w.applyAs(path, "pull_request").Want(http.StatusAccepted)
				w.applyAs(path, "version").WantError(http.StatusConflict, "The proposal is applied as a pull request already, which is open")
				all[0].Merge()
				w.send("pull_request", all[0].Event("closed", w.at))
				if p = w.await(path, "merged"); p["status"] != "applied" {
					t.Errorf("status %v", p["status"])
				}
				w.push(w.versions(), "1.1.0", after).Want(http.StatusCreated)
				if err := w.apply.FollowAll(t.Context()); err != nil {
					t.Fatal(err)
				}
				apptest.Eventually(t, "the version", func() bool {
					return w.Get(path).Want(http.StatusOK).Object()["proposal"].(object)["outcome"].(object)["version"] == "1.1.0"
				})
			})
		})
	}
}

// TestClosedPull: the webhook was lost, the reconciliation finds it; then another way
// is open.
func TestClosedPull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.Gitea)
	w.connect("checks_and_prs", true)
	path := w.propose()
	w.applyAs(path, "pull_request").Want(http.StatusAccepted)
	w.await(path, "open")
	w.host.Pulls()[0].Set(func(p *hosttest.OpenedPull) { p.Closed = true })
	if err := w.apply.FollowAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := w.await(path, "closed"); p["status"] != "approved" {
		t.Errorf("status %v", p["status"])
	}
	w.applyAs(path, "version").Want(http.StatusAccepted)
	w.await(path, "published")
}

// TestBranch: a bare repository gets a branch, which a person merges.
func TestBranch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.Git)
		work := w.connect("checks_and_prs", true)
		path := w.propose()
		w.applyAs(path, "pull_request").Want(http.StatusAccepted)
		o := w.await(path, "open")["outcome"].(object)
		branch := "whetstone-proposal-" + idOf(path)
		if o["url"] != nil || o["branch"] != branch || !strings.Contains(o["message"].(string), "merge the branch "+branch+" into main") {
			t.Errorf("outcome %v", o)
		}
		work.Git("fetch", "--quiet")
		work.Git("merge", "--quiet", "origin/"+branch)
		work.Git("push", "--quiet", "origin", "main")
		if err := w.apply.FollowAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p := w.await(path, "merged"); p["status"] != "applied" {
			t.Errorf("status %v", p["status"])
		}
	})
}

// TestWriteBackSettings: without the permission of people nothing is written.
func TestWriteBackSettings(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"checks":         "The organisation's write_back_mode is checks: set it to checks_and_prs to open pull requests",
		"checks_and_prs": "The connection with acme/mono does not allow write-back: set its write_back_enabled",
	} {
		w := newWorld(t, storetest.Open(t, "sqlite"), host.GitHub)
		w.connect(mode, mode == "checks")
		path := w.propose()
		w.applyAs(path, "pull_request").WantError(http.StatusConflict, want)
		if p := w.Get(path).Want(http.StatusOK).Object()["proposal"].(object); p["status"] != "pending" || p["outcome"] != nil {
			t.Errorf("proposal %v", p)
		}
	}
}

// TestFailedPull: a repository with other words, and a host that refuses, end it with
// a reason.
func TestFailedPull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.GitHub)
	work := w.connect("checks_and_prs", true)
	path := w.propose()
	w.host.Break(hosttest.Fault{On: "git/trees", Answer: hosttest.Status(http.StatusForbidden)})
	w.applyAs(path, "pull_request").Want(http.StatusAccepted)
	if o := w.await(path, "failed")["outcome"].(object); o["message"] != "The installation lacks a permission for this" {
		t.Errorf("message %v", o["message"])
	}
	work.Push("other words", map[string]string{"skills/pdf/SKILL.md": before + "More.\n"})
	w.applyAs(path, "pull_request").Want(http.StatusAccepted)
	apptest.Eventually(t, "the reason", func() bool {
		o := w.Get(path).Want(http.StatusOK).Object()["proposal"].(object)["outcome"].(object)
		return o["message"] == "SKILL.md on the branch main of acme/mono does not match the text of the proposal"
	})
	if n := len(w.host.Pulls()); n != 0 {
		t.Errorf("%d pull requests", n)
	}
}
