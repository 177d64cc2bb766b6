package apply_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitea"
	"github.com/whetstone-dev/whetstone/internal/engine/host/github"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitlab"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals/apply"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/events/eventstest"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

type object = apptest.Object

const (
	secret   = "webhook secret"
	repoAPI  = "/api/v1/repohost"
	registry = "/api/v1/registry"
	before   = "---\nname: pdf\ndescription: Reads PDF files.\nlicense: MIT\n---\n# pdf\n\nRead it.\n"
	after    = "---\nname: pdf\ndescription: Reads PDF files.\nlicense: MIT\n---\n# pdf\n\nRead every page.\n"
)

// standIn is what the stand-ins of code hosts have.
type standIn interface {
	hosttest.Pulls
	ID(fullName string) int64
	Break(faults ...hosttest.Fault)
	Requests(text string) []string
}

// world is the services as internal/app wires them, with an entry that a proposal is
// made for.
type world struct {
	*runstest.World
	*apptest.Caller
	apply *apply.Service
	told  *events.Service
	repos *hosttest.Repos
	host  standIn // nil for bare repositories
	at    int64   // installation
	entry string
	sent  int
	on    host.Provider
}

func newWorld(t *testing.T, db *store.DB, on host.Provider) *world {
	t.Helper()
	w := &world{repos: hosttest.NewRepos(t), at: 1}
	provider := w.serve(t, on)
	w.World = runstest.New(t, db, func(rw *runstest.World) {
		judged := &gates.Service{
			DB: db, Jobs: rw.Queue, Registry: rw.Registry, Sources: rw.Sources, Suites: rw.Suites, Runs: rw.Runs, Log: rw.Log,
		}
		code := &repohost.Service{
			DB: db, Jobs: rw.Queue, Host: provider, Registry: rw.Registry, Secrets: []string{secret}, Interval: time.Hour,
			PublicURL: apptest.PublicURL, Seal: sealtest.Keyring(), Log: rw.Log, Backoff: []time.Duration{time.Millisecond, time.Millisecond},
		}
		w.apply = &apply.Service{
			DB: db, Jobs: rw.Queue, Proposals: rw.Proposals, Registry: rw.Registry, Gates: judged, Repohost: code, Interval: time.Hour,
			PublicURL: apptest.PublicURL, Log: rw.Log,
		}
		w.told = eventstest.Register(rw.World)
		people := &release.Service{DB: db, Registry: rw.Registry, Watcher: w.apply, Rollbacks: w.apply}
		rw.Registry.OnPush, rw.Registry.OnEntryDeleted, judged.OnGateChanged, code.OnPull = judged, judged, w.apply, w.apply
		for _, s := range []interface{ Register() }{judged, code, w.apply} {
			s.Register()
		}
		for _, s := range []interface{ Mount(*httpapi.API) }{
			rw.Registry, people, judged, repohost.API{Service: code}, rw.Proposals, w.apply,
		} {
			s.Mount(rw.API)
		}
	})
	w.Caller = w.OrgWithPlan("acme", access.Team)
	w.entry = w.push(registry, "1.0.0", before).Want(http.StatusCreated).Text("entry", "id")
	w.Work()
	return w
}

func (w *world) serve(t *testing.T, on host.Provider) host.Host {
	t.Helper()
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	var h host.Host
	w.on = on
	switch on {
	case host.Git:
		h, err = git.New(git.Options{Dir: w.repos.Dir, Program: "/bin/true"})
	case host.Gitea:
		fake := hosttest.NewGitea(t, w.repos)
		w.host = fake
		h, err = gitea.New(gitea.Options{URL: fake.URL, Token: fake.Token, HTTP: web})
	case host.GitLab:
		fake := hosttest.NewGitLab(t, w.repos)
		w.host = fake
		h, err = gitlab.New(gitlab.Options{URL: fake.URL, Token: fake.Token, HTTP: web})
	case host.GitHub:
		fake := hosttest.NewGitHub(t, w.repos)
		w.host, w.at = fake, fake.Installation
		h, err = github.New(github.Options{
			URL: fake.URL, AppID: fake.AppID, PrivateKey: fake.Key, HTTP: web, WritePause: time.Millisecond,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// push pushes a version with a script to a path.
func (w *world) push(path, version, skillMD string) apptest.Response {
	w.T.Helper()
	archive := apptest.Pack(w.World.T, "SKILL.md", skillMD, "scripts/run.sh", "#!/bin/sh\nexit 0\n")
	return w.Upload(path,
		apptest.Part{Name: "metadata", Content: fmt.Appendf(nil, `{"name":"pdf","version":%q}`, version)},
		apptest.Part{Name: "archive", File: "skill.tar.gz", Content: []byte(archive)})
}

func (w *world) versions() string { return registry + "/" + w.entry + "/versions" }

// propose makes a proved proposal for the entry's first words.
func (w *world) propose() string {
	w.T.Helper()
	p := 0.01
	value, projected := "# pdf\n\nRead every page.\n", 0.9
	d := proposals.Draft{
		OrgID: w.Caller.Org.ID, SkillName: "pdf", Finding: "improve_run " + store.NewID(), Type: proposals.Body, Target: proposals.TargetBody,
		ProposedValue: &value, Reason: "More cases <pass>.", Evidence: object{}, ProposedBy: "improve_run", ProjectedPassRate: &projected,
		Change: proposals.Change{
			EntryID: w.entry, BaseVersion: "1.0.0", BaseDigest: proposals.Digest(before), SkillMD: after,
			Diff:  string(compare.Texts("SKILL.md", before, after)),
			Edits: []proposals.Edit{{Op: "replace", Anchor: "Read it.", Text: "Read every page.", Why: "pages were missed", Cases: []string{"case-1"}}},
		},
		Proved: true, Proof: &proposals.Proof{Cases: 10, Current: 0.5, Winner: 0.9, Better: 4, P: &p, Interval: &[2]float64{0.1, 0.6}},
	}
	var id string
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) (err error) {
		id, err = w.Proposals.Propose(w.T.Context(), tx, d)
		return err
	})
	if err != nil {
		w.World.T.Fatal(err)
	}
	return "/api/v1/proposals/" + id
}

// applyAs applies a proposal.
func (w *world) applyAs(path, way string) apptest.Response {
	w.T.Helper()
	return w.Post(path+"/apply", object{"as": way})
}

// await waits until the outcome of a proposal is in a state, and returns the
// proposal.
func (w *world) await(path, state string) (p object) {
	w.T.Helper()
	var last any
	defer func() {
		if w.World.T.Failed() {
			w.World.T.Logf("the last outcome was %v", last)
		}
	}()
	apptest.Eventually(w.T, "the state "+state, func() bool {
		p = w.Get(path).Want(http.StatusOK).Object()["proposal"].(object)
		o, _ := p["outcome"].(object)
		last = o
		return o["state"] == state
	})
	return p
}

// connect connects a monorepo with the entry.
func (w *world) connect(mode string, writeBack bool) *hosttest.Work {
	w.T.Helper()
	w.Post(repoAPI+"/settings", object{"write_back_mode": mode}).Want(http.StatusOK)
	w.Post(repoAPI+"/installations", object{
		"installation_id": w.at, "account_login": "acme", "account_type": "Organization",
	}).Want(http.StatusCreated)
	work := w.repos.Create("acme/mono")
	work.Push("first", map[string]string{"README.md": "read", "skills/pdf/SKILL.md": before, "skills/pdf/scripts/run.sh": "#!/bin/sh\nexit 0\n"})
	w.Post(repoAPI+"/connections", object{
		"entry_id": w.entry, "installation_id": w.at, "repo_full_name": "acme/mono", "skill_path": "skills/pdf",
		"write_back_enabled": writeBack, "auto_publish": false,
	}).Want(http.StatusCreated)
	return work
}

// send delivers a webhook.
func (w *world) send(event, body string) {
	w.T.Helper()
	w.sent++
	header, body := hosttest.Deliver(w.World.T, w.on, secret, fmt.Sprint("d", w.sent), event, body)
	w.Anonymous().Do(http.MethodPost, repoAPI+"/webhook", body, hosttest.Lines(header)...).Want(http.StatusAccepted)
}

// observe reports graded sessions that used the current version.
func (w *world) observe(grades ...float64) {
	w.World.T.Helper()
	report := skills.Report{OrgID: w.Caller.Org.ID, UserID: w.User.ID}
	for _, grade := range grades {
		id := store.NewID()
		report.Gradings = append(report.Gradings, skills.Grading{ID: id, SkillName: "pdf", Session: id, PassRate: &grade, At: time.Now()})
	}
	err := w.DB.InTx(w.World.T.Context(), func(tx *store.Tx) error {
		return w.Registry.Skills.Observe(w.World.T.Context(), tx, report, nil)
	})
	if err != nil {
		w.World.T.Fatal(err)
	}
}

// idOf is the id in a proposal's path.
func idOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }
