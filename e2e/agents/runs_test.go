package agents_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/gateway/modeltest"
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

// TestRuns runs a suite with the real agents in all arms, and kills the service
// twice in the middle: verdicts, activations and cost are exact, and nothing counts
// twice or is left running.
func TestRuns(t *testing.T) {
	requireAgents(t)
	for _, a := range runAgents() {
		t.Run(a.name, func(t *testing.T) { t.Parallel(); testRuns(t, a) })
	}
}

func testRuns(t *testing.T, a runAgent) {
	marker := fmt.Sprintf("2.%d", time.Now().UnixNano())
	say := func(text string) reply { return reply{Text: text, Usage: runTokens} }
	do := func(c toolCall) reply { return reply{Calls: []toolCall{c}, Usage: runTokens} }
	scripts := map[string][]reply{
		"uses the skill": {do(a.use("pdf-tables")), do(a.shell("echo 12.50 >total.txt")), say("Pencils, 12.50.")},
		"looks around":   {do(a.shell("grep -rhc 'version two' " + a.skillsDir + " | sort -r | head -1 >two.txt")), say("Done.")},
		"takes a while":  {do(a.shell("sleep " + marker)), say("Waited.")},
	}
	model := a.start(t)
	model.ScriptBy(func(first string) []reply {
		for words, replies := range scripts {
			if strings.Contains(first, words) {
				return replies
			}
		}
		return nil
	})
	programs := agentstest.Folder(t)
	for name, program := range map[string]string{"claude": claude, "codex": codex} {
		if os.Link(program, filepath.Join(programs, name)) != nil {
			copyProgram(t, program, filepath.Join(programs, name))
		}
	}
	scratch := agentstest.Folder(t)
	s := &service{data: filepath.Join(t.TempDir(), "data")}
	start := func() {
		var err error
		s.Server, err = servertest.Start(servertest.Command{
			Path: binary, Dir: filepath.Dir(s.data), Stdout: io.Discard,
			Args: []string{
				"serve", "--addr", "127.0.0.1:0", "--data", s.data, "--sandbox-scratch", scratch, "--agents", programs,
				"--model", a.model + "=" + model.URL + a.base, "--model-api", a.model + "=" + a.api, "--model-key", a.model + "=sk-outside",
			},
			Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.data)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	start()
	t.Cleanup(func() {
		if err := s.Terminate(); err != nil {
			t.Error(err)
		}
	})
	o := s.newOrganisation(t)
	o.register(t, "pdf-tables")
	second := filepath.Join(t.TempDir(), "pdf-tables")
	if err := os.Mkdir(second, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(second, "SKILL.md"), []byte(skillFile("pdf-tables")+"\nThis is version two.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.command(t, []string{"WHETSTONE_SERVER=" + o.URL, "WHETSTONE_API_KEY=" + o.key}, "push", second)
	entry := apptest.Text(o.api(t).Get("/api/v1/registry").Want(200).List("entries")[0], "id")
	suite := apptest.Text(o.api(t).Post("/api/v1/eval-suites", object{
		"name": "agents", "source_kind": "manual", "verifier_kind": "deterministic", "supports_no_skill": true,
		"cases_json": []object{
			{"case_kind": "boolean_assertion", "prompt": "Read the invoice; it uses the skill.", "assertion": `activated && turns == 3 && files["total.txt"] == "12.50\n"`},
			{"case_kind": "boolean_assertion", "prompt": "It looks around.", "assertion": `!activated && files["two.txt"] == "1\n"`},
			{"case_kind": "exact_match", "prompt": "It takes a while.", "expected": "Waited."},
		},
	}).Want(201).Object(), "suite", "id")
	for _, c := range []struct {
		baseline string
		verdicts []any
		answers  float64 // that were paid for
	}{
		{"previous", []any{"pass", "fail", "pass"}, 14},
		{"no_skill", []any{"error", "fail", "pass"}, 14},
	} {
		run := o.api(t).Post("/api/v1/eval-suites/"+suite+"/runs", object{
			"subject": object{"entry_id": entry}, "baseline": c.baseline, "agent": object{"name": a.name}, "max_cost_usd": 5,
		}).Want(202).Field("run")
		get := func() object { return o.api(t).Get("/api/v1/eval-runs/" + run["id"].(string)).Want(200).Field("run") }
		for kills := 0; kills < 2 && c.baseline == "previous"; kills++ {
			apptest.Eventually(t, "a trial", func() bool { return get()["progress"].(object)["done"].(float64) > float64(2*kills) })
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			start()
			o.service = s
		}
		deadline := time.Now().Add(2 * time.Minute)
		for run = get(); run["finished_at"] == nil && time.Now().Before(deadline); run = get() {
			time.Sleep(100 * time.Millisecond)
		}
		var with, baseline []any
		for _, one := range apptest.List(t, run, "cases") {
			with, baseline = append(with, one["verdict"]), append(baseline, one["baseline_verdict"])
		}
		if diff := cmp.Diff([]any{"pass", "pass", "pass"}, with); diff != "" || run["status"] != "succeeded" {
			t.Errorf("%s %v: verdicts (-want +got):\n%s\n%v", c.baseline, run["status"], diff, run)
		}
		if diff := cmp.Diff(c.verdicts, baseline); diff != "" {
			t.Errorf("%s: verdicts of the baseline (-want +got):\n%s\n%v", c.baseline, diff, run)
		}
		cost := run["cost"].(object)
		usd, _ := cost["usd"].(float64)
		if want := c.answers * a.tokensUSD; cost["requests"] != c.answers || usd < want-1e-9 || usd > want+1e-9 {
			t.Errorf("%s: cost %v, want %v for %v requests", c.baseline, cost, want, c.answers)
		}
	}
	for _, q := range model.Requests() {
		if q.Host != strings.TrimPrefix(model.URL, "http://") {
			t.Errorf("a request went to %s", q.Host)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, p := range processes {
		if text, _ := os.ReadFile(p); strings.Contains(string(text), marker) {
			t.Errorf("a process is left: %q", text)
		}
	}
}
