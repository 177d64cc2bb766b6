package repohost_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/github"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// hub is a world on GitHub with a connected repository whose results are
// written back.
type hub struct {
	*world
	c          *client
	github     *hosttest.GitHub
	work       *hosttest.Work
	entry      string
	connection string
	sent       int
}

func newHub(t *testing.T, db *store.DB) *hub {
	t.Helper()
	server := hosttest.NewGitHub(t, hosttest.NewRepos(t))
	web, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	provider, err := github.New(github.Options{
		URL: server.URL, AppID: server.AppID, PrivateKey: server.Key, HTTP: web, WritePause: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{world: newWorldOn(t, db, provider, server.Repos), github: server}
	h.c = h.org("acme", access.Pro)
	h.work = server.Repos.Create("acme/deploy")
	h.c.Post(base+"/settings", object{"write_back_mode": "checks"}).Want(http.StatusOK)
	h.c.bind(server.Installation, "acme")
	h.entry = h.c.entry("deploy", "0.1.0")
	h.connection = h.c.connect(h.entry, "acme/deploy", object{"installation_id": server.Installation, "write_back_enabled": true})
	h.Work()
	return h
}

// push pushes files and delivers what GitHub would send.
func (h *hub) push(files map[string]string) string {
	h.T.Helper()
	sha := h.work.Push("a commit", files)
	h.deliver("refs/heads/main", sha)
	h.Settle()
	return sha
}

func (h *hub) deliver(ref, sha string) {
	h.T.Helper()
	h.sent++
	h.send(delivery{id: fmt.Sprint("d", h.sent), event: "push", body: fmt.Sprintf(
		`{"ref":%q,"after":%q,"head_commit":{"id":%q},"repository":{"id":%d,"full_name":"acme/deploy"},"installation":{"id":%d}}`,
		ref, sha, sha, h.github.ID("acme/deploy"), h.github.Installation)}).Want(http.StatusAccepted)
}

func (h *hub) context() string {
	return "whetstone/publish/" + h.connection[strings.LastIndex(h.connection, "-")+1:][:8]
}

func TestWriteBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHub(t, db)
		sha := h.push(skillFiles("One."))
		last := h.c.last()
		if last["status"] != "published" || last["write_back_status"] != "success" ||
			last["write_back_detail"] != "statuses: success; checks: success" {
			t.Fatalf("got %v", last)
		}
		want := []hosttest.PostedStatus{{
			FullName: "acme/deploy", SHA: sha, State: "pending", Context: h.context(),
			Description: "Whetstone reads the commit", TargetURL: apptest.PublicURL + "/registry/" + h.entry,
		}, {
			FullName: "acme/deploy", SHA: sha, State: "success", Context: h.context(),
			Description: "Published version " + publication.Prerelease(sha) + " from " + sha[:7], TargetURL: apptest.PublicURL + "/registry/" + h.entry,
		}}
		if diff := cmp.Diff(want, h.github.Statuses()); diff != "" {
			t.Errorf("statuses (- want, + got):\n%s", diff)
		}
		checks := h.github.Checks()
		if len(checks) != 1 || checks[0].Conclusion != "success" || checks[0].HeadSHA != sha ||
			last["check_run_id"] != fmt.Sprint(checks[0].ID) {
			t.Errorf("checks: got %+v", checks)
		}

		sha = h.push(map[string]string{"SKILL.md": "---\nname: Not A Name\n---\nx\n"})
		statuses, checks := h.github.Statuses(), h.github.Checks()
		if len(statuses) != 4 || statuses[2].State != "pending" || statuses[3].State != "failure" || statuses[3].SHA != sha {
			t.Errorf("statuses: got %+v", statuses)
		}
		if len(checks) != 2 || checks[1].Conclusion != "failure" {
			t.Fatalf("checks: got %+v", checks)
		}
		if !slices.ContainsFunc(checks[1].Output.Annotations, func(a hosttest.Annotation) bool {
			return a.Path == "SKILL.md" && a.StartLine > 0 && a.Message != "" && a.AnnotationLevel == "failure"
		}) {
			t.Errorf("annotations: got %+v", checks[1].Output.Annotations)
		}
		if got := h.c.last(); got["status"] != "failed" || got["write_back_status"] != "success" {
			t.Errorf("got %v", got)
		}

		h.c.Do(http.MethodPatch, base+"/connections/"+h.connection, object{"write_back_enabled": false}).Want(http.StatusOK)
		h.push(skillFiles("Two."))
		h.c.Do(http.MethodPatch, base+"/connections/"+h.connection, object{"write_back_enabled": true}).Want(http.StatusOK)
		h.c.Post(base+"/settings", object{"write_back_mode": "off"}).Want(http.StatusOK)
		h.push(skillFiles("Three."))
		if got := h.c.last(); got["write_back_status"] != "disabled" || len(h.github.Statuses()) != 4 {
			t.Errorf("disabled: got %v and %d statuses", got, len(h.github.Statuses()))
		}
		h.c.Post(base+"/settings", object{"write_back_mode": "checks_and_prs"}).Want(http.StatusOK)
		h.work.Push("another", skillFiles("Four."))
		if got := h.c.sync(h.connection); got["write_back_status"] != "pending" || got["status_context"] != h.context() {
			t.Errorf("sync: got %v", got)
		}
		h.Settle()
		if got := h.c.last(); got["write_back_status"] != "success" || got["trigger"] != "sync" {
			t.Errorf("after the sync: got %v", got)
		}
	})
}

func TestWriteBackTroubles(t *testing.T) {
	always := func(on string, status int, headers ...string) hosttest.Fault {
		return hosttest.Fault{On: on, Answer: hosttest.Status(status, headers...), Always: true}
	}
	once := func(on string, status int, headers ...string) hosttest.Fault {
		return hosttest.Fault{On: on, Answer: hosttest.Status(status, headers...)}
	}
	for name, c := range map[string]struct {
		faults   []hosttest.Fault
		want     string
		detail   string
		statuses int
	}{
		// The first status is pending; it is best effort.
		"no permission for checks": {[]hosttest.Fault{always("check-runs", 403)}, "unsupported", "statuses: success; checks: unsupported", 2},
		"no permission at all":     {[]hosttest.Fault{always("check-runs", 403), always("statuses", 404)}, "unsupported", "statuses: unsupported", 0},
		"not valid":                {[]hosttest.Fault{always("check-runs", 422)}, "failed", "checks: failed", 2},
		"down for a while":         {[]hosttest.Fault{once("statuses", 502), once("check-runs", 503), once("check-runs", 500)}, "success", "checks: success", 1},
		"limited for a moment":     {[]hosttest.Fault{once("statuses", 403, "Retry-After", "0")}, "success", "statuses: success", 1},
		"down for good":            {[]hosttest.Fault{always("statuses", 502)}, "failed", "statuses: failed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t, storetest.Open(t, "sqlite"))
			h.github.Break(c.faults...)
			h.push(skillFiles("One."))
			last := h.c.last()
			detail, _ := last["write_back_detail"].(string)
			if last["status"] != "published" || last["write_back_status"] != c.want || !strings.Contains(detail, c.detail) {
				t.Errorf("got %v, want %s with %q", last, c.want, c.detail)
			}
			if n := len(h.github.Statuses()); n != c.statuses {
				t.Errorf("got %d statuses, want %d", n, c.statuses)
			}
			if n := len(h.github.Checks()); c.want == "success" && n != 1 {
				t.Errorf("got %d checks, want 1", n)
			}
		})
	}
}

// TestFailureIsNotHidden is about a commit whose version is rolled back before it was
// reported, and a crash after half of the failure was told.
func TestFailureIsNotHidden(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHub(t, db)
		h.github.Break(hosttest.Fault{On: "check-runs", Answer: hosttest.Status(http.StatusBadGateway), Always: true})
		h.push(skillFiles("One."))
		if _, err := db.Exec(t.Context(), `UPDATE repohost_attempts SET write_back_status = 'pending'`); err != nil {
			t.Fatal(err)
		}
		h.github.Mend()
		rows, err := db.Query(t.Context(), `SELECT id FROM repohost_attempts`)
		id, err := store.One(rows, err, "Attempt", store.Value[string])
		if err != nil {
			t.Fatal(err)
		}
		h.github.Break(hosttest.Fault{On: "POST /repos/acme/deploy/check-runs"}) // it is made, and the answer is lost
		fail := func() error {
			return h.service.FailCommit(t.Context(), id, "Rolled back", "3 of 4 fail", "https://whetstone.example")
		}
		if err := fail(); err == nil {
			t.Fatal("the answer was not lost")
		}
		if err := h.service.WriteBack(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := fail(); err != nil {
			t.Fatal(err)
		}
		statuses, checks := h.github.Statuses(), h.github.Checks()
		if statuses[len(statuses)-1].State != "failure" || len(checks) != 1 || checks[0].Conclusion != "failure" {
			t.Errorf("got the statuses %+v and the check-runs %+v, want nothing after the failure", statuses, checks)
		}
	})
}

// TestWriteBackWithoutChecks is about hosts that have no check-runs.
func TestWriteBackWithoutChecks(t *testing.T) {
	for _, on := range []host.Provider{host.Gitea, host.GitLab} {
		t.Run(string(on), func(t *testing.T) {
			w, server := newForgeWorld(t, storetest.Open(t, "sqlite"), on)
			last := writtenBack(t, w)
			if last["write_back_status"] != "unsupported" || len(server.Statuses()) != 2 || server.Statuses()[1].State != "success" {
				t.Errorf("got %v and %+v", last, server.Statuses())
			}
		})
	}
	t.Run("git", func(t *testing.T) {
		if last := writtenBack(t, newWorld(t, storetest.Open(t, "sqlite"))); last["write_back_status"] != "unsupported" {
			t.Errorf("got %v", last)
		}
	})
}

// writtenBack publishes a push with write-back and returns the last attempt.
func writtenBack(t *testing.T, w *world) object {
	t.Helper()
	c := w.org("acme", access.Pro)
	c.Post(base+"/settings", object{"write_back_mode": "checks"}).Want(http.StatusOK)
	work := w.repos.Create("acme/deploy")
	c.bind(1, "acme")
	c.connect(c.entry("deploy", "0.1.0"), "acme/deploy", object{"write_back_enabled": true})
	sha := work.Push("first", skillFiles("One."))
	body := fmt.Sprintf(`{"ref":"refs/heads/main","after":%q,"repository":{"full_name":"acme/deploy"}}`, sha)
	w.send(delivery{id: "d1", event: "push", body: body}).Want(http.StatusAccepted)
	w.Work()
	w.Settle()
	last := c.last()
	if last["status"] != "published" {
		t.Errorf("got %v", last)
	}
	return last
}

func TestHostTroubles(t *testing.T) {
	h := newHub(t, storetest.Open(t, "sqlite"))
	status := func() any {
		return h.c.Get(base + "/deliveries").List("deliveries")[0]["status"]
	}
	// A transient failure: the job is retried.
	h.github.Break(hosttest.Fault{On: "GET /tarball", Answer: hosttest.Status(502)},
		hosttest.Fault{On: "/commits/", Answer: hosttest.Status(429, "Retry-After", "0")})
	first := h.push(skillFiles("One."))
	if last := h.c.last(); last["status"] != "published" || last["source_ref"] != first || status() != "done" {
		t.Errorf("after a while: got %v, delivery %v", last, status())
	}
	// A permanent failure: the delivery fails, a sync is an error.
	h.github.Break(hosttest.Fault{On: "GET /tarball", Answer: hosttest.Status(502), Always: true})
	second := h.push(skillFiles("Two."))
	if last := h.c.last(); last["status"] != "failed" || last["source_ref"] != second || status() != "failed" {
		t.Errorf("for good: got %v, delivery %v", last, status())
	}
	h.c.Post(base+"/connections/"+h.connection+"/sync", nil).Want(http.StatusBadGateway)
	h.github.Mend()
	// The host redelivers with the same id: it succeeds this time.
	h.sent--
	h.deliver("refs/heads/main", second)
	h.Settle()
	if last := h.c.last(); last["status"] != "published" || last["source_ref"] != second || status() != "done" {
		t.Errorf("sent again: got %v, delivery %v", last, status())
	}
	// Missing access of the installation is a failed sync, not a 502.
	h.github.Break(hosttest.Fault{On: "/branches", Answer: hosttest.Status(404), Always: true})
	if got := h.c.sync(h.connection); got["status"] != "failed" {
		t.Errorf("not found: got %v", got)
	}
	h.github.Break(hosttest.Fault{On: "GET /installation/repositories", Answer: hosttest.Status(500)})
	h.c.Get(fmt.Sprintf("%s/repos?installation_id=%d", base, h.github.Installation)).Want(http.StatusBadGateway)
}

// TestForeignInstallation is about a push that names another installation.
func TestForeignInstallation(t *testing.T) {
	h := newHub(t, storetest.Open(t, "sqlite"))
	sha := h.work.Push("first", skillFiles("One."))
	h.send(delivery{id: "x", event: "push", body: fmt.Sprintf(
		`{"ref":"refs/heads/main","after":%q,"repository":{"full_name":"acme/deploy"},"installation":{"id":99}}`, sha)}).Want(http.StatusAccepted)
	h.Settle()
	if n := len(h.c.versions(h.entry)); n != 1 {
		t.Errorf("got %d versions, want none but the first", n)
	}
}
