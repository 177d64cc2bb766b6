package incidents_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/github"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
	"github.com/whetstone-dev/whetstone/internal/watch/incidents"
)

type object = apptest.Object

const secret = "hook-secret"

// world is the services of an incident as internal/app wires them, with GitHub's
// stand-in.
type world struct {
	*apptest.World
	alerts    *alerts.Service
	incidents *incidents.Service
	github    *hosttest.GitHub
	ada       *apptest.Caller
	sent      int
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{World: apptest.NewWorld(t, db, apptest.Options{Server: true})}
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := notify.New(notify.Options{HTTP: web})
	if err != nil {
		t.Fatal(err)
	}
	w.github = hosttest.NewGitHub(t, hosttest.NewRepos(t))
	provider, err := github.New(github.Options{
		URL: w.github.URL, AppID: w.github.AppID, PrivateKey: w.github.Key, HTTP: web, WritePause: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	known := &skills.Service{DB: db, Window: 30, Versions: registry.History{}}
	entries := &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: known, Log: w.Log}
	entries.Register()
	installed := &installations.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Registry: entries}
	code := &repohost.Service{
		DB: db, Jobs: w.Queue, Host: provider, Registry: entries, Secrets: []string{secret}, Interval: time.Hour,
		PublicURL: apptest.PublicURL, Seal: sealtest.Keyring(), Log: w.Log,
	}
	code.Register()
	back := &release.Service{DB: db, Registry: entries}
	w.alerts = &alerts.Service{
		DB: db, Jobs: w.Queue, Skills: known, Registry: entries, Release: back, Sender: sender, Interval: time.Hour, AllowPrivate: true,
		PublicURL: apptest.PublicURL, Seal: sealtest.Keyring(), Log: w.Log,
	}
	w.alerts.Register()
	w.incidents = &incidents.Service{
		DB: db, Jobs: w.Queue, Alerts: w.alerts, Repohost: code, Installations: installed, Interval: time.Hour,
		PublicURL: apptest.PublicURL, Log: w.Log,
	}
	w.incidents.Register()
	w.alerts.OnRolledBack = w.incidents
	paid := &costs.Service{DB: db}
	pushes := &telemetry.Service{
		DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: known, Costs: paid, Retention: 90 * 24 * time.Hour, Log: w.Log,
		Sessions: &sessions.Service{DB: db, Skills: known, Costs: paid, Registry: entries}, Auth: w.Auth, OnChanged: w.alerts,
	}
	for _, s := range []interface{ Mount(*httpapi.API) }{known, entries, back, installed, repohost.API{Service: code}, pushes, w.alerts, w.incidents} {
		s.Mount(w.API)
	}
	w.ada = w.OrgWithPlan("acme", access.Pro)
	return w
}

// tag pushes a release and delivers what GitHub would send.
func (w *world) tag(work *hosttest.Work, name, body string) (sha string) {
	w.T.Helper()
	sha = work.Push("a commit", map[string]string{"SKILL.md": hosttest.Skill("deploy", body)})
	work.Git("tag", name)
	work.Git("push", "--quiet", "--tags")
	w.sent++
	raw := fmt.Sprintf(
		`{"ref":"refs/tags/%s","after":%q,"head_commit":{"id":%q},"repository":{"id":%d,"full_name":"acme/deploy"},"installation":{"id":%d}}`,
		name, sha, sha, w.github.ID("acme/deploy"), w.github.Installation)
	w.Anonymous().Do(http.MethodPost, "/api/v1/repohost/webhook", raw, host.SignatureHeader+": "+host.Sign(secret, []byte(raw)),
		host.EventHeader+": push", fmt.Sprint(host.DeliveryHeader, ": d", w.sent), "Content-Type: application/json").Want(http.StatusAccepted)
	w.Settle()
	return sha
}

func (w *world) sessions(grade float64) {
	w.T.Helper()
	var invocations, verdicts []object
	for range 10 {
		id, at := uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano)
		invocations = append(invocations, object{
			"skill_invocation_id": id, "session_id": id, "skill_name": "deploy", "occurred_at": at, "triggered": true,
		})
		verdicts = append(verdicts, object{
			"grading_id": id, "session_id": id, "skill_name": "deploy", "graded_at": at, "pass_rate": grade,
		})
	}
	w.ada.Post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": object{
		"skill_invocations": invocations, "grading_results": verdicts,
	}}).Want(http.StatusCreated)
}

func (w *world) notes() (all []string) {
	w.T.Helper()
	for _, e := range w.ada.Get("/api/v1/alert-events?per_page=100").Want(http.StatusOK).List("events") {
		note, _ := e["note"].(string)
		all = append([]string{note}, all...)
	}
	return all
}

func (w *world) advance() {
	w.T.Helper()
	if err := w.incidents.AdvanceAll(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

// badRelease publishes a good and a bad release from a repository, has both used,
// and lets an alert roll the bad one back.
func (w *world) badRelease() (entry, bad string) {
	w.T.Helper()
	work := w.github.Repos.Create("acme/deploy")
	work.Push("first", map[string]string{"SKILL.md": hosttest.Skill("deploy", "Zero.")})
	w.ada.Post("/api/v1/repohost/settings", object{"write_back_mode": "checks"}).Want(http.StatusOK)
	w.ada.Post("/api/v1/repohost/installations", object{
		"installation_id": w.github.Installation, "account_login": "acme", "account_type": "Organization",
	}).Want(http.StatusCreated)
	metadata := apptest.JSONPart(w.T, "metadata", object{"name": "deploy", "version": "0.1.0"})
	archive := apptest.Part{
		Name: "archive", File: "skill.tar.gz", Content: []byte(apptest.Pack(w.T, "SKILL.md", hosttest.Skill("deploy", "Old."))),
	}
	entry = apptest.Text(w.ada.Upload("/api/v1/registry", metadata, archive).Want(http.StatusCreated).Object(), "entry", "id")
	w.ada.Post("/api/v1/repohost/connections", object{
		"entry_id": entry, "installation_id": w.github.Installation, "repo_full_name": "acme/deploy", "write_back_enabled": true,
		"open_issues": true,
	}).Want(http.StatusCreated)
	w.Work()

	w.tag(work, "v1.0.0", "Good.")
	w.sessions(1)
	skill := w.ada.Get("/v1/skills/deploy").Want(http.StatusOK).Object()["skill"].(object)["skill_id"]
	w.ada.Post("/api/v1/alerts", object{
		"type": "pass_rate_below", "skill_id": skill, "action": "rollback", "channel": "webhook",
		"config": object{"webhook_url": "http://127.0.0.1:1/x"},
	}).Want(http.StatusCreated)
	bad = w.tag(work, "v1.1.0", "Bad.")
	for _, device := range []string{"laptop", "server"} {
		w.ada.Post("/api/v1/registry/"+entry+"/install", object{"device_id": device}).Want(http.StatusOK)
	}
	w.sessions(0)
	if err := w.alerts.Evaluate(w.T.Context(), w.ada.Org.ID); err != nil {
		w.T.Fatal(err)
	}
	return entry, bad
}

// incident returns the only one.
func (w *world) incident() object {
	w.T.Helper()
	all := w.ada.Get("/api/v1/incidents").Want(http.StatusOK).List("incidents")
	if len(all) != 1 {
		w.T.Fatalf("got the incidents %v, want one", all)
	}
	return w.ada.Get("/api/v1/incidents/" + apptest.Text(all[0], "id")).Want(http.StatusOK).Object()["incident"].(object)
}

// timeline lists what has happened.
func (w *world) timeline() (all []string) {
	for _, m := range w.incident()["timeline"].([]any) {
		all = append(all, m.(object)["what"].(string))
	}
	return all
}

// TestIncident follows a bad release from the alert to the last installation: the
// commit is marked once, the channel is notified twice.
func TestIncident(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		entry, bad := w.badRelease()
		for range 2 { // a job that runs twice changes nothing more
			w.advance()
		}
		event := w.ada.Get("/api/v1/alert-events").Want(http.StatusOK).List("events")
		notes := w.notes()
		if len(notes) != 2 || !strings.Contains(notes[0], "Rolled back from version 1.1.0 to 1.0.0") ||
			!strings.Contains(notes[1], "2 installations still have it: laptop, server") {
			t.Errorf("got the notes %q", notes)
		}
		first := event[len(event)-1]["id"].(string)
		statuses, checks := w.github.Statuses(), w.github.Checks()
		if last := statuses[len(statuses)-1]; last.SHA != bad || last.State != "failure" {
			t.Errorf("got the status %+v, want a failure of the bad commit", last)
		}
		if last := checks[len(checks)-1]; last.HeadSHA != bad || last.Conclusion != "failure" || !strings.Contains(last.Output.Summary, first) {
			t.Errorf("got the check-run %+v, want a failure that names the incident %s", last, first)
		}

		if got := w.github.Issues(); len(got) != 1 || got[0].State != "open" || !strings.Contains(got[0].Body, first) {
			t.Errorf("got the issues %+v, want an open one that names the incident", got)
		}

		got := w.incident()
		apptest.WantKeys(t, got, "id", "state", "outcome", "alert_id", "skill_id", "skill", "entry_id", "version", "good_version", "evidence",
			"commit", "issue", "installations_left", "opened_at", "closed_at", "devices", "timeline")
		if got["id"] != first || got["state"] != "open" || got["outcome"] != nil || got["version"] != "1.1.0" || got["good_version"] != "1.0.0" ||
			got["installations_left"] != 2.0 || apptest.Text(got, "commit", "sha") != bad || apptest.Text(got, "commit", "status") != "done" ||
			apptest.At(got, "issue", "number") != float64(w.github.Issues()[0].Number) || !cmp.Equal(got["devices"], []any{"laptop", "server"}) {
			t.Errorf("got the incident %v", got)
		}
		w.OrgWithPlan("evil", access.Pro).Get("/api/v1/incidents/"+first).WantErrorWith(http.StatusNotFound, "Incident not found")
		rule := apptest.Text(got, "alert_id")
		sent, err := w.alerts.Tallies(t.Context(), w.ada.Org.ID, rule, first)
		others, err2 := w.alerts.Tallies(t.Context(), "another", rule, first)
		if err != nil || err2 != nil || len(sent) != 2 || sent[0].Count+sent[1].Count != 2 || len(others) != 0 {
			t.Errorf("got the deliveries %+v (%v), and %+v (%v) for another organisation", sent, err, others, err2)
		}
		if n := len(w.ada.Get("/api/v1/incidents?state=closed").Want(http.StatusOK).List("incidents")); n != 0 {
			t.Errorf("%d incidents are closed", n)
		}
		w.ada.Get("/api/v1/incidents?state=x").WantIssueWith("state", "state")

		// The installations sync one after the other.
		for i, device := range []string{"laptop", "server"} {
			w.ada.Post("/api/v1/registry/"+entry+"/install", object{"device_id": device}).Want(http.StatusOK)
			w.advance()
			if got, want := w.Count("incidents WHERE closed_at IS NOT NULL AND id = $1", first), i; got != want {
				t.Errorf("after %d of 2: %d incidents are closed, want %d", i+1, got, want)
			}
		}
		w.advance()
		if got := w.github.Issues(); len(got) != 1 || got[0].State != "closed" {
			t.Errorf("got the issues %+v, want the one closed", got)
		}
		want := []string{"rolled_back", "commit_marked", "issue_opened", "channel_notified", "closed", "issue_closed"}
		if diff := cmp.Diff(want, w.timeline()); diff != "" || w.incident()["outcome"] != "resolved" {
			t.Errorf("%v: timeline (-want +got):\n%s", w.incident()["outcome"], diff)
		}
		if notes := w.notes(); len(notes) != 3 || !strings.Contains(notes[2], "the incident is closed") {
			t.Errorf("got the notes %q", notes)
		}
	})
}

// TestIssueIsClosedLater: a code host that is down when the incident closes is
// asked again by the next job.
func TestIssueIsClosedLater(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		entry, _ := w.badRelease()
		w.advance()
		for _, device := range []string{"laptop", "server"} {
			w.ada.Post("/api/v1/registry/"+entry+"/install", object{"device_id": device}).Want(http.StatusOK)
		}
		w.github.Break(hosttest.Fault{On: "PATCH", Always: true, Answer: func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusBadGateway)
		}})
		w.advance()
		if got := w.incident(); got["state"] != "closed" || apptest.Text(got, "issue", "status") != "done" {
			t.Errorf("got %v, want a closed incident with an open issue", got)
		}
		w.github.Mend()
		w.advance()
		if got := w.github.Issues(); got[0].State != "closed" || apptest.Text(w.incident(), "issue", "status") != "closed" {
			t.Errorf("got the issue %+v, want it closed", got[0])
		}
	})
}

// TestUndoneIncident ends when a person makes the version current again, although
// installations have it.
func TestUndoneIncident(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		entry, _ := w.badRelease()
		w.ada.Post("/api/v1/registry/"+entry+"/rollback/undo", nil).Want(http.StatusOK)
		w.advance()
		got := w.incident()
		if got["state"] != "closed" || got["outcome"] != "undone" || got["installations_left"] != 2.0 {
			t.Errorf("got %v", got)
		}
		notes := w.notes()
		if last := notes[len(notes)-1]; !strings.HasPrefix(last, "Version 1.1.0 was made current again: the incident is closed. Incident ") {
			t.Errorf("got the notes %q", notes)
		}
		w.sessions(0)
		if err := w.alerts.Evaluate(t.Context(), w.ada.Org.ID); err != nil {
			t.Fatal(err)
		}
		w.incident() // no second one: a person has decided
	})
}
