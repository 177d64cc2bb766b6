package checks_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// branch pushes a version of the skill to a branch of its own.
func (w *world) branch(name, version string) (sha string) {
	w.T.Helper()
	w.work.Git("checkout", "--quiet", "-B", name, "main")
	sha = w.work.Commit("version "+version, skill(version))
	w.work.Git("push", "--quiet", "--force", "origin", name)
	w.work.Git("checkout", "--quiet", "main")
	return sha
}

// event delivers what happened to a pull request.
func (w *world) event(p *hosttest.OpenedPull, action string) {
	w.T.Helper()
	w.send("pull_request", p.Event(action, w.installation())).Want(http.StatusAccepted)
}

// verdict is the last that the code host says of a commit: state or conclusion, and
// the title.
func (w *world) verdict(sha string) string {
	w.T.Helper()
	if w.github == nil {
		s := w.status(sha)
		return s.State + " " + s.Description
	}
	c := w.check(sha)
	return c.Conclusion + " " + c.Output.Title
}

// published is what everybody can see: it must not change by a pull request.
func (w *world) published() string {
	w.T.Helper()
	var all []string
	for _, path := range []string{
		"/api/v1/registry", "/api/v1/registry/" + w.entry, "/api/v1/registry/" + w.entry + "/versions", "/api/v1/cloud-sources",
	} {
		all = append(all, string(w.Get(path).Want(http.StatusOK).Body))
	}
	return strings.Join(all, "\n")
}

// TestPull: the head of a pull request is gated before it is merged, and nothing
// is published.
func TestPull(t *testing.T) {
	t.Parallel()
	for _, on := range []host.Provider{host.GitHub, host.Gitea, host.GitLab} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db *store.DB) { testPull(t, newWorld(t, db, on)) })
		})
	}
}

// caseLink is a case in a comment: its name leads to its trials on both versions.
var caseLink = regexp.MustCompile(
	`\| \[the query 2\]\(` + regexp.QuoteMeta(apptest.PublicURL) + `/runs/[^/]+/trials/1/compare\?case=case-2&with=[^)]+\) \| 3 of 3 \| 0 of 3 \|`)

func testPull(t *testing.T, w *world) {
	t.Helper()
	w.Work()
	versions := w.Count("registry_versions")
	failure, success := "failure", "success"
	bad := w.branch("topic", "bad")
	p := w.host.OpenPull("acme/pdf", "acme/pdf", "topic")
	w.event(p, "opened")
	w.Settle()
	said := failure + " Block: better on 0, worse on 2 of 10 cases"
	if w.github == nil {
		said += ": the query 2, the query 3" // there is no check-run that says it
	}
	if got := w.verdict(bad); got != said {
		t.Errorf("a bad head: got %q", got)
	}
	comments := w.host.Comments()
	if len(comments) != 1 || !strings.Contains(comments[0].Body, "### pdf: Block: better on 0, worse on 2 of 10 cases") ||
		!caseLink.MatchString(comments[0].Body) || strings.Contains(comments[0].Body, "the query 4") {
		t.Errorf("got the comments %+v", comments)
	}
	gates := w.Get("/api/v1/gates").Want(http.StatusOK).List("gates")
	pull, _ := gates[0]["pull_request"].(object)
	if len(gates) != 1 || pull["number"] != float64(1) || pull["commit"] != bad {
		t.Errorf("got the gates %v", gates)
	}
	id := gates[0]["id"].(string)
	w.Post("/api/v1/gates/"+id+"/override", object{"reason": "all the same"}).Want(http.StatusConflict)

	// The same event again, and news that change nothing, cost nothing.
	asked := w.model.asked("bad")
	for _, action := range []string{"opened", "edited", "synchronize"} {
		w.event(p, action)
	}
	w.Settle()
	if n := w.model.asked("bad"); n != asked || w.Count("gates") != 1 {
		t.Errorf("the same head was tried again: %d trials, %d before, %d gates", n, asked, w.Count("gates"))
	}

	// Another head.
	good := w.branch("topic", "good")
	p.Update()
	w.event(p, "synchronize")
	w.Settle()
	if got := w.verdict(good); got != success+" Pass: better on 0, worse on 0 of 10 cases" {
		t.Errorf("a good head: got %q", got)
	}
	if got := w.verdict(bad); !strings.HasPrefix(got, failure) {
		t.Errorf("the old head: got %q", got)
	}
	comments = w.host.Comments()
	if len(comments) != 1 || comments[0].Edits == 0 || !strings.Contains(comments[0].Body, "### pdf: Pass") {
		t.Errorf("got the comments %+v", comments)
	}
	w.Post("/api/v1/gates/"+id+"/rerun", nil).Want(http.StatusConflict) // of the old head
	if n := w.Count("cloud_sources"); n != 1 {
		t.Errorf("%d sources hold the files, want one", n)
	}

	// Somebody deletes the comment and runs the gate again.
	w.host.DeleteComments()
	newest := w.Get("/api/v1/gates").Want(http.StatusOK).List("gates")[0]["id"].(string)
	w.Post("/api/v1/gates/"+newest+"/rerun", nil).Want(http.StatusAccepted)
	w.Settle()
	if w.Count("gates WHERE status = 'decided'") != 3 || !strings.HasPrefix(w.verdict(good), success) {
		t.Errorf("run again: %d gates, %q", w.Count("gates"), w.verdict(good))
	}

	// Merged: the push is what publishes.
	if n := w.Count("registry_versions"); n != versions {
		t.Errorf("%d versions, want %d: nothing may be published", n, versions)
	}
	p.Set(func(p *hosttest.OpenedPull) { p.Closed = true })
	w.event(p, "closed")
	w.Settle()
	if w.Count("cloud_sources") != 0 || w.Count("pull_requests WHERE status = 'closed'") != 1 {
		t.Errorf("closed: %d sources", w.Count("cloud_sources"))
	}
	w.work.Git("merge", "--quiet", "--ff-only", "topic")
	w.work.Git("push", "--quiet", "origin", "main")
	w.send("push", fmt.Sprintf(`{"ref":"refs/heads/main","after":%q,"repository":{"id":%d,"full_name":"acme/pdf"},"installation":{"id":%d}}`,
		good, w.host.ID("acme/pdf"), w.installation())).Want(http.StatusAccepted)
	w.Settle()
	if n := w.Count("registry_versions"); n != versions+1 {
		t.Errorf("%d versions after the merge, want %d", n, versions+1)
	}
	if w.status(good).Context == "" || !strings.HasPrefix(w.verdict(good), success) {
		t.Errorf("merged: got %q", w.verdict(good))
	}
}

// TestPullsNotGated: drafts, forks, other branches and skills that do not change
// cost nothing.
func TestPullsNotGated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.GitHub)
	w.Work()
	before := w.published()
	draft := w.branch("draft", "bad")
	p := w.host.OpenPull("acme/pdf", "acme/pdf", "draft")
	p.Set(func(p *hosttest.OpenedPull) { p.Draft = true })
	w.event(p, "opened")

	w.repos.Git("acme/pdf", "clone", "--quiet", "--bare", w.repos.Bare("acme/pdf"), w.repos.Bare("eve/pdf"))
	eve := w.repos.Clone("eve/pdf")
	eve.Git("checkout", "--quiet", "-b", "evil")
	foreign := eve.Push("evil", skill("bad"))
	fork := w.host.OpenPull("acme/pdf", "eve/pdf", "evil")
	w.event(fork, "opened")

	other := w.branch("other", "bad")
	into := w.host.OpenPull("acme/pdf", "acme/pdf", "other")
	into.Set(func(p *hosttest.OpenedPull) { p.Into = "draft" })
	w.event(into, "opened")
	w.Settle()
	for sha, want := range map[string]string{
		draft:   "neutral A draft is gated when it is ready for review",
		foreign: "neutral The connection gates no pull requests of forks",
		other:   "neutral Only pull requests into main are gated",
	} {
		if got := w.verdict(sha); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if len(w.host.Comments()) != 0 || w.Count("gates") != 0 || w.Count("eval_runs") != 0 || w.published() != before {
		t.Errorf("got %+v and %d gates, want none", w.host.Comments(), w.Count("gates"))
	}

	p.Set(func(p *hosttest.OpenedPull) { p.Draft = false })
	w.event(p, "ready_for_review")
	w.Do(http.MethodPatch, base+"/connections/"+w.connection, object{"pull_requests": "all"}).Want(http.StatusOK)
	w.event(fork, "synchronize")
	w.Settle()
	for _, sha := range []string{draft, foreign} {
		if got := w.verdict(sha); !strings.HasPrefix(got, "failure Block") {
			t.Errorf("got %q, want a verdict", got)
		}
	}
	w.Do(http.MethodPatch, base+"/connections/"+w.connection, object{"pull_requests": "off"}).Want(http.StatusOK)
	w.Do(http.MethodPatch, base+"/connections/"+w.connection, object{"pull_requests": "some"}).Want(http.StatusBadRequest)
	gated := w.Count("gates")
	w.branch("draft", "good")
	p.Update()
	w.event(p, "synchronize")
	w.Settle()
	if n := w.Count("gates"); n != gated {
		t.Errorf("off: %d gates, want %d", n, gated)
	}
	if w.published() != before {
		t.Error("a pull request changed what is published")
	}
}

// TestPullOfMonorepo: only skills whose folder changed are gated, all in one
// comment, and a skill that is not valid is refused.
func TestPullOfMonorepo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.GitHub)
	w.Do(http.MethodPatch, base+"/connections/"+w.connection, object{"skill_path": "skills/pdf"}).Want(http.StatusOK)
	w.connect(w.entry, object{"skill_path": "skills/pdf-two"})
	w.connect(w.entry, object{"skill_path": "skills/three"})
	w.Work()
	w.work.Git("checkout", "--quiet", "-b", "topic")
	head := w.work.Push("two skills", map[string]string{
		"skills/pdf/SKILL.md": skill("good")["SKILL.md"], "skills/pdf-two/SKILL.md": "---\nname: Not A Name\n---\nx\n",
		"skills/three.md": "not in the folder",
	})
	p := w.host.OpenPull("acme/pdf", "acme/pdf", "topic")
	w.event(p, "opened")
	w.Settle()
	var got []string
	for _, c := range w.github.Checks() {
		if c.HeadSHA != head {
			continue
		}
		got = append(got, c.Conclusion)
		if c.Conclusion == "failure" && (c.Output.Title != "Not valid" || len(c.Output.Annotations) == 0 ||
			c.Output.Annotations[0].Path != "skills/pdf-two/SKILL.md") {
			t.Errorf("got the check-run %+v", c)
		}
	}
	if len(got) != 2 || w.Count("gates") != 1 {
		t.Errorf("got the check-runs %v and %d gates", got, w.Count("gates"))
	}
	comments := w.host.Comments()
	if len(comments) != 1 || strings.Count(comments[0].Body, "###") != 2 {
		t.Errorf("got the comments %+v", comments)
	}
}

// TestRerunButton: the code host's button gates again, and costs nothing when it is
// delivered twice.
func TestRerunButton(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.GitHub)
	w.Work()
	head := w.branch("topic", "bad")
	w.event(w.host.OpenPull("acme/pdf", "acme/pdf", "topic"), "opened")
	w.Settle()
	pushed, _ := w.push("bad")
	w.Settle()
	again := func(event, sha, external string) {
		t.Helper()
		w.send(event, fmt.Sprintf(
			`{"action":"rerequested","%s":{"head_sha":%q,"external_id":%q},"repository":{"id":%d,"full_name":"acme/pdf"},"installation":{"id":%d}}`,
			event, sha, external, w.host.ID("acme/pdf"), w.installation()))
		w.Settle()
	}
	gates := w.Count("gates")
	for i, sha := range []string{head, pushed} {
		check := w.check(sha)
		again("check_run", sha, check.ExternalID)
		if n := w.Count("gates"); n != gates+1+2*i {
			t.Errorf("check-run %s: %d gates, want %d", check.Name, n, gates+1+2*i)
		}
		w.sent-- // the same delivery
		again("check_run", sha, check.ExternalID)
		again("check_suite", sha, "")
		if n := w.Count("gates"); n != gates+2+2*i {
			t.Errorf("check suite of %s: %d gates, want %d", check.Name, n, gates+2+2*i)
		}
		if now := w.check(sha); now.ID == check.ID || now.Conclusion != "failure" {
			t.Errorf("got the check-run %+v", now)
		}
	}
	again("check_run", head, "of another")
	again("check_run", strings.Repeat("1", 40), "")
	if n := w.Count("gates"); n != gates+4 {
		t.Errorf("%d gates, want %d", n, gates+4)
	}
	if comments := w.host.Comments(); len(comments) != 1 {
		t.Errorf("got the comments %+v", comments)
	}
}

// TestPullTroubles: a host that fails for a while gets one check-run and one
// comment; one that lacks a permission gets what it allows.
func TestPullTroubles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), host.GitHub)
	w.repohost.Backoff = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
	w.Work()
	w.host.Break(
		hosttest.Fault{On: "/pulls/1", Answer: hosttest.Status(502)}, hosttest.Fault{On: "GET /tarball", Answer: hosttest.Status(429, "Retry-After", "0")},
		// Made, and the response is lost.
		hosttest.Fault{On: "POST /repos/acme/pdf/check-runs"}, hosttest.Fault{On: "POST /repos/acme/pdf/issues/1/comments"},
		hosttest.Fault{On: "PATCH /repos/acme/pdf/check-runs", Answer: hosttest.Status(500)},
	)
	head := w.branch("topic", "good")
	p := w.host.OpenPull("acme/pdf", "acme/pdf", "topic")
	w.event(p, "opened")
	w.Settle()
	if got := w.verdict(head); !strings.HasPrefix(got, "success Pass") || len(w.github.Checks()) != 1 || len(w.host.Comments()) != 1 {
		t.Errorf("got %q, %d check-runs, %d comments", got, len(w.github.Checks()), len(w.host.Comments()))
	}
	w.host.Break(hosttest.Fault{On: "check-runs", Answer: hosttest.Status(403), Always: true},
		hosttest.Fault{On: "/comments", Answer: hosttest.Status(403), Always: true})
	head = w.branch("topic", "bad")
	p.Update()
	w.event(p, "synchronize")
	w.Settle()
	if got := w.status(head); got.State != "failure" || !strings.HasPrefix(got.Context, "whetstone/gate/") {
		t.Errorf("without checks: got the status %+v", got)
	}
	w.host.Mend()
	w.host.Rename("acme/pdf", "acme/renamed")
	w.work.Git("remote", "set-url", "origin", w.repos.Bare("acme/renamed"))
	w.host.Break(hosttest.Fault{On: "/pulls/1", Answer: hosttest.Status(502), Always: true})
	w.branch("topic", "better")
	head = p.Update()
	w.event(p, "synchronize")
	w.Settle()
	if w.Count("pull_requests WHERE status = 'failed'") != 1 {
		t.Errorf("for good: got %q", w.verdict(head))
	}
	w.host.Mend()
	w.event(p, "synchronize")
	w.Settle()
	if got := w.verdict(head); !strings.HasPrefix(got, "success Pass") {
		t.Errorf("after that: got %q", got)
	}
}
