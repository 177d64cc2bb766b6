package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// A runAgent is an agent that works on the cases of a run.
type runAgent struct {
	name, model, api, base, skillsDir string
	start                             func(*testing.T, ...modeltest.Reply) *modeltest.Model
	use                               func(skill string) toolCall
	shell                             func(command string) toolCall
	tokensUSD                         float64 // of runTokens
}

var runTokens = modeltest.Tokens{Input: 1000, Output: 60}

func runAgents() []runAgent {
	return []runAgent{
		{
			name: "claude-code", model: "claude-sonnet-4-5", api: "anthropic", skillsDir: "~/.claude/skills", start: modeltest.Messages,
			use: useOf, shell: bash, tokensUSD: 0.0039,
		},
		{
			name: "codex", model: "gpt-5.1-codex", api: "responses", base: "/v1", skillsDir: "~/.codex/skills", start: modeltest.Responses,
			use:   func(skill string) toolCall { return shell("cat ~/.codex/skills/" + skill + "/SKILL.md") },
			shell: shell, tokensUSD: 0.00185,
		},
	}
}

// script is what the model answers, by words of the instruction. All replies of the
// six cases are runAnswers per arm.
func (a runAgent) script(marker string) map[string][]reply {
	say := func(text string) reply { return reply{Text: text, Usage: runTokens} }
	do := func(c toolCall) reply { return reply{Calls: []toolCall{c}, Usage: runTokens} }
	isTwo := "grep -rhc 'version two' " + a.skillsDir + " | sort -r | head -1"
	return map[string][]reply{
		"uses the skill": {do(a.use("pdf-tables")), do(a.shell("echo 12.50 >total.txt")), say("Pencils, 12.50.")},
		"looks around":   {do(a.shell(isTwo + " >two.txt")), say("Done.")},
		"takes a while":  {do(a.shell("sleep " + marker)), say("Waited.")},
		"only answers":   {say("Nothing to do.")},
		"built an image": {
			do(a.use("pdf-tables")), do(a.shell("cat data.txt made.txt >answer.txt; " + isTwo + " >>answer.txt")), say("Done."),
		},
		"the first step":  {do(a.shell("cp /opt/price.txt first.txt")), say("First.")},
		"the second step": {do(a.shell("cat first.txt >second.txt; " + isTwo + " >>second.txt")), say("Second.")},
	}
}

const runAnswers = 3 + 2 + 2 + 1 + 3 + 2 + 2

// runTasks are two task packages with a Dockerfile each, of which one has two steps.
// The verifiers run in the images, too, and want the second version of the skill.
func runTasks() []byte {
	const verifier = `#!/bin/bash
grep -q '^ID=debian' /etc/os-release && diff %s - >/dev/null <<'END' && echo 1 >/logs/verifier/reward.txt
%sEND
`
	text := func(name, content string) runstest.File { return runstest.File{Name: name, Text: content, Mode: 0o644} }
	program := func(name, content string) runstest.File { return runstest.File{Name: name, Text: content, Mode: 0o755} }
	return runstest.Pack(
		text("image/task.toml", "schema_version = \"1.1\"\n[environment]\ncpus = 1\n"),
		text("image/instruction.md", "Somebody built an image for this.\n"),
		text("image/environment/Dockerfile",
			"FROM debian:12\nWORKDIR /srv/work\nCOPY data.txt ./\nRUN echo pencils | tr a-z A-Z >made.txt\n"),
		text("image/environment/data.txt", "12.50\n"),
		program("image/tests/test.sh", fmt.Sprintf(verifier, "/srv/work/answer.txt", "12.50\nPENCILS\n1\n")),
		program("image/solution/solve.sh", "#!/bin/bash\nfalse\n"),

		text("steps/task.toml", "schema_version = \"1.1\"\n[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n"),
		text("steps/environment/Dockerfile", "FROM debian:12\nWORKDIR /app\nRUN echo 12.50 >/opt/price.txt\n"),
		text("steps/steps/one/instruction.md", "This is the first step.\n"),
		program("steps/steps/one/tests/test.sh", fmt.Sprintf(verifier, "/app/first.txt", "12.50\n")),
		text("steps/steps/two/instruction.md", "This is the second step.\n"),
		program("steps/steps/two/tests/test.sh", fmt.Sprintf(verifier, "/app/second.txt", "12.50\n1\n")),
	)
}

// A runWorld is the service with both agents and their models, and a suite of six
// cases.
type runWorld struct {
	o                     organisation
	start                 func()
	scratch, entry, suite string
	marker                string // in the command lines of what the agents start
	models                map[string]*modeltest.Model
}

// TestRuns runs six cases with the real agents in all arms, two of them in images
// that are built for them, and kills the service twice in the middle. The runs are
// started by the API, the command line and the page. Verdicts, activations, tokens
// and cost are exact, and nothing counts twice or is left running.
func TestRuns(t *testing.T) {
	requireAgents(t)
	images := os.Getenv("WHETSTONE_IMAGES") // of scripts/e2e-agents
	if images == "" {
		t.Skip("there is no base image for Dockerfiles; see scripts/base-image")
	}
	browser := servertest.StartChromium(t)
	w := newRunWorld(t, images)
	claudeCode, codex := runAgents()[0], runAgents()[1]

	runs := map[string]string{}
	for _, a := range runAgents() {
		run := w.o.api(t).Post("/api/v1/eval-suites/"+w.suite+"/runs", object{
			"subject": object{"entry_id": w.entry}, "baseline": "previous", "agent": object{"name": a.name}, "max_cost_usd": 5,
		}).Want(202).Field("run")
		runs[a.name] = run["id"].(string)
	}
	for kills := range 2 {
		await(t, "a trial", func() bool {
			return w.done(t, runs[claudeCode.name])+w.done(t, runs[codex.name]) > float64(4*kills)
		})
		if err := w.o.Kill(); err != nil {
			t.Fatal(err)
		}
		w.start()
	}
	for _, a := range runAgents() {
		w.check(t, a, runs[a.name], "pass", "fail", "pass", "pass", "fail", "fail")
	}
	w.check(t, claudeCode, w.startByCommand(t, claudeCode), "error", "fail", "pass", "pass", "error", "fail")
	w.check(t, codex, w.startInBrowser(browser, t, codex), "error", "fail", "pass", "pass", "error", "fail")

	for _, a := range runAgents() {
		for _, q := range w.models[a.name].Requests() {
			if q.Host != strings.TrimPrefix(w.models[a.name].URL, "http://") {
				t.Errorf("%s: a request went to %s", a.name, q.Host)
			}
		}
	}
	w.checkClean(t)
}

func newRunWorld(t *testing.T, images string) *runWorld {
	t.Helper()
	w := &runWorld{
		scratch: agentstest.Folder(t), marker: fmt.Sprintf("2.%d", time.Now().UnixNano()), models: map[string]*modeltest.Model{},
	}
	shared := agentstest.Folder(t)
	const image = "debian_12.tar"
	for name, file := range map[string]string{"claude": claude, "codex": codex, image: filepath.Join(images, image)} {
		linkOrCopy(t, file, filepath.Join(shared, name))
	}
	s := &service{data: filepath.Join(t.TempDir(), "data")}
	args := []string{
		"serve", "--addr", "127.0.0.1:0", "--data", s.data, "--sandbox-scratch", w.scratch, "--agents", shared,
		"--environments-images", shared,
	}
	for _, a := range runAgents() {
		model, scripts := a.start(t), a.script(w.marker)
		model.ScriptBy(func(first string) []reply {
			for words, replies := range scripts {
				if strings.Contains(first, words) {
					return replies
				}
			}
			return nil
		})
		w.models[a.name] = model
		args = append(args, "--model", a.model+"="+model.URL+a.base, "--model-api", a.model+"="+a.api,
			"--model-key", a.model+"=sk-outside")
	}
	w.start = func() {
		var err error
		s.Server, err = servertest.Start(servertest.Command{
			Path: binary, Dir: filepath.Dir(s.data), Stdout: io.Discard, Args: args,
			Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.data)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	t.Cleanup(func() {
		if err := s.Terminate(); err != nil {
			t.Error(err)
		}
	})
	w.o = s.newOrganisation(t)
	w.o.register(t, "pdf-tables")
	second := filepath.Join(t.TempDir(), "pdf-tables")
	if err := os.Mkdir(second, 0o700); err != nil {
		t.Fatal(err)
	}
	text := skillFile("pdf-tables") + "\nThis is version two.\n"
	if err := os.WriteFile(filepath.Join(second, "SKILL.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.o.command(t, w.o.env(), "push", second)
	w.entry = apptest.Text(w.o.api(t).Get("/api/v1/registry").Want(200).List("entries")[0], "id")
	w.suite = w.newSuite(t)
	return w
}

// env lets the command line talk to the organisation.
func (o organisation) env() []string {
	return []string{"WHETSTONE_SERVER=" + o.URL, "WHETSTONE_API_KEY=" + o.key}
}

// newSuite makes the suite of four instructions and the two tasks.
func (w *runWorld) newSuite(t *testing.T) string {
	t.Helper()
	tasks := w.o.api(t).Upload("/api/v1/eval-suites/import", apptest.Part{Name: "name", Content: []byte("tasks")},
		apptest.Part{Name: "file", File: "tasks.tar.gz", Content: runTasks()}).Want(201).Field("suite")
	assertion := func(prompt, expression string) object {
		return object{"case_kind": "boolean_assertion", "prompt": prompt, "assertion": expression}
	}
	cases := []object{
		assertion("Read the invoice; it uses the skill.", `activated && turns == 3 && files["total.txt"] == "12.50\n"`),
		assertion("It looks around.", `!activated && files["two.txt"] == "1\n"`),
		{"case_kind": "exact_match", "prompt": "It takes a while.", "expected": "Waited."},
		assertion("It only answers.", `turns == 1 && tokens == 1060 && size(tools) == 0 && cost_usd > 0.0018 && cost_usd < 0.004`),
	}
	for _, c := range apptest.List(t, tasks, "cases_json") {
		delete(c, "id")
		cases = append(cases, c)
	}
	return apptest.Text(w.o.api(t).Post("/api/v1/eval-suites", object{
		"name": "agents", "source_kind": "manual", "verifier_kind": "deterministic", "supports_no_skill": true, "cases_json": cases,
	}).Want(201).Object(), "suite", "id")
}

func (w *runWorld) run(t *testing.T, id string) object {
	t.Helper()
	return w.o.api(t).Get("/api/v1/eval-runs/" + id).Want(200).Field("run")
}

func (w *runWorld) done(t *testing.T, id string) float64 {
	t.Helper()
	return w.run(t, id)["progress"].(object)["done"].(float64)
}

// startByCommand runs the suite without the skill as well, and waits for its end.
func (w *runWorld) startByCommand(t *testing.T, a runAgent) string {
	t.Helper()
	out := w.o.command(t, w.o.env(), "eval", "run", "agents", "--entry", "pdf-tables", "--baseline", "no_skill",
		"--agent", a.name, "--model", a.model, "--max-cost-usd", "5", "--wait", "--json")
	var run struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(out, &run); err != nil || run.ID == "" {
		t.Fatalf("%v: %s", err, out)
	}
	return run.ID
}

// startInBrowser does the same with the form of the page.
func (w *runWorld) startInBrowser(browser context.Context, t *testing.T, a runAgent) string {
	t.Helper()
	agent := fmt.Sprintf(`[...document.querySelector("#agent").options].find((o) => o.value.includes(%q)).value`, a.name)
	var where string
	err := chromedp.Do(browser,
		chromedp.Navigate(w.o.URL+"/login"), chromedp.SendKeys("#api_key", w.o.key+"\r"), chromedp.WaitVisible(".side"),
		chromedp.Navigate(w.o.URL+"/suites/"+w.suite), chromedp.WaitVisible("#agent"))
	if err == nil {
		_, err = chromedp.Run(browser, chromedp.Evaluate[bool](fmt.Sprintf(`
			document.querySelector("#subject").value = "entry:%s";
			document.querySelector("#baseline").value = "no_skill";
			document.querySelector("#agent").value = %s;
			document.querySelector("#max-cost").value = "5"; true`, w.entry, agent)))
	}
	if err == nil {
		err = chromedp.Do(browser, chromedp.Click(".run-form button"))
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the page of the run", func() bool {
		where, _ = chromedp.Run(browser, chromedp.Evaluate[string]("location.pathname")) // the page may be on its way
		return strings.HasPrefix(where, "/runs/")
	})
	id := strings.TrimPrefix(where, "/runs/")
	await(t, "the end of the run on its page", func() bool {
		text, _ := chromedp.Run(browser, chromedp.Text("main"))
		return w.run(t, id)["finished_at"] != nil && strings.Contains(text, a.name)
	})
	return id
}

// await waits longer than apptest.Eventually: real agents work and images are built.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// check waits for the end of a run and compares it: each case passes with the skill,
// and has these verdicts without it or with the version before.
func (w *runWorld) check(t *testing.T, a runAgent, id string, baseline ...any) {
	t.Helper()
	await(t, "the end of a run", func() bool { return w.run(t, id)["finished_at"] != nil })
	run := w.run(t, id)
	var got [3][]any
	for i, c := range apptest.List(t, run, "cases") {
		got[0], got[1] = append(got[0], c["verdict"]), append(got[1], c["baseline_verdict"])
		for _, trial := range apptest.List(t, c, "trials") {
			if trial["error"] != nil {
				t.Logf("%s: case %d, %v: %v", a.name, i, trial["variant"], trial["error"])
			}
			if trial["variant"] == "skill" {
				got[2] = append(got[2], trial["activated"])
			}
			inImage := apptest.Text(trial, "evidence", "package", "image_sha256") != ""
			if inImage != (i >= 4) && trial["verdict"] != "error" {
				t.Errorf("%s: case %d ran in an image: %v\n%v", a.name, i, inImage, trial)
			}
		}
	}
	want := [3][]any{{"pass", "pass", "pass", "pass", "pass", "pass"}, baseline, {true, false, false, false, true, false}}
	if diff := cmp.Diff(want, got); diff != "" || run["status"] != "succeeded" {
		t.Errorf("%s, %v: verdicts, those of the baseline, activations (-want +got):\n%s", a.name, run["status"], diff)
	}
	cost := run["cost"].(object)
	const answers = 2.0 * runAnswers
	tokens := object{"input": answers * 1000, "output": answers * 60, "cache_read": 0.0, "cache_write": 0.0}
	if diff := cmp.Diff(tokens, cost["tokens"]); diff != "" || cost["requests"] != answers {
		t.Errorf("%s: %v requests, want %v; tokens (-want +got):\n%s", a.name, cost["requests"], answers, diff)
	}
	if usd, _ := cost["usd"].(float64); math.Abs(usd-answers*a.tokensUSD) > 1e-9 {
		t.Errorf("%s: cost %v, want %v", a.name, usd, answers*a.tokensUSD)
	}
}

// checkClean looks for what the trials, the builds and the killed services have left.
func (w *runWorld) checkClean(t *testing.T) {
	t.Helper()
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, p := range processes {
		text, _ := os.ReadFile(p) // it may have ended
		line := strings.ReplaceAll(string(text), "\x00", " ")
		if strings.Contains(line, w.marker) || strings.Contains(line, w.scratch) && !strings.HasPrefix(line, binary) {
			t.Errorf("a process is left: %s", line)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), w.scratch) {
		t.Errorf("a mount is left: %v\n%s", err, mounts)
	}
}
