package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// badRelease is a service whose skill comes from a repository on GitHub's stand-in.
// The process is killed when it has sent certain requests, before it gets the answer.
type badRelease struct {
	*process
	t      *testing.T
	api    *apptest.Caller
	addr   string
	flags  []string
	github *hosttest.GitHub
	work   *hosttest.Work
	hooked *httptest.Server // the alert's channel
	entry  string
	sent   int

	mu      sync.Mutex
	kills   []string          // what the requests contain that are still to be killed at
	crashed chan struct{}     // gets a value after each kill
	bodies  map[string]string // notifications by webhook-id
}

func newBadRelease(t *testing.T, database string, kills ...string) *badRelease {
	t.Helper()
	r := &badRelease{t: t, kills: kills, crashed: make(chan struct{}, len(kills)), bodies: map[string]string{}}
	r.github = hosttest.NewGitHub(t, hosttest.NewRepos(t))
	target, err := url.Parse(r.github.URL)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.ErrorLog = nil
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer := httptest.NewRecorder()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sender has died
		}
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		forward.ServeHTTP(answer, req)
		r.killAt(req.Method + " " + req.URL.Path + " " + string(body))
		for key, values := range answer.Header() {
			w.Header()[key] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the client is gone after a kill
	}))
	t.Cleanup(proxy.Close)
	r.hooked = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.killAt("channel " + string(body))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies[req.Header.Get("webhook-id")] = string(body)
	}))
	t.Cleanup(r.hooked.Close)

	// The address stays the same over all starts: clients remember it.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	r.flags = []string{
		"--addr", r.addr, "--allow-private-targets", "--repohost", "github", "--repohost-url", proxy.URL,
		"--repohost-app-id", strconv.FormatInt(r.github.AppID, 10), "--repohost-private-key=" + string(r.github.Key),
	}
	r.process = startProcess(t, database, r.flags...)
	r.api = &apptest.Caller{T: t, URL: r.url, Key: r.key}
	return r
}

// killAt kills the process if the request is the next one to be killed at.
func (r *badRelease) killAt(request string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, kill := range r.kills {
		if strings.Contains(request, kill) {
			r.kills = append(r.kills[:i:i], r.kills[i+1:]...)
			if err := r.running.Kill(); err != nil {
				r.t.Error(err)
			}
			r.crashed <- struct{}{}
			return
		}
	}
}

// eventually starts the process again after each kill until the condition holds.
func (r *badRelease) eventually(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case <-r.crashed:
			_ = r.crash() // it is dead: this tidies up
			if _, _, err := r.start(r.env, append([]string{"--repohost-webhook-secret", hookSecret, "--alert-interval", "1s"}, r.flags...)); err != nil {
				r.t.Fatal(err)
			}
		default:
		}
		if holds() {
			return
		}
	}
	r.t.Fatalf("%s: it did not happen; log:\n%s", what, r.running.Log())
}

// ask returns the answer, or nil while the process is dead.
func (r *badRelease) ask(path string) apptest.Object {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	var out apptest.Object
	if res.StatusCode != http.StatusOK || json.NewDecoder(res.Body).Decode(&out) != nil {
		return nil
	}
	return out
}

// connect links the repository to a public entry.
func (r *badRelease) connect() {
	r.t.Helper()
	r.work = r.github.Repos.Create("acme/deploy")
	r.work.Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Zero.")})
	r.api.Post("/api/v1/repohost/settings", apptest.Object{"write_back_mode": "checks"}).Want(http.StatusOK)
	r.api.Post("/api/v1/repohost/installations", apptest.Object{
		"installation_id": r.github.Installation, "account_login": "acme", "account_type": "Organization",
	}).Want(http.StatusCreated)
	metadata := apptest.JSONPart(r.t, "metadata", apptest.Object{"name": "deploy", "version": "0.1.0", "visibility": "public"})
	archive := apptest.Part{
		Name: "archive", File: "skill.tar.gz", Content: []byte(apptest.Pack(r.t, "SKILL.md", hosttest.Skill("deploy", "Old."))),
	}
	r.entry = apptest.Text(r.api.Upload("/api/v1/registry", metadata, archive).Want(http.StatusCreated).Object(), "entry", "id")
	r.api.Post("/api/v1/repohost/connections", apptest.Object{
		"entry_id": r.entry, "installation_id": r.github.Installation, "repo_full_name": "acme/deploy", "write_back_enabled": true,
		"open_issues": true,
	}).Want(http.StatusCreated)
}

// tag pushes a release to the repository, delivers what GitHub would send, and waits
// until it is current.
func (r *badRelease) tag(version, body string) (sha string) {
	r.t.Helper()
	sha = r.work.Push("a commit", map[string]string{"SKILL.md": hosttest.Skill("deploy", body)})
	r.work.Git("tag", "v"+version)
	r.work.Git("push", "--quiet", "--tags")
	r.sent++
	raw := fmt.Sprintf(
		`{"ref":"refs/tags/v%s","after":%q,"head_commit":{"id":%q},"repository":{"id":%d,"full_name":"acme/deploy"},"installation":{"id":%d}}`,
		version, sha, sha, r.github.ID("acme/deploy"), r.github.Installation)
	r.api.Do(http.MethodPost, "/api/v1/repohost/webhook", raw, host.SignatureHeader+": "+host.Sign(hookSecret, []byte(raw)),
		host.EventHeader+": push", fmt.Sprint(host.DeliveryHeader, ": d", r.sent), "Content-Type: application/json").Want(http.StatusAccepted)
	r.eventually("version "+version+" is current", func() bool { return r.current() == version })
	return sha
}

func (r *badRelease) current() string {
	all, _ := r.ask("/api/v1/registry?name=deploy")["entries"].([]any)
	if len(all) != 1 {
		return ""
	}
	version, _ := apptest.At(all[0].(apptest.Object), "current_version", "version").(string)
	return version
}

// grade reports graded sessions.
func (r *badRelease) grade(rate float64) {
	r.t.Helper()
	var all []apptest.Object
	for range 10 {
		id, at := uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano)
		all = append(all, apptest.Object{"grading_id": id, "session_id": id, "skill_name": "deploy", "graded_at": at, "pass_rate": rate})
	}
	r.api.Post("/api/v1/push", apptest.Object{"schema_version": "2.0", "canonical": apptest.Object{"grading_results": all}}).Want(http.StatusCreated)
}

// incident returns the only one, nil if there is none yet or the process is dead.
func (r *badRelease) incident() apptest.Object {
	all, _ := r.ask("/api/v1/incidents")["incidents"].([]any)
	if len(all) > 1 {
		r.t.Fatalf("got the incidents %v, want one", all)
	}
	if len(all) == 0 {
		return nil
	}
	return all[0].(apptest.Object)
}

// notes are what the channel was told, by the ids of the notifications.
func (r *badRelease) notes() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.bodies {
		var n struct {
			Note string `json:"note"`
		}
		if err := json.Unmarshal([]byte(body), &n); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, n.Note)
	}
	return all
}

func (r *badRelease) wantNote(text string) {
	r.t.Helper()
	r.eventually("a note says "+text, func() bool { return strings.Contains(strings.Join(r.notes(), "\n"), text) })
}

// wantInstalled checks what a client has.
func (r *badRelease) wantInstalled(path, want string) {
	r.t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(got), want) {
		r.t.Errorf("%s has %q (%v), want %q", path, got, err, want)
	}
}

// TestIncident follows a bad release to its end on both databases: a push publishes
// it, its sessions fail, the alert rolls it back, the commit and the channel are
// told, and the clients get the good content again. In between the process is killed
// after each request whose answer it needs.
func TestIncident(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			kills := []string{
				"POST /repos/acme/deploy/issues",
				"channel ", // the notification of the rollback has arrived
				"still have it",
				"PATCH /repos/acme/deploy/issues",
			}
			if database == "postgres" { // once is enough to wait for the lease of the dead process
				kills = append(kills, `"conclusion":"failure`) // the check-run of the commit has failed
			}
			r := newBadRelease(t, database, kills...)
			r.connect()
			r.follow(t.TempDir(), nil)
		})
	}
}

// TestIncidentWithSkills is TestIncident, without kills, with another client: the
// skills program of npm.
func TestIncidentWithSkills(t *testing.T) {
	t.Parallel()
	programs := servertest.InstallNPM(t, "..", "e2e/clients")
	r := newBadRelease(t, "sqlite")
	r.connect()
	home := t.TempDir()
	r.follow(t.TempDir(), func(want string) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "skills"), "add", r.url+"/o/default", "--skill", "deploy", "--agent", "claude-code", "--yes")
		cmd.Dir = home
		cmd.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + home, "DISABLE_TELEMETRY=1", "CI=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("skills add: %v\n%s", err, out)
		}
		r.wantInstalled(filepath.Join(home, ".claude", "skills", "deploy", "SKILL.md"), want)
	})
}

// wantMarked checks that the last that was said of a commit is its failure.
func (r *badRelease) wantMarked(sha, id string) {
	r.t.Helper()
	var status hosttest.PostedStatus
	for _, s := range r.github.Statuses() {
		if s.SHA == sha {
			status = s
		}
	}
	if status.State != "failure" || !strings.HasSuffix(status.TargetURL, "/incidents/"+id) {
		r.t.Errorf("got the status %+v, want a failure of the bad commit with a link", status)
	}
	var check hosttest.PostedCheck
	for _, c := range r.github.Checks() {
		if c.HeadSHA == sha {
			check = c
		}
	}
	if check.Conclusion != "failure" || !strings.Contains(check.Output.Summary, id) {
		r.t.Errorf("got the check-run %+v, want a failure that names %s", check, id)
	}
}

// follow publishes a good and a bad version, and checks all that comes of it. other,
// if not nil, updates another client, which must then have the text.
func (r *badRelease) follow(dir string, other func(want string)) {
	t := r.t
	t.Helper()
	installed := filepath.Join(dir, "deploy", "SKILL.md")
	client := func(args ...string) {
		t.Helper()
		r.command(t, append(args, "--dir", dir, "--server", r.url, "--api-key", r.key)...)
	}
	r.tag("1.0.0", "Good words.")
	r.grade(1)
	client("install", "deploy")
	r.wantInstalled(installed, "Good words.")
	skill := r.api.Get("/v1/skills/deploy").Want(http.StatusOK).Text("skill", "skill_id")
	r.api.Post("/api/v1/alerts", apptest.Object{
		"type": "pass_rate_below", "skill_id": skill, "action": "rollback", "sensitivity": "confident",
		"channel": "webhook", "config": apptest.Object{"webhook_url": r.hooked.URL},
	}).Want(http.StatusCreated)
	sha := r.tag("1.1.0", "Bad words.")
	client("sync")
	r.wantInstalled(installed, "Bad words.")
	if other != nil {
		other("Bad words.")
	}
	r.grade(0)

	var i apptest.Object
	r.eventually("the rollback, and what follows at the code host", func() bool {
		i = r.incident()
		return i != nil && apptest.At(i, "commit", "status") == "done" && apptest.At(i, "issue", "status") == "done"
	})
	id := apptest.Text(i, "id")
	if i["version"] != "1.1.0" || i["good_version"] != "1.0.0" || apptest.Text(i, "commit", "sha") != sha {
		t.Errorf("got the incident %v", i)
	}
	r.wantMarked(sha, id)
	if all := r.github.Issues(); len(all) != 1 || all[0].State != "open" || !strings.Contains(all[0].Body, id) {
		t.Errorf("got the issues %+v, want an open one that names %s", all, id)
	}
	r.wantNote("1 installations still have it")
	r.eventually("the notification of the firing has the id of the incident", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Contains(r.bodies[id], "Rolled back from version 1.1.0 to 1.0.0.")
	})
	r.eventually("version 1.0.0 is current", func() bool { return r.current() == "1.0.0" }) // and the process lives

	client("sync")
	r.wantInstalled(installed, "Good words.")
	if other != nil {
		other("Good words.")
	}
	r.eventually("the incident is closed, and its issue", func() bool {
		i := r.incident()
		return i != nil && i["state"] == "closed" && apptest.At(i, "issue", "status") == "closed"
	})
	r.wantNote("the incident is closed. Incident " + id)
	if all := r.github.Issues(); len(all) != 1 || all[0].State != "closed" {
		t.Errorf("got the issues %+v, want one that is closed", all)
	}
	r.wantMarked(sha, id)
	if notes := r.notes(); len(notes) != 3 {
		t.Errorf("the channel got %q, want three notifications", notes)
	}
	r.eventually("the process lives", func() bool { return r.current() == "1.0.0" })
	if all := r.api.Get("/api/v1/registry/" + r.entry).Want(http.StatusOK).List("rollbacks"); len(all) != 1 {
		t.Errorf("got the rollbacks %v, want one", all)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kills) > 0 {
		t.Errorf("the process was never killed at %q", r.kills)
	}
}
