package approvals_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitea"
	"github.com/whetstone-dev/whetstone/internal/engine/host/github"
	"github.com/whetstone-dev/whetstone/internal/engine/host/gitlab"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/release/approvals"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// TestMain lets more tests run at once than there are processors: they mostly wait for
// databases and git.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type jsonObject = apptest.Object

const (
	secret   = "webhook secret"
	base     = "/api/v1/repohost"
	codeHost = "https://code.example"
)

// The accounts of people on the code host. Eve is no member.
const (
	adaAt = 101 + iota
	benAt
	cydAt
	danAt
	eveAt
	zoeAt
)

// codeHostServer is what both fakes have.
type codeHostServer interface {
	hosttest.Pulls
	ID(fullName string) int64
	Mend()
	Requests(text string) []string
	Statuses() []hosttest.PostedStatus
}

// reviewWorld has a repository with two skills, one of which is connected to an entry that needs
// two approvals.
type reviewWorld struct {
	*registrytest.World
	provider           host.Provider
	repohost           *repohost.Service
	reviews            *approvals.HostReviews
	approvals          *approvals.Service
	host               codeHostServer
	work               *hosttest.Work
	installation       int64
	ada, ben, cyd, dan *registrytest.Client // the owner, who connects; two admins; and a member
	entry, connection  string
	repo               string
	sent, changes      int
}

func newReviewWorld(t *testing.T, db *store.DB, provider host.Provider, policy jsonObject) *reviewWorld {
	t.Helper()
	w := &reviewWorld{World: registrytest.New(t, db), provider: provider, repo: "acme/skills"}
	repos := hosttest.NewRepos(t)
	h := w.serve(repos)
	gated := &gates.Service{DB: db, Jobs: w.Queue, Registry: w.Registry, Log: w.Log}
	w.approvals = &approvals.Service{
		DB: db, Jobs: w.Queue, Registry: w.Registry, Gates: gated, Tally: approvals.Tally{Approvers: approvals.ByRole(access.AdminRole)},
	}
	gated.Approvals, w.Release.Approvals, w.Registry.OnPush = w.approvals, approvals.Promoting{Tally: w.approvals.Tally}, gated
	w.repohost = &repohost.Service{
		DB: db, Jobs: w.Queue, Host: h, Registry: w.Registry, Secrets: []string{secret}, Interval: time.Hour,
		PublicURL: apptest.PublicURL, Seal: sealtest.Keyring(), Log: w.Log,
		Backoff: []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond},
	}
	w.reviews = &approvals.HostReviews{
		DB: db, Jobs: w.Queue, Registry: w.Registry, Approvals: w.approvals, Repohost: w.repohost, CodeHost: codeHost, Log: w.Log,
	}
	w.repohost.OnReviews = w.reviews
	w.approvals.Register()
	w.repohost.Register()
	w.reviews.Register()
	gated.Mount(w.API)
	w.approvals.Mount(w.API)
	repohost.API{Service: w.repohost}.Mount(w.API)
	w.Work()

	w.ada = w.Org("acme", access.Team)
	org := auth.Organisation{ID: w.ada.Org.ID}
	w.ben, w.cyd, w.dan = w.Member(org, access.AdminRole), w.Member(org, access.AdminRole), w.Member(org, access.Member)
	for account, who := range map[int]*registrytest.Client{adaAt: w.ada, benAt: w.ben, cydAt: w.cyd, danAt: w.dan} {
		w.identity(who, codeHost, strconv.Itoa(account))
		w.host.AddAccount(int64(account), fmt.Sprint("account-", account), fmt.Sprintf("%d@code.example", account))
	}
	w.host.AddAccount(eveAt, "eve", "eve@code.example")
	w.host.AddAccount(zoeAt, "zoe", "zoe@code.example")

	w.ada.Post(base+"/settings", jsonObject{"write_back_mode": "checks"}).Want(http.StatusOK)
	w.ada.Post(base+"/installations", jsonObject{
		"installation_id": w.installation, "account_login": "acme", "account_type": "Organization",
	}).Want(http.StatusCreated)
	w.work = repos.Create("acme/skills")
	first := w.work.Push("first", map[string]string{"pdf/SKILL.md": hosttest.Skill("pdf", "One."), "csv/SKILL.md": hosttest.Skill("csv", "One.")})
	w.entry = w.ada.Made("pdf", "0.0.0-repohost.1111111", registrytest.Skill(t, "one"))
	w.connection = w.connect(w.entry, "pdf")
	w.pushed(first)
	w.policy(w.entry, policy)
	return w
}

// serve starts a fake of the code host.
func (w *reviewWorld) serve(repos *hosttest.Repos) host.Host {
	w.T.Helper()
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		w.T.Fatal(err)
	}
	var h host.Host
	switch w.provider {
	case host.Gitea:
		fake := hosttest.NewGitea(w.T, repos)
		w.host, w.installation = fake, 1
		h, err = gitea.New(gitea.Options{URL: fake.URL, Token: fake.Token, HTTP: web})
	case host.GitLab:
		fake := hosttest.NewGitLab(w.T, repos)
		w.host, w.installation = fake, 1
		h, err = gitlab.New(gitlab.Options{URL: fake.URL, Token: fake.Token, HTTP: web})
	case host.Git, host.GitHub:
		fake := hosttest.NewGitHub(w.T, repos)
		w.host, w.installation = fake, fake.Installation
		h, err = github.New(github.Options{
			URL: fake.URL, AppID: fake.AppID, PrivateKey: fake.Key, HTTP: web, WritePause: time.Millisecond,
		})
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return h
}

// identity lets a member have signed in with an account.
func (w *reviewWorld) identity(who *registrytest.Client, issuer, subject string) {
	w.T.Helper()
	w.Exec(`INSERT INTO identities (id, org_id, user_id, issuer, subject, provider, email, key_id, created_at, last_used_at)
		VALUES ($1, $2, $3, $4, $5, 'code', 'x@example.org', 'k', 1, 1)`, store.NewID(), who.Org.ID, who.User.ID, issuer, subject)
}

func (w *reviewWorld) connect(entry, path string) string {
	w.T.Helper()
	return w.ada.Post(base+"/connections", jsonObject{
		"entry_id": entry, "installation_id": w.installation, "repo_full_name": w.repo, "skill_path": path, "write_back_enabled": true,
	}).Want(http.StatusCreated).Text("id")
}

func (w *reviewWorld) policy(entry string, fields jsonObject) {
	w.T.Helper()
	policy := apptest.With(jsonObject{"mode": "off", "approvals": 2, "host_reviews": true}, fields)
	w.ada.Do(http.MethodPut, registrytest.EntryPath(entry)+"/gate-policy", jsonObject{"policy": policy}).Want(http.StatusOK)
}

// deliver sends a webhook, and waits for what follows.
func (w *reviewWorld) deliver(event, body string) {
	w.T.Helper()
	w.sent++
	header, body := hosttest.Deliver(w.T, w.provider, secret, fmt.Sprint("d", w.sent), event, body)
	w.Anonymous().Do(http.MethodPost, base+"/webhook", body, hosttest.Lines(header)...).Want(http.StatusAccepted)
	w.Settle()
}

// deliverSigned sends a webhook with a signature. GitLab sends the secret instead: what
// stands for it is right where the signature is.
func (w *reviewWorld) deliverSigned(event, body, signature string) apptest.Response {
	w.T.Helper()
	w.sent++
	header, sent := hosttest.Deliver(w.T, w.provider, secret, fmt.Sprint("d", w.sent), event, body)
	if name := host.SignatureHeader; w.provider != host.GitLab {
		header.Set(name, signature)
	} else if signature != host.Sign(secret, []byte(body)) {
		header.Set(host.GitLabTokenHeader, signature)
	}
	return w.Anonymous().Do(http.MethodPost, base+"/webhook", sent, hosttest.Lines(header)...)
}

// reviewsAt is in the path of a pull request's reviews.
func (w *reviewWorld) reviewsAt() string {
	if w.provider == host.GitLab {
		return "/notes"
	}
	return "/reviews"
}

// number is that of the installation in deliveries: Gitea and GitLab have none.
func (w *reviewWorld) number() int64 {
	if w.provider != host.GitHub {
		return 0
	}
	return w.installation
}

// pushed delivers the push of a commit to main, and returns the name of its version.
func (w *reviewWorld) pushed(sha string) string {
	w.T.Helper()
	w.deliver("push", fmt.Sprintf(`{"ref":"refs/heads/main","after":%q,"repository":{"id":%d,"full_name":%q},"installation":{"id":%d}}`,
		sha, w.host.ID(w.repo), w.repo, w.number()))
	return publication.Prerelease(sha)
}

// reviewed delivers that somebody has reviewed a pull request.
func (w *reviewWorld) reviewed(p *hosttest.OpenedPull) {
	w.T.Helper()
	event, body := p.ReviewEvent(w.provider, w.number())
	w.deliver(event, body)
}

// change lets Eve open a pull request that changes files.
func (w *reviewWorld) change(files map[string]string, author ...string) *hosttest.OpenedPull {
	w.T.Helper()
	w.changes++
	branch := fmt.Sprint("change-", w.changes)
	w.work.Git("fetch", "--quiet", "origin")
	w.work.Git("checkout", "--quiet", "-B", branch, "origin/main")
	w.work.Commit(branch, files)
	who := "Eve <eve@code.example>"
	if len(author) > 0 {
		who = author[0]
	}
	w.work.Git("commit", "--quiet", "--amend", "--no-edit", "--author", who)
	w.work.Git("push", "--quiet", "--force", "origin", branch)
	p := w.host.OpenPull(w.repo, w.repo, branch)
	p.Set(func(p *hosttest.OpenedPull) { p.Author = eveAt })
	return p
}

// pdf is the skill with a text.
func pdf(text string) map[string]string {
	return map[string]string{"pdf/SKILL.md": hosttest.Skill("pdf", text)}
}

// review is what the API says about a version.
func (w *reviewWorld) review(version string) jsonObject {
	w.T.Helper()
	return w.ada.Get(registrytest.VersionPath(w.entry, version) + "/approvals").Want(http.StatusOK).Object()
}

// want checks the state of a version and how many approvals count.
func (w *reviewWorld) want(version, state string, given int) {
	w.T.Helper()
	r := w.review(version)
	if r["state"] != state || r["given"] != float64(given) {
		w.T.Errorf("version %s is %v with %v approvals, want %s with %d: %v, %v", version, r["state"], r["given"], state, given, r["approvals"], r["pull_request"])
	}
}

// release makes a candidate current without approvals.
func (w *reviewWorld) release(version string) {
	w.T.Helper()
	w.ada.Post(registrytest.VersionPath(w.entry, version)+"/approvals/override", jsonObject{"reason": "on with the tests"}).Want(http.StatusOK)
}

// approve is the state of a review that approves, on both code hosts.
const approve = "APPROVED"

// requestChanges is the state of one that requests changes.
func (w *reviewWorld) requestChanges() string {
	if w.provider == host.Gitea {
		return "REQUEST_CHANGES"
	}
	return "CHANGES_REQUESTED"
}
