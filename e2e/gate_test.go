package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/engine/host/hosttest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// gateWorld is the real binary with a repository on a code host, which is real git
// behind a fake of the API, and a model that decides the cases of a suite.
type gateWorld struct {
	*process
	t      *testing.T
	fake   codeHost
	github *hosttest.GitHub // nil on Gitea
	work   *hosttest.Work
	hang   atomic.Bool // the model answers nothing about the version slow
	flags  []string
	entry  string
	sent   int

	connection string
}

// codeHost is what both fakes have.
type codeHost interface {
	hosttest.Pulls
	ID(fullName string) int64
	Statuses() []hosttest.PostedStatus
}

var gatedVersion = regexp.MustCompile(`Version (\S+) reads tables`)

// worseCase is a case of the check-run, whose name leads to its trials.
var worseCase = regexp.MustCompile(`\| \[query 2\]\(http://[^)]+/trials/1/compare\?case=case-2&with=[^)]+\) \| 3 of 3 \| 0 of 3 \|`)

// route decides a query: bad fails two of them, flaky and what came before it fail
// one now and then, and slow never gets an answer while the model hangs.
func (w *gateWorld) route(calls *atomic.Int64) judgetest.Responder {
	return func(r judgetest.Request) judgetest.Reply {
		answer := map[string]any{"reason": "as scripted", "skill": nil, "confidence": 0.9}
		match := gatedVersion.FindStringSubmatch(r.System)
		if match == nil {
			return judgetest.JSON(answer)
		}
		for match[1] == "slow" && w.hang.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		fails := match[1] == "bad" && (strings.Contains(r.User, "query 2") || strings.Contains(r.User, "query 3")) ||
			strings.Contains(r.User, "query 5") && calls.Add(1)%3 == 0
		if !fails {
			answer["skill"] = "pdf"
		}
		return judgetest.JSON(answer)
	}
}

// TestGateOnCodeHost: pushes and pull requests meet the gate, people may override
// it, and a process that is killed leaves one consistent outcome.
func TestGateOnCodeHost(t *testing.T) {
	t.Parallel()
	for database, on := range map[string]host.Provider{"sqlite": host.GitHub, "postgres": host.Gitea} {
		t.Run(database+" "+string(on), func(t *testing.T) {
			t.Parallel()
			w := newGateWorld(t, database, on)
			w.pushes()
			w.pullRequest()
		})
	}
}

// pushes publishes a good version, blocks a bad one, lets an unreliable but equal
// one pass, and overrides a verdict.
func (w *gateWorld) pushes() {
	t := w.t
	good := w.push("good")
	w.await("a good version passes", func() bool { return strings.HasPrefix(w.verdict(good), "success Pass") })
	bad := w.push("bad")
	w.kill() // before it was processed, or in the middle
	w.await("a bad version is blocked", func() bool { return strings.HasPrefix(w.verdict(bad), "failure Block") })
	if w.github != nil {
		summary := w.check(bad).Output.Summary
		if !worseCase.MatchString(summary) || strings.Contains(summary, "| [query 4") {
			t.Errorf("the check-run says\n%s", summary)
		}
	}
	states := w.states()
	if states[publication.Prerelease(good)] != "published current" || states[publication.Prerelease(bad)] != "candidate" {
		t.Errorf("got the versions %v", states)
	}
	flaky := w.push("flaky")
	w.await("an unreliable but equal version passes", func() bool { return strings.HasPrefix(w.verdict(flaky), "success Pass") })
	bad = w.push("bad")
	w.await("a bad version is blocked", func() bool { return strings.HasPrefix(w.verdict(bad), "failure Block") })
	gate := w.call("GET", "/api/v1/gates?verdict=block", nil)["gates"].([]any)[0].(map[string]any)["id"].(string)
	w.call("POST", "/api/v1/gates/"+gate+"/override", map[string]any{"reason": "the cases are wrong"})
	w.await("the check follows", func() bool { return strings.Contains(w.verdict(bad), "overridden by a person") })
	if states := w.states(); states[publication.Prerelease(bad)] != "published current" {
		t.Errorf("overridden: got the versions %v", states)
	}
	audit, err := json.Marshal(w.call("GET", "/api/v1/audit", nil))
	if err != nil || !bytes.Contains(audit, []byte("gates.gate.override")) {
		t.Errorf("the override is not in the audit log: %v", err)
	}
}

// pullRequest gates a head while the process is killed in the middle of its trials.
func (w *gateWorld) pullRequest() {
	t := w.t
	before := fmt.Sprint(w.states())
	w.work.Git("checkout", "--quiet", "-b", "topic")
	head := w.work.Push("slow", gatedSkill("slow"))
	p := w.fake.OpenPull("acme/pdf", "acme/pdf", "topic")
	w.hang.Store(true)
	w.deliver("pull_request", p.Event("opened", w.installation()))
	w.await("the comment", func() bool { return len(w.fake.Comments()) > 0 })
	w.kill()
	w.hang.Store(false)
	w.await("the verdict on a pull request", func() bool {
		return strings.HasPrefix(w.verdict(head), "success Pass") && strings.Contains(w.fake.Comments()[0].Body, "### pdf: Pass")
	})
	if n := len(w.fake.Comments()); n != 1 {
		t.Errorf("got %d comments, want one", n)
	}
	gates := w.call("GET", "/api/v1/gates", nil)["gates"].([]any)
	pulls := 0
	for _, g := range gates {
		if g.(map[string]any)["pull_request"] != nil {
			pulls++
		}
	}
	if pulls != 1 || fmt.Sprint(w.states()) != before {
		t.Errorf("got %d gates of the pull request, and the versions %v, want %s", pulls, w.states(), before)
	}
}

func newGateWorld(t *testing.T, database string, on host.Provider) *gateWorld {
	t.Helper()
	w := &gateWorld{t: t}
	repos := hosttest.NewRepos(t)
	if on == host.Gitea {
		fake := hosttest.NewGitea(t, repos)
		w.fake = fake
		w.begin(database, "--repohost", "gitea", "--repohost-url", fake.URL, "--repohost-token", fake.Token)
	} else {
		w.github = hosttest.NewGitHub(t, repos)
		w.fake = w.github
		w.begin(database, "--repohost", "github", "--repohost-url", w.github.URL,
			"--repohost-app-id", fmt.Sprint(w.github.AppID), "--repohost-private-key="+string(w.github.Key))
	}
	w.work = repos.Create("acme/pdf")
	w.work.Push("first", gatedSkill("first"))
	w.connect("acme/pdf")
	return w
}

// begin starts the binary with the flags of a code host, and the model.
func (w *gateWorld) begin(database string, flags ...string) {
	w.t.Helper()
	model := judgetest.New(w.t, w.route(new(atomic.Int64)))
	w.flags = append(slices.Clip(flags), "--repohost-webhook-secret", hookSecret, "--judge-api", "openai",
		"--judge-url", model.URL(judgetest.OpenAI), "--judge-model", "scripted", "--judge-key", "sk-secret", "--allow-private-targets")
	w.process = startProcess(w.t, database, w.flags...)
}

// connect makes an entry whose gate is enforced, and connects a repository to it.
func (w *gateWorld) connect(fullName string) {
	w.t.Helper()
	w.call("POST", "/api/v1/repohost/settings", map[string]any{"write_back_mode": "checks_and_prs"})
	w.call("POST", "/api/v1/repohost/installations", map[string]any{
		"installation_id": w.account(), "account_login": "acme", "account_type": "Organization",
	})
	w.entry = w.create()
	w.connection = w.call("POST", "/api/v1/repohost/connections", map[string]any{
		"entry_id": w.entry, "installation_id": w.account(), "repo_full_name": fullName, "write_back_enabled": true,
	})["id"].(string)
	var cases []any
	for i := range 10 {
		cases = append(cases, map[string]any{
			"id": fmt.Sprint("case-", i), "case_kind": "trigger_query", "query": fmt.Sprint("query ", i), "expectation": "should_trigger",
		})
	}
	suite := w.call("POST", "/api/v1/eval-suites", map[string]any{
		"name": "queries", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": cases,
	})
	w.call("PUT", "/api/v1/registry/"+w.entry+"/gate-policy", map[string]any{"policy": map[string]any{
		"mode": "enforce", "suites": []any{suite["suite"].(map[string]any)["id"]}, "min_cases": 5,
	}})
}

func gatedSkill(version string) map[string]string {
	return map[string]string{"SKILL.md": "---\nname: pdf\ndescription: Version " + version + " reads tables.\n---\n# pdf\n\nDo it.\n"}
}

// kill ends the process like a power cut, and starts another.
func (w *gateWorld) kill() {
	w.t.Helper()
	if err := w.crash(); err != nil {
		w.t.Fatal(err)
	}
	var err error
	if w.url, _, err = w.start(w.env, w.flags); err != nil {
		w.t.Fatal(err)
	}
}

func (w *gateWorld) await(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(3 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("timed out waiting until %s:\n%s", what, w.running.Log())
		}
	}
}

// installation is the number in deliveries: Gitea has none.
func (w *gateWorld) installation() int64 {
	if w.github == nil {
		return 0
	}
	return w.github.Installation
}

func (w *gateWorld) account() int64 { return max(w.installation(), 1) }

// push pushes a version and delivers what the code host would send.
func (w *gateWorld) push(version string) (sha string) {
	w.t.Helper()
	sha = w.work.Push(version, gatedSkill(version))
	w.deliver("push", fmt.Sprintf(`{"ref":"refs/heads/main","after":%q,"repository":{"id":%d,"full_name":"acme/pdf"},"installation":{"id":%d}}`,
		sha, w.fake.ID("acme/pdf"), w.installation()))
	return sha
}

func (w *gateWorld) deliver(event, body string) {
	w.t.Helper()
	w.sent++
	w.request("POST", "/api/v1/repohost/webhook", strings.NewReader(body), map[string]string{
		host.SignatureHeader: host.Sign(hookSecret, []byte(body)), host.EventHeader: event,
		host.DeliveryHeader: fmt.Sprint("d", w.sent), "Content-Type": "application/json",
	})
}

// create makes the entry.
func (w *gateWorld) create() string {
	w.t.Helper()
	archive := apptest.Pack(w.t, "SKILL.md", gatedSkill("first")["SKILL.md"])
	boundary := "partofaform"
	form := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n" +
		`{"name":"pdf","version":"0.0.0-repohost.1111111"}` + "\r\n--" + boundary +
		"\r\nContent-Disposition: form-data; name=\"archive\"; filename=\"a.tar.gz\"\r\n\r\n" + archive + "\r\n--" + boundary + "--\r\n"
	out := w.request("POST", "/api/v1/registry", strings.NewReader(form), map[string]string{
		"Content-Type": "multipart/form-data; boundary=" + boundary, "Authorization": "Bearer " + w.key,
	})
	return out["entry"].(map[string]any)["id"].(string)
}

func (w *gateWorld) call(method, path string, body any) map[string]any {
	w.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.request(method, path, bytes.NewReader(raw), map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer " + w.key,
	})
}

func (w *gateWorld) request(method, path string, body io.Reader, header map[string]string) (out map[string]any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		w.t.Fatalf("%s %s: %d %s, %v", method, path, resp.StatusCode, raw, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		w.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
	}
	return out
}

// states maps the versions to what they are.
func (w *gateWorld) states() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, v := range w.call("GET", "/api/v1/registry/"+w.entry+"/versions", nil)["versions"].([]any) {
		v := v.(map[string]any)
		all[v["version"].(string)] = v["state"].(string)
		if v["is_current"] == true {
			all[v["version"].(string)] += " current"
		}
	}
	return all
}

// check is the newest check-run of a commit.
func (w *gateWorld) check(sha string) (last hosttest.PostedCheck) {
	for _, c := range w.github.Checks() {
		if c.HeadSHA == sha {
			last = c
		}
	}
	return last
}

// verdict is what the code host says of a commit.
func (w *gateWorld) verdict(sha string) string {
	if w.github != nil {
		c := w.check(sha)
		return c.Conclusion + " " + c.Output.Title
	}
	said := ""
	for _, s := range w.fake.Statuses() {
		if s.SHA == sha {
			said = s.State + " " + s.Description
		}
	}
	return said
}
