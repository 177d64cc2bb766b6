package agents_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
)

// pluginFiles are a plugin with a skill and three cases, in both forms.
func pluginFiles() map[string]string {
	return map[string]string{
		".claude-plugin/plugin.json":       `{"name": "invoices", "version": "1.0.0", "description": "Invoices", "author": {"name": "Ann"}}`,
		"skills/pdf-tables/SKILL.md":       skillFile("pdf-tables"),
		"evals/greets/prompt.md":           "---\nmax_turns: 4\nruns: 1\n---\nGreet Alex politely.\n",
		"evals/greets/graders/name.md":     "---\ntype: regex\nflags: i\n---\n^hello,?\\s+alex\\b\n",
		"evals/greets/graders/no-error.md": "---\ntype: regex\nmatch: not_contains\n---\nerror|sorry\n",
		"evals/greets/graders/quiet.md":    "---\ntype: tool_used\ntool: Write\nmin: 0\nmax: 0\narm: both\n---\n",
		"evals/writes/case.yaml": "schema_version: \"1.0\"\nname: writes\nruns: 1\nexecution:\n  prompt: Write the total into a file.\n  allowed_tools: [Write]\n" +
			"graders:\n  - {name: file, type: file_exists, path: \"out/*.txt\"}\n" +
			"  - {name: content, type: regex, pattern: \"^12\\\\.50$\", flags: m, target: {source: file, path: out/total.txt}}\n" +
			"  - {name: paths, type: regex, pattern: total, target: files}\n" +
			"  - {name: once, type: tool_used, tool: Write, input_match: '\"file_path\":\".*total', max: 1}\n",
		"evals/fails/prompt.md":        "---\nruns: 1\nallowed_tools: [Write]\n---\nFail in every way.\n",
		"evals/fails/graders/a.md":     "---\ntype: regex\nweight: 3\n---\nnever said\n",
		"evals/fails/graders/b.md":     "---\ntype: file_exists\npath: \"**/nothing.md\"\n---\n",
		"evals/fails/graders/c.md":     "---\ntype: regex\n---\nhere\n",
		"evals/fails/graders/order.md": "---\ntype: tool_order\nbefore: Read\nafter: Write\n---\n",
	}
}

// pluginScript is what the model answers, by the prompts of the cases.
func pluginScript(first string) []reply {
	write := func(path string) reply {
		call := toolCall{Tool: "Write", Input: object{"file_path": path, "content": "12.50\n"}}
		return reply{Calls: []toolCall{call}, Usage: runTokens}
	}
	switch {
	case strings.Contains(first, "Greet Alex"):
		return []reply{{Text: "Hello, Alex! How are you?", Usage: runTokens}}
	case strings.Contains(first, "Write the total"):
		return []reply{write("out/total.txt"), {Text: "Written.", Usage: runTokens}}
	case strings.Contains(first, "Fail in every way"):
		return []reply{write("out.txt"), {Text: "I am here.", Usage: runTokens}}
	}
	return nil
}

// TestPluginEval imports the cases of a plugin and runs them with Claude Code, has
// `claude plugin eval` run what is exported, imports its result, and compares what
// both say.
func TestPluginEval(t *testing.T) {
	requireAgents(t)
	w := newPluginWorld(t)
	suite := w.o.api(t).Upload("/api/v1/eval-suites/import", apptest.Part{
		Name: "file", File: "invoices.zip", Content: zipped(t, pluginFiles()),
	}).Want(201).Field("suite")
	path := "/api/v1/eval-suites/" + suite["id"].(string)
	if suite["runnable"] != true || suite["verifier_kind"] != "deterministic" || suite["name"] != "invoices" {
		t.Fatalf("suite %v", suite)
	}
	run := w.o.api(t).Post(path+"/runs", object{
		"subject": object{"entry_id": w.entry}, "agent": object{"name": "claude-code"}, "baseline": "no_skill",
	}).Want(202).Field("run")
	await(t, "the end of the run", func() bool { return w.run(t, run["id"].(string))["finished_at"] != nil })
	ours := graderVerdicts(t, w.run(t, run["id"].(string)))

	// One case is changed, so that it is exported anew.
	cases := apptest.List(t, suite, "cases_json")
	for _, c := range cases {
		if c["name"] == "greets" {
			c["prompt"] = "Greet Alex politely, please."
		}
	}
	w.o.api(t).Do("PATCH", path, object{"cases_json": cases}).Want(200)
	plugin := t.TempDir()
	for name, text := range pluginFiles() {
		if !strings.HasPrefix(name, "evals/") {
			writeFile(t, filepath.Join(plugin, name), text)
		}
	}
	unpack(t, w.o.api(t).Get(path+"/export?format=plugin-eval").Want(200).Body, plugin)
	result := w.claudePluginEval(t, plugin)
	imported := w.o.api(t).Upload(path+"/runs/import", apptest.Part{Name: "file", File: "aggregate-result.json", Content: result}).
		Want(201).Field("run")
	theirs := graderVerdicts(t, imported)
	if diff := cmp.Diff(theirs, ours); diff != "" || len(ours) != 6 {
		t.Errorf("verdicts and graders (-Claude Code +Whetstone):\n%s", diff)
	}
	want := []any{"fail", "pass", "pass"} // fails, greets, writes
	var verdicts []any
	for _, c := range apptest.List(t, imported, "cases") {
		verdicts = append(verdicts, c["verdict"])
	}
	if diff := cmp.Diff(want, verdicts); diff != "" || imported["imported"].(object)["cases_passed"] != 2.0 {
		t.Errorf("verdicts (-want +got):\n%s\n%s", diff, result)
	}
}

// graderVerdicts are the verdict, the score and the graders' verdicts of each trial,
// by case and arm.
func graderVerdicts(t *testing.T, run object) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, c := range apptest.List(t, run, "cases") {
		for _, trial := range apptest.List(t, c, "trials") {
			text := fmt.Sprint(trial["verdict"], " ", trial["score"], ":")
			graders, _ := trial["evidence"].(object)["graders"].([]any)
			for _, g := range graders {
				text += fmt.Sprint(" ", g.(object)["name"], "=", g.(object)["passed"])
			}
			if trial["error"] != nil {
				text += fmt.Sprint(" ", trial["error"])
			}
			all[fmt.Sprint(c["name"], " ", trial["variant"])] = text
		}
	}
	return all
}

// newPluginWorld is the service with Claude Code and a model that knows the cases.
func newPluginWorld(t *testing.T) *runWorld {
	t.Helper()
	shared, scratch := agentstest.Folder(t), agentstest.Folder(t)
	linkOrCopy(t, claude, filepath.Join(shared, "claude"))
	model := modeltest.Messages(t)
	model.ScriptBy(pluginScript)
	s := &service{data: filepath.Join(t.TempDir(), "data")}
	var err error
	s.Server, err = servertest.Start(servertest.Command{
		Path: binary, Dir: filepath.Dir(s.data), Stdout: io.Discard,
		Args: []string{
			"serve", "--addr", "127.0.0.1:0", "--data", s.data, "--sandbox-scratch", scratch, "--agents", shared,
			"--model", claudeModel + "=" + model.URL, "--model-api", claudeModel + "=anthropic", "--model-key", claudeModel + "=sk-outside",
		},
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(s.data)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Terminate(); err != nil {
			t.Error(err)
		}
	})
	w := &runWorld{o: s.newOrganisation(t), scratch: scratch, models: map[string]*modeltest.Model{"claude-code": model}}
	w.o.register(t, "pdf-tables")
	w.entry = apptest.Text(w.o.api(t).Get("/api/v1/registry").Want(200).List("entries")[0], "id")
	return w
}

// claudePluginEval lets Claude Code run the cases of a plugin itself, and returns
// its aggregate-result.json.
func (w *runWorld) claudePluginEval(t *testing.T, plugin string) []byte {
	t.Helper()
	home, out := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), claude, "plugin", "eval", plugin, "--trust-plugin", "--no-publish", "--allow-tools", "Write",
		"--model", claudeModel, "--ablation", "with-without", "--output-dir", out)
	cmd.Dir = plugin
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home + "/tmp",
		"ANTHROPIC_BASE_URL=" + w.models["claude-code"].URL, "ANTHROPIC_API_KEY=scripted", "IS_SANDBOX=1",
		"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "NO_PROXY=127.0.0.1",
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DO_NOT_TRACK=1",
	}
	output, _ := cmd.CombinedOutput() // it ends with 1, since a case fails
	result, err := os.ReadFile(filepath.Join(out, "aggregate-result.json"))
	if err != nil || bytes.Contains(output, []byte("failed to load")) {
		t.Fatalf("%v\n%s", err, output)
	}
	return result
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t *testing.T, archive []byte, dir string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, r); err != nil {
		t.Fatal(err)
	}
}
