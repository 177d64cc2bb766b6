package repohost_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases and git.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const secret = "webhook secret"

// world is the service as internal/app wires it, behind a real server.
type world struct {
	*apptest.World
	registry *registry.Service
	service  *repohost.Service
	repos    *hosttest.Repos
}

// newWorld serves bare repositories.
func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	repos := hosttest.NewRepos(t)
	h, err := git.New(git.Options{Dir: repos.Dir, Program: "/bin/true", URL: "http://127.0.0.1:1", Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return newWorldOn(t, db, h, repos)
}

func newWorldOn(t *testing.T, db *store.DB, h host.Host, repos *hosttest.Repos) *world {
	t.Helper()
	w := &world{World: apptest.NewWorld(t, db, apptest.Options{Server: true}), repos: repos}
	counts := &skills.Service{DB: db, Window: 30, Versions: registry.History{}}
	w.registry = &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Log: w.Log}
	w.registry.Register()
	w.service = &repohost.Service{
		DB: db, Jobs: w.Queue, Host: h, Registry: w.registry, Secrets: []string{secret}, Interval: time.Hour,
		PublicURL: apptest.PublicURL, Seal: sealtest.Keyring(), Log: w.Log,
	}
	w.service.SetBackoff([]time.Duration{time.Millisecond, time.Millisecond, time.Millisecond})
	w.service.Register()
	w.registry.Mount(w.API)
	repohost.API{Service: w.service}.Mount(w.API)
	return w
}

func (w *world) reconcile() {
	w.T.Helper()
	w.Exec(`UPDATE repohost_connections SET reconcile_at = 0`) // all are due
	if err := w.service.ReconcileDue(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	w.Settle()
}

// org creates an organisation and returns its owner.
func (w *world) org(name string, plan access.Plan) *client {
	w.T.Helper()
	return &client{w.OrgWithPlan(name, plan), w}
}

// delivery is something to send to the webhook.
type delivery struct {
	id, event, body, secret, signature, contentType string
}

// send posts a delivery, signed unless it has its own signature.
func (w *world) send(d delivery) answer {
	w.T.Helper()
	header, body := http.Header{}, d.body
	if on := w.service.Host.Provider(); on == host.GitLab {
		header, body = hosttest.Deliver(w.T, on, cmp.Or(d.secret, secret), d.id, d.event, d.body)
	} else {
		header.Set(host.EventHeader, d.event)
		header.Set(host.DeliveryHeader, d.id)
		header.Set(host.SignatureHeader, cmp.Or(d.signature, host.Sign(cmp.Or(d.secret, secret), []byte(d.body))))
	}
	if d.signature == "none" {
		header.Del(host.SignatureHeader)
	}
	header.Set("Content-Type", cmp.Or(d.contentType, "application/json"))
	return w.Anonymous().Do(http.MethodPost, base+"/webhook", body, hosttest.Lines(header)...)
}

var zero = strings.Repeat("0", 40)

// hook posts the lines that git passes to the post-receive hook.
func (w *world) hook(id, fullName string, refs ...string) {
	w.T.Helper()
	var lines strings.Builder
	for i := 0; i < len(refs); i += 2 {
		fmt.Fprintf(&lines, "%s %s %s\n", zero, refs[i+1], refs[i])
	}
	push, err := git.HookPush(git.HookConfigPath(w.repos.Dir), w.repos.Bare(fullName), lines.String())
	if err != nil {
		w.T.Fatal(err)
	}
	body, err := json.Marshal(push)
	if err != nil {
		w.T.Fatal(err)
	}
	w.send(delivery{id: id, event: "push", body: string(body)}).Want(http.StatusAccepted)
}
