package cli_test

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// evalMachine is a machine whose commands talk to a service that keeps and
// runs suites.
type evalMachine struct {
	machine
	flags  []string
	source string // the id of a cloud source
}

func startEvals(t *testing.T) evalMachine {
	t.Helper()
	w := runstest.New(t, storetest.Open(t, "sqlite"))
	owner := w.Org("acme")
	source := "src_" + owner.SourceOf("---\nname: pdf\ndescription: Reads PDF files.\n---\n")
	w.Work()
	return evalMachine{newMachine(t), []string{"--server", w.Server.URL, "--api-key", owner.Key}, source}
}

func (m evalMachine) eval(t *testing.T, args ...string) result {
	t.Helper()
	return m.run(t, append(append([]string{"eval"}, args...), m.flags...)...)
}

// imported imports a file that the test writes, and returns the suite.
func (m evalMachine) imported(t *testing.T, file string) api.EvalSuite {
	t.Helper()
	path := filepath.Join(t.TempDir(), "suite.json")
	write(t, path, file)
	var out api.EvalImported
	r := m.eval(t, "import", path, "--json")
	if r.code != term.ExitOK {
		t.Fatalf("exit code %d: %s", r.code, r.stderr)
	}
	r.decode(t, &out)
	return out.Suite
}

// checks is a suite of which one case passes and one fails.
const checks = `{"name":"Checks","source_kind":"manual","verifier_kind":"deterministic","cases_json":[
	{"id":"one","output":"a","expected":"a"},{"id":"two","name":"Second","output":"a","expected":"b"}]}`

func TestEvalImportAndExport(t *testing.T) {
	m := startEvals(t)
	if r := m.eval(t, "list"); r.code != term.ExitOK || r.stdout != "No suites.\n" {
		t.Errorf("an empty list: %d %q %s", r.code, r.stdout, r.stderr)
	}
	file := filepath.Join(t.TempDir(), "pdf triggers.json")
	write(t, file, `[{"id":"x","query":"extract it","should_trigger":true}]`)
	r := m.eval(t, "import", file, "--source", m.source)
	if !strings.HasPrefix(r.stdout, "Imported 1 case into the suite pdf triggers (") {
		t.Fatalf("%d %q %s", r.code, r.stdout, r.stderr)
	}
	if r := m.eval(t, "list", "--verifier", "llm_judge", "--source", m.source); !strings.Contains(r.stdout, "pdf triggers  llm_judge  1      yes") {
		t.Errorf("list: %s%s", r.stdout, r.stderr)
	}
	if r := m.eval(t, "show", "pdf triggers"); !strings.Contains(r.stdout, "x     trigger_query  extract it") {
		t.Errorf("show: %s%s", r.stdout, r.stderr)
	}
	if r := m.eval(t, "run", "pdf triggers", "--source", m.source, "--wait"); !strings.Contains(r.stdout, "extract it  trigger_query") {
		t.Errorf("a run does not name its case by what it asks: %s%s", r.stdout, r.stderr)
	}
	r = m.eval(t, "export", "pdf triggers", "--format", "trigger")
	var got []map[string]any
	r.decode(t, &got)
	want := []map[string]any{{"id": "x", "query": "extract it", "should_trigger": true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("export (-want +got):\n%s", diff)
	}
	out := filepath.Join(t.TempDir(), "out.json")
	m.eval(t, "export", "pdf triggers", "-o", out).want(t, term.ExitOK, "")
	if content, err := os.ReadFile(out); err != nil || !json.Valid(content) {
		t.Errorf("%s: %v", content, err)
	}
	m.eval(t, "export", "pdf triggers", "--format", "evals.json").want(t, term.ExitFailed, "holds only")
	m.eval(t, "run", "pdf triggers", "--catalog", "cursor").want(t, term.ExitUsage, `--catalog must be one of "full","claude-code","codex" but got "cursor"`)
	m.eval(t, "show", "nothing").want(t, term.ExitFailed, "No suite is named nothing")
	m.eval(t, "import", file, "--name", "pdf triggers").want(t, term.ExitOK, "")
	m.eval(t, "show", "pdf triggers").want(t, term.ExitFailed, "2 suites are named")
}

func TestEvalImportFolder(t *testing.T) {
	m := startEvals(t)
	skill := skillFolder(t, "pdf", "text")
	put(t, skill, "evals/evals.json", `{"skill_name":"pdf","evals":[{"id":1,"prompt":"p"}]}`)
	r := m.eval(t, "import", skill)
	if !strings.Contains(r.stdout, "Imported 1 case into the suite pdf") || !strings.Contains(r.stdout, "Not runnable yet: the case needs a rubric or expectations") {
		t.Errorf("a skill: %d %q %s", r.code, r.stdout, r.stderr)
	}
	tasks := t.TempDir()
	put(t, tasks, "good/task.toml", "")
	put(t, tasks, "good/tests/test.sh", "#!/bin/sh\n")
	put(t, tasks, "good/environment/Dockerfile", "FROM debian\n")
	put(t, tasks, "bad/task.toml", "[environment]\ngpus = 1\n")
	r = m.eval(t, "import", tasks, "--name", "Tasks")
	for _, part := range []string{"Imported 1 case into the suite Tasks", "Left out bad: it needs 1 GPUs", "Note: good: it runs on the service's own system"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("no %q in %q %s", part, r.stdout, r.stderr)
		}
	}
	m.eval(t, "import", t.TempDir()).want(t, term.ExitUsage, "neither a task.toml nor evals/evals.json")
	m.eval(t, "import", filepath.Join(t.TempDir(), "missing")).want(t, term.ExitUsage, "path:")
	archive := filepath.Join(t.TempDir(), "only.tar.gz")
	writeTar(t, archive, "task.toml", "[")
	m.eval(t, "import", archive).want(t, term.ExitUsage, "only: its task.toml cannot be read")
}

func writeTar(t *testing.T, path, name, content string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	zw := gzip.NewWriter(f)
	tw := tar.NewWriter(zw)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := tw.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []interface{ Close() error }{tw, zw, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEvalRun shows a run to the end: what a terminal sees meanwhile, the
// table, and the exit code for scripts.
func TestEvalRun(t *testing.T) {
	m := startEvals(t)
	m.imported(t, checks)
	r := m.eval(t, "run", "Checks", "--source", m.source, "--wait")
	if r.code != term.ExitFailed || r.stderr != "" {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	for _, part := range []string{"one     exact_match  pass", "Second  exact_match  fail     -         first difference", "1 passed, 1 failed, 0 errors, 0 skipped", "50% (9% to 91%)"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("no %q in\n%s", part, r.stdout)
		}
	}
	if score, rate := strings.Index(r.stdout, "Score "), strings.Index(r.stdout, "Pass rate "); score < 0 || rate < score {
		t.Errorf("the score does not come first in\n%s", r.stdout)
	}
	r = m.eval(t, "run", "Checks", "--source", m.source, "--baseline", "no_skill")
	if r.code != term.ExitFailed && r.code != term.ExitUsage || !strings.Contains(r.stderr, "supports_no_skill") {
		t.Errorf("a baseline that skips every case: exit code %d: %s", r.code, r.stderr)
	}
	m.present = true
	if r := m.eval(t, "run", "Checks", "--source", m.source, "--wait"); !strings.Contains(r.stderr, "\rRunning  2 of 2 trials, 1 case not passed") {
		t.Errorf("a terminal sees %q", r.stderr)
	}
	good := m.imported(t, strings.Replace(checks, `"expected":"b"`, `"expected":"a"`, 1))
	var run api.EvalReport
	r = m.eval(t, "run", good.ID, "--source", m.source, "--wait", "--trials", "2", "--json")
	r.decode(t, &run)
	if r.code != term.ExitOK || run.Status != "succeeded" || len(run.Cases) != 2 || len(run.Cases[0].Trials) != 2 || *run.PassRate != 1 {
		t.Errorf("exit code %d, run %+v", r.code, run)
	}
	if r := m.eval(t, "show", good.ID); !strings.Contains(r.stdout, run.ID+"  succeeded  100%") {
		t.Errorf("the suite does not show its run:\n%s", r.stdout)
	}
}

// TestEvalRunErrors shows errors beside the rate that they are left out of, and
// says when there are too many.
// TestEvalTrial shows a trial without an agent, with what it has.
func TestEvalTrial(t *testing.T) {
	m := startEvals(t)
	suite := m.imported(t, checks)
	var run api.EvalReport
	m.eval(t, "run", suite.ID, "--source", m.source, "--wait", "--json").decode(t, &run)
	r := m.eval(t, "trial", run.ID, "two")
	for _, part := range []string{"1 of two, skill", "fail", "first difference", "response", "OUTPUT\na\n"} {
		if r.code != term.ExitOK || !strings.Contains(r.stdout, part) {
			t.Errorf("no %q in %d\n%s%s", part, r.code, r.stdout, r.stderr)
		}
	}
	var trial api.EvalTrialDetail
	m.eval(t, "trial", run.ID, "two", "--json").decode(t, &trial)
	if trial.Verdict != "fail" || trial.SessionID != nil || len(trial.Session.Events) != 1 || trial.RunID != run.ID {
		t.Errorf("trial %+v", trial)
	}
	if r := m.eval(t, "trial", run.ID, "two", "--arm", "previous"); r.code == term.ExitOK || !strings.Contains(r.stderr, "Trial not found") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
}

func TestEvalRunErrors(t *testing.T) {
	m := startEvals(t)
	const broken = `{"id":"three","case_kind":"boolean_assertion","output":"a","assertion":"exit_code == 0"}`
	suite := m.imported(t, strings.Replace(checks, "]}", ","+broken+"]}", 1))
	r := m.eval(t, "run", suite.ID, "--source", m.source, "--wait")
	for _, part := range []string{"1 passed, 1 failed, 1 errors", "50% (9% to 91%), 1 error, UNRELIABLE", "more than a fifth of the trials ended with an error", "First error"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("no %q in\n%s", part, r.stdout)
		}
	}
	if r := m.eval(t, "show", suite.ID); !strings.Contains(r.stdout, "50% (9% to 91%), 1 error, UNRELIABLE") {
		t.Errorf("the suite does not show the errors of its run:\n%s", r.stdout)
	}
}

func TestEvalWatch(t *testing.T) {
	m := startEvals(t)
	m.imported(t, checks)
	r := m.eval(t, "run", "Checks", "--source", m.source)
	_, rest, _ := strings.Cut(r.stdout, "eval watch ")
	id, _, _ := strings.Cut(rest, "`")
	if r.code != term.ExitOK || id == "" {
		t.Fatalf("%d %q %s", r.code, r.stdout, r.stderr)
	}
	for range 2 { // also when it is over
		if r := m.eval(t, "watch", id); r.code != term.ExitFailed || !strings.Contains(r.stdout, "1 passed, 1 failed") {
			t.Errorf("%d %q %s", r.code, r.stdout, r.stderr)
		}
	}
	m.eval(t, "watch", m.source[4:]).want(t, term.ExitFailed, "not found")
	if r := m.eval(t, "cancel", id); r.code == term.ExitOK && !strings.Contains(r.stdout, "succeeded") {
		t.Errorf("%d %q %s", r.code, r.stdout, r.stderr)
	}
	m.eval(t, "run", "Checks").want(t, term.ExitUsage, "--entry or --source")
	m.eval(t, "run", "Checks", "--source", m.source, "--trials", "31").want(t, term.ExitUsage, "")
	m.imported(t, `[{"query":"a"}]`)
	m.eval(t, "run", "suite", "--source", m.source).want(t, term.ExitFailed, "expectation")
}

// invoices are queries in words that the skill's description lacks: enough of them
// to prove that one with these words is better.
func invoices() string {
	var all []string
	for _, verb := range []string{"scan", "book", "sum up", "pay", "sort", "approve", "record", "find", "settle", "check"} {
		all = append(all,
			`{"query":"`+verb+` the supplier invoice","should_trigger":true}`, `{"query":"`+verb+` each supplier invoice","should_trigger":true}`,
			`{"query":"`+verb+` a poem","should_trigger":false}`)
	}
	return "[" + strings.Join(all, ",") + "]"
}

func TestEvalImprove(t *testing.T) {
	m := startEvals(t)
	m.present = true
	suite := m.imported(t, invoices())
	m.eval(t, "improve", "suite", "--source", m.source).want(t, term.ExitFailed, "about $0.00. Start? [y/N] whetstone: Nothing was started")
	r := m.eval(t, "improve", "suite", "--source", m.source, "--iterations", "2", "--yes")
	if r.code != term.ExitOK || strings.Contains(r.stderr, "error") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	for _, part := range []string{
		"current 6 of 18 (33%) 2 of 6 (33%)", "1 8 of 8 (100%) 6 of 6 (100%)", "18 to write from, 6 to choose by, 6 to prove on; 0 cases left out", "Judge builtin bm25-1",
		"Current Reads PDF files.", "Better Reads PDF files. Use when asked about ", "supplier, invoice",
	} {
		if !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), part) {
			t.Errorf("no %q in\n%s", part, r.stdout)
		}
	}
	var run api.ImproveRun
	m.eval(t, "improve", suite.ID, "--source", m.source, "--no-wait", "--json").decode(t, &run)
	if run.Status != "queued" || run.MaxIterations != 3 || run.Holdout != 0.4 {
		t.Errorf("started %+v", run)
	}
	if r := m.eval(t, "watch", run.ID); r.code != term.ExitOK || !strings.Contains(r.stdout, run.ID+": succeeded") {
		t.Errorf("watch: %d %s%s", r.code, r.stdout, r.stderr)
	}
	m.eval(t, "cancel", run.ID).want(t, term.ExitFailed, "already over")
	good := m.imported(t, strings.ReplaceAll(invoices(), "supplier invoice", "PDF files"))
	r = m.eval(t, "improve", good.ID, "--source", m.source, "--json")
	r.decode(t, &run)
	if r.code != term.ExitFailed || run.Status != "no_winner" || run.Winner != nil {
		t.Errorf("exit code %d, run %+v", r.code, run)
	}
	m.eval(t, "improve", suite.ID).want(t, term.ExitUsage, "--entry or --source")
	m.eval(t, "improve", suite.ID, "--source", m.source, "--holdout", "0").want(t, term.ExitUsage, "above 0")
	few := m.imported(t, `[{"query":"a","should_trigger":true}]`)
	m.eval(t, "improve", few.ID, "--source", m.source, "--yes").want(t, term.ExitFailed, "at least 4")
}

func TestEvalImportPlugin(t *testing.T) {
	m := startEvals(t)
	plugin := t.TempDir()
	put(t, plugin, ".claude-plugin/plugin.json", `{"name":"greeter"}`)
	put(t, plugin, "evals/hello/prompt.md", "Say hello to Alex.\n")
	put(t, plugin, "evals/hello/graders/greets.md", "---\ntype: regex\n---\nAlex\n")
	put(t, plugin, "evals/results/now/prompt.md", "no case")
	r := m.eval(t, "import", plugin, "--name", "greeter")
	for _, part := range []string{"Imported 1 case into the suite greeter", "Note: hello: the case asks for 3 runs: start runs with as many trials"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("no %q in %q %s", part, r.stdout, r.stderr)
		}
	}
	out := filepath.Join(t.TempDir(), "out.zip")
	m.eval(t, "export", "greeter", "--format", "plugin-eval", "-o", out).want(t, term.ExitOK, "")
	archive, err := zip.OpenReader(out)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var names []string
	for _, f := range archive.File {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"evals/hello/graders/greets.md", "evals/hello/prompt.md"}, names); diff != "" {
		t.Errorf("exported (-want +got):\n%s", diff)
	}

	result := filepath.Join(t.TempDir(), "aggregate-result.json")
	write(t, result, `{"schemaVersion":1,"claudeVersion":"2.1.325","startedAt":"2026-11-02T10:00:00Z","costUsd":0.5,
		"cases":[{"name":"hello","arms":{"with":[{"score":1,"passed":true}]}}]}`)
	m.eval(t, "import", result).want(t, term.ExitUsage, "import it as a run of its suite")
	r = m.eval(t, "import", result, "--suite", "greeter")
	for _, part := range []string{"hello  boolean_assertion  pass", ": succeeded, imported", "claude plugin eval 2.1.325 for 0.5000 USD, elsewhere"} {
		if !strings.Contains(r.stdout, part) {
			t.Errorf("no %q in %q %s", part, r.stdout, r.stderr)
		}
	}
	m.eval(t, "import", result, "--suite", "greeter").want(t, term.ExitOK, "the run was imported before")
	if r := m.eval(t, "show", "greeter"); strings.Count(r.stdout, "succeeded, imported") != 1 {
		t.Errorf("show: %s", r.stdout)
	}

	put(t, plugin, "evals/hello/graders/trace.md", "---\ntype: regex\ntarget: trace\n---\nBash\n")
	m.eval(t, "import", plugin).want(t, term.ExitUsage, `the grader "trace": it reads trace`)
	put(t, plugin, "evals/evals.json", `{"skill_name":"pdf","evals":[{"id":1,"prompt":"p"}]}`)
	m.eval(t, "import", plugin).want(t, term.ExitUsage, "choose one with --format")
	m.eval(t, "import", plugin, "--format", "evals.json").want(t, term.ExitOK, "")
	m.eval(t, "import", plugin, "--format", "plugin-eval", "--partial").want(t, term.ExitUsage, "it reads trace")
}
