package repohost_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitea"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitlab"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// forge is a world on Gitea or GitLab, which send nothing but pushes.
type forge struct {
	*world
	c      *client
	server forgeServer
	sent   int
}

type forgeServer interface {
	ID(fullName string) int64
	Rename(from, to string)
	Statuses() []hosttest.PostedStatus
}

// newForgeWorld serves a fake of Gitea or GitLab.
func newForgeWorld(t *testing.T, db *store.DB, on host.Provider) (*world, forgeServer) {
	t.Helper()
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	repos := hosttest.NewRepos(t)
	if on == host.GitLab {
		server := hosttest.NewGitLab(t, repos)
		provider, err := gitlab.New(gitlab.Options{URL: server.URL, Token: server.Token, HTTP: web})
		if err != nil {
			t.Fatal(err)
		}
		return newWorldOn(t, db, provider, repos), server
	}
	server := hosttest.NewGitea(t, repos)
	provider, err := gitea.New(gitea.Options{URL: server.URL, Token: server.Token, HTTP: web})
	if err != nil {
		t.Fatal(err)
	}
	return newWorldOn(t, db, provider, repos), server
}

func newForge(t *testing.T, db *store.DB, on host.Provider) *forge {
	t.Helper()
	w, server := newForgeWorld(t, db, on)
	f := &forge{world: w, server: server}
	f.c = f.org("acme", access.Pro)
	f.c.Post(base+"/settings", object{"write_back_mode": "checks"}).Want(http.StatusOK)
	f.c.bind(1, "acme")
	return f
}

func (f *forge) deliver(fullName, branch, defaultBranch, sha string) {
	f.T.Helper()
	f.sent++
	f.send(delivery{id: fmt.Sprint("d", f.sent), event: "push", body: fmt.Sprintf(
		`{"ref":"refs/heads/%s","after":%q,"head_commit":{"id":%q},"repository":{"id":%d,"full_name":%q,"default_branch":%q}}`,
		branch, sha, sha, f.server.ID(fullName), fullName, defaultBranch)}).Want(http.StatusAccepted)
	f.Settle()
}

// TestFollowRepository renames a repository and changes its default branch. Gitea
// sends no event for either: the next push or the next reconciliation must do.
func TestFollowRepository(t *testing.T) {
	t.Parallel()
	for noticed, on := range map[string]host.Provider{
		"push": host.Gitea, "reconcile": host.Gitea, "push on GitLab": host.GitLab, "reconcile on GitLab": host.GitLab,
	} {
		t.Run(noticed, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				f := newForge(t, db, on)
				work := f.repos.Create("acme/deploy")
				first := work.Push("first", skillFiles("One."))
				entry := f.c.entry("deploy", "0.0.0-repohost.0000000")
				f.c.connect(entry, "acme/deploy", object{"write_back_enabled": true})
				own := f.c.connect(entry, "acme/deploy", object{"default_branch": "release", "skill_path": "x"})
				f.Work()
				f.deliver("acme/deploy", "main", "main", first)

				f.server.Rename("acme/deploy", "acme/rollout")
				work.Git("remote", "set-url", "origin", f.repos.Bare("acme/rollout"))
				work.Git("checkout", "--quiet", "-b", "trunk")
				second := work.Push("second", skillFiles("Two."))
				f.repos.Git("acme/rollout", "symbolic-ref", "HEAD", "refs/heads/trunk")
				if strings.HasPrefix(noticed, "push") {
					f.deliver("acme/rollout", "trunk", "trunk", second)
				} else {
					f.reconcile()
				}
				for _, c := range f.c.Get(base + "/connections").List("connections") {
					branch := "trunk"
					if c["id"] == own {
						branch = "release" // a user's choice stays
					}
					if c["repo_full_name"] != "acme/rollout" || c["default_branch"] != branch {
						t.Errorf("got %v at %v, want acme/rollout at %s", c["repo_full_name"], c["default_branch"], branch)
					}
				}
				if got := f.c.current(entry); got != publication.Prerelease(second) {
					t.Errorf("current is %s, want that of the second commit", got)
				}
				statuses := f.server.Statuses()
				if last := statuses[len(statuses)-1]; last.FullName != "acme/rollout" || last.SHA != second || last.State != "success" {
					t.Errorf("got the status %+v, want one of the second commit", last)
				}

				// Another repository with the name says nothing about this one.
				f.send(delivery{
					id: "other", event: "push", body: fmt.Sprintf(
						`{"ref":"refs/heads/x","after":%q,"repository":{"id":999,"full_name":"acme/rollout","default_branch":"x"}}`, second),
				}).Want(http.StatusAccepted)
				f.Settle()
				for _, c := range f.c.Get(base + "/connections").List("connections") {
					if c["default_branch"] == "x" {
						t.Errorf("%v follows another repository", c["id"])
					}
				}
			})
		})
	}
}

// TestUnchangedFolder pushes to a repository with two skills: only the one whose
// folder changed gets a version, unless its connection wants one for every push.
func TestUnchangedFolder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme", access.Pro)
		c.bind(1, "acme")
		work := w.repos.Create("acme/skills")
		entries := map[string]string{}
		for name, every := range map[string]bool{"one": false, "two": false, "every": true} {
			entries[name] = c.entry(name, "0.0.0-repohost.0000000")
			got := c.Post(base+"/connections", object{
				"entry_id": entries[name], "installation_id": 1, "repo_full_name": "acme/skills", "skill_path": "skills/" + name,
				"publish_unchanged": every,
			}).Want(http.StatusCreated).Object()
			if got["publish_unchanged"] != every || got["open_issues"] != false {
				t.Errorf("got %v", got)
			}
		}
		w.Work()
		pushed := 0
		push := func(skill, body string) string {
			sha := work.Push("a commit", map[string]string{
				"skills/" + skill + "/SKILL.md": hosttest.Skill(skill, body), "README.md": fmt.Sprint(pushed),
			})
			pushed++
			w.hook(fmt.Sprint("h", pushed), "acme/skills", "refs/heads/main", sha)
			w.Settle()
			return sha
		}
		push("one", "One.")
		push("two", "Two.")
		before := push("every", "Every.")
		first := push("one", "One more.")
		for name, want := range map[string]int{"one": 1 + 2, "two": 1 + 1, "every": 1 + 2} {
			if got := len(c.versions(entries[name])); got != want {
				t.Errorf("%s has %d versions, want %d", name, got, want)
			}
		}
		if got := c.current(entries["one"]); got != publication.Prerelease(first) {
			t.Errorf("current is %s, want that of the commit that changed it", got)
		}
		if got := c.current(entries["every"]); got != publication.Prerelease(first) || got == publication.Prerelease(before) {
			t.Errorf("current is %s, want that of the last commit", got)
		}
		// The content of an earlier version is a change, too: it becomes current.
		back := push("one", "One.")
		if got := c.current(entries["one"]); got != publication.Prerelease(back) {
			t.Errorf("current is %s, want that of the commit that went back", got)
		}
	})
}
