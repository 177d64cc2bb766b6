package alerts_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases, clocks and each other.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// world is the service as internal/app wires it, behind a real server.
type world struct {
	*apptest.World
	alerts *alerts.Service
	guard  *guard
}

// setup is how a world differs from one that may post to this machine, has no
// mail server and retries at once.
type setup struct {
	guarded  bool // without --allow-private-targets
	smtpURL  string
	mailFrom string
	interval time.Duration // of the schedule; an hour if 0
	lease    time.Duration // of the queue
	workers  int           // of the queue; its default if 0
	backoff  []time.Duration
}

const day = 24 * time.Hour

func newWorld(t *testing.T, db *store.DB, s setup) *world {
	t.Helper()
	if s.interval == 0 {
		s.interval = time.Hour
	}
	o := apptest.Options{Server: true, Queue: jobs.Options{Workers: s.workers, Lease: s.lease}}
	w := &world{World: apptest.NewWorld(t, db, o), guard: &guard{}}
	client, err := outbound.New(outbound.Options{AllowPrivate: !s.guarded, Control: w.guard.control})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := notify.New(notify.Options{HTTP: client, SMTPURL: s.smtpURL, MailFrom: s.mailFrom})
	if err != nil {
		t.Fatal(err)
	}
	paid := &costs.Service{DB: db}
	known := &skills.Service{DB: db, Window: 30, Costs: paid, Versions: registry.History{}}
	entries := &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: known, Log: w.Log}
	back := &release.Service{DB: db, Registry: entries}
	w.alerts = &alerts.Service{
		DB: db, Jobs: w.Queue, Skills: known, Registry: entries, Release: back, Sender: sender,
		Interval: s.interval, AllowPrivate: !s.guarded, PublicURL: apptest.PublicURL, Seal: sealtest.Keyring(), Log: w.Log,
	}
	w.alerts.Owners = &teams.Service{DB: db, Auth: w.Auth, Registry: entries}
	w.alerts.SetBackoff(s.backoff)
	w.alerts.Register()
	pushes := &telemetry.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: known, Costs: paid,
		Sessions: &sessions.Service{DB: db, Skills: known, Costs: paid, Registry: entries}, Auth: w.Auth, OnChanged: w.alerts, Retention: 90 * day, Log: w.Log,
	}
	known.Mount(w.API)
	entries.Mount(w.API)
	back.Mount(w.API)
	pushes.Mount(w.API)
	w.alerts.Mount(w.API)
	return w
}

// A guard records dialled addresses, and refuses all but loopback.
type guard struct {
	onDial func() // if not nil

	mu     sync.Mutex
	dialed []string
}

func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dialed = append(g.dialed, address)
	if g.onDial != nil {
		g.onDial()
	}
	if !netip.MustParseAddrPort(address).Addr().IsLoopback() {
		return errors.New("stopped by the test")
	}
	return nil
}

func (g *guard) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.dialed)
}

// org creates an organisation and returns its owner.
func (w *world) org(name string) *client {
	w.T.Helper()
	return &client{w.Org(name), w}
}

// member adds a user to an organisation.
func (w *world) member(o auth.Organisation, role access.Role, permissions ...access.Permission) *client {
	w.T.Helper()
	return &client{w.Member(o, role, permissions...), w}
}

// evaluate evaluates the organisation n times.
func (w *world) evaluate(c *client, n int) {
	w.T.Helper()
	for range n {
		if err := w.alerts.Evaluate(w.T.Context(), c.Org.ID); err != nil {
			w.T.Fatal(err)
		}
	}
}

// client calls the API with a key.
type client struct {
	*apptest.Caller
	w *world
}

// in returns the client for a subtest.
func (c *client) in(t *testing.T) *client { return &client{c.In(t), c.w} }

type object = apptest.Object

const alertsPath = "/api/v1/alerts"

// passRate is the body of an alert that posts to a URL.
func passRate(url string) object {
	return object{"type": "pass_rate_below", "channel": "webhook", "config": object{"webhook_url": url}}
}

// alert creates an alert and returns its id.
func (c *client) alert(body object) string {
	c.T.Helper()
	return c.Post(alertsPath, body).Want(http.StatusCreated).Object()["id"].(string)
}

// sessions pushes a session of the skill for each grade, at this time.
func (c *client) sessions(skill string, grades ...float64) {
	c.T.Helper()
	c.sessionsAt(skill, time.Now(), grades...)
}

func (c *client) sessionsAt(skill string, at time.Time, grades ...float64) {
	c.T.Helper()
	var invocations, verdicts []object
	for _, grade := range grades {
		session, when := uuid.NewString(), at.UTC().Format(time.RFC3339Nano)
		invocations = append(invocations, object{
			"skill_invocation_id": session, "session_id": session, "skill_name": skill, "occurred_at": when, "triggered": true,
		})
		verdicts = append(verdicts, object{
			"grading_id": session, "session_id": session, "skill_name": skill, "graded_at": when, "pass_rate": grade,
		})
	}
	c.pushRecords(object{"skill_invocations": invocations, "grading_results": verdicts})
}

// seenAt pushes an ungraded session of the skill.
func (c *client) seenAt(skill string, at time.Time) {
	c.T.Helper()
	session := uuid.NewString()
	c.pushRecords(object{"skill_invocations": []object{{
		"skill_invocation_id": session, "session_id": session, "skill_name": skill,
		"occurred_at": at.UTC().Format(time.RFC3339Nano), "triggered": false,
	}}})
}

func (c *client) pushRecords(canonical object) {
	c.T.Helper()
	a := c.Post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": canonical}).
		Want(http.StatusCreated)
	if rejected := a.List("rejected"); len(rejected) > 0 {
		c.T.Fatalf("rejected: %v", rejected)
	}
}

// repeat returns a grade n times.
func repeat(grade float64, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = grade
	}
	return all
}

// skill returns the id of a skill.
func (c *client) skill(name string) string {
	c.T.Helper()
	return c.Get("/v1/skills/" + name).Want(http.StatusOK).Object()["skill"].(object)["skill_id"].(string)
}

// events lists the transitions, oldest first, e.g. "firing pdf".
func (c *client) events() []string {
	c.T.Helper()
	all := []string{}
	for _, e := range c.Get("/api/v1/alert-events?per_page=100").Want(http.StatusOK).List("events") {
		all = append([]string{fmt.Sprintf("%s %s", e["transition"], e["skill_name"])}, all...)
	}
	return all
}

// wantEvents compares the events of the organisation, oldest first, and that
// each has one delivery.
func (c *client) wantEvents(want ...string) {
	c.T.Helper()
	if diff := cmp.Diff(append([]string{}, want...), c.events()); diff != "" {
		c.T.Errorf("events (-want +got):\n%s", diff)
	}
	if n := c.w.Count("alert_deliveries WHERE org_id = $1 AND event_id IS NOT NULL", c.Org.ID); n != len(want) {
		c.T.Errorf("%d deliveries for %d events", n, len(want))
	}
}

// deliveries returns those of an alert, newest first.
func (c *client) deliveries(id string) []object {
	c.T.Helper()
	return c.Get(alertsPath + "/" + id + "/deliveries?per_page=100").Want(http.StatusOK).List("deliveries")
}
