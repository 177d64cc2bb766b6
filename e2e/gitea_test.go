package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// TestGitea drives a real Gitea, which `make e2e-gitea` builds, against the real
// binary: the stand-in of the other tests must not differ from it where it matters.
func TestGitea(t *testing.T) {
	t.Parallel()
	program := os.Getenv("WHETSTONE_GITEA")
	if program == "" {
		t.Skip("WHETSTONE_GITEA does not name a Gitea; run `make e2e-gitea`")
	}
	g := startGitea(t, program)
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			w := newGiteaWorld(t, g, database)
			w.pushes()
			w.pullRequest()
			w.lostWebhooks()
			w.renamed()
			w.defaultBranch()
			w.tag()
		})
	}
}

// A gitea is a Gitea with an operator and the organisation acme.
type gitea struct {
	url, token string
}

var newToken = regexp.MustCompile(`created\.\.\. ([0-9a-f]{40})`)

func startGitea(t *testing.T, program string) *gitea {
	t.Helper()
	dir := t.TempDir()
	port, err := servertest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	g := &gitea{url: fmt.Sprint("http://127.0.0.1:", port)}
	config := filepath.Join(dir, "app.ini")
	settings := fmt.Sprintf(`
RUN_USER = %s
RUN_MODE = prod
WORK_PATH = %s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %d
ROOT_URL = %s/
STATIC_ROOT_PATH = %s
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = %s/gitea.db
[security]
INSTALL_LOCK = true
SECRET_KEY = secret
[webhook]
ALLOWED_HOST_LIST = loopback
[log]
LEVEL = Warn
[actions]
ENABLED = false
`, me.Username, dir, port, g.url, filepath.Dir(program), dir)
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "USER=" + me.Username}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--config", config}, args...)...)
		cmd.Env = environment
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("gitea %s: %v\n%s", args[0], err, out)
		}
		return string(out)
	}
	run("migrate")
	made := newToken.FindStringSubmatch(run("admin", "user", "create", "--admin", "--username", "operator", "--password", "Pass-word-1",
		"--email", "operator@example.org", "--must-change-password=false", "--access-token", "--access-token-scopes", "all"))
	if made == nil {
		t.Fatal("gitea has made no token")
	}
	g.token = made[1]
	// It is one for all of the test's databases, so it ends with the test and not with
	// the first of them.
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	web := exec.CommandContext(ctx, program, "--config", config, "web")
	var log bytes.Buffer
	web.Env, web.Stdout, web.Stderr = environment, &log, &log
	if err := web.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = web.Wait() // it was killed
		if t.Failed() {
			t.Logf("Gitea's log:\n%s", &log)
		}
	})
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := servertest.AwaitOK(ready, g.url+"/api/v1/version"); err != nil {
		t.Fatal(err)
	}
	g.call(t, "POST", "/orgs", map[string]any{"username": "acme"})
	return g
}

// call calls Gitea's API.
func (g *gitea) call(t *testing.T, method, path string, body any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, g.url+"/api/v1"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+g.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("gitea: %s %s: %d %s, %v", method, path, resp.StatusCode, out, err)
	}
	return out
}

func read[T any](t *testing.T, g *gitea, path string) (out T) {
	t.Helper()
	if err := json.Unmarshal(g.call(t, "GET", path, nil), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A giteaWorld is a gateWorld whose code host is the real one.
type giteaWorld struct {
	*gateWorld
	gitea *gitea
	name  string // of the repository
	hook  int64
}

func newGiteaWorld(t *testing.T, g *gitea, database string) *giteaWorld {
	t.Helper()
	w := &giteaWorld{gateWorld: &gateWorld{t: t}, gitea: g, name: "pdf-" + database}
	g.call(t, "POST", "/orgs/acme/repos", map[string]any{"name": w.name, "private": true, "default_branch": "main"})
	w.work = hosttest.NewRepos(t).Create("acme/" + w.name)
	w.work.Git("remote", "set-url", "origin", w.remote())
	w.work.Push("first", gatedSkill("first"))
	w.begin(database, "--repohost", "gitea", "--repohost-url", g.url, "--repohost-token", g.token, "--repohost-interval", "2s")
	var hook struct{ ID int64 }
	made := g.call(t, "POST", w.repo("/hooks"), map[string]any{
		"type": "gitea", "active": true, "events": []string{"push", "pull_request", "pull_request_sync"},
		"config": map[string]any{"url": w.url + "/api/v1/repohost/webhook", "content_type": "json", "secret": hookSecret},
	})
	if err := json.Unmarshal(made, &hook); err != nil {
		t.Fatal(err)
	}
	w.hook = hook.ID
	w.connect("acme/" + w.name)
	return w
}

func (w *giteaWorld) repo(path string) string { return "/repos/acme/" + w.name + path }

func (w *giteaWorld) remote() string {
	return strings.Replace(w.gitea.url, "http://", "http://operator:"+w.gitea.token+"@", 1) + "/acme/" + w.name + ".git"
}

// hooks turns the webhook on or off.
func (w *giteaWorld) hooks(on bool) {
	w.t.Helper()
	w.gitea.call(w.t, "PATCH", w.repo(fmt.Sprint("/hooks/", w.hook)), map[string]any{"active": on})
}

// push pushes a version to the branch, as a person does.
func (w *giteaWorld) push(branch, version string) (sha string) {
	w.t.Helper()
	sha = w.work.Commit(version, gatedSkill(version))
	w.work.Git("push", "--quiet", "--force", "origin", "HEAD:refs/heads/"+branch)
	return sha
}

// said is the state and the description of the newest status of a commit whose
// context has a prefix.
func (w *giteaWorld) said(sha, prefix string) string {
	w.t.Helper()
	type status struct{ Context, Status, Description string }
	for _, s := range read[struct{ Statuses []status }](w.t, w.gitea, w.repo("/commits/"+sha+"/status")).Statuses {
		if strings.HasPrefix(s.Context, prefix) {
			return s.Status + " " + s.Description
		}
	}
	return ""
}

func (w *giteaWorld) awaitSaid(what, sha, prefix, want string) {
	w.t.Helper()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		said := w.said(sha, prefix)
		if strings.Contains(said, want) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s: Gitea says %q of %.7s, want %q; the versions are %v:\n%s", what, said, sha, want, w.states(), w.running.Log())
		}
	}
}

const publish, gate = "whetstone/publish/", "whetstone/gate/"

// pushes: a good change becomes current, and a bad one is blocked.
func (w *giteaWorld) pushes() {
	good := w.push("main", "good")
	w.awaitSaid("a good change", good, publish, "success Pass: better on 0, worse on 0 of 10 cases")
	bad := w.push("main", "bad")
	w.awaitSaid("a bad change", bad, publish, "failure Block: better on 0, worse on 2 of 10 cases")
	if got := w.said(bad, publish); !strings.Contains(got, "query 2") || !strings.Contains(got, "query 3") {
		w.t.Errorf("the status names no cases: %q", got)
	}
	states := w.states()
	if states[publication.Prerelease(good)] != "published current" || states[publication.Prerelease(bad)] != "candidate" {
		w.t.Errorf("got the versions %v", states)
	}
	back := w.push("main", "third")
	w.awaitSaid("a good change again", back, publish, "success Pass")
}

// tag: a tag is a release.
func (w *giteaWorld) tag() {
	w.work.Git("checkout", "--quiet", "main")
	w.work.Git("tag", "--annotate", "v1.0.0", "--message", "a release")
	w.work.Git("push", "--quiet", "origin", "v1.0.0")
	w.await("the tag is a release", func() bool { return w.states()["1.0.0"] == "published current" })
}

type giteaPull struct{ Number int64 }

func (w *giteaWorld) open(branch string) int64 {
	w.t.Helper()
	var p giteaPull
	made := w.gitea.call(w.t, "POST", w.repo("/pulls"), map[string]any{"head": branch, "base": "main", "title": "Change " + branch})
	if err := json.Unmarshal(made, &p); err != nil {
		w.t.Fatal(err)
	}
	return p.Number
}

func (w *giteaWorld) comments(number int64) (bodies []string) {
	w.t.Helper()
	for _, c := range read[[]struct{ Body string }](w.t, w.gitea, w.repo(fmt.Sprintf("/issues/%d/comments", number))) {
		bodies = append(bodies, c.Body)
	}
	return bodies
}

// commented waits for the one comment on a pull request.
func (w *giteaWorld) commented(number int64, want string) {
	w.t.Helper()
	w.await(fmt.Sprintf("the comment on %d says %q", number, want), func() bool {
		all := w.comments(number)
		return len(all) > 0 && strings.Contains(all[0], want)
	})
	if all := w.comments(number); len(all) != 1 {
		w.t.Errorf("got the comments %q, want one", all)
	}
}

// pullRequest: a head is gated and publishes nothing, one comment is edited in
// place, and the merge is a push.
func (w *giteaWorld) pullRequest() {
	before := fmt.Sprint(w.states())
	main := w.work.Git("rev-parse", "HEAD")
	w.work.Git("checkout", "--quiet", "-b", "topic")
	bad := w.push("topic", "bad")
	number := w.open("topic")
	w.awaitSaid("a bad head", bad, gate, "failure Block: better on 0, worse on 2 of 10 cases")
	w.commented(number, "### pdf: Block")
	better := w.push("topic", "better")
	w.awaitSaid("another head", better, gate, "success Pass: better on 0, worse on 0 of 10 cases")
	w.commented(number, "### pdf: Pass")
	w.gitea.call(w.t, "PATCH", w.repo(fmt.Sprint("/pulls/", number)), map[string]any{"state": "closed"})
	w.gitea.call(w.t, "PATCH", w.repo(fmt.Sprint("/pulls/", number)), map[string]any{"state": "open"})
	newest := w.call("GET", "/api/v1/gates", nil)["gates"].([]any)[0].(map[string]any)
	again := w.call("POST", "/api/v1/gates/"+newest["id"].(string)+"/rerun", nil)["gate"].(map[string]any)["id"].(string)
	w.await("the gate was run again", func() bool {
		return w.call("GET", "/api/v1/gates/"+again, nil)["gate"].(map[string]any)["status"] == "decided"
	})
	w.commented(number, again)
	if got := fmt.Sprint(w.states()); got != before {
		w.t.Errorf("a pull request published something: got %s, want %s", got, before)
	}
	w.await("Gitea knows that it can be merged", func() bool { // it looks in the background, and refuses before
		return read[struct{ Mergeable bool }](w.t, w.gitea, w.repo(fmt.Sprint("/pulls/", number))).Mergeable
	})
	w.gitea.call(w.t, "POST", w.repo(fmt.Sprintf("/pulls/%d/merge", number)), map[string]any{"Do": "merge"})
	w.work.Git("checkout", "--quiet", "main")
	w.work.Git("pull", "--quiet", "--ff-only", "origin", "main")
	merged := w.work.Git("rev-parse", "HEAD")
	if merged == main {
		w.t.Fatal("nothing was merged")
	}
	w.awaitSaid("the merge", merged, publish, "success Pass")
}

// lostWebhooks: what happens to pull requests while no webhook arrives is found by
// the reconciliation.
func (w *giteaWorld) lostWebhooks() {
	w.hooks(false)
	defer w.hooks(true)
	w.work.Git("checkout", "--quiet", "-b", "lost")
	bad := w.push("lost", "bad")
	number := w.open("lost")
	w.awaitSaid("opened", bad, gate, "failure Block")
	good := w.push("lost", "other")
	w.awaitSaid("another head", good, gate, "success Pass")
	w.gitea.call(w.t, "PATCH", w.repo(fmt.Sprint("/pulls/", number)), map[string]any{"state": "closed"})
	w.await("the pull request is closed", func() bool { return w.pull(number)["state"] == "closed" })
	w.work.Git("checkout", "--quiet", "main")
}

func (w *giteaWorld) pull(number int64) map[string]any {
	w.t.Helper()
	for _, p := range w.call("GET", "/api/v1/repohost/pull-requests?connection_id="+w.connection, nil)["pull_requests"].([]any) {
		if p := p.(map[string]any); p["number"] == float64(number) {
			return p
		}
	}
	return nil
}

// renamed: statuses are written to the repository under its new name.
func (w *giteaWorld) renamed() {
	name := w.name + "-renamed"
	w.gitea.call(w.t, "PATCH", w.repo(""), map[string]any{"name": name})
	w.name = name
	w.work.Git("remote", "set-url", "origin", w.remote())
	sha := w.push("main", "fourth")
	w.awaitSaid("after a rename", sha, publish, "success Pass")
}

// defaultBranch: the connection follows when another branch becomes the default.
func (w *giteaWorld) defaultBranch() {
	w.push("trunk", "fifth")
	w.gitea.call(w.t, "PATCH", w.repo(""), map[string]any{"default_branch": "trunk"})
	sha := w.push("trunk", "sixth")
	w.awaitSaid("after another default branch", sha, publish, "success Pass")
	w.work.Git("checkout", "--quiet", "-b", "last")
	head := w.push("last", "bad")
	w.gitea.call(w.t, "POST", w.repo("/pulls"), map[string]any{"head": "last", "base": "trunk", "title": "Into trunk"})
	w.awaitSaid("a pull request into it", head, gate, "failure Block")
}
