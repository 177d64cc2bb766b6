package checks_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitea"
	"github.com/whetstone-dev/whetstone/internal/engine/host/github"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitlab"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/release/checks"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases and git.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type object = apptest.Object

const (
	secret = "webhook secret"
	base   = "/api/v1/repohost"
	cases  = 10
)

// codeHost is what both fakes have.
type codeHost interface {
	hosttest.Pulls
	ID(fullName string) int64
	Statuses() []hosttest.PostedStatus
	Break(faults ...hosttest.Fault)
	Mend()
	Requests(text string) []string
}

// world is the services as internal/app wires them, with a repository that is
// connected to an entry whose gate is enforced, and a model that decides its suite.
type world struct {
	*runstest.World
	*apptest.Caller
	checks   *checks.Service
	repohost *repohost.Service
	host     codeHost
	github   *hosttest.GitHub // nil on Gitea and GitLab
	repos    *hosttest.Repos
	work     *hosttest.Work
	suite    object
	entry    string
	at       int64 // installation

	connection string
	model      *model
	sent       int
}

// A model routes the queries. The description of a version is its name.
type model struct {
	mu    sync.Mutex
	calls map[string]int
	// fails says whether a version fails a query in its nth trial, from 1.
	fails func(version, query string, n int) bool
	// held, if not nil, is closed when the version slow may be answered.
	held chan struct{}
}

var versionOf = regexp.MustCompile(`Version (\S+) reads tables`)

func (m *model) respond(r judgetest.Request) judgetest.Reply {
	answer := object{"reason": "as scripted", "skill": nil, "confidence": 0.9}
	match := versionOf.FindStringSubmatch(r.System)
	if match == nil {
		return judgetest.JSON(answer)
	}
	if m.held != nil && match[1] == "slow" {
		<-m.held
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[match[1]+" "+r.User]++
	if m.fails == nil || !m.fails(match[1], r.User, m.calls[match[1]+" "+r.User]) {
		answer["skill"] = "pdf"
	}
	return judgetest.JSON(answer)
}

// asked is how often the model was asked about a version.
func (m *model) asked(version string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, calls := range m.calls {
		if strings.HasPrefix(key, version+" ") {
			n += calls
		}
	}
	return n
}

// bad makes the version named bad fail two queries.
func bad(version, query string, _ int) bool {
	return version == "bad" && (query == "the query 2" || query == "the query 3")
}

func newWorld(t *testing.T, db *store.DB, on host.Provider) *world {
	t.Helper()
	w := &world{model: &model{calls: map[string]int{}, fails: bad}, repos: hosttest.NewRepos(t)}
	provider := w.serve(t, on)
	server := judgetest.New(t, w.model.respond)
	w.World = runstest.New(t, db, runstest.Scripted(server), func(rw *runstest.World) {
		judged := &gates.Service{
			DB: db, Jobs: rw.Queue, Registry: rw.Registry, Sources: rw.Sources, Suites: rw.Suites, Runs: rw.Runs, Log: rw.Log,
		}
		judged.Register()
		rw.Registry.OnPush = judged
		w.repohost = &repohost.Service{
			DB: db, Jobs: rw.Queue, Host: provider, Registry: rw.Registry, Secrets: []string{secret}, Interval: time.Hour,
			PublicURL: apptest.PublicURL, Seal: sealtest.Keyring(), Log: rw.Log,
		}
		w.repohost.Register()
		w.checks = &checks.Service{
			DB: db, Jobs: rw.Queue, Registry: rw.Registry, Gates: judged, Sources: rw.Sources, Suites: rw.Suites,
			Repohost: w.repohost, PublicURL: apptest.PublicURL, Log: rw.Log,
		}
		people := &release.Service{DB: db, Registry: rw.Registry, Watcher: w.checks}
		w.checks.Register()
		rw.Registry.OnEntryDeleted = dependents{w.checks, judged}
		judged.OnGateChanged = w.checks
		w.repohost.OnReport, w.repohost.OnVersionRerun, w.repohost.OnRerun = w.checks, w.checks, w.checks
		w.repohost.OnPull, w.repohost.OnReconcile, w.repohost.OnDisconnect = w.checks, w.checks, w.checks
		rw.Registry.Mount(rw.API)
		people.Mount(rw.API)
		judged.Mount(rw.API)
		repohost.API{Service: w.repohost}.Mount(rw.API)
		w.checks.Mount(rw.API)
		rw.Sources.Register()
		rw.Sources.Mount(rw.API)
	})
	w.Caller = w.OrgWithPlan("acme", access.Team)
	w.Post(base+"/settings", object{"write_back_mode": "checks_and_prs"}).Want(http.StatusOK)
	w.Post(base+"/installations", object{
		"installation_id": w.at, "account_login": "acme", "account_type": "Organization",
	}).Want(http.StatusCreated)
	w.work = w.repos.Create("acme/pdf")
	w.work.Push("first", skill("one"))
	w.entry = w.Upload("/api/v1/registry",
		apptest.Part{Name: "metadata", Content: []byte(`{"name":"pdf","version":"0.0.0-repohost.1111111"}`)},
		apptest.Part{Name: "archive", File: "skill.tar.gz", Content: runstest.Archive("pdf", skill("one")["SKILL.md"])},
	).Want(http.StatusCreated).Text("entry", "id")
	client := &runstest.Client{Caller: w.Caller, World: w.World}
	var all []object
	for i := range cases {
		all = append(all, apptest.With(runstest.Trigger(fmt.Sprint("the query ", i)), object{"id": fmt.Sprint("case-", i)}))
	}
	w.suite = client.Create(runstest.Judged(all...))
	w.policy(object{})
	w.connection = w.connect(w.entry, object{})
	return w
}

// serve starts a fake of a code host.
func (w *world) serve(t *testing.T, on host.Provider) host.Host {
	t.Helper()
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	w.at = 1
	switch on {
	case host.Gitea:
		fake := hosttest.NewGitea(t, w.repos)
		w.host = fake
		h, err := gitea.New(gitea.Options{URL: fake.URL, Token: fake.Token, HTTP: web})
		if err != nil {
			t.Fatal(err)
		}
		return h
	case host.GitLab:
		fake := hosttest.NewGitLab(t, w.repos)
		w.host = fake
		h, err := gitlab.New(gitlab.Options{URL: fake.URL, Token: fake.Token, HTTP: web})
		if err != nil {
			t.Fatal(err)
		}
		return h
	case host.Git, host.GitHub:
	}
	w.github = hosttest.NewGitHub(t, w.repos)
	w.host, w.at = w.github, w.github.Installation
	h, err := github.New(github.Options{
		URL: w.github.URL, AppID: w.github.AppID, PrivateKey: w.github.Key, HTTP: web, WritePause: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (w *world) policy(more object) {
	w.T.Helper()
	policy := apptest.With(object{"mode": "enforce", "suites": []any{w.suite["id"]}, "min_cases": 5}, more)
	w.Do(http.MethodPut, "/api/v1/registry/"+w.entry+"/gate-policy", object{"policy": policy}).Want(http.StatusOK)
}

func (w *world) connect(entry string, more object) string {
	w.T.Helper()
	return w.Post(base+"/connections", apptest.With(object{
		"entry_id": entry, "installation_id": w.at, "repo_full_name": "acme/pdf", "write_back_enabled": true,
	}, more)).Want(http.StatusCreated).Text("id")
}

// dependents are told about a deleted entry in the order of internal/app.
type dependents []registry.OnEntryDeleted

func (all dependents) DeleteOfEntry(ctx context.Context, tx *store.Tx, entryID string) error {
	for _, d := range all {
		if err := d.DeleteOfEntry(ctx, tx, entryID); err != nil {
			return err
		}
	}
	return nil
}

// skill is a version of the skill, which names its cases.
func skill(version string) map[string]string {
	text := "---\nname: pdf\ndescription: Version " + version + " reads tables.\n---\n# pdf\n\nDo it.\n"
	return map[string]string{"SKILL.md": text, "evals/cases.json": "[\n{\"id\": \"case-1\"},\n{\"id\": \"case-2\"}\n]\n"}
}

// send delivers a webhook.
func (w *world) send(event, body string) apptest.Response {
	w.T.Helper()
	w.sent++
	header, body := hosttest.Deliver(w.T, w.repohost.Host.Provider(), secret, fmt.Sprint("d", w.sent), event, body)
	return w.Anonymous().Do(http.MethodPost, base+"/webhook", body, hosttest.Lines(header)...)
}

// push pushes a version of the skill to main and returns its commit and version.
func (w *world) push(version string) (sha, name string) {
	w.T.Helper()
	sha = w.work.Push("version "+version, skill(version))
	w.send("push", fmt.Sprintf(`{"ref":"refs/heads/main","after":%q,"repository":{"id":%d,"full_name":"acme/pdf"},"installation":{"id":%d}}`,
		sha, w.host.ID("acme/pdf"), w.installation())).Want(http.StatusAccepted)
	return sha, publication.Prerelease(sha)
}

// pullsAt is in the path of pull requests.
func (w *world) pullsAt() string {
	if w.repohost.Host.Provider() == host.GitLab {
		return "/merge_requests"
	}
	return "/pulls"
}

// lists are the requests about pull requests, on GitLab for the list of those that are open.
func (w *world) lists() []string {
	if w.repohost.Host.Provider() == host.GitLab {
		return w.host.Requests("/merge_requests?state=opened")
	}
	return w.host.Requests("/pulls")
}

// installation is the number in deliveries: Gitea and GitLab have none.
func (w *world) installation() int64 {
	if w.github == nil {
		return 0
	}
	return w.at
}

// version reads a version of the entry.
func (w *world) version(name string) object {
	w.T.Helper()
	for _, v := range w.Get("/api/v1/registry/" + w.entry + "/versions").Want(http.StatusOK).List("versions") {
		if v["version"] == name {
			return v
		}
	}
	w.T.Fatalf("no version %s", name)
	return nil
}

// status is the last status of a commit.
func (w *world) status(sha string) hosttest.PostedStatus {
	w.T.Helper()
	var last hosttest.PostedStatus
	for _, s := range w.host.Statuses() {
		if s.SHA == sha {
			last = s
		}
	}
	return last
}

// check is the newest check-run of a commit.
func (w *world) check(sha string) hosttest.PostedCheck {
	w.T.Helper()
	var last hosttest.PostedCheck
	for _, c := range w.github.Checks() {
		if c.HeadSHA == sha {
			last = c
		}
	}
	return last
}

// last returns the last attempt of the first connection.
func (w *world) last() object {
	w.T.Helper()
	last, _ := w.Get(base + "/connections").Want(http.StatusOK).List("connections")[0]["last_attempt"].(object)
	return last
}
